"""The drill itself: rounds of work, faults at random times, and the account at the end."""

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
from tqstudio.drill.clips import CLIPS, GOP_S, RUNGS, Clip
from tqstudio.drill.faults import Toll, strike
from tqstudio.drill.sandbox import WAIT_S, Sandbox, until
from tqstudio.drill.witness import Witness, wrong_frames
from tqstudio.engine.media.plan.file_names import FRAGMENTS_NAME
from tqstudio.errors import UNANSWERED, ErrorCode, TqError
from tqstudio.lifecycle import TERMINAL
from tqstudio.protocol import calls
from tqstudio.protocol.answers import JobDetail, RenditionView

T = TypeVar("T")

ENDED = frozenset(status.value for status in TERMINAL)
MOST_GENERATIONS = 2
"""The one that plays, and the one before it for players in mid-stream."""

_ROUND_S = 600.0
"""Three clips of 20 s, also on a machine that is busy with something else."""
_LONGEST_PEACE_S = 1.5
"""Faults come after a random time up to this."""
_MOST_KILLS_OF_A_ROUND = 60
"""A job bears a hundred; with so many in a round none comes near."""


@dataclass(slots=True)
class Account:
    """What the drill found. Everything but the first three should be 0 or empty."""

    faults: Counter[str] = field(default_factory=Counter)
    jobs_done: int = 0
    ladders_checked: int = 0
    segments_finished: int = 0
    in_flight_s: float = 0.0
    """Seconds of media, over all qualities, that were being made when a fault struck: what is made again."""
    seconds: float = 0.0
    made_again: list[str] = field(default_factory=list)
    """Finished segments that were made a second time."""
    unplayable: list[str] = field(default_factory=list)
    """Ladders that once could not be played."""
    wrong: list[str] = field(default_factory=list)
    """Ladders whose frames are not those of the source."""
    not_done: list[str] = field(default_factory=list)
    """Jobs that did not come through."""
    left_over: list[str] = field(default_factory=list)
    """Processes and files that should be gone."""
    orphans: int = 0

    @property
    def lost(self) -> list[str]:
        """Everything that went wrong, in words."""
        return [
            *(f"a finished segment was made again: {path}" for path in self.made_again),
            *(f"could not be played: {what}" for what in self.unplayable),
            *(f"wrong result: {what}" for what in self.wrong),
            *(f"not done: {what}" for what in self.not_done),
            *(f"left over: {what}" for what in self.left_over),
            *([f"{self.orphans} processes outlived their supervisor"] if self.orphans else []),
        ]


def drill(
    box: Sandbox,
    ffmpeg: str,
    *,
    kills: int,
    seed: int,
    say: Callable[[str], None] = lambda _line: None,
    on: tuple[Clip, ...] = CLIPS,
    asked_to_stop: Callable[[], bool] = lambda: False,
) -> Account:
    """Break the sandbox's studio `kills` times while it works, and account for it.

    Args:
        seed: chooses the faults and their times; the machine's own timing is not repeated.
        say: gets a line for each thing that happens.
        asked_to_stop: looked at between two faults.
    """
    rng = random.Random(seed)
    account, toll, witness = Account(), Toll(), Witness(box.output)
    began = time.monotonic()
    sources = [clips.make(clip, box.root / "clips", ffmpeg) for clip in on]
    try:
        box.start()
        _keep_up(box)
        rounds, jobs = 0, list[int]()
        while sum(account.faults.values()) < kills and not asked_to_stop():
            rounds += 1
            jobs = _give(box, sources, jobs, f"round-{rounds}")
            witness.forget()
            say(f"round {rounds}: {len(jobs)} jobs{', all made anew' if rounds > 1 else ''}")
            struck = sum(account.faults.values())
            most = min(kills, struck + _MOST_KILLS_OF_A_ROUND)
            while sum(account.faults.values()) < most and not asked_to_stop():
                if not _is_open(box, jobs):
                    break
                _strike(box, rng, account, toll, witness, say)
            _finish(box, jobs, account, witness)
            _check(box, on, account, say)
    finally:
        _keep_up(box)
        box.stop()
        _look_for_leftovers(box, account)
    account.orphans = toll.orphans
    account.made_again, account.unplayable = witness.made_again, witness.broken
    account.seconds = time.monotonic() - began
    return account


def _keep_up(box: Sandbox) -> None:
    """A supervisor that answers, whatever became of the last one."""
    deadline = time.monotonic() + WAIT_S
    while not (box.pid is not None and box.until_up()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"no supervisor stays up; see {box.root / 'supervisor.out'}")
        box.start()


