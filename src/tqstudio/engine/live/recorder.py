"""Records who encoded which segments of the running jobs, and the course of their speeds, in memory.

It looks at the running jobs once a second, so that nothing that reports has to know of it. What attempts made
before the supervisor started is of an unknown worker.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
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
    ranges: dict[tuple[str, int], RangeView] = field(default_factory=dict)
    """The ranges of other workers, by worker and first segment, as they were seen last."""
    speeds: Course = field(default_factory=Course)

    def runs(self, quality: str) -> Iterator[tuple[str | None, int]]:
        """Yield who made the segments of a quality, each with how many in a row."""
        return ((maker, len(list(run))) for maker, run in groupby(self.makers.get(quality, ())))

    def take(self, live: LiveJob, division: DivisionView | None, *, is_adopted: bool = False) -> None:
        """Add what is complete now, by whom.

        Args:
            is_adopted: whether the job ran before the supervisor started: others may have made a part.
        """
        for quality in live.renditions or ():
            total, done = quality["segments_total"], quality["segments_done"]
            if not total:
                continue
            known = self.makers.get(quality["name"])
            if known is None or len(known) != total:
                known = self.makers[quality["name"]] = [None] * total
                _fill(known, 0, done if is_adopted else min(done, live.resumed_from or 0), _UNKNOWN)
            _fill(known, 0, done, live.worker)
        if division is not None:
            self._take_ranges(division)
        if live.speed is not None:
            self.speeds.add(live.speed)

    def _take_ranges(self, division: DivisionView) -> None:
        seen = {(each["worker"], each["first"]): each for each in division["ranges"]}
        missing = {number for each in division["missing"] for number in range(*each)}
        for name in division["renditions"]:
            known = self.makers.get(name)
            if known is None:
                continue
            for key, each in self.ranges.items():
                if key not in seen and missing.isdisjoint(range(each["first"], each["end"])):
                    _fill(known, each["first"], each["end"], each["worker"])
            for each in seen.values():
                _fill(known, each["first"], each["first"] + each["done"], each["worker"])
        self.ranges = seen


def _fill(makers: list[str | None], first: int, end: int, worker: str) -> None:
    for number in range(first, min(end, len(makers))):
        if makers[number] is None:
            makers[number] = worker


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
        return {"every_s": LOAD_S, "speed": list(speeds), "cpu_percent": list(cpu)}

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
