"""The leader at work: each request of each worker for some minutes, served one after the other.

A worker has two threads, each with at most one open request, as the real one: reports and heartbeats, and the
files of its job. So a leader that is too slow makes the fleet slower, and not its queue endless.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from random import Random

from .constants import US, Costs, Fleet

_WARM_S, _MEASURED_S = 40, 60
_LOOK_S = 0.5
"""A worker looks for finished segments so often."""
_AHEAD_S = 30.0
"""Seconds of video that are encoded and not sent when the encode waits for them in the model.

A real one waits at its end, for as long: the leader's work of a job is the same.
"""
_PROBES_PER_S = 200
_FULL = 0.97
"""Share from which on a server holds encodes up; below, fewer segments come from a short measurement."""
_REPORT, _SEND, _ARRIVED, _PROBE = range(4)


@dataclass(frozen=True, slots=True)
class Load:
    """What the requests of a fleet come to."""

    workers: int
    processor: float
    """Share of the time for which the leader's processor is busy; the same for its line and its disk."""
    line: float
    disk: float
    slower: float
    """How many times as long encodes take, because their segments wait."""
    report_s: float
    """Time between two reports of a worker."""
    waits_us: tuple[int, ...]
    """How long claims would have waited, in order of length."""

    def wait_ms(self, percent: float) -> float:
        return self.waits_us[min(len(self.waits_us) - 1, int(len(self.waits_us) * percent / 100))] / 1000


@dataclass(slots=True)
class _Server:
    """Serves requests one after the other, in the order in which they come."""

    free_at: int = 0
    busy_us: int = 0
    """Since the measurement began."""

    def serve(self, now: int, work_us: int, *, counts: bool) -> int:
        """Returns when a request that comes now is done."""
        self.free_at = max(self.free_at, now) + work_us
        if counts:
            self.busy_us += work_us
        return self.free_at


class _Files:
    """The work of a request for a segment, with its share of all else that a second of video costs; in µs."""

    def __init__(self, costs: Costs, fleet: Fleet, job_s: float) -> None:
        mb = fleet.ladder_mb_per_s * costs.sent_times / costs.stores_per_s
        source_mb = fleet.source_mb_per_s / costs.stores_per_s
        others_ms = (
            costs.smalls_per_s * costs.small_ms
            + fleet.source_mb_per_s * costs.source_ms_per_mb
            + costs.check_ms_per_s
            + costs.job_ms / job_s
        )
        work_ms = costs.store_ms + costs.store_ms_per_mb * mb + others_ms / costs.stores_per_s
        self.processor_us = round(work_ms * 1000)
        self.line_us = round(max(mb, source_mb) / fleet.line_mb_per_s * US)
        self.disk_us = round(mb / fleet.disk_mb_per_s * US)


class _Workers:
    """What the workers have encoded and not sent, and when they send heartbeats."""

    def __init__(self, costs: Costs, fleet: Fleet, random: Random) -> None:
        self._per_us = fleet.speed * costs.stores_per_s / US
        self._most = max(2.0, _AHEAD_S * costs.stores_per_s)
        self._made = [random.random() for _ in range(fleet.workers)]
        self._looked = [0] * fleet.workers
        self._beat_us = round(costs.heartbeat_s * US)
        self._beats = [random.randrange(self._beat_us) for _ in range(fleet.workers)]

    def has_segment(self, worker: int, now: int) -> bool:
        """Whether a segment is finished, which is sent then."""
        made = self._made[worker] + (now - self._looked[worker]) * self._per_us
        self._looked[worker] = now
        sends = made >= 1
        self._made[worker] = min(made, self._most) - sends
        return sends

    def is_beat_due(self, worker: int, now: int) -> bool:
        """Whether a heartbeat is due, which is sent then."""
        is_due = now >= self._beats[worker]
        if is_due:
            self._beats[worker] = now + self._beat_us
        return is_due


def load(costs: Costs, fleet: Fleet, job_s: float, *, seconds: int = _MEASURED_S) -> Load:
    """Serve all workers, each of which encodes, for some seconds after a while.

    Args:
        job_s: mean length of a video.
    """
    random = Random(fleet.seed)
    processor, line, disk = _Server(), _Server(), _Server()
    files, workers = _Files(costs, fleet, job_s), _Workers(costs, fleet, random)
    report_us, beat_us = round(costs.progress_ms * 1000), round(costs.heartbeat_ms * 1000)
    claim_us, delay_us = round(costs.claim_ms * 1000), round(fleet.delay_ms * 1000)
    pause_us, look_us = round(costs.progress_s * US), round(_LOOK_S * US)
    begins, ends = _WARM_S * US, (_WARM_S + seconds) * US
    events = [(random.randrange(US), kind, w) for kind in (_REPORT, _SEND) for w in range(fleet.workers)]
    events.append((begins, _PROBE, 0))
    heapq.heapify(events)
    waits, sent, reports = [], 0, 0
    while events[0][0] < ends:
        now, kind, worker = events[0]
        counts = now >= begins
        if kind == _REPORT:
            work = report_us + beat_us * workers.is_beat_due(worker, now)
            next_at = processor.serve(now + delay_us, work, counts=counts) + delay_us + pause_us
            reports += counts
        elif kind == _SEND:
            if workers.has_segment(worker, now):
                next_at, kind = line.serve(now, files.line_us, counts=counts) + delay_us, _ARRIVED
            else:
                next_at = now + look_us
        elif kind == _ARRIVED:
            done_at = processor.serve(now, files.processor_us, counts=counts)
            next_at, kind = disk.serve(done_at, files.disk_us, counts=counts) + delay_us, _SEND
            sent += counts
        else:
            waits.append(max(0, processor.free_at - now) + claim_us + 2 * delay_us)
            next_at = now + round(random.expovariate(_PROBES_PER_S) * US)
        heapq.heapreplace(events, (next_at, kind, worker))
    shares = [each.busy_us / (seconds * US) for each in (processor, line, disk)]
    wanted = fleet.workers * fleet.speed * costs.stores_per_s * seconds
    return Load(
        workers=fleet.workers,
        processor=shares[0],
        line=shares[1],
        disk=shares[2],
        slower=max(1.0, wanted / max(1, sent)) if max(shares) > _FULL else 1.0,
        report_s=fleet.workers * seconds / max(1, reports),
        waits_us=tuple(sorted(waits)),
    )
