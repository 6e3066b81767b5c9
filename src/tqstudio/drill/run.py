"""Runs the drill: rounds of jobs, faults at random times, and a report at the end."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from tqstudio.drill import clips
from tqstudio.drill.clips import CLIPS, GOP_S, RUNGS
from tqstudio.drill.faults import inject
from tqstudio.drill.sandbox import WAIT_S, Sandbox, until
from tqstudio.drill.witness import Witness, wrong_frames
from tqstudio.engine.media.plan.file_names import FRAGMENTS_NAME
from tqstudio.errors import UNANSWERED, ErrorCode, TqError
from tqstudio.lifecycle import TERMINAL
from tqstudio.protocol import calls
from tqstudio.protocol.answers import JobDetail, RenditionView

T = TypeVar("T")

ENDED = frozenset(status.value for status in TERMINAL)
MAX_GENERATIONS = 2
"""The current one, and the previous one for players in mid-stream."""

_ROUND_S = 600.0
"""Timeout of a round: three clips of 20 s, on a busy machine."""
_MAX_PAUSE_S = 1.5
"""Maximum of the random time before a fault."""
_MAX_KILLS_PER_ROUND = 60
"""Well below the hundred crashes that a job may have."""


@dataclass(slots=True)
class DrillReport:
    """The results of the drill."""

    faults: Counter[str] = field(default_factory=Counter)
    jobs_done: int = 0
    ladders_checked: int = 0
    segments_finished: int = 0
    in_flight_s: float = 0.0
    """Seconds of media, over all qualities, that were lost to faults and encoded again."""
    seconds: float = 0.0
    segments_made_again: int = 0
    """Finished segments that were encoded again."""
    orphans: int = 0
    lost: list[str] = field(default_factory=list)
    """Descriptions of everything that went wrong; should be empty."""


def drill(
    box: Sandbox,
    ffmpeg: str,
    *,
    kills: int,
    seed: int,
    log: Callable[[str], None] = lambda _line: None,
    asked_to_stop: Callable[[], bool] = lambda: False,
) -> DrillReport:
    """Inject `kills` faults into the sandbox's studio while it works, and report the results.

    Args:
        seed: of the faults and their times; the timing of the machine itself is not reproducible.
        log: called with a line for each event.
        asked_to_stop: polled between two faults.
    """
    began = time.monotonic()
    sources = [clips.make(clip, box.root / "clips", ffmpeg) for clip in CLIPS]
    course = _Course(box, random.Random(seed), log)
    report, witness = course.report, course.witness

    def continues(limit: int) -> bool:
        return report.faults.total() < limit and not asked_to_stop()

    try:
        box.start()
        _keep_up(box)
        rounds, jobs = 0, list[int]()
        while continues(kills):
            rounds += 1
            jobs = _add_jobs(box, sources, jobs, f"round-{rounds}")
            witness.forget()
            log(f"round {rounds}: {len(jobs)} jobs{', all encoded again' if rounds > 1 else ''}")
            limit = min(kills, report.faults.total() + _MAX_KILLS_PER_ROUND)
            while continues(limit) and _is_open(box, jobs):
                course.inject()
            course.finish(jobs)
            course.check()
    finally:
        _keep_up(box)
        box.stop()
        course.find_leftovers()
    report.orphans, report.segments_made_again = box.orphans, len(witness.made_again)
    report.lost += [f"a finished segment was encoded again: {path}" for path in witness.made_again]
    report.lost += [f"not playable: {what}" for what in witness.broken]
    if box.orphans:
        report.lost.append(f"{box.orphans} processes outlived their supervisor")
    report.seconds = time.monotonic() - began
    return report


def _keep_up(box: Sandbox) -> None:
    """Start supervisors until one answers."""
    deadline = time.monotonic() + WAIT_S
    while not (box.pid is not None and box.until_up()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"no supervisor stays up; see {box.root / 'supervisor.out'}")
        box.start()


def _add_jobs(box: Sandbox, sources: list[Path], previous: list[int], key: str) -> list[int]:
    """Add jobs for all sources, or retranscode them after the first round.

    Args:
        previous: the jobs of the previous round; empty in the first.
        key: prefix of the idempotency keys, so that calls can be retried.
    """
    if not previous:
        return [_retry(box, partial(box.add, source)) for source in sources]
    jobs = []
    for job in previous:
        call = calls.act("retranscode", [job], idempotency_key=f"{key}-{job}")
        result = _retry(box, partial(box.send, call))["results"][0]
        if result["new_job"] is None:
            raise TqError(ErrorCode.INTERNAL, f"job {job} cannot be retranscoded: {result['error']}")
        jobs.append(result["new_job"])
    return jobs


def _retry(box: Sandbox, call: Callable[[], T]) -> T:
    """Retry a call until it is answered: the supervisor may be dying from a fault."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return call()
        except TqError as error:
            if error.code not in UNANSWERED or time.monotonic() > deadline:
                raise
            _keep_up(box)


