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
_REPORT, _FILES, _PROBE = range(3)


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
class _Servers:
    """When each has finished what it has, in µs."""

    processor: int = 0
    line: int = 0
    disk: int = 0


@dataclass(slots=True)
class _Busy:
    """µs of work since the measurement began."""

    processor: int = 0
    line: int = 0
    disk: int = 0


def load(costs: Costs, fleet: Fleet, job_s: float, *, seconds: int = _MEASURED_S) -> Load:
    """Serve all workers, each of which encodes, for some seconds after a while.

    Args:
        job_s: mean length of a video.
    """
    random = Random(fleet.seed)
    servers, busy = _Servers(), _Busy()
    speed = fleet.speed / US
    store_mb = fleet.ladder_mb_per_s * costs.sent_times / costs.stores_per_s
    # One request stands for a segment with its share of all else that a second of video costs.
    per_video_s_ms = (
        costs.stores_per_s * (costs.store_ms + costs.store_ms_per_mb * store_mb)
        + costs.smalls_per_s * costs.small_ms
        + fleet.source_mb_per_s * costs.source_ms_per_mb
        + costs.check_ms_per_s
        + costs.job_ms / job_s
    )
    files_us = round(per_video_s_ms * 1000 / costs.stores_per_s)
    line_us = round(max(store_mb, fleet.source_mb_per_s / costs.stores_per_s) / fleet.line_mb_per_s * US)
    disk_us = round(store_mb / fleet.disk_mb_per_s * US)
    report_us, beat_us = round(costs.progress_ms * 1000), round(costs.heartbeat_ms * 1000)
    claim_us, delay_us = round(costs.claim_ms * 1000), round(fleet.delay_ms * 1000)
    begins, ends = _WARM_S * US, (_WARM_S + seconds) * US
    made = [random.random() * costs.stores_per_s for _ in range(fleet.workers)]
    looked = [0] * fleet.workers
    beats = [random.randrange(round(costs.heartbeat_s * US)) for _ in range(fleet.workers)]
    ahead = max(2.0, _AHEAD_S * costs.stores_per_s)
    events = [(random.randrange(US), kind, w) for kind in (_REPORT, _FILES) for w in range(fleet.workers)]
    events.append((begins, _PROBE, 0))
    heapq.heapify(events)
    waits, sent, reports = [], 0, 0
    while True:
        now, kind, worker = events[0]
        if now >= ends:
            break
        counts = now >= begins
        if kind == _PROBE:
            waits.append(max(0, servers.processor - now) + claim_us + 2 * delay_us)
            heapq.heapreplace(events, (now + round(random.expovariate(_PROBES_PER_S) * US), _PROBE, 0))
            continue
        if kind == _REPORT:
            work = report_us
            if now >= beats[worker]:
                work += beat_us
                beats[worker] = now + round(costs.heartbeat_s * US)
            answered = servers.processor = max(servers.processor, now + delay_us) + work
            next_at = answered + delay_us + round(costs.progress_s * US)
            if counts:
                busy.processor += work
                reports += 1
        else:
            made[worker] = min(made[worker] + (now - looked[worker]) * speed * costs.stores_per_s, ahead)
            looked[worker] = now
            if made[worker] < 1:
                heapq.heapreplace(events, (now + round(_LOOK_S * US), _FILES, worker))
                continue
            made[worker] -= 1
            servers.line = max(servers.line, now) + line_us
            servers.processor = max(servers.processor, servers.line + delay_us) + files_us
            answered = servers.disk = max(servers.disk, servers.processor) + disk_us
            next_at = answered + delay_us
            if counts:
                busy.processor += files_us
                busy.line += line_us
                busy.disk += disk_us
                sent += 1
        heapq.heapreplace(events, (next_at, kind, worker))
    wanted = fleet.workers * fleet.speed * costs.stores_per_s * seconds
    shares = [each / (seconds * US) for each in (busy.processor, busy.line, busy.disk)]
    return Load(
        workers=fleet.workers,
        processor=shares[0],
        line=shares[1],
        disk=shares[2],
        slower=max(1.0, wanted / max(1, sent)) if max(shares) > _FULL else 1.0,
        report_s=fleet.workers * seconds / max(1, reports),
        waits_us=tuple(sorted(waits)),
    )
