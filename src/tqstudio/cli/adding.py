"""`add`: put files into the queue and return; also how every command offers files to the supervisor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tqstudio import client as calls
from tqstudio.cli import options, printing
from tqstudio.cli.supervisor import session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tqstudio.cli.interrupt import Interrupt
    from tqstudio.connection import Client
    from tqstudio.schemas import AddResult

AT_ONCE = 500
"""Files per request: each is looked at while the request waits."""
ADD_TIMEOUT_S = 300.0

_SAID = {
    "queued": "queued as job {job}",
    "changed": "changed since its ladder was made: queued as job {job}",
    "cached": "its ladder is complete: {master}",
    "retried": "had failed: job {job} goes again",
    "waiting": "is in the queue already as job {job}",
    "failed": "has failed as job {job}; let it go again with: tqstudio job retry {job}",
}


def add(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Videos, or folders of videos.", show_default=False)
    ],
    output: options.OutputDir = None,
    profile: options.ProfileName = None,
    priority: options.Priority = 0,
    hold: Annotated[bool, typer.Option("--hold", help="Queue them paused.")] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Make finished ladders again.")] = False,
    recursive: options.Recursive = False,
    ext: options.Extensions = None,
    limit: options.Limit = None,
    order: options.Order = "name",
    settings: options.Settings = None,
    as_json: options.JsonFlag = False,
) -> int:
    """Put videos into the queue."""
    from tqstudio.cli.selection import rules, select
    from tqstudio.home import current_home

    results_of = [options.absolute(output)] if output else [str(current_home().output)]
    by = rules(
        recursive=recursive, extensions=options.listed(ext), limit=limit, order=order, exclude=results_of
    )
    files = select(paths, by)
    wishes = {
        "output_b64": options.output_b64(output),
        "profile": profile,
        "priority": priority,
        "hold": hold,
        "force": force,
        "overrides": options.overrides(settings),
    }
    batch, results = offer(session().door, files, None, **wishes)
    if as_json:
        printing.out_json({"batch": batch, "results": results})
    for result in results:
        describe(result, quiet=as_json)
    return _exit_code(results)


def offer(
    at: Client, files: Sequence[bytes], interrupt: Interrupt | None, **wishes: Any
) -> tuple[str, list[AddResult]]:
    """Offer files to the supervisor; answers the batch and what became of each file.

    Args:
        interrupt: once it is asked for no more files are offered.
    """
    from tqstudio.sources import encode

    results: list[AddResult] = []
    batch = wishes.pop("batch", None)
    for start in range(0, len(files), AT_ONCE):
        if interrupt is not None and interrupt.asked:
            break
        paths = [encode(file) for file in files[start : start + AT_ONCE]]
        answer = at.send(calls.add(paths, batch=batch, **wishes), timeout_s=ADD_TIMEOUT_S)
        batch = answer["batch"]
        results += answer["results"]
    return batch or "", results


def describe(result: AddResult, *, quiet: bool = False) -> None:
    """Say what became of a file; problems go to stderr.

    Args:
        quiet: say problems only.
    """
    if error := result["error"]:
        printing.say(printing.error_lines(error["code"], error["message"], error["hint"]))
    elif not quiet:
        said = _SAID.get(result["decision"], result["decision"])
        printing.out(f"{result['path']}: {said.format(job=result['job'], master=result['master'])}")


def _exit_code(results: Sequence[AddResult]) -> int:
    refused = [result["error"] for result in results if result["error"] is not None]
    if refused and len(refused) == len(results):
        return printing.exit_code(refused[0]["code"])
    return 1 if refused or any(result["decision"] == "failed" for result in results) else 0
