"""Operations on jobs; every command accepts several."""

from __future__ import annotations

import sys
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import typer

from tqstudio.cli.follow.interrupt import Interrupt
from tqstudio.cli.session.supervisor_session import (
    SupervisorSession,
    runs_or_has,
    session,
    session_for,
)
from tqstudio.cli.terminal import printing
from tqstudio.cli.terminal.options import (
    FilterLine,
    JsonFlag,
    Priority,
    ProfileName,
    Settings,
    SomeJobIds,
    listed,
    overrides,
)
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import Operation
from tqstudio.paths import readable
from tqstudio.protocol import calls
from tqstudio.protocol.filters import parse
from tqstudio.words import bulk, forecast
from tqstudio.words import format as fmt
from tqstudio.words import undo as undone

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tqstudio.engine.store.db.connection import Connection
    from tqstudio.protocol.answers import ActionResult, UndoAnswer

MAX_IDS = 10_000
_INTERRUPTED = 130

# The result for a job; `{word}` is its state.
_RESULTS = {
    "pause": "job {job}: {word}",
    "resume": "job {job}: {word}",
    "cancel": "job {job}: {word}",
    "retry": "job {job} requeued: {word}",
    "restart": "job {job} restarted: {word}",
    "change": "job {job} changed: {word}",
    "priority": "job {job}: priority{how}",
    "delete": "job {job} deleted; undo with: tqstudio job undelete {job}",
    "undelete": "job {job} restored: {word}",
}


@dataclass(frozen=True, slots=True)
class Matching:
    """All jobs that match a filter line, up to the newest of them; `total` is None if there are many."""

    line: str
    newest: int
    total: int | None


class Counts(TypedDict):
    """What an operation on all jobs that match a filter did; the fields of `BulkAnswer`, added up."""

    done: int
    skipped: dict[str, int]
    reason: str
    removed_segments: int
    stopped: bool


def _command(operation: str, about: str) -> Callable[..., int]:
    def command(ids: SomeJobIds = None, line: FilterLine = "", as_json: JsonFlag = False) -> int:
        at, chosen = _chosen(ids, line)
        return report(act(at, operation, chosen), operation, as_json)

    command.__doc__ = about
    return command


pause = _command("pause", "Pause jobs; a running one stops within 2 s, and its finished segments are kept.")
resume = _command("resume", "Resume paused jobs.")
cancel = _command("cancel", "Cancel jobs; finished segments are kept for a later retry.")
retry = _command("retry", "Retry failed or cancelled jobs; each has the full number of attempts.")
restart = _command("restart", "Restart jobs from the beginning; running ones too.")
delete = _command(
    "delete", "Remove jobs from the list. Ladders stay; partial work of failed or cancelled jobs is removed."
)
undelete = _command("undelete", "Restore deleted jobs; work that was removed with them is not restored.")


DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only say what it would cost: space, time, segments that are kept.")
]


def change(
    ids: SomeJobIds = None,
    line: FilterLine = "",
    quality: Annotated[
        list[str] | None,
        typer.Option("--quality", "-q", metavar="720p", help="Only these qualities, or all."),
    ] = None,
    profile: ProfileName = None,
    settings: Settings = None,
    priority: Priority = None,
    hold: Annotated[
        bool | None,
        typer.Option("--hold/--no-hold", help="Hold them, or let them start.", show_default=False),
    ] = None,
    dry_run: DryRun = False,
    as_json: JsonFlag = False,
) -> int:
    """Give jobs other settings; a done one is encoded again.

    What is not named stays as it is. Of several jobs each gets what it can have of the qualities.
    """
    qualities = listed(quality)
    given: dict[str, Any] = {
        "renditions": ([] if qualities == ["all"] else qualities) if quality else None,
        "profile": profile,
        "overrides": overrides(settings),
        "priority": priority,
        "hold": hold,
    }
    at, chosen = _chosen(ids, line)
    return _settle(at, "change", chosen, given, dry_run, as_json)


