"""`process`: encodes files and folders, waits for them, and prints a summary."""

from __future__ import annotations

import sys
import time
import uuid
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tqstudio.cli.commands.jobs.add import chosen, describe, offer
from tqstudio.cli.follow.follower import Display, Follower, Video, last_seq
from tqstudio.cli.follow.interrupt import Interrupt
from tqstudio.cli.session.supervisor_session import SupervisorSession, home_command, session
from tqstudio.cli.terminal import options, printing
from tqstudio.errors import UNANSWERED, ErrorCode, TqError
from tqstudio.home import current_home
from tqstudio.lifecycle import PROCESS_BATCH
from tqstudio.paths import readable
from tqstudio.protocol import calls
from tqstudio.words import format as fmt
from tqstudio.words.added import COMMANDS, sentence

if TYPE_CHECKING:
    from tqstudio.protocol.answers import AddResult
    from tqstudio.protocol.client import Client

INTERRUPTED = 130


def process(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="[PATH]...", help="Same as --input.", show_default=False)
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", "-i", metavar="PATH", help="A video or a folder of videos; repeatable."),
    ] = None,
    output: options.OutputDir = None,
    profile: options.ProfileName = None,
    workers: options.Workers = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Encode complete ladders again.")] = False,
    no_process: Annotated[bool, typer.Option("--no-process", help="Only add them to the queue.")] = False,
    recursive: options.Recursive = False,
    ext: options.Extensions = None,
    verify_full: options.VerifyFull = False,
    limit: options.Limit = None,
    order: options.Order = "name",
    settings: options.Settings = None,
    meta: options.Metadata = None,
    priority: options.Priority = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Accepted for scripts; interrupted work is always resumed.", show_default=False
        ),
    ] = True,
    as_json: options.JsonFlag = False,
) -> int:
    """Encode files or folders and wait for them; then a summary is printed.

    Complete and unchanged ladders are skipped. Starts a supervisor if none is running, and stops it at the
    end unless it is needed by others. After an interruption, run it again to continue.
    """
    del resume
    wanted = [*(inputs or []), *(paths or [])]
    if not wanted:
        hint = "name one: tqstudio process --input PATH --output DIR"
        raise TqError(ErrorCode.BAD_REQUEST, "no input given", hint)
    files = chosen(wanted, output, ext, recursive=recursive, limit=limit, order=order)
    batch = f"{PROCESS_BATCH}{uuid.uuid4().hex[:12]}"
    fields = {
        "output_b64": options.output_b64(output),
        "profile": profile,
        "force": force,
        "verify_full": verify_full,
        "priority": priority,
        "overrides": options.overrides(settings),
        "metadata": options.metadata(meta),
        "batch": batch,
    }
    with working_session(workers) as at:
        at.batch = batch
        if no_process:
            return _only_queue(at.client, files, fields, as_json)
        return _work(at, files, fields, as_json)


def working_session(workers: int | None) -> SupervisorSession:
    """The supervisor for a run that waits for jobs; REFUSED if it gets workers but is running already."""
    if workers is None:
        return session(for_this_run=True)
    from tqstudio.protocol import launch

    at = None
    if launch.supervisor_of(current_home()) is None:
        at = session(["--workers", str(workers)], for_this_run=True)
    if at is None or not at.started:
        raise TqError(
            ErrorCode.REFUSED,
            "--workers cannot be set: a supervisor is already running",
            f"leave --workers out, or stop it first with: {home_command('down')}",
        )
    return at


def _only_queue(at: Client, files: list[bytes], fields: dict[str, Any], as_json: bool) -> int:
    started = time.monotonic()
    _, results = offer(at, files, None, **fields)
    for result in results:
        describe(result, quiet=as_json)
    videos = [video_of(at, result) for result in results]
    if as_json:
        printing.out_json(summary(videos, time.monotonic() - started), indent=None)
    return exit_code(videos)


def _work(at: SupervisorSession, files: list[bytes], fields: dict[str, Any], as_json: bool) -> int:
    started = time.monotonic()
    with Interrupt() as interrupt:
        after = last_seq(at.client)
        _, results = offer(at.client, files, interrupt, **fields)
        for result in results:
            if result["applied"]:
                printing.err(f"{readable(result['path'])}: {sentence(result, COMMANDS)}")
        videos = [video_of(at.client, result) for result in results]
        at.jobs |= {video.job for video in videos if video.job is not None}
        try:
            interrupted = follow(at, videos, interrupt, after=after, to_stderr=as_json)
        except TqError as error:
            return report_without_supervisor(error, videos, started, as_json=as_json)
        if interrupted:
            _report_remaining(videos, len(files), continues=not at.started)
        return report(videos, started, interrupted=interrupted, as_json=as_json)


