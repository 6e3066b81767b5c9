"""Records who encoded which segments of the running jobs, and the course of their speeds, in memory.

It looks at the running jobs once a second, so that nothing that reports has to know of it. What attempts made
before the supervisor started is of an unknown worker.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from tqstudio.engine.live.ranges import Ranges
from tqstudio.engine.live.running_jobs import LiveJob, RunningJobs
from tqstudio.engine.parts.part import Part, Periodic
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.events import EventKind
from tqstudio.lifecycle import TERMINAL, JobStatus
from tqstudio.protocol.answers import DivisionView, LoadView, RangeView

_SAMPLE_S = 1.0
LOAD_S = 10
"""Seconds between two samples of the load."""
_LOADS = 120
_BEAT_S = 30.0
"""Processor use that was reported longer ago does not count."""
_SPEEDS = 120
"""Samples of a job at which they are halved, so that they span all of its run."""
_UNKNOWN = ""


@dataclass(slots=True)
class Course:
    """Samples of a figure that span its whole time: they become fewer as that becomes longer."""

    values: list[float] = field(default_factory=list)
    _every: int = 1
    """Samples that one value stands for."""
    _sum: float = 0.0
    _count: int = 0

    def add(self, value: float) -> None:
        self._sum, self._count = self._sum + value, self._count + 1
        if self._count < self._every:
            return
        self.values.append(self._sum / self._count)
        self._sum, self._count = 0.0, 0
        if len(self.values) == _SPEEDS:
            pairs = zip(self.values[::2], self.values[1::2], strict=True)
            self.values, self._every = [(one + other) / 2 for one, other in pairs], 2 * self._every


@dataclass(slots=True)
class Recorded:
    """What is known of a running job."""

    makers: dict[str, list[str | None]] = field(default_factory=dict)
    """Of each segment of each quality who made it: a worker, unknown, or None while it is missing."""
    speeds: Course = field(default_factory=Course)
    _ranges: dict[tuple[str, int], RangeView] = field(default_factory=dict)
    """The ranges of other workers, by worker and first segment, as they were seen last."""
    _divided: frozenset[str] = frozenset()
    """The qualities that these are of."""

    def runs(self, quality: str) -> Iterator[tuple[str | None, int]]:
        """Yield who made the segments of a quality, each with how many in a row."""
        return ((maker, len(list(run))) for maker, run in groupby(self.makers.get(quality, ())))

    def front(self, quality: str) -> int:
        """The segment of a quality that the job's own worker makes."""
        makers, others = self.makers.get(quality, []), self._numbers_of_others(quality)
        free = (at for at, maker in enumerate(makers) if maker is None and at not in others)
        return next(free, len(makers))

    def take(self, live: LiveJob, division: DivisionView | None, *, is_adopted: bool = False) -> None:
        """Add what is complete now, by whom.

        Args:
            is_adopted: whether the job ran before the supervisor started: others may have made a part.
        """
        before, self._ranges = self._ranges, {}
        if division is not None:
            self._divided = frozenset(division["renditions"])
            self._ranges = {(each["worker"], each["first"]): each for each in division["ranges"]}
        ended = [each for key, each in before.items() if key not in self._ranges]
        missing = {at for each in (division["missing"] if division else ()) for at in range(*each)}
        for quality in live.renditions or ():
            name, total, done = quality["name"], quality["segments_total"], quality["segments_done"]
            if not total:
                continue
            known = self.makers.get(name)
            if is_new := known is None or len(known) != total:
                known = self.makers[name] = [None] * total
            if name in self._divided:
                self._take_of_others(known, ended, missing, None if division else done)
            # What others make is among what is done; the job's own worker makes the first that is missing.
            others = self._numbers_of_others(name)
            own = [at for at in range(total) if at not in others]
            if is_new:
                found = done if is_adopted else min(done, live.resumed_from or 0)
                _fill(known, own, _UNKNOWN, up_to=found)
            _fill(known, own, live.worker, up_to=done)
        if live.speed is not None:
            self.speeds.add(live.speed)

    def _take_of_others(
        self, known: list[str | None], ended: Sequence[RangeView], missing: set[int], most: int | None
    ) -> None:
        """Add what other workers have made of a quality: so far, and of the ranges that have ended, all.

        Args:
            most: segments that are complete, where nothing says what is missing.
        """
        for each in self._ranges.values():
            _fill(known, range(each["first"], each["first"] + each["done"]), each["worker"])
        for each in ended:
            left = [at for at in range(each["first"], each["end"]) if known[at] is None]
            if missing.isdisjoint(left) and (most is None or _count(known) + len(left) <= most):
                _fill(known, left, each["worker"])

    def _numbers_of_others(self, quality: str) -> set[int]:
        """The segments that other workers are to make."""
        ranges = self._ranges.values() if quality in self._divided else ()
        return {at for each in ranges for at in range(each["first"], each["end"])}


def _count(makers: Sequence[str | None]) -> int:
    return sum(maker is not None for maker in makers)


def _fill(makers: list[str | None], numbers: Iterable[int], worker: str, up_to: int | None = None) -> None:
    """Note who made the segments of these numbers that nothing is known of, until so many are known."""
    known = _count(makers)
    for number in numbers:
        if up_to is not None and known >= up_to:
            return
        if number < len(makers) and makers[number] is None:
            makers[number] = worker
            known += 1


class Recorder(Part):
    """Records the running jobs and the load; used on the event loop only."""

    triggers = None

    def __init__(self, running_jobs: RunningJobs, ranges: Ranges) -> None:
        self._running_jobs, self._ranges = running_jobs, ranges
        self._jobs: dict[int, Recorded] = {}
        self._load: deque[tuple[float, float]] = deque(maxlen=_LOADS)
        """Speed of all jobs together and processor use in percent of a core, oldest first."""
        self._samples = 0
        self._adopted = frozenset[int]()
        """The jobs that ran before the supervisor started."""
        self.every = (Periodic(_SAMPLE_S, self.sample, without_database=True),)

    def on_events(self, events: Sequence[EventRow], /) -> None:
        """Forget jobs that have ended or were deleted; those that wait for their next attempt stay."""
        for event in events:
            ended = event.target is not None and JobStatus(event.target) in TERMINAL
            if event.job is not None and (ended or event.trigger == EventKind.DELETED):
                self._jobs.pop(event.job, None)

    @property
    def jobs(self) -> Mapping[int, Recorded]:
        return self._jobs

    @property
    def load(self) -> LoadView:
        """The load of the last twenty minutes."""
        speeds, cpu = zip(*self._load, strict=True) if self._load else ((), ())
        return {"interval_s": LOAD_S, "speed": list(speeds), "cpu_percent": list(cpu)}

    async def sample(self) -> None:
        """Look at what runs."""
        running = self._running_jobs.jobs
        if not self._samples:
            self._adopted = frozenset(running)
        for job, live in running.items():
            recorded = self._jobs.setdefault(job, Recorded())
            recorded.take(live, self._ranges.view(job), is_adopted=job in self._adopted)
        if self._samples % LOAD_S == 0:
            since = (time.time() - _BEAT_S) * 1e6
            beats = self._running_jobs.heartbeats.values()
            cpu = sum(beat.cpu_percent or 0.0 for beat in beats if beat.at >= since)
            self._load.append((sum(live.speed or 0.0 for live in running.values()), cpu))
        self._samples += 1