def _is_open(box: Sandbox, jobs: list[int]) -> bool:
    return any(_retry(box, partial(box.job, job))["status"] not in ENDED for job in jobs)


def _in_flight(box: Sandbox) -> float:
    """Seconds of media that are encoded but not stored yet, over all qualities of all running jobs."""
    total = 0.0
    with contextlib.suppress(TqError):
        for worker in box.status()["workers"]:
            if worker["job"]:
                job = box.job(worker["job"])
                total += sum(
                    _unstored(box, job, row) for row in job["renditions"] if row["status"] == "in_progress"
                )
    return total


def _unstored(box: Sandbox, job: JobDetail, row: RenditionView) -> float:
    """Seconds of a quality that are encoded but not in a finished segment or fragment."""
    if not row["segments_total"]:
        return 0.0
    unfinished = row["progress"] / 100 - row["segments_done"] / row["segments_total"]
    stream = f".tqstudio/*/segments/{job['video']}/{row['name']}/*"
    fragments = len(list(box.output.glob(f"{stream}/{FRAGMENTS_NAME}/*.m4s")))
    return max(0.0, unfinished * (job["source"]["duration_s"] or 0) - fragments * GOP_S)


@dataclass(slots=True)
class _Course:
    """Injects faults, checks the results and records both."""

    box: Sandbox
    rng: random.Random
    log: Callable[[str], None]
    report: DrillReport = field(default_factory=DrillReport)
    witness: Witness = field(init=False)

    def __post_init__(self) -> None:
        self.witness = Witness(self.box.output)

    def inject(self) -> None:
        """Wait a random time, then inject a fault."""
        time.sleep(self.rng.uniform(0, _MAX_PAUSE_S))
        _keep_up(self.box)
        self.witness.check()
        in_flight_s = _in_flight(self.box)
        fault = inject(self.box, self.rng)
        if fault is not None:
            self.report.faults[fault] += 1
            self.report.in_flight_s += in_flight_s
            number = self.report.faults.total()
            self.log(f"{number:5d}  {fault}, {in_flight_s:.1f} s of media in flight")

    def finish(self, jobs: list[int]) -> None:
        """Wait for the jobs of a round to end, without faults, and record their results."""

        def ended() -> bool:
            _keep_up(self.box)
            self.witness.check()
            return not _is_open(self.box, jobs)

        until(ended, "every job ends once the faults stop", _ROUND_S, poll_s=0.3)
        for number in jobs:
            job = _retry(self.box, partial(self.box.job, number))
            if job["status"] == "done":
                self.report.jobs_done += 1
            else:
                why = job["error"]["message"] if job["error"] else ""
                self.report.lost.append(f"not done: job {number} is {job['status']}: {why}")
        self.report.segments_finished += len(self.witness.seen)

    def check(self) -> None:
        """Decode every frame of the published ladders."""
        for clip in CLIPS:
            master = self.box.output / Path(clip.name).stem / "master.m3u8"
            wrong = wrong_frames(master, clip.frames, RUNGS) if master.is_file() else "there is no ladder"
            if wrong is not None:
                self.report.lost.append(f"wrong result: {clip.name}: {wrong}")
            self.report.ladders_checked += 1
        self.log(f"       {len(CLIPS)} ladders decoded to the last frame")

    def find_leftovers(self) -> None:
        """Record processes and files that should have been removed."""
        output = self.box.output
        left = [f"process {process.pid}" for process in self.box.processes()]
        files = [*output.glob(".tqstudio/*/scratch/*"), *output.glob(".tqstudio/*/trash/*")]
        files += [path for path in output.glob("[!.]*/.*") if path.name != ".owner"]
        left += [str(path.relative_to(output)) for path in files]
        for video in output.glob("[!.]*"):
            generations = sorted(path.name for path in video.glob("v*"))
            if len(generations) > MAX_GENERATIONS:
                left.append(f"{video.name} has {', '.join(generations)}")
        self.report.lost += [f"left over: {what}" for what in left]
