"""Writes metrics in the text format of Prometheus: what was counted, and what is the case now.

Labels have few values, and none is a name of a file or a path.
"""

from __future__ import annotations

import math
import os
import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from tqstudio import __version__
from tqstudio.engine.assembly.services import Services
from tqstudio.engine.live.metrics import Histogram, Metrics
from tqstudio.engine.monitoring.disks import Disk
from tqstudio.engine.monitoring.stored import Stored
from tqstudio.engine.monitoring.workers import statuses
from tqstudio.lifecycle import GateKind, WorkerStatus
from tqstudio.paths import display

MAX_DISKS = 20
"""Further file systems are not shown."""
_RENDITION = "rendition"


def write(
    services: Services,
    stored: Stored | None,
    disks: Sequence[Disk],
    *,
    uptime_s: float,
    database_answers: bool,
) -> bytes:
    """Writes all metrics of a supervisor.

    Args:
        stored: what was last read of the database; None if nothing was.
    """
    families = [
        InfoMetricFamily("tqstudio_build", "Versions", _versions(services)),
        _gauge("uptime_seconds", "Time since the start", uptime_s),
        _gauge("database_up", "Whether the database answers", database_answers),
        _gauge("concurrent_jobs", "Running jobs", len(services.running_jobs.jobs)),
        *(_of_database(services, stored) if stored is not None else ()),
        *_of_disks(services, disks),
        *_counted(services.metrics),
        *ProcessCollector(registry=None).collect(),
    ]
    return generate_latest(_Families(families))


@dataclass(frozen=True, slots=True)
class _Families:
    """Metrics as a collector."""

    families: Sequence[Metric]

    def collect(self) -> Sequence[Metric]:
        return self.families


def _versions(services: Services) -> dict[str, str]:
    return {"version": __version__, "python": platform.python_version(), "ffmpeg": services.ffmpeg.version}


# What is the case now


def _of_database(services: Services, stored: Stored) -> Iterator[Metric]:
    yield _gauges("jobs", "Jobs, without deleted ones", "status", stored.jobs)
    found = Counter(statuses(services, stored.workers))
    yield _gauges("workers", "Workers", "status", {status.value: found[status] for status in WorkerStatus})
    closed = {row.kind for row in stored.gates}
    if services.db.refusal is not None:
        closed.add(GateKind.DISK)
    kinds = {kind.value: kind in closed for kind in GateKind}
    yield _gauges("gate_closed", "Whether a gate keeps jobs from starting", "kind", kinds)
    about = "Copies of ladders for buckets: not tried yet, and those whose last try failed"
    yield _gauges("deliveries", about, "state", stored.deliveries)
    yield _gauge("standbys", "Supervisors that stand by", stored.standbys)
    about = "How often another supervisor has begun to lead this queue, ever"
    yield _counter("leader_changes", about, stored.leader_changes)


def _of_disks(services: Services, disks: Sequence[Disk]) -> Iterator[Metric]:
    shown = dict(zip(_names(disks), disks, strict=False))
    free = {name: disk.free for name, disk in shown.items()}
    yield _gauges("disk_free_bytes", "Free space of the outputs' file systems", "output", free)
    total = {name: disk.total for name, disk in shown.items()}
    yield _gauges("disk_total_bytes", "Size of the outputs' file systems", "output", total)
    reserve = services.settings.disk_reserve_bytes
    yield _gauge("disk_reserve_bytes", "Space that jobs leave free on each of them", reserve)


def _names(disks: Sequence[Disk]) -> list[str]:
    """Returns a label for each disk: the name of its output's folder, numbered if it repeats."""
    names: list[str] = []
    for disk in disks[:MAX_DISKS]:
        name = display(os.fsencode(disk.path.name))
        numbered = (f"{name}-{number}" for number in range(2, MAX_DISKS + 2))
        names.append(next(each for each in (name, *numbered) if each not in names))
    return names


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(f"tqstudio_{name}", about, value=float(value))


def _gauges(name: str, about: str, label: str, values: Mapping[str, float]) -> Metric:
    """A gauge with one value for each value of a label."""
    family = GaugeMetricFamily(f"tqstudio_{name}", about, labels=[label])
    for key, value in values.items():
        family.add_metric([key], float(value))
    return family


# What was counted


def _counted(of: Metrics) -> Iterator[Metric]:
    about = "Jobs that were requeued because their worker or supervisor ended"
    yield _counters("recovered_jobs", about, "reason", of.recovered)
    yield _counter("retries_exhausted", "Jobs that failed after retries or crashes", of.exhausted)
    yield _counters("failures", "Attempts that ended with an error", "code", of.failures)
    about = "Attempts that ended with an error, and whose job was queued again"
    yield _counters("retry_attempts", about, "code", of.retries)
    yield _counter("heartbeats", "Heartbeats of workers", of.heartbeats)
    about = "Claims refused because of a newer process of the worker or an expired lease"
    yield _counter("acquire_conflicts", about, of.claim_conflicts)
    about = "Time in which a quality was encoded, in the attempt that completed it"
    yield _histogram("encode_seconds", about, of.encode_s, _RENDITION)
    about = "Speed at which it was encoded, as a multiple of real time"
    yield _histogram("encode_speed", about, of.speed, _RENDITION)
    yield _histogram("queue_wait_seconds", "Time from claimable to claimed", {"": of.wait_s})
    yield _histogram("publish_seconds", "Time from the worker's result to its ladder", {"": of.publish_s})


def _counter(name: str, about: str, value: float) -> Metric:
    return CounterMetricFamily(f"tqstudio_{name}", about, value=value)


def _counters(name: str, about: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(f"tqstudio_{name}", about, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _histogram(name: str, about: str, values: Mapping[str, Histogram], *labels: str) -> Metric:
    """A histogram for each value of its label, or a single one without label."""
    family = HistogramMetricFamily(f"tqstudio_{name}", about, labels=labels)
    for key, histogram in values.items():
        buckets = [("+Inf" if math.isinf(to) else f"{to:.15g}", n) for to, n in histogram.cumulative()]
        family.add_metric([key] if labels else [], buckets, histogram.sum)
    return family
