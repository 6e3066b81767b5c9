"""Divides running jobs among idle workers, by ranges of segments.

All of it is in memory: what is finished is in the segment stores, where the worker that has a job finds it.
A lost range costs time only: the worker that has the job encodes those segments when it reaches them. So
nothing is lost with a worker or with the supervisor, and the range of a slow worker is overtaken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tqstudio.engine.host.clock import MICROSECOND
from tqstudio.engine.live.running_jobs import RunningJobs
from tqstudio.engine.media.plan.file_names import FRAGMENTS_NAME, INIT_NAME, segment_name
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.lifecycle import Control
from tqstudio.protocol.answers import DivisionView, RangeView
from tqstudio.protocol.requests import Division, RangeAbility
from tqstudio.protocol.worker_answers import AssignedRange

MIN_SEGMENTS = 4
"""A job with fewer missing segments is not divided: a range costs a start of ffmpeg."""
_UNABLE_US = 60 * MICROSECOND
"""How long a worker that could not make a range gets none of that job."""
_TARGET_S = 30.0
"""How long a range should take: the next job waits that long for a worker that could take it."""


@dataclass(slots=True)
class Range:
    """A range of segments that a worker makes of a job that another one has."""

    token: LeaseToken
    """The job and its epoch, with the instance of the worker that makes the range."""
    worker: str
    kind: str
    """Kind of the worker: `cpu` or `gpu`."""
    first: int
    end: int
    streams: Mapping[str, str]
    began: int
    """µs of the clock of the leases, as `until`."""
    until: int
    """When its lease expires."""
    done: int = 0
    """Finished segments."""
    blocked_s: float = 0.0
    """Seconds for which the worker's main thread was blocked."""

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

    owner: LeaseToken
    offered: Division
    made: list[tuple[int, int]] = field(default_factory=list)
    """Ranges that were made; the worker of the job may not have noticed yet."""
    unable: dict[str, int] = field(default_factory=dict)
    """Instances of workers that could not make a range of it → until when they get none."""