def _settle(
    at: SupervisorSession,
    operation: str,
    chosen: Sequence[int] | Matching,
    given: dict[str, Any],
    dry_run: bool,
    as_json: bool,
) -> int:
    """Change jobs, or say what it would cost."""
    if not dry_run:
        profile = given["profile"]
        how = f", with profile {profile}" if profile else ""
        return report(act(at, operation, chosen, **given), operation, as_json, how=how)
    which: dict[str, Any] = (
        {"filter": chosen.line, "newest": chosen.newest}
        if isinstance(chosen, Matching)
        else {"ids": list(chosen[:MAX_IDS])}
    )
    view = at.client.send(calls.forecast(operation=operation, **which, **given))
    printing.answer(view, "\n".join((forecast.effect_words(view), *forecast.cost_lines(view))), as_json)
    return 0 if view["reencoded"] + view["changed"] else 4


def retranscode(
    ids: SomeJobIds = None,
    line: FilterLine = "",
    quality: Annotated[
        list[str] | None,
        typer.Option("--quality", "-q", metavar="720p", help="Only these qualities; default: all."),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            "--drop",
            metavar="NAME",
            help="Leave out a quality, a track, subtitles or storyboard, and keep the rest.",
        ),
    ] = None,
    profile: ProfileName = None,
    settings: Settings = None,
    priority: Priority = None,
    hold: Annotated[bool, typer.Option("--hold", help="Queue the new jobs as paused.")] = False,
    dry_run: DryRun = False,
    as_json: JsonFlag = False,
) -> int:
    """Encode finished ladders again, as new jobs; the old ones stay playable meanwhile."""
    given: dict[str, Any] = {
        "renditions": listed(quality) or None,
        "drop": listed(drop),
        "profile": profile,
        "overrides": overrides(settings),
        "priority": priority,
        "hold": hold,
    }
    at, chosen = _chosen(ids, line)
    return _settle(at, "retranscode", chosen, given, dry_run, as_json)


def priority(
    arguments: Annotated[
        list[str],
        typer.Argument(metavar="ID... N|+N|-N", help="Jobs, then the new priority or a change."),
    ],
    line: FilterLine = "",
    as_json: JsonFlag = False,
) -> int:
    """Set or change the priority of jobs; higher runs first. `=-5` sets a negative one."""
    *ids, wanted = arguments
    try:
        numbers = [int(job_id) for job_id in ids]
        value = int(wanted.removeprefix("="))
    except ValueError:
        numbers, value, wanted = [], 0, ""
    if not wanted or not (numbers or line):
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"{readable(' '.join(arguments))} is not “ID... PRIORITY”",
            "write it as: tqstudio job priority 7 100, or +1, or -1; with --filter without ids",
        )
    by_so_much = wanted[:1] in "+-"
    change = {"delta": value} if by_so_much else {"priority": value}
    at, chosen = _chosen(numbers, line)
    results = act(at, "priority", chosen, **change)
    return report(results, "priority", as_json, how=f" changed by {wanted}" if by_so_much else f" {value}")


def undo(as_json: JsonFlag = False) -> int:
    """Undo your newest action.

    On jobs, videos or drop folders; repeated, the one before: ten, of a day.
    """

    def known(db: Connection) -> bool:
        from tqstudio.engine.store.db import rows, tables

        return rows.is_any(db, tables.undo)

    answer: UndoAnswer | None = None
    at = session().client if runs_or_has(known) else None
    while at is not None and (answer is None or answer["remaining"]):
        call = calls.undo(uuid.uuid4().hex, answer and answer["undo"])
        answer = undone.added(answer, at.send(call))
    if answer is None:
        return printing.answer({"operation": None}, undone.NOTHING, as_json)
    printing.answer(answer, undone.sentence(answer), as_json)
    return 4 if answer["not_restored"] else 0


def _chosen(ids: Sequence[int] | None, line: str) -> tuple[SupervisorSession, Sequence[int] | Matching]:
    """The supervisor for an operation on jobs, at least one of which exists, and which they are."""
    wanted = parse(line)
    if bool(ids) == bool(wanted.terms):
        raise TqError(
            ErrorCode.BAD_REQUEST,
            "jobs are chosen by their numbers or by --filter, not by both" if ids else "no job is chosen",
            "write job numbers, or a filter such as --filter 'code:ENCODER_EXIT older:2d'",
        )

    def known(db: Connection) -> bool:
        from tqstudio.engine.host.clock import now_us
        from tqstudio.engine.store.lists import matching, orders, pages, records

        if ids:
            return bool(records.by_ids(db, ids))
        query = orders.PageQuery(matching.with_folders(db, wanted), now=now_us())
        return bool(pages.page(db, query, limit=1).ids)

    which = f"there is no job {ids[0]}" if ids else "no job matches the filter"
    none = TqError(ErrorCode.NOT_FOUND, which, "list them with: tqstudio job list")
    at = session_for(known, none)
    if ids:
        return at, ids
    page = at.client.send(calls.jobs(wanted.line(), sort="-number", limit=1))
    if not page["jobs"]:
        raise none
    return at, Matching(wanted.line(), page["jobs"][0]["id"], page["total"])


