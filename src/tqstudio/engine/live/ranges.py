"""Divides running jobs among idle workers, by ranges of segments.

All of it is in memory: what is finished is in the segment stores, where the worker that has a job finds it.
A range that is not made costs nothing but time, as that worker comes to its segments too. So nothing is lost
with a worker or with the supervisor, and a slow worker's range is overtaken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tqstudio.engine.host.clock import MICROSECOND
from tqstudio.engine.live.running_jobs import LiveBoard
from tqstudio.engine.store.jobs.claims import Token
from tqstudio.lifecycle import Control
from tqstudio.protocol.answers import DivisionView, RangeView
from tqstudio.protocol.requests import Division
from tqstudio.protocol.worker_answers import AssignedRange

LEAST_SEGMENTS = 4
"""A job with fewer missing segments is not divided: a range costs a start of ffmpeg."""
_TARGET_S = 30.0
"""How long a range should take: the next job waits that long for a worker that could take it."""


@dataclass(slots=True)
class Range:
    """A range of segments that a worker makes of a job that another one has."""

    token: Token
    """The job and its epoch, with the instance of the worker that makes the range."""
    worker: str
    first: int
    end: int
    streams: Mapping[str, str]
    began: int
    """µs of the clock of the leases, as `until`."""
    until: int
    """When its lease expires."""
    done: int = 0
    """Finished segments."""

    @property
    def assigned(self) -> AssignedRange:
        return {"first": self.first, "end": self.end, "streams": dict(self.streams)}

    @property
    def shown_step(self) -> str:
        """`seg 16–18`: what a list of workers shows as its step."""
        last = self.end - 1
        return f"seg {self.first}" + (f"–{last}" if last > self.first else "")

    @property
    def view(self) -> RangeView:
        return {"worker": self.worker, "first": self.first, "end": self.end, "done": self.done}


@dataclass(slots=True)
class _Divided:
    """A job that its worker lets others help with."""

    owner: Token
    offered: Division
    made: list[tuple[int, int]] = field(default_factory=list)
    """Ranges that were made; the worker of the job may not have noticed yet."""
    unable: set[str] = field(default_factory=set)
    """Instances of workers that could not make a range of it."""


class Ranges:
    """The ranges of running jobs; used on the event loop only.

    Args:
        enabled: whether jobs are divided at all.
        lease_us: how long a range stays assigned without a heartbeat.
    """

    def __init__(self, board: LiveBoard, *, enabled: bool, lease_us: int) -> None:
        self._board, self._enabled, self._lease_us = board, enabled, lease_us
        self._clock = board.leases.clock
        self._divided: dict[int, _Divided] = {}
        self._ranges: dict[Token, Range] = {}
        self._speeds: dict[tuple[str, int], float] = {}
        """Segments per second, by instance and job; until one has made a range, that of the job's own worker
        counts."""
        self.on_offer: Callable[[], object] = lambda: None
        """Called when there is a job to help with that was not offered before."""

    def offer(self, owner: Token, offered: Division | None) -> None:
        """Take what the worker of a job lets others make; None for nothing."""
        if not self._enabled:
            return
        known = self._divided.get(owner.job)
        if offered is None or not offered.missing:
            self._divided.pop(owner.job, None)
        elif known is not None and (known.owner, known.offered.streams) == (owner, offered.streams):
            known.offered = offered
        else:
            self._divided[owner.job] = _Divided(owner, offered)
            self.on_offer()

    @property
    def is_any_offered(self) -> bool:
        """Whether a job is divided; it may have no free range."""
        return bool(self._divided)

    def assign(self, instance: str, worker: str) -> Range | None:
        """Assign the end of what is missing of a job to an idle worker; None if there is nothing to do."""
        self._forget_ended()
        for range_ in [each for each in self._ranges.values() if each.token.instance == instance]:
            del self._ranges[range_.token]  # it has not received the answer to its last claim
        for job, divided in self._divided.items():
            if instance in divided.unable or not self._is_running(divided.owner):
                continue
            if (found := self._cut(job, divided, instance)) is not None:
                now = self._clock.now_us()
                token = Token(job, divided.owner.epoch, instance)
                range_ = Range(token, worker, *found, divided.offered.streams, now, now + self._lease_us)
                self._ranges[token] = range_
                return range_
        return None

    def heartbeat(self, named: Iterable[Token]) -> list[Token]:
        """Renew the leases of ranges; returns those that are still wanted."""
        live = [token for token in named if self.is_live(token)]
        for token in live:
            self._ranges[token].until = self._clock.now_us() + self._lease_us
        return live

    def is_live(self, token: Token) -> bool:
        """Whether a range is assigned, and its job still encodes the same."""
        range_ = self._ranges.get(token)
        return range_ is not None and self._clock.now_us() < range_.until and self._is_wanted(range_)

    def progress(self, token: Token, done: int) -> None:
        """Record the finished segments of a live range."""
        range_ = self._ranges[token]
        range_.done = min(done, range_.end - range_.first)

    def end(self, token: Token, problem: str) -> None:
        """End a range; with a problem, that process gets none of this job again."""
        range_ = self._ranges.pop(token, None)
        divided = self._divided.get(token.job)
        if range_ is None or divided is None or divided.owner.epoch != token.epoch:
            return
        if problem:
            divided.unable.add(token.instance)
            return
        divided.made.append((range_.first, range_.end))
        took_s = max(1, self._clock.now_us() - range_.began) / MICROSECOND
        self._speeds[token.instance, token.job] = (range_.end - range_.first) / took_s

    def made(self, owner: Token) -> list[AssignedRange]:
        """The ranges that others have made of the job of this worker."""
        divided = self._divided.get(owner.job)
        if divided is None or divided.owner != owner:
            return []
        streams = dict(divided.offered.streams)
        return [{"first": first, "end": end, "streams": streams} for first, end in divided.made]

    def of_worker(self, name: str) -> Range | None:
        live = (each for token, each in self._ranges.items() if self.is_live(token))
        return next((each for each in live if each.worker == name), None)

    def forget_worker(self, name: str) -> None:
        """Forget the range of a worker whose process has ended."""
        self._ranges = {token: each for token, each in self._ranges.items() if each.worker != name}

    def view(self, job: int) -> DivisionView | None:
        """How a running job is divided; None if nobody else has worked on it."""
        divided = self._divided.get(job)
        ranges = [
            each.view for token, each in self._ranges.items() if token.job == job and self.is_live(token)
        ]
        if divided is None or not (ranges or divided.made):
            return None
        return {
            "renditions": sorted(divided.offered.streams),
            "missing": without(divided.offered.missing, divided.made),
            "ranges": sorted(ranges, key=lambda each: each["first"]),
        }

    def _is_running(self, owner: Token) -> bool:
        live = self._board.jobs.get(owner.job)
        return live is not None and live.token == owner and live.asked == Control.NONE.value

    def _is_wanted(self, range_: Range) -> bool:
        divided = self._divided.get(range_.token.job)
        return (
            divided is not None
            and divided.owner.epoch == range_.token.epoch
            and divided.offered.streams == range_.streams
            and self._is_running(divided.owner)
        )

    def _forget_ended(self) -> None:
        self._divided = {job: each for job, each in self._divided.items() if job in self._board.jobs}
        self._ranges = {token: each for token, each in self._ranges.items() if self.is_live(token)}
        self._speeds = {key: speed for key, speed in self._speeds.items() if key[1] in self._divided}

    def _cut(self, job: int, divided: _Divided, instance: str) -> tuple[int, int] | None:
        """Cut a range for a worker from what is missing, as (first, end)."""
        others = [each for each in self._ranges.values() if each.token.job == job]
        taken = [*divided.made, *((each.first, each.end) for each in others)]
        missing = divided.offered.missing
        free = without([(missing[0][0] + 1, missing[0][1]), *missing[1:]], taken)
        of_owner = (self._board.jobs[job].speed or 0.0) / divided.offered.segment_s
        speed = self._speeds.get((instance, job), of_owner)
        return cut(free, round(speed * _TARGET_S), 2 + len(others))


def cut(free: Collection[tuple[int, int]], wanted: int, workers: int) -> tuple[int, int] | None:
    """Cut a range of at most `wanted` segments from the end of what is free.

    It becomes shorter towards the end, so that all workers of a job finish at about the same time.
    """
    left = sum(end - first for first, end in free)
    if left < LEAST_SEGMENTS - 1:
        return None
    first, end = max(free)
    return max(first, end - max(1, min(wanted, left // workers))), end


def without(ranges: Iterable[tuple[int, int]], taken: Collection[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges without what is taken, in order."""
    left = [(first, end) for first, end in ranges if first < end]
    for begin, stop in taken:
        left = [
            part
            for first, end in left
            for part in ((first, min(end, begin)), (max(first, stop), end))
            if part[0] < part[1]
        ]
    return sorted(left)