class Ranges:
    """The ranges of running jobs; used on the event loop only.

    Args:
        enabled: whether jobs are divided at all.
        lease_us: how long a range stays assigned without a heartbeat.
        on_offer: called when there is a job to help with that was not offered before.
    """

    def __init__(
        self,
        running_jobs: RunningJobs,
        *,
        enabled: bool,
        lease_us: int,
        on_offer: Callable[[], object] = lambda: None,
    ) -> None:
        self._running_jobs, self._enabled, self._lease_us = running_jobs, enabled, lease_us
        self._clock = running_jobs.leases.clock
        self._divided: dict[int, _Divided] = {}
        self._ranges: dict[LeaseToken, Range] = {}
        self._received: dict[LeaseToken, set[str]] = {}
        """Paths in the store of each `init.mp4` that has arrived, by lease of a worker on another machine."""
        self._speeds: dict[tuple[str, int], float] = {}
        """Segments per second, by instance and job; until one has made a range, that of the job's own worker
        counts."""
        self._on_offer = on_offer

    def offer(self, owner: LeaseToken, offered: Division | None) -> None:
        """Take what the worker of a job lets others make; None for nothing."""
        if not self._enabled:
            return
        known = self._divided.get(owner.job)
        if offered is None or not offered.missing or not self._are_here(owner, offered.streams):
            self._divided.pop(owner.job, None)
        elif known is not None and (known.owner, known.offered.streams) == (owner, offered.streams):
            known.offered = offered
        else:
            self._divided[owner.job] = _Divided(owner, offered)
            self._on_offer()

    def begin_to_receive(self, owner: LeaseToken, paths: Iterable[str]) -> None:
        """Note what is here of a job whose worker, on another machine, begins now.

        What others make is compared with `init.mp4`: until that is here, there is nothing to help with. Of a
        worker that began before a restart of the supervisor, all are taken for here.
        """
        self._received[owner] = set()
        self.note_received(owner, paths)

    def note_received(self, owner: LeaseToken, paths: Iterable[str]) -> None:
        """Note files of such a job that have arrived."""
        if owner in self._received:
            self._received[owner].update(path for path in paths if path.endswith(f"/{INIT_NAME}"))

    def _are_here(self, owner: LeaseToken, streams: Mapping[str, str]) -> bool:
        received = self._received.get(owner)
        return received is None or {f"{name}/{key}/{INIT_NAME}" for name, key in streams.items()} <= received

    @property
    def is_any_offered(self) -> bool:
        """Whether a job is divided; it may have no free range."""
        return bool(self._divided)

    def assign(self, instance: str, worker: str, kind: str, ability: RangeAbility) -> Range | None:
        """Assign the end of what is missing of a job to an idle worker; None if there is nothing to do."""
        self._forget_ended()
        now = self._clock.now_us()
        for range_ in [each for each in self._ranges.values() if each.token.instance == instance]:
            del self._ranges[range_.token]  # it has not received the answer to its last claim
        for job, divided in self._divided.items():
            if divided.unable.get(instance, 0) > now or not self._is_running(divided.owner):
                continue
            if divided.offered.build != ability.build or divided.offered.encoder not in ability.encoders:
                continue
            if (found := self._cut(job, divided, instance)) is not None:
                token = LeaseToken(job, divided.owner.epoch, instance)
                until = now + self._lease_us
                range_ = Range(token, worker, kind, *found, divided.offered.streams, now, until)
                self._ranges[token] = range_
                return range_
        return None

    def heartbeat(self, named: Iterable[LeaseToken]) -> list[LeaseToken]:
        """Renew the leases of ranges; returns those that are still wanted."""
        live = [token for token in named if self.is_live(token)]
        for token in live:
            self._ranges[token].until = self._clock.now_us() + self._lease_us
        return live

    def is_live(self, token: LeaseToken) -> bool:
        """Whether a range is assigned, and its job still encodes the same."""
        range_ = self._ranges.get(token)
        return range_ is not None and self._clock.now_us() < range_.until and self._is_wanted(range_)

    def progress(self, token: LeaseToken, done: int, blocked_s: float) -> None:
        """Record the finished segments of a range, and for how long its worker was blocked."""
        if (range_ := self._ranges.get(token)) is not None:
            range_.done, range_.blocked_s = min(done, range_.end - range_.first), blocked_s

    def blocked(self, limit_s: float, ended_s: float) -> list[str]:
        """Names of the workers that were blocked for `limit_s`, or for `ended_s` since their range is not
        wanted any more."""
        return [
            each.worker
            for token, each in self._ranges.items()
            if each.blocked_s >= (limit_s if self.is_live(token) else ended_s)
        ]

    def helping_gpus(self) -> int:
        """Number of GPU workers that make ranges: they are soon free for jobs."""
        return sum(each.kind == "gpu" and self.is_live(token) for token, each in self._ranges.items())

    def end(self, token: LeaseToken, problem: str) -> None:
        """End a range; with a problem, that process gets none of this job for a while."""
        range_ = self._ranges.pop(token, None)
        divided = self._divided.get(token.job)
        if range_ is None or divided is None or not _is_of(range_, divided):
            return
        now = self._clock.now_us()
        if problem:
            divided.unable[token.instance] = now + _UNABLE_US
            return
        # Ranges come from the end, so that they mostly adjoin.
        divided.made = joined([*divided.made, (range_.first, range_.end)])
        took_s = max(1, now - range_.began) / MICROSECOND
        self._speeds[token.instance, token.job] = (range_.end - range_.first) / took_s

    def includes(self, token: LeaseToken, names: Sequence[str]) -> bool:
        """Whether a path below the store, split into names, is of a range: segment, fragment, `init.mp4`."""
        range_ = self._ranges[token]
        if len(names) < 3 or range_.streams.get(names[0]) != names[1]:
            return False
        if len(names) == 4:
            return names[2] == FRAGMENTS_NAME
        numbers = range(range_.first, range_.end)
        return names[2] == INIT_NAME or names[2] in map(segment_name, numbers)

    def of_worker(self, name: str) -> Range | None:
        live = (each for token, each in self._ranges.items() if self.is_live(token))
        return next((each for each in live if each.worker == name), None)

    def forget_worker(self, name: str) -> None:
        """Forget the range of a worker whose process has ended."""
        self._ranges = {token: each for token, each in self._ranges.items() if each.worker != name}

    def view(self, job: int) -> DivisionView | None:
        """How a running job is divided; None if no other worker has had a part of it."""
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

    def _is_running(self, owner: LeaseToken) -> bool:
        return self._has(owner) and self._running_jobs.jobs[owner.job].asked == Control.NONE.value

    def _has(self, owner: LeaseToken) -> bool:
        live = self._running_jobs.jobs.get(owner.job)
        return live is not None and live.token == owner

    def _is_wanted(self, range_: Range) -> bool:
        divided = self._divided.get(range_.token.job)
        return divided is not None and _is_of(range_, divided) and self._is_running(divided.owner)

    def _forget_ended(self) -> None:
        self._divided = {job: each for job, each in self._divided.items() if job in self._running_jobs.jobs}
        # One that is blocked has not noticed that its range has ended.
        now = self._clock.now_us()
        self._ranges = {
            token: each
            for token, each in self._ranges.items()
            if self.is_live(token) or (each.blocked_s and now < each.until)
        }
        self._received = {owner: each for owner, each in self._received.items() if self._has(owner)}
        self._speeds = {key: speed for key, speed in self._speeds.items() if key[1] in self._divided}

    def _cut(self, job: int, divided: _Divided, instance: str) -> tuple[int, int] | None:
        """Cut a range for a worker from what is missing, as (first, end)."""
        others = [each for each in self._ranges.values() if each.token.job == job]
        taken = [*divided.made, *((each.first, each.end) for each in others)]
        missing = divided.offered.missing
        free = without([(missing[0][0] + 1, missing[0][1]), *missing[1:]], taken)
        of_owner = (self._running_jobs.jobs[job].speed or 0.0) / divided.offered.segment_s
        speed = self._speeds.get((instance, job), of_owner)
        return cut(free, round(speed * _TARGET_S), 2 + len(others))


def _is_of(range_: Range, divided: _Divided) -> bool:
    """Whether a range is of what is being divided."""
    return divided.owner.epoch == range_.token.epoch and divided.offered.streams == range_.streams


def cut(free: Collection[tuple[int, int]], wanted: int, workers: int) -> tuple[int, int] | None:
    """Cut a range of at most `wanted` segments from the end of what is free.

    It becomes shorter towards the end, so that all workers of a job finish at about the same time.
    """
    left = sum(end - first for first, end in free)
    if left < MIN_SEGMENTS - 1:
        return None
    first, end = max(free)
    return max(first, end - max(1, min(wanted, left // workers))), end


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges in order, adjoining ones as one."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return found


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