def _give(box: Sandbox, sources: list[Path], last: list[int], key: str) -> list[int]:
    """New jobs for all sources: their first ladders, or the same again beside those that play.

    Args:
        last: the jobs of the round before; empty in the first.
        key: makes asking again harmless when an answer was lost.
    """
    if not last:
        return [_insist(box, partial(box.add, source)) for source in sources]
    jobs = []
    for job in last:
        call = calls.act("retranscode", [job], idempotency_key=f"{key}-{job}")
        result = _insist(box, partial(box.send, call))["results"][0]
        if result["new_job"] is None:
            raise TqError(ErrorCode.INTERNAL, f"job {job} cannot be retranscoded: {result['error']}")
        jobs.append(result["new_job"])
    return jobs


def _insist(box: Sandbox, ask: Callable[[], T]) -> T:
    """Ask until an answer comes: the supervisor may be about to die of a fault."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return ask()
        except TqError as error:
            if error.code not in UNANSWERED or time.monotonic() > deadline:
                raise
            _keep_up(box)


def _is_open(box: Sandbox, jobs: list[int]) -> bool:
    return any(_insist(box, partial(box.job, job))["status"] not in ENDED for job in jobs)


def _strike(
    box: Sandbox,
    rng: random.Random,
    account: Account,
    toll: Toll,
    witness: Witness,
    say: Callable[[str], None],
) -> None:
    """Wait a random time, then break something."""
    time.sleep(rng.uniform(0, _LONGEST_PEACE_S))
    _keep_up(box)
    witness.look()
    flying = _in_flight(box)
    what = strike(box, rng, toll)
    if what is not None:
        account.faults[what] += 1
        account.in_flight_s += flying
        say(f"{sum(account.faults.values()):5d}  {what}, {flying:.1f} s of media in flight")


def _in_flight(box: Sandbox) -> float:
    """Seconds of media that are encoded and not stored yet, over all qualities of all running jobs."""
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
    """Seconds of a quality that are encoded, and neither in a finished segment nor in a finished fragment."""
    if not row["segments_total"]:
        return 0.0
    unfinished = row["progress"] / 100 - row["segments_done"] / row["segments_total"]
    stream = f".tqstudio/*/segments/{job['video']}/{row['name']}/*"
    fragments = len(list(box.output.glob(f"{stream}/{FRAGMENTS_NAME}/*.m4s")))
    return max(0.0, unfinished * (job["source"]["duration_s"] or 0) - fragments * GOP_S)


def _finish(box: Sandbox, jobs: list[int], account: Account, witness: Witness) -> None:
    """Let the round come to its end in peace."""

    def ended() -> bool:
        _keep_up(box)
        witness.look()
        return not _is_open(box, jobs)

    until(ended, "every job ends once the faults stop", _ROUND_S, poll_s=0.3)
    for number in jobs:
        job = _insist(box, partial(box.job, number))
        if job["status"] == "done":
            account.jobs_done += 1
        else:
            why = job["error"]["message"] if job["error"] else ""
            account.not_done.append(f"job {number} is {job['status']}: {why}")
    account.segments_finished += len(witness.seen)


def _check(box: Sandbox, on: tuple[Clip, ...], account: Account, say: Callable[[str], None]) -> None:
    """Decode every frame of what is published."""
    for clip in on:
        master = box.output / Path(clip.name).stem / "master.m3u8"
        wrong = wrong_frames(master, clip.frames, RUNGS) if master.is_file() else "there is no ladder"
        if wrong is not None:
            account.wrong.append(f"{clip.name}: {wrong}")
        account.ladders_checked += 1
    say(f"       {len(on)} ladders decoded to the last frame")


def _look_for_leftovers(box: Sandbox, account: Account) -> None:
    account.left_over += [f"process {process.pid}" for process in box.processes()]
    left = [*box.output.glob(".tqstudio/*/scratch/*"), *box.output.glob(".tqstudio/*/trash/*")]
    left += [path for path in box.output.glob("[!.]*/.*") if path.name != ".owner"]
    account.left_over += [str(path.relative_to(box.output)) for path in left]
    for video in box.output.iterdir():
        generations = [path.name for path in video.glob("v*")] if not video.name.startswith(".") else []
        if len(generations) > MOST_GENERATIONS:
            account.left_over.append(f"{video.name} has {', '.join(sorted(generations))}")
