"""Options that several verbs share, and how their values are read."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import readable

JsonFlag = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
JobIds = Annotated[list[int], typer.Argument(metavar="ID...", help="Numbers of jobs.", show_default=False)]
OutputDir = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="DIR", help="Where the ladders go; the home's folder otherwise."),
]
ProfileName = Annotated[
    str | None, typer.Option("--profile", metavar="NAME", help="How to encode; see: tqstudio profile list")
]
Priority = Annotated[
    int | None,
    typer.Option("--priority", min=-1000, max=1000, metavar="N", help="Higher goes first; 0 is usual."),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", "-w", min=1, max=256, metavar="N", help="CPU workers of the supervisor it starts."
    ),
]
Recursive = Annotated[bool, typer.Option("--recursive", "-r", help="Look into sub-folders too.")]
Extensions = Annotated[
    list[str] | None,
    typer.Option("--ext", metavar="mp4,mkv", help="Take only these files from folders."),
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Take at most N files.")]
VerifyFull = Annotated[
    bool,
    typer.Option("--verify-full", help="Read every byte, of files and ladders, to see what has changed."),
]
Autorestart = Annotated[
    int | None,
    typer.Option(
        "--autorestart", min=0, max=100, metavar="N", help="Let a failed job go again by itself, N times."
    ),
]
NoAutorestart = Annotated[
    bool,
    typer.Option("--no-autorestart", help="Leave a failed job to a person; the same as --autorestart 0."),
]
Delay = Annotated[
    float | None,
    typer.Option("--delay", min=0, metavar="SECONDS", help="How long after it failed; 60 is usual."),
]
Order = Annotated[str, typer.Option("--order", metavar="name|size|mtime", help="Which files go first.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the profile, such as video.crf=20."),
]

Metadata = Annotated[
    list[str] | None,
    typer.Option("--meta", metavar="KEY=VALUE", help="Note something with the job, such as client=acme."),
]


def output_b64(output: str | None) -> str | None:
    """The output folder for a message.

    Raises:
        TqError: BAD_REQUEST when there is something else of that name.
    """
    if output is None:
        return None
    from tqstudio.paths import absolute, display, encode

    path = absolute(output)
    if os.path.lexists(path) and not os.path.isdir(path):
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"the output {display(os.fsencode(path))} is not a folder",
            "name a folder, or one that does not exist yet",
        )
    return encode(path)


def overrides(settings: list[str] | None) -> dict[str, str] | None:
    """The keys of the profile that are set; None when none are."""
    return _pairs("--set", settings, "video.crf=20")


def metadata(notes: list[str] | None) -> dict[str, str] | None:
    """What is to be noted with a job; None when nothing is."""
    return _pairs("--meta", notes, "client=acme")


def _pairs(option: str, given: list[str] | None, example: str) -> dict[str, str] | None:
    """`KEY=VALUE` pairs as a dict; None when none are given.

    Raises:
        TqError: BAD_REQUEST for one without a key or an equals sign.
    """
    if not given:
        return None
    pairs = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            lacks = "key" if equals else "value"
            raise TqError(
                ErrorCode.BAD_REQUEST,
                f"{option} {readable(pair)} has no {lacks}",
                f"write it as {option} {example}",
            )
        pairs[key.strip()] = value.strip()
    return pairs


def autorestart_limit(times: int | None, off: bool) -> int | None:
    """What `--autorestart N` and `--no-autorestart` say together; None where neither is given.

    Raises:
        TqError: BAD_REQUEST when they contradict each other.
    """
    if off and times:
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"--autorestart {times} and --no-autorestart exclude each other",
            "give one",
        )
    return 0 if off else times


def listed(values: list[str] | None) -> list[str]:
    """`--ext mp4,mkv --ext mov` as one list."""
    return [part.strip() for value in values or [] for part in value.split(",") if part.strip()]
