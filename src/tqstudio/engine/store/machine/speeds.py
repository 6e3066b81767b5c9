"""Stores the encode speeds measured on this machine, and predicted and actual times of jobs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tqstudio.engine.store.db.connection import Connection

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
    return [Speed(*row) for row in db.execute("SELECT key, value, samples, work_s FROM speed")]


def save(db: Connection, speeds: Iterable[Speed], *, now: int) -> None:
    for speed in speeds:
        db.execute(
            "INSERT INTO speed (key, value, samples, work_s, at)"
            " VALUES (:key, :value, :samples, :work_s, :at)"
            " ON CONFLICT (key) DO UPDATE"
            " SET value = :value, samples = :samples, work_s = :work_s, at = :at",
            {**asdict(speed), "at": now},
        )


@dataclass(frozen=True, slots=True)
class MeasuredSpeed:
    """Predicted and actual time of a finished job, in seconds."""

    predicted_s: float | None
    """Prediction at the start of its first run; None without one."""
    actual_s: float
    """Time of all runs together."""
    run_s: float
    """Time of the last run."""


FORGOTTEN = "predicted_s = NULL, actual_s = NULL"
"""Assignments when a job starts from the beginning."""


def set_prediction(db: Connection, job: int, seconds: float) -> None:
    """Stores the prediction of a whole job; none is stored if an earlier run has done part of it."""
    db.execute(
        "UPDATE job SET predicted_s = :seconds WHERE id = :job AND predicted_s IS NULL AND actual_s IS NULL",
        {"seconds": seconds, "job": job},
    )


def add_work(db: Connection, job: int, epoch: int, *, now: int, silent: bool = False) -> None:
    """Adds the time of a run that ends, before its end is stored.

    Args:
        silent: whether the end was not observed; then the run counts until its last progress.
    """
    db.execute(
        "UPDATE job SET actual_s = coalesce(actual_s, 0) + max(0,"
        " CASE WHEN :silent THEN min(:now, coalesce(last_progress_at, 0)) ELSE :now END"
        " - (SELECT started_at FROM attempt WHERE job_id = :job AND epoch = :epoch)) / 1e6 WHERE id = :job",
        {"silent": int(silent), "now": now, "job": job, "epoch": epoch},
    )


def outcome(db: Connection, job: int, epoch: int) -> MeasuredSpeed | None:
    """Returns predicted and actual time; None unless this run has ended."""
    row = db.execute(
        "SELECT j.predicted_s, j.actual_s, (a.ended_at - a.started_at) / 1e6 FROM job j"
        " JOIN attempt a ON a.job_id = j.id"
        " WHERE j.id = :job AND a.epoch = :epoch AND a.ended_at IS NOT NULL",
        {"job": job, "epoch": epoch},
    ).first()
    return None if row is None else MeasuredSpeed(*row)


LAST_SQL = (
    # An index of their own: of a million finished jobs, perhaps none has a prediction.
    "SELECT predicted_s, actual_s FROM job INDEXED BY ix_job_foretold WHERE status = 'done'"
    " AND deleted_at IS NULL AND predicted_s IS NOT NULL AND actual_s > 0"
    " ORDER BY completed_at DESC, id DESC LIMIT :limit"
)


def last_outcomes(db: Connection, *, limit: int = LAST_JOBS) -> list[tuple[float, float]]:
    """Returns predicted and actual seconds of the last finished jobs, newest first."""
    return [(predicted, actual) for predicted, actual in db.execute(LAST_SQL, {"limit": limit})]


@dataclass(frozen=True, slots=True)
class JobOutline:
    """The values of a job that an estimate uses."""

    facts: Mapping[str, Any] | None
    profile_json: str
    requested: tuple[str, ...] | None
    prefer_gpu: bool


_OUTLINE = "v.facts, j.profile_json, j.requested, j.prefer_gpu FROM job j"
_WAITING = (
    f"SELECT {_OUTLINE} INDEXED BY ix_job_waiting JOIN video v ON v.id = j.video_id"
    " WHERE j.status = 'pending' AND j.deleted_at IS NULL"
    " ORDER BY j.priority DESC, j.created_at, j.id LIMIT :limit"
)


def _outline(row: Any) -> JobOutline:
    return JobOutline(
        None if row[0] is None else json.loads(row[0]),
        row[1],
        None if row[2] is None else tuple(json.loads(row[2])),
        bool(row[3]),
    )


def outline(db: Connection, job: int) -> JobOutline | None:
    row = db.execute(
        f"SELECT {_OUTLINE} JOIN video v ON v.id = j.video_id WHERE j.id = :job", {"job": job}
    ).first()
    return None if row is None else _outline(row)


def waiting(db: Connection, *, limit: int) -> list[JobOutline]:
    """Returns the first waiting jobs, in queue order."""
    return [_outline(row) for row in db.execute(_WAITING, {"limit": limit})]
