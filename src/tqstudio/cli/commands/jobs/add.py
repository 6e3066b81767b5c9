"""`add`: queues files and returns; also the function by which other commands queue files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tqstudio.cli.session.supervisor_session import session
from tqstudio.cli.terminal import options, printing
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import absolute, is_bucket, readable
from tqstudio.protocol import calls, remote
from tqstudio.words.added import COMMANDS, sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tqstudio.cli.follow.interrupt import Interrupt
    from tqstudio.protocol.answers import AddResult
    from tqstudio.protocol.client import Client

AT_ONCE = 500
"""Files per request, each of which is checked while the request waits."""
BYTES_AT_ONCE = 20_000_000_000
"""Bytes per request, as a file that may have changed is read completely."""
ADD_TIMEOUT_S = 300.0
SLOW_DISK_BPS = 10_000_000


def add(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...", help="Videos, folders of videos, s3://BUCKET/FILE.", show_default=False
        ),
    ],
    output: options.OutputDir = None,
    profile: options.ProfileName = None,
    priority: options.Priority = None,
    hold: Annotated[bool, typer.Option("--hold", help="Queue the jobs as paused.")] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Encode complete ladders again.")] = False,
    recursive: options.Recursive = False,
    ext: options.Extensions = None,
    verify_full: options.VerifyFull = False,
    limit: options.Limit = None,
    order: options.Order = "name",
    settings: options.Settings = None,
    meta: options.Metadata = None,
    autorestart: options.Autorestart = None,
    no_autorestart: options.NoAutorestart = False,
    delay: options.Delay = None,
    max_attempts: options.MaxAttempts = None,
    max_crashes: options.MaxCrashes = None,
    as_json: options.JsonFlag = False,
) -> int:
    """Add videos to the queue; with --connect they are uploaded first."""
    restarts = options.autorestart_limit(autorestart, no_autorestart)
    if delay is not None and not restarts:
        raise TqError(
            ErrorCode.BAD_REQUEST, "--delay has no effect without --autorestart", "give both, or neither"
        )
    urls, local = [each for each in paths if is_bucket(each)], [each for each in paths if not is_bucket(each)]
    files = chosen(local, output, ext, recursive=recursive, limit=limit, order=order) if local else []
    at = remote.chosen()
    if at is not None and (output or verify_full or urls):
        concerned = "--output" if output else "--verify-full" if verify_full else urls[0]
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"{concerned} concerns files of the studio's machine",
            "run the command there, or leave it out",
        )
    fields = {
        "output_b64": options.output_b64(output),
        "profile": profile,
        "priority": priority,
        "hold": hold,
        "force": force,
        "verify_full": verify_full,
        "overrides": options.overrides(settings),
        "metadata": options.metadata(meta),
        "autorestart": restarts,
        "autorestart_delay_s": delay,
        "max_attempts": max_attempts,
        "max_crashes": max_crashes,
    }
    if at is not None:
        from tqstudio.cli.session.uploading import upload

        batch, results = upload(at, files, fields)
    elif urls:
        from tqstudio.cli.session.uploading import fetch

        client = session().client
        batch, results = fetch(client, urls, {k: v for k, v in fields.items() if k != "verify_full"})
        results += offer(client, files, None, **fields, batch=batch)[1]
    else:
        batch, results = offer(session().client, files, None, **fields)
    if as_json:
        printing.out_json({"batch": batch, "results": results})
    for result in results:
        describe(result, quiet=as_json)
    return _exit_code(results)


def chosen(paths: Sequence[str], output: str | None, ext: list[str] | None, **more: Any) -> list[bytes]:
    """The videos at these paths, without those in the output. Args: `more` as of `selection.rules`."""
    from tqstudio.cli.terminal.selection import report_skipped, rules, select
    from tqstudio.home import current_home

    home = current_home()
    exclude = [absolute(output) if output else str(home.output), str(home.buckets)]
    return select(paths, rules(extensions=options.listed(ext), exclude=exclude, **more), report_skipped)


def offer(
    at: Client, files: Sequence[bytes], interrupt: Interrupt | None, **fields: Any
) -> tuple[str, list[AddResult]]:
    """Send files to the supervisor, until an interrupt; returns the batch and the result for each file."""
    from tqstudio.paths import encode

    results: list[AddResult] = []
    batch = fields.pop("batch", None)
    for portion, size in _portions(files):
        if interrupt is not None and interrupt.requested:
            break
        paths = [encode(file) for file in portion]
        timeout_s = ADD_TIMEOUT_S + size / SLOW_DISK_BPS
        answer = at.send(calls.add(paths, batch=batch, **fields), timeout_s=timeout_s)
        batch = answer["batch"]
        results += answer["results"]
    return batch or "", results


def _portions(files: Sequence[bytes]) -> Iterator[tuple[list[bytes], int]]:
    """Split the files into requests, each with its total size."""
    portion: list[bytes] = []
    total = 0
    for file in files:
        try:
            size = os.stat(file).st_size
        except OSError:
            size = 0
        if portion and (len(portion) == AT_ONCE or total + size > BYTES_AT_ONCE):
            yield portion, total
            portion, total = [], 0
        portion.append(file)
        total += size
    if portion:
        yield portion, total


def describe(result: AddResult, *, quiet: bool = False) -> None:
    """Print the result for a file; errors, which are all that is printed if `quiet`, go to stderr."""
    if error := result["error"]:
        printing.err(printing.error_lines(error["code"], error["message"], error["hint"]))
    elif not quiet:
        printing.out(f"{readable(result['path'])}: {sentence(result, COMMANDS)}")


def _exit_code(results: Sequence[AddResult]) -> int:
    refused = [result["error"] for result in results if result["error"] is not None]
    if refused and len(refused) == len(results):
        return printing.exit_code(refused[0]["code"])
    return 1 if refused or any(result["decision"] == "failed" for result in results) else 0
