"""Options that several commands share, and the parsing of their values."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import typer

from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import readable
from tqstudio.toml_files import one_of

JsonFlag = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
JobIds = Annotated[list[int], typer.Argument(metavar="ID...", help="Job numbers.", show_default=False)]
FilterLine = Annotated[
    str,
    typer.Option("--filter", metavar="FILTER", help="Only matching jobs: 'code:ENCODER_EXIT older:2d film'."),
]
SomeJobIds = Annotated[
    list[int] | None,
    typer.Argument(metavar="ID...", help="Job numbers, unless --filter chooses.", show_default=False),
]
OutputDir = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR|URL",
        help="Output folder, or s3://BUCKET/PREFIX; default: the home's output.",
    ),
]
ProfileName = Annotated[
    str | None, typer.Option("--profile", metavar="NAME", help="Encoding profile; see: tqstudio profile list")
]
Priority = Annotated[
    int | None,
    typer.Option("--priority", min=-1000, max=1000, metavar="N", help="Higher runs first; default 0."),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        "-w",
        min=1,
        max=256,
        metavar="N",
        help="Number of CPU workers, if it starts a supervisor.",
    ),
]
Recursive = Annotated[bool, typer.Option("--recursive", "-r", help="Include sub-folders.")]
Extensions = Annotated[
    list[str] | None,
    typer.Option("--ext", metavar="mp4,mkv", help="Only files with these extensions."),
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="At most N files.")]
VerifyFull = Annotated[
    bool,
    typer.Option("--verify-full", help="Detect changes by reading every byte of sources and ladders."),
]
Autorestart = Annotated[
    int | None,
    typer.Option(
        "--autorestart",
        min=0,
        max=100,
        metavar="N",
        help="Restart a failed job automatically, up to N times.",
    ),
]
NoAutorestart = Annotated[
    bool,
    typer.Option(
        "--no-autorestart", help="Never restart a failed job automatically; same as --autorestart 0."
    ),
]
Delay = Annotated[
    float | None,
    typer.Option("--delay", min=0, metavar="SECONDS", help="Delay before an automatic restart; default 60."),
]
MaxAttempts = Annotated[
    int | None,
    typer.Option(
        "--max-attempts",
        min=1,
        max=100,
        metavar="N",
        help="Attempts until a job fails; default: the setting.",
    ),
]
MaxCrashes = Annotated[
    int | None,
    typer.Option(
        "--max-crashes",
        min=1,
        max=100,
        metavar="N",
        help="Crashes in a row until a job fails; default: the setting.",
    ),
]
Order = Annotated[
    Literal["name", "size", "mtime"],
    typer.Option("--order", metavar="name|size|mtime", help="Order of the files."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a profile key, such as video.crf=20."),
]

Metadata = Annotated[
    list[str] | None,
    typer.Option("--meta", metavar="KEY=VALUE", help="Store metadata with the job, such as client=acme."),
]


Hours = Annotated[
    str | None,
    typer.Option(
        "--hours", metavar="HOURS", help="When its jobs may run: 'mon-fri 22:00-06:00; sat,sun'; '' always."
    ),
]


def columns(heads: Sequence[str]) -> Any:
    """The option `--columns` of a table with these heads."""
    known = [head.lower() for head in heads]

    def check(ctx: typer.Context, value: str | None) -> str | None:
        for name in () if value is None or ctx.resilient_parsing else listed([value]) or [""]:
            if name not in known:
                message = f"--columns cannot be {readable(name) or 'empty'}"
                raise TqError(ErrorCode.BAD_REQUEST, message, one_of(name, known))
        return value

    def complete(incomplete: str) -> list[str]:
        return after_commas(incomplete, known)

    about = f"Only these columns, in this order, of: {', '.join(known)}."
    return typer.Option("--columns", metavar="NAME,NAME", help=about, callback=check, autocompletion=complete)


def after_commas(typed: str, known: Iterable[str]) -> list[str]:
    """What completes the last part of `a,b,…`, each with what stands before it."""
    before, comma, _ = typed.rpartition(",")
    return [before + comma + value for value in known if value not in before.split(",")]


def use_studio(home: str = "", connect: str = "", token_file: str = "", ca: str = "", **_: object) -> None:
    """Use what the options before the command name."""
    # In the environment, so that the supervisor and its workers use the same home.
    names = {"TQSTUDIO_HOME": home, "TQSTUDIO_TOKEN_FILE": token_file, "TQSTUDIO_CA": ca}
    os.environ.update({key: os.path.abspath(os.path.expanduser(path)) for key, path in names.items() if path})
    if connect:
        os.environ["TQSTUDIO_CONNECT"] = connect


def until(text: str | None) -> str | None:
    """The end of a pause as ISO 8601; None if none is given.

    Raises:
        TqError: BAD_REQUEST for what is no time.
    """
    if text is None:
        return None
    from datetime import UTC, datetime

    from tqstudio import hours

    try:
        return hours.moment(text, datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError):
        hint = "write it as 30m, 2h, 3d, 07:00 or 2026-12-24T18:00"
        raise TqError(ErrorCode.BAD_REQUEST, f"--until {readable(text)} is not a time", hint) from None


def output_b64(output: str | None) -> str | None:
    """The output folder as a request field.

    Raises:
        TqError: BAD_REQUEST if the path exists and is not a folder.
    """
    if output is None:
        return None
    from tqstudio.paths import absolute, display, encode

    path = absolute(output)
    if os.path.lexists(path) and not os.path.isdir(path):
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"the output {display(os.fsencode(path))} is not a folder",
            "name a folder, or a path that does not exist yet",
        )
    return encode(path)


def overrides(settings: list[str] | None) -> dict[str, str] | None:
    """The overridden profile keys; None if there are none."""
    return _pairs("--set", settings, "video.crf=20")


def metadata(notes: list[str] | None) -> dict[str, str] | None:
    """The metadata of a job; None if there is none."""
    return _pairs("--meta", notes, "client=acme")


def _pairs(option: str, given: list[str] | None, example: str) -> dict[str, str] | None:
    """Parse `KEY=VALUE` pairs; None if none are given.

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
    """Combine `--autorestart N` and `--no-autorestart`; None if neither is given.

    Raises:
        TqError: BAD_REQUEST if they contradict each other.
    """
    if off and times:
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"--autorestart {times} and --no-autorestart exclude each other",
            "give one",
        )
    return 0 if off else times


def listed(values: list[str] | None) -> list[str]:
    """Split `--ext mp4,mkv --ext mov` into one list."""
    return [part.strip() for value in values or [] for part in value.split(",") if part.strip()]


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def parse_since(text: str) -> str:
    """Convert `10m` or a date to ISO 8601 in UTC; raise BAD_REQUEST for anything else."""
    from datetime import UTC, datetime, timedelta

    number, unit = text[:-1], text[-1:]
    try:
        if unit in _SECONDS and number.replace(".", "", 1).isdigit():
            return (datetime.now(UTC) - timedelta(seconds=float(number) * _SECONDS[unit])).isoformat()
        # A time without a zone is local time.
        return datetime.fromisoformat(text).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        hint = "write it as 10m, 2h, 3d, 2026-11-20 or 2026-11-20T14:00"
        raise TqError(ErrorCode.BAD_REQUEST, f"--since {text} is not a time", hint) from None
