"""The queue as a whole: `queue status|process|retry|pause|resume`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from tqstudio import client as calls
from tqstudio.cli import printing
from tqstudio.cli.options import JsonFlag
from tqstudio.cli.supervisor import door, session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tqstudio.connection import Client
    from tqstudio.schemas import JobRow

PAGE = 200


def status(as_json: JsonFlag = False) -> int:
    """Count the jobs by status, and say what holds them up."""
    view = door().send(calls.status())
    if as_json:
        total = sum(view["jobs"].values())
        printing.out_json(
            {"jobs": view["jobs"], "total": total, "gates": view["gates"], "eta_s": view["eta_s"]}
        )
        return 0
    for name, count in view["jobs"].items():
        line = f"{printing.glyph(name)}{printing.word(name):12} {count:7}"
        printing.out(printing.painted(line, name if count else ""))
    printing.out(f"{'  ' if printing.glyph('done') else ''}{'total':12} {sum(view['jobs'].values()):7}")
    if view["eta_s"] is not None:
        printing.out(f"about {printing.span(view['eta_s'])} left")
    for gate in view["gates"]:
        printing.out(f"held up: {gate['reason']} {printing.arrow()} {gate['hint']}")
    return 0


def pause(
    reason: Annotated[str, typer.Option("--reason", help="Shown to everybody who looks.")] = "",
    as_json: JsonFlag = False,
) -> int:
    """Hand out no more jobs; running ones go on to their end."""
    gate = session().door.send(calls.pause_queue(reason))
    if as_json:
        printing.out_json(gate)
    else:
        printing.out("the queue is paused; running jobs go on. Resume with: tqstudio queue resume")
    return 0


def resume(as_json: JsonFlag = False) -> int:
    """Hand out jobs again."""
    answer = session().door.send(calls.resume_queue())
    if as_json:
        printing.out_json(answer)
    else:
        printing.out("the queue goes on")
    return 0


def retry(as_json: JsonFlag = False) -> int:
    """Let every failed job go again, with all its attempts."""
    from tqstudio.cli.job_acting import act, report

    at = session()
    ids = [row["id"] for row in every_job(at.door, ("failed",))]
    if not ids:
        if as_json:
            printing.out_json({"results": []})
        else:
            printing.out("no job has failed; nothing to retry")
        return 0
    return report(act(at, "retry", ids), "retry", as_json)


def process(as_json: JsonFlag = False) -> int:
    """Work until no job waits or runs; starts a supervisor when none runs and stops it then."""
    from tqstudio.cli.follow import Video, last_seq
    from tqstudio.cli.interrupt import Interrupt
    from tqstudio.cli.process import follow, report

    started = time.monotonic()
    with session(for_this_run=True) as at, Interrupt() as interrupt:
        after = last_seq(at.door)
        rows = list(every_job(at.door, ("in_progress", "pending")))
        videos = [Video(row["name"], row["path"], row["status"], row["id"]) for row in rows]
        interrupted = follow(at, videos, interrupt, after=after, to_stderr=as_json)
        return report(videos, started, interrupted=interrupted, as_json=as_json)


def every_job(at: Client, statuses: Sequence[str]) -> Iterator[JobRow]:
    """All jobs with these statuses, page by page."""
    after = None
    while True:
        page = at.send(calls.jobs(statuses=statuses, limit=PAGE, after=after))
        yield from page["jobs"]
        after = page["after"]
        if after is None:
            return
