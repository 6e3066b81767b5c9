"""The queue as a whole: `queue status|process|retry|clear|pause|resume`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from tqstudio.cli.session.supervisor_session import client, every_job, listening, runs_or_has, session
from tqstudio.cli.terminal import options, printing
from tqstudio.cli.terminal.options import JsonFlag, Workers
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol import calls
from tqstudio.words import format as fmt
from tqstudio.words.sentences import status_word

if TYPE_CHECKING:
    from tqstudio.engine.store.db.connection import Connection
    from tqstudio.protocol.answers import RetryAnswer
    from tqstudio.protocol.client import Client

ALL_TIMEOUT_S = 600.0
ENDED = ("done", "failed", "cancelled")


def status(as_json: JsonFlag = False) -> int:
    """Count the jobs by status; shows what blocks the queue, too."""
    view = client().send(calls.status())
    if as_json:
        total = sum(view["jobs"].values())
        printing.out_json(
            {"jobs": view["jobs"], "total": total, "gates": view["gates"], "eta_s": view["eta_s"]}
        )
        return 0
    for name, count in view["jobs"].items():
        line = f"{printing.sign(name)} {status_word(name):12} {count:7}"
        printing.out(printing.painted(line, name if count else ""))
    printing.out(f"  {'total':12} {sum(view['jobs'].values()):7}")
    if view["eta"] is not None:
        printing.out(f"about {fmt.with_range(view['eta'])} left")
    for gate in view["gates"]:
        printing.out(f"blocked: {printing.gate_reason(gate)} {printing.ARROW} {gate['hint']}")
    return 0


def pause(
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Shown wherever the queue's status is shown.")
    ] = "",
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="2h|07:00|TIME", help="Resume then; default: when it is resumed."),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Start no more jobs; running ones finish."""
    gate = session().client.send(calls.pause_queue(reason, options.until(until)))
    ends = fmt.end(gate["until"])
    text = f"the queue is paused{ends}; running jobs finish. Resume with: tqstudio queue resume"
    return printing.answer(gate, text, as_json)


def resume(as_json: JsonFlag = False) -> int:
    """Start jobs again."""
    return printing.answer(session().client.send(calls.resume_queue()), "the queue is resumed", as_json)


def retry(
    batch: Annotated[
        str | None, typer.Option("--batch", metavar="BATCH", help="Only the failed jobs of this batch.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Retry every failed job; each has the full number of attempts."""
    answer: RetryAnswer = {"retried": 0, "refused": []}
    if _any("failed"):
        answer = session().client.send(calls.retry_failed(batch), timeout_s=ALL_TIMEOUT_S)
    if as_json:
        printing.out_json(answer)
    elif answer["retried"]:
        printing.out(f"{fmt.counted(answer['retried'], 'failed job')} requeued")
    elif not answer["refused"]:
        printing.out("no failed jobs; nothing to retry")
    for result in answer["refused"]:
        if error := result["error"]:
            printing.err(printing.error_lines(error["code"], error["message"], error["hint"]))
    return 4 if answer["refused"] else 0


def clear(
    history: Annotated[
        bool, typer.Option("--history", help="Delete the event history too; cannot be undone.")
    ] = False,
    manifest: Annotated[
        bool,
        typer.Option(
            "--manifest",
            help="Forget all files without open jobs too, and the history, for a fresh start; ladders stay.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Remove ended jobs from the list. Ladders stay; partial work of failed or cancelled ones is removed."""
    history = history or manifest
    if not history and not _any(*ENDED):
        return _nothing_to_clear(as_json)
    at = session().client
    view = at.send(calls.status())
    counts = view["jobs"]
    ended = sum(counts[status] for status in ENDED)
    if not ended and not history:
        return _nothing_to_clear(as_json)
    question = f"remove {fmt.counted(ended, 'ended job')} from the list"
    if not yes and view["supervisor"]["cleanup_partial"] and (lost := _finished_segments(at)):
        segments = fmt.counted(lost, "finished segment")
        question += f", and permanently delete {segments} of failed and cancelled jobs"
    if history:
        question += ", and permanently delete the event history"
    if manifest:
        question += " and all that is known of files without open jobs"
    sure = "start afresh: drop folders queue their files again, beside the present ladders"
    if not yes and not (
        printing.agreed(question, as_json) and (not manifest or printing.agreed(sure, as_json))
    ):
        printing.out("nothing was changed")
        return printing.exit_code(ErrorCode.REFUSED)
    answer = at.send(calls.clear_queue(history=history, manifest=manifest), timeout_s=ALL_TIMEOUT_S)
    if as_json:
        printing.out_json(answer)
        return 0
    removed = f"{fmt.counted(answer['deleted'], 'job')} removed from the list, the ladders stay"
    printing.out(removed if manifest else f"{removed}; list them with: tqstudio job list --deleted")
    if answer["removed_segments"]:
        segments = fmt.counted(answer["removed_segments"], "finished segment")
        printing.out(f"{segments} of failed and cancelled jobs deleted permanently")
    if manifest:
        printing.out(f"{fmt.counted(answer['forgotten'], 'video')} forgotten; new ladders get other folders")
    if history:
        printing.out(f"{fmt.counted(answer['pruned'], 'event')} deleted")
    return 0


def _nothing_to_clear(as_json: bool) -> int:
    nothing = {"deleted": 0, "removed_segments": 0, "forgotten": 0, "pruned": 0}
    return printing.answer(nothing, "no ended jobs; nothing to clear", as_json)


def _any(*statuses: str) -> bool:
    """Whether a supervisor is running, or else the database contains jobs with these statuses."""

    def known(db: Connection) -> bool:
        from tqstudio.engine.store.lists import pages

        counts = pages.counts_by_status(db)
        return any(counts[status] for status in statuses)

    return runs_or_has(known)


def _finished_segments(at: Client) -> int:
    """The number of finished segments of the failed and cancelled jobs on the list."""
    rows = every_job(at, "state:failed,cancelled")
    return sum(rendition["segments_done"] for row in rows for rendition in row["renditions"])


def process(
    max_jobs: Annotated[
        int | None, typer.Option("--max-jobs", min=1, metavar="N", help="Stop after N jobs have ended.")
    ] = None,
    workers: Workers = None,
    as_json: JsonFlag = False,
) -> int:
    """Process the queue and wait: until no job is pending or running.

    Starts a supervisor if none is running, and stops it at the end unless it is needed by others.
    """
    from tqstudio.cli.commands.jobs.process import follow, report, report_without_supervisor, working_session
    from tqstudio.cli.follow.follower import Video, last_seq
    from tqstudio.cli.follow.interrupt import Interrupt

    started = time.monotonic()
    if max_jobs == 1 and workers is None and not listening():
        # Further workers would only start jobs that are then aborted.
        workers = 1
    videos: dict[int, Video] = {}
    interrupted = False
    with working_session(workers) as at, Interrupt() as interrupt:
        while not interrupted:
            after = last_seq(at.client)
            more = [
                Video(row["name"], row["path"], row["path_b64"], row["status"], row["id"])
                for row in every_job(at.client, "state:running,pending")
                if row["id"] not in videos
            ]
            left = None if max_jobs is None else max_jobs - sum(v.settled for v in videos.values())
            if not more or left == 0:
                break
            videos |= {video.job or 0: video for video in more}
            at.jobs |= videos.keys()
            try:
                interrupted = follow(at, more, interrupt, after=after, to_stderr=as_json, at_most=left)
            except TqError as error:
                return report_without_supervisor(error, [*videos.values()], started, as_json=as_json)
        return report(list(videos.values()), started, interrupted=interrupted, as_json=as_json)
