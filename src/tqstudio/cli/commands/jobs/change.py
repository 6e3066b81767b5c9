"""What can be done to jobs; every verb takes several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tqstudio.cli import printing
from tqstudio.cli.options import JobIds, JsonFlag, Priority, ProfileName, listed
from tqstudio.cli.supervisor_session import SupervisorSession, session_for
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol import calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tqstudio.engine.store.db.connection import Connection
    from tqstudio.protocol.answers import ActionResult

MAX_IDS = 10_000

# What is said of a job that is as it was asked for; `{word}` is how it stands now.
_SAID = {
    "pause": "job {job}: {word}",
    "resume": "job {job}: {word}",
    "cancel": "job {job}: {word}",
    "retry": "job {job} goes again: {word}",
    "restart": "job {job} starts over: {word}",
    "priority": "job {job}: priority{how}",
    "delete": "job {job} is deleted; undo with: tqstudio job undelete {job}",
    "undelete": "job {job} is back: {word}",
}


def pause(ids: JobIds, as_json: JsonFlag = False) -> int:
    """Set jobs aside; a running one stops within 2 s, and its finished segments stay."""
    return _do("pause", ids, as_json)


def resume(ids: JobIds, as_json: JsonFlag = False) -> int:
    """Let paused jobs go on."""
    return _do("resume", ids, as_json)


def cancel(ids: JobIds, as_json: JsonFlag = False) -> int:
    """End jobs; finished segments stay for a later retry."""
    return _do("cancel", ids, as_json)


def retry(ids: JobIds, as_json: JsonFlag = False) -> int:
    """Let failed or cancelled jobs go again, with all their attempts."""
    return _do("retry", ids, as_json)


def restart(ids: JobIds, as_json: JsonFlag = False) -> int:
    """Start jobs over, running ones too."""
    return _do("restart", ids, as_json)


def delete(ids: JobIds, as_json: JsonFlag = False) -> int:
    """Take jobs off the list. Their ladders stay; what failed or cancelled ones had begun is removed."""
    return _do("delete", ids, as_json)


def undelete(ids: JobIds, as_json: JsonFlag = False) -> int:
    """Put deleted jobs back on the list; work that was removed with them stays removed."""
    return _do("undelete", ids, as_json)


def retranscode(
    ids: JobIds,
    quality: Annotated[
        list[str] | None,
        typer.Option("--quality", "-q", metavar="720p", help="Only these qualities; all otherwise."),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option("--drop", metavar="NAME", help="A quality that the new ladder shall not have."),
    ] = None,
    profile: ProfileName = None,
    priority: Priority = None,
    as_json: JsonFlag = False,
) -> int:
    """Make finished ladders again, as new jobs; the old ones stay playable meanwhile."""
    wishes = {
        "renditions": listed(quality) or None,
        "drop": listed(drop),
        "profile": profile,
        "priority": priority,
    }
    results = act(_session(ids), "retranscode", ids, **wishes)
    return report(results, "retranscode", as_json, how=f", with the profile {profile}" if profile else "")


def priority(
    arguments: Annotated[
        list[str],
        typer.Argument(metavar="ID... N|+N|-N", help="Jobs, then the priority or the change of it."),
    ],
    as_json: JsonFlag = False,
) -> int:
    """Set or change the priority of jobs; higher goes first. `=-5` sets a negative one."""
    *ids, wanted = arguments
    try:
        numbers = [int(job_id) for job_id in ids]
        value = int(wanted.removeprefix("="))
    except ValueError:
        numbers, value = [], 0
    if not numbers:
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"{' '.join(arguments)!r} is not “ID... PRIORITY”",
            "write it as: tqstudio job priority 7 100, or +1, or -1",
        )
    change = {"delta": value} if wanted[:1] in "+-" else {"priority": value}
    results = act(_session(numbers), "priority", numbers, **change)
    return report(results, "priority", as_json, how=f" {wanted.removeprefix('=')}")


def _do(operation: str, ids: Sequence[int], as_json: bool, **more: Any) -> int:
    return report(act(_session(ids), operation, ids, **more), operation, as_json)


def _session(ids: Sequence[int]) -> SupervisorSession:
    """The supervisor for an operation on jobs, of which one exists at least."""

    def known(db: Connection) -> bool:
        from tqstudio.engine.store.lists import records

        return bool(records.by_ids(db, ids))

    error = TqError(ErrorCode.NOT_FOUND, f"there is no job {ids[0]}", "list them with: tqstudio job list")
    return session_for(known, error)


def act(at: SupervisorSession, operation: str, ids: Sequence[int], **more: Any) -> list[ActionResult]:
    """Do `operation` to any number of jobs."""
    results: list[ActionResult] = []
    for start in range(0, len(ids), MAX_IDS):
        results += at.door.send(calls.act(operation, ids[start : start + MAX_IDS], **more))["results"]
    return results


def report(results: list[ActionResult], operation: str, as_json: bool, *, how: str = "") -> int:
    """Print what became of each job; answers 4 when any was refused.

    Args:
        how: more to say of new jobs, and the priority that was asked for.
    """
    if as_json:
        printing.out_json({"results": results})
    for result in results:
        if error := result["error"]:
            printing.say(printing.error_lines(error["code"], error["message"], error["hint"]))
        elif not as_json and result["new_job"] is not None:
            printing.out(f"job {result['new_job']} makes the ladder of job {result['job']} again{how}")
        elif not as_json and result["removed_segments"]:
            segments = printing.counted(result["removed_segments"], "finished segment")
            undo = f"tqstudio job undelete {result['job']}"
            printing.out(
                f"job {result['job']} is deleted, and {segments} with it; {undo} brings back the job alone"
            )
        elif not as_json:
            word = result["word"] or result["status"]
            printing.out(_SAID[operation].format(job=result["job"], word=word, how=how))
    return 0 if all(result["ok"] for result in results) else 4