def act(
    at: SupervisorSession, operation: str, chosen: Sequence[int] | Matching, **more: Any
) -> list[ActionResult] | Counts:
    """Apply `operation` to any number of jobs; those that match a filter are only counted."""
    results: list[ActionResult] = []
    if isinstance(chosen, Matching):
        return _act_on_matching(at, Operation(operation), chosen, more)
    for start in range(0, len(chosen), MAX_IDS):
        results += at.client.send(calls.act(operation, chosen[start : start + MAX_IDS], **more))["results"]
    return results


def _act_on_matching(
    at: SupervisorSession, operation: Operation, of: Matching, more: dict[str, Any]
) -> Counts:
    """Apply an operation slice by slice, until Ctrl-C; counts on stderr where that is a terminal."""
    counts = Counts(done=0, skipped={}, reason="", removed_segments=0, stopped=False)
    key, after, so_far = uuid.uuid4().hex, 0, 0
    line = "\r{}\x1b[K" if printing.terminal(sys.stderr) else ""
    with Interrupt() as interrupt:
        while not counts["stopped"]:
            print(
                line.format(bulk.progress(operation, so_far, of.total)), end="", file=sys.stderr, flush=True
            )
            call = calls.act_on_matching(operation, of.line, newest=of.newest, key=key, after=after, **more)
            try:
                answer = at.client.send(call)
            except TqError:
                print(line.format(""), end="", file=sys.stderr)
                if so_far:
                    printing.err(bulk.sentence(operation, counts["done"], counts["skipped"], stopped=True))
                raise
            for state, number in answer["skipped"].items():
                counts["skipped"][state] = counts["skipped"].get(state, 0) + number
            counts["done"] += answer["done"]
            counts["reason"] = counts["reason"] or answer["reason"]
            counts["removed_segments"] += answer["removed_segments"]
            so_far = counts["done"] + sum(counts["skipped"].values())
            if answer["after"] is None:
                break
            after, counts["stopped"] = answer["after"], interrupt.requested
    print(line.format(""), end="", file=sys.stderr, flush=True)
    return counts


def _report_counts(counts: Counts, operation: Operation, as_json: bool) -> int:
    """Print what was done in one sentence, and why the first job was skipped."""
    text = bulk.sentence(operation, counts["done"], counts["skipped"], stopped=counts["stopped"])
    if counts["removed_segments"]:
        text += f"; with {fmt.counted(counts['removed_segments'], 'finished segment')}"
    if counts["reason"]:
        printing.err(printing.error_lines(ErrorCode.REFUSED, counts["reason"], ""))
    printing.answer(counts, text, as_json)
    return _INTERRUPTED if counts["stopped"] else 4 if counts["skipped"] else 0


def report(results: list[ActionResult] | Counts, operation: str, as_json: bool, *, how: str = "") -> int:
    """Print the result for each job, or of all together; returns 4 if any was refused.

    Args:
        how: an addition for new jobs, or the requested priority.
    """
    if isinstance(results, dict):
        return _report_counts(results, Operation(operation), as_json)
    if as_json:
        printing.out_json({"results": results})
    for result in results:
        if error := result["error"]:
            printing.err(printing.error_lines(error["code"], error["message"], error["hint"]))
        elif not as_json and result["new_job"] is not None:
            printing.out(f"job {result['new_job']} encodes the ladder of job {result['job']} again{how}")
        elif not as_json and result["removed_segments"]:
            segments = fmt.counted(result["removed_segments"], "finished segment")
            undo = f"tqstudio job undelete {result['job']}"
            printing.out(f"job {result['job']} deleted with {segments}; {undo} restores only the job")
        elif not as_json:
            word = result["word"] or result["status"]
            printing.out(_RESULTS[operation].format(job=result["job"], word=word, how=how))
    return 0 if all(result["ok"] for result in results) else 4
