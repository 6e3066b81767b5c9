"""Stores the encode speeds measured on this machine, and predicted and actual times of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Update, bindparam, func, literal, select, update

from tqstudio.engine.store.db import tables
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import Rows
from tqstudio.engine.store.db.tables import const
from tqstudio.engine.store.dialects.expressions import greatest, indexed_by, least, upsert
from tqstudio.lifecycle import JobStatus

LAST_JOBS = 50
"""Number of finished jobs over which the error of the estimates is computed."""


@dataclass(frozen=True, slots=True)
class Speed:
    """A measured cost. `value` is seconds per megapixel, or seconds for what is done once per job.

    `work_s` is the amount of work it was measured on: its weight against the next measurement.
    """

    key: str
    value: float
    samples: int
    work_s: float


def load(db: Connection) -> list[Speed]:
    rows = db.execute(select(*tables.speed.c["key", "value", "samples", "work_s"]))
    return [Speed(*row) for row in rows]


def save(db: Connection, speeds: Iterable[Speed], *, now: int) -> None:
    for speed in speeds:
        values = {**asdict(speed), "at": now}
        new = upsert(tables.speed).values(values)
        db.execute(new.on_conflict_do_update(index_elements=["key"], set_=values))


@dataclass(frozen=True, slots=True)
class PredictionOutcome:
    """Predicted and actual time of a finished job, in seconds."""

    predicted_s: float | None
    """Prediction at the start of its first run; None without one."""
    actual_s: float
    """Time of all runs together."""
    run_s: float
    """Time of the last run."""


def set_prediction(db: Connection, job: int, seconds: float) -> None:
    """Stores the prediction of a whole job; none is stored if an earlier run has done part of it."""
    row = tables.job.c
    unstarted = (row.id == job, row.predicted_s.is_(None), row.actual_s.is_(None))
    db.execute(update(tables.job).where(*unstarted).values(predicted_s=seconds))


def forget_prediction(db: Connection, job: int) -> None:
    """Removes the prediction of a job that several workers encode: it is not one of their time together."""
    db.execute(update(tables.job).where(tables.job.c.id == job).values(predicted_s=None))


_STARTED = select(tables.attempt.c.started_at).where(
    tables.attempt.c.job_id == bindparam("number"), tables.attempt.c.epoch == bindparam("run")
)


def _add_work(until: ColumnElement[int]) -> Update:
    run_s = greatest(literal(0), until - _STARTED.scalar_subquery()) / 1e6
    total_s = func.coalesce(tables.job.c.actual_s, 0) + run_s
    return update(tables.job).where(tables.job.c.id == bindparam("number")).values(actual_s=total_s)


_ADD_WORK = _add_work(bindparam("now", type_=BigInteger))
_ADD_WORK_UNTIL_PROGRESS = _add_work(
    least(bindparam("now", type_=BigInteger), func.coalesce(tables.job.c.last_progress_at, 0))
)


def add_work(db: Connection, job: int, epoch: int, *, now: int, until_last_progress: bool = False) -> None:
    """Adds the time of a run before its end is stored; with `until_last_progress`, only to that."""
    db.execute(
        _ADD_WORK_UNTIL_PROGRESS if until_last_progress else _ADD_WORK,
        {"number": job, "run": epoch, "now": now},
    )


def outcome(db: Connection, job: int, epoch: int) -> PredictionOutcome | None:
    """Returns predicted and actual time; None unless this run has ended."""
    run = tables.attempt.c
    times = select(*tables.job.c["predicted_s", "actual_s"], (run.ended_at - run.started_at) / 1e6)
    ended = (run.job_id == job, run.epoch == epoch, run.ended_at.is_not(None))
    row = db.execute(times.join_from(tables.job, tables.attempt).where(*ended)).first()
    return None if row is None else PredictionOutcome(*row)


LAST = (
    select(tables.job.c.predicted_s, tables.job.c.actual_s)
    # An index of their own: of a million finished jobs, perhaps none has a prediction.
    .with_hint(tables.job, indexed_by("ix_job_predicted"), "sqlite")
    .where(
        tables.job.c.status == const(JobStatus.DONE),
        tables.job.c.deleted_at.is_(None),
        tables.job.c.predicted_s.is_not(None),
        tables.job.c.actual_s > 0,
    )
    .order_by(tables.job.c.completed_at.desc(), tables.job.c.id.desc())
    .limit(bindparam("limit"))
)


def last_outcomes(db: Connection) -> list[tuple[float, float]]:
    """Returns predicted and actual seconds of the last finished jobs, newest first."""
    return [(predicted, actual) for predicted, actual in db.execute(LAST, {"limit": LAST_JOBS})]


@dataclass(frozen=True, slots=True)
class JobOutline:
    """The values of a job that an estimate uses."""

    facts: Mapping[str, Any] | None
    profile_json: str
    requested: tuple[str, ...] | None


_OUTLINES = Rows(JobOutline, tables.job, tables.video)
_OUTLINE = select(*_OUTLINES.columns).join_from(tables.job, tables.video)
_WAITING = (
    _OUTLINE.with_hint(tables.job, indexed_by("ix_job_waiting"), "sqlite")
    .where(tables.job.c.status == JobStatus.PENDING, tables.job.c.deleted_at.is_(None))
    .order_by(tables.job.c.priority.desc(), tables.job.c.created_at, tables.job.c.id)
    .limit(bindparam("limit"))
)


def outline(db: Connection, job: int) -> JobOutline | None:
    return _OUTLINES.first(db.execute(_OUTLINE.where(tables.job.c.id == job)))


def waiting(db: Connection, *, limit: int) -> list[JobOutline]:
    """Returns the first waiting jobs, in queue order."""
    return [_OUTLINES.value(row) for row in db.execute(_WAITING, {"limit": limit})]
