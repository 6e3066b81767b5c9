"""Stores the figures of ended attempts, and adds them up: throughput, speed, processor time, estimates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from sqlalchemy import Float, RowMapping, Select, and_, bindparam, cast, func, insert, select

from tqstudio.engine.host.clock import MICROSECOND
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.tables import attempt, const, event, job, statistic, video
from tqstudio.engine.store.dialects.expressions import indexed_by, json_value
from tqstudio.events import EventKind
from tqstudio.lifecycle import OPEN, JobStatus

_ROW = statistic.c
_ENDED = (
    select(
        *attempt.c["worker", "started_at", "last_progress_at", "cpu_s"],
        *job.c["batch", "predicted_s", "actual_s"],
        video.c.size,
        cast(json_value(video.c.facts, "duration_s"), Float).label("duration_s"),
    )
    .join_from(attempt, job)
    .join(video)
    .where(attempt.c.job_id == bindparam("number"), attempt.c.epoch == bindparam("run"))
)
_RECORD = insert(statistic)


def record(
    db: Connection,
    number: int,
    run: int,
    *,
    now: int,
    status: JobStatus,
    until_last_progress: bool = False,
    bytes_out: int = 0,
) -> None:
    """Stores the figures of an attempt that ends, after its time was added to its job.

    Args:
        number: its job.
        run: its epoch.
        status: the job's status from now on.
        until_last_progress: later time does not count, as its worker may have ended long ago.
        bytes_out: what it published.
    """
    row = db.execute(_ENDED, {"number": number, "run": run}).one()
    until = min(now, row.last_progress_at or 0) if until_last_progress else now
    done = status is JobStatus.DONE
    values: dict[str, Any] = {
        "at": now,
        "job_id": number,
        "epoch": run,
        "status": status,
        "worker": row.worker,
        "batch": row.batch,
        "wall_s": max(0, until - row.started_at) / MICROSECOND,
        "cpu_s": row.cpu_s or 0.0,
        "media_s": (row.duration_s or 0.0) if done else 0.0,
        "bytes_in": row.size if done else 0,
        "bytes_out": bytes_out,
        "eta_error_percent": None,
    }
    if done and row.predicted_s is not None and row.actual_s:
        values["eta_error_percent"] = round(abs(row.predicted_s - row.actual_s) / row.actual_s * 100)
    db.execute(_RECORD, values)


@dataclass(frozen=True, slots=True)
class Figures:
    """The sums of some attempts; times in seconds."""

    done: int = 0
    """Jobs."""
    failed: int = 0
    """Jobs that failed for good."""
    attempts: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    media_s: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0
    off: Counter[int] = field(default_factory=Counter)
    """Errors of estimates in percent, with the number of jobs."""

    @property
    def speed(self) -> float | None:
        """Seconds of finished media per second of work, including what failed; None without work."""
        return self.media_s / self.wall_s if self.wall_s else None

    def off_by(self, share: float) -> float | None:
        """Returns the error that a share of the estimates did not exceed, as a share of the actual time."""
        rank = share * self.off.total()
        for percent in sorted(self.off):
            rank -= self.off[percent]
            if rank <= 0:
                return percent / 100
        return None


def total(parts: Iterable[Figures]) -> Figures:
    """Adds figures up."""
    listed = list(parts)
    names = [each.name for each in fields(Figures) if each.name != "off"]
    sums = {name: sum(getattr(part, name) for part in listed) for name in names}
    return Figures(**sums, off=sum((part.off for part in listed), Counter()))


Group = Literal["worker", "batch"]
_SPAN = and_(_ROW.at >= bindparam("since"), _ROW.at < bindparam("until"))
_SUMMED = ("wall_s", "cpu_s", "media_s", "bytes_in", "bytes_out")
_SUMS = (
    func.count().filter(_ROW.status == const(JobStatus.DONE)).label("done"),
    func.count().filter(_ROW.status == const(JobStatus.FAILED)).label("failed"),
    func.count().label("attempts"),
    *(cast(func.sum(_ROW[name]), _ROW[name].type).label(name) for name in _SUMMED),
)

_WHOLE = select(_ROW.eta_error_percent, *_SUMS).where(_SPAN).group_by(_ROW.eta_error_percent)
"""A row for each error of estimates, since their median is not a sum; as `_BY` for each group and error."""


def _by(group: Group) -> Select[*tuple[Any, ...]]:
    key = func.coalesce(_ROW[group], "").label("key")
    last = func.max(_ROW.at).label("last")
    sums = (
        select(key, last, _ROW.eta_error_percent, *_SUMS).where(_SPAN).group_by(key, _ROW.eta_error_percent)
    )
    part = sums.cte("part")
    newest = select(part.c.key).group_by(part.c.key).order_by(func.max(part.c.last).desc(), part.c.key)
    limited = newest.limit(bindparam("limit"))
    return select(part).where(part.c.key.in_(limited)).order_by(part.c.last.desc(), part.c.key)


_BY: Mapping[Group, Select[*tuple[Any, ...]]] = {"worker": _by("worker"), "batch": _by("batch")}


_FIRST = (
    select(job.c.batch, func.count().label("jobs"), func.min(job.c.id).label("first"))
    .with_hint(job, indexed_by("ix_job_batch"), "sqlite")
    .where(job.c.batch.in_(bindparam("batches", expanding=True)))
    .group_by(job.c.batch)
    .subquery()
)
_BATCHES = (
    select(_FIRST.c.batch, _FIRST.c.jobs, job.c.created_at, video.c.name)
    .join_from(_FIRST, job, job.c.id == _FIRST.c.first)
    .join(video)
)


@dataclass(frozen=True, slots=True)
class BatchLabel:
    """What people know a batch by."""

    jobs: int
    first: str
    """The name of the video of its first job."""
    created_at: int
    """When that was added, in µs since 1970."""


def batches(db: Connection, names: Iterable[str]) -> dict[str, BatchLabel]:
    """Returns what describes these batches, except those whose jobs are gone."""
    found = db.execute(_BATCHES, {"batches": list(names)})
    return {row.batch: BatchLabel(row.jobs, row.name, row.created_at) for row in found}


def between(db: Connection, since: int, until: int) -> Figures:
    """Adds up the attempts that ended from one time until before another."""
    rows = db.execute(_WHOLE, {"since": since, "until": until}).mappings()
    return total(_figures(row) for row in rows)


def grouped(db: Connection, by: Group, since: int, until: int, *, limit: int) -> dict[str, Figures]:
    """Adds up the same by worker or batch, latest first; at most `limit`. Jobs without a batch are “”."""
    found: dict[str, list[Figures]] = {}
    for row in db.execute(_BY[by], {"since": since, "until": until, "limit": limit}).mappings():
        found.setdefault(row["key"], []).append(_figures(row))
    return {key: total(parts) for key, parts in found.items()}


_OPEN = [const(status) for status in OPEN]
_WAS, _IS = event.c.source.in_(_OPEN), event.c.target.in_(_OPEN)
_CAME = _IS & (event.c.source.is_(None) | ~_WAS | (event.c.trigger == const(EventKind.UNDELETED)))
_WENT = _WAS & event.c.target.is_not(None) & (~_IS | (event.c.trigger == const(EventKind.DELETED)))
_CHANGE = select(func.count().filter(_CAME) - func.count().filter(_WENT)).where(
    event.c.at >= bindparam("since"), event.c.at < bindparam("until")
)


def queue_change(db: Connection, since: int, until: int) -> int:
    """Counts the jobs that came into the queue between two times, less those that left it."""
    return int(db.execute(_CHANGE, {"since": since, "until": until}).scalar_one())


def _figures(row: RowMapping) -> Figures:
    percent = row["eta_error_percent"]
    sums = {label: row[label] for label in ("done", "failed", "attempts", *_SUMMED)}
    return Figures(**sums, off=Counter() if percent is None else Counter({percent: row["done"]}))