def _report_remaining(videos: list[Video], files: int, *, continues: bool = False) -> None:
    """Print what is left; `continues`: a supervisor that was there before works on it."""
    left = sum(video.waited_for for video in videos)
    unqueued = f", {files - len(videos)} not queued yet" if len(videos) < files else ""
    of = fmt.counted(files, "video")
    queue = f"{left} of {of} left in the queue"
    if continues:
        printing.err(
            f"stopped waiting: {queue}, which the supervisor encodes{unqueued}; run it again to wait"
        )
    else:
        printing.err(f"stopped: {queue}{unqueued}; run it again to continue")


def report_without_supervisor(error: TqError, videos: list[Video], started: float, *, as_json: bool) -> int:
    """Summarise a run whose supervisor was stopped or does not answer; raise any other error.

    Open jobs continue with the next supervisor.
    """
    if error.code not in UNANSWERED:
        raise error
    if error.code is ErrorCode.NO_SUPERVISOR:
        printing.err("the supervisor was stopped during the run")
    else:
        printing.err(printing.error_lines(error.code, error.message, error.hint))
    _report_remaining(videos, len(videos))
    report(videos, started, interrupted=True, as_json=as_json)
    return printing.exit_code(error.code)


def report(videos: list[Video], started: float, *, interrupted: bool, as_json: bool) -> int:
    """Print the summary of a run that `started` at a monotonic time; returns its exit code."""
    answer = summary(videos, time.monotonic() - started)
    if as_json:
        printing.out_json(answer, indent=None)
    else:
        print_summary(answer["summary"])
    return INTERRUPTED if interrupted else exit_code(videos)


def follow(
    at: SupervisorSession,
    videos: list[Video],
    interrupt: Interrupt,
    *,
    after: int,
    to_stderr: bool,
    at_most: int | None = None,
) -> bool:
    """Show the videos' progress until all, or `at_most`, have ended; returns whether it was interrupted."""
    shown = display(to_stderr=to_stderr)
    try:
        for video in videos:
            if not video.waited_for:
                shown.ended(video)
            if video.held:
                shown.note(f"{video.name}: paused; resume it with: tqstudio job resume {video.job}")
        return Follower(at.client, videos, shown, after=after).until_all_ended(interrupt, at_most)
    finally:
        shown.close()


def display(*, to_stderr: bool) -> Display:
    """Bars on a terminal, lines otherwise."""
    stream = sys.stderr if to_stderr else sys.stdout
    if printing.terminal(stream):
        from rich.console import Console

        from tqstudio.cli.follow.progress_bars import ProgressBars

        return ProgressBars(Console(file=stream, highlight=False))
    from tqstudio.cli.follow.progress_lines import ProgressLines

    return ProgressLines(stream)


def video_of(at: Client, result: AddResult) -> Video:
    """The state of a file after it was sent to the supervisor."""
    decision = result["decision"]
    video = Video(
        name=readable(result["path"].rpartition("/")[2]),
        source=result["path"],
        source_b64=result["path_b64"],
        status=decision if decision in ("cached", "failed", "rejected") else "pending",
        # A rejected file may belong to a job for another output, which this run does not follow.
        job=None if decision == "rejected" else result["job"],
        slug=result["slug"],
        master=result["master"],
        master_b64=result["master_b64"],
        error=result["error"],
    )
    if video.job is not None and decision in ("cached", "failed", "waiting"):
        detail = at.send(calls.job(video.job))
        video.take(detail)
        if decision == "cached":
            video.error = None
            if result["master"]:
                video.master, video.master_b64 = result["master"], result["master_b64"]
        if decision == "waiting":
            video.status = detail["status"]
            video.held = video.status == "paused"
    return video


def summary(videos: list[Video], seconds: float) -> dict[str, Any]:
    """The last line of `--json`."""

    def count(*statuses: str) -> int:
        return sum(video.status in statuses for video in videos)

    return {
        "summary": {
            "total": len(videos),
            "done": count("done"),
            "failed": count("failed", "rejected"),
            "cached": count("cached"),
            "cancelled": count("cancelled"),
            "warnings": sum(bool(video.warnings) for video in videos),
            "seconds": round(seconds, 3),
        },
        "videos": [video.report() for video in videos],
    }


def print_summary(counts: dict[str, Any]) -> None:
    if not counts["total"]:
        printing.out("nothing to do")
        return
    words = [f"{counts[key]} {key}" for key in ("done", "cached", "failed", "cancelled") if counts[key]]
    left = counts["total"] - sum(counts[key] for key in ("done", "cached", "failed", "cancelled"))
    if left:
        words.append(f"{left} left")
    total = fmt.counted(counts["total"], "video")
    if counts["warnings"]:
        words.append(f"{counts['warnings']} with warnings")
    words.append(f"in {fmt.clock_duration(counts['seconds'])}")
    printing.out(f"{total}: {', '.join(words)}")


def exit_code(videos: list[Video]) -> int:
    """0 if every ladder is complete or queued, the error's code if every file was rejected, else 1."""
    rejected = [video for video in videos if video.status == "rejected"]
    if rejected and len(rejected) == len(videos):
        error = rejected[0].error
        return printing.exit_code(error["code"]) if error else 2
    successful = ("done", "cached", "pending", "in_progress")
    return 0 if all(video.status in successful for video in videos) else 1
