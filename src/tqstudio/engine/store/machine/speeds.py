"""Speeds measured on this machine, and how well what was foretold from them came true."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tqstudio.engine.store.db.connection import Connection

LAST_JOBS = 50
"""Over so many finished jobs the error of the estimates is told."""


@dataclass(frozen=True, slots=True)
class Speed:
    """A measured cost. `value` is seconds per megapixel, or seconds for what is done once a job.

    `work_s` is on how much work it was measured: the weight that it has against the next measurement.
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
    """How a job that is done came out, in seconds."""

    predicted_s: float | None
    """What was foretold when its first run began; None when nothing could be, or so little tells nothing."""
    actual_s: float
    """In the hands of workers, all runs together."""
    run_s: float
    """The run that finished it."""


FORGOTTEN = "predicted_s = NULL, actual_s = NULL"
"""What becomes of both when the work begins from nothing."""


def foretell(db: Connection, job: int, seconds: float) -> None:
    """Keep what was foretold of a whole job: a forecast of what an earlier run left is none."""
    db.execute(
        "UPDATE job SET predicted_s = :seconds WHERE id = :job AND predicted_s IS NULL AND actual_s IS NULL",
        {"seconds": seconds, "job": job},
    )


def add_work(db: Connection, job: int, epoch: int, *, now: int, silent: bool = False) -> None:
    """Count the time of a run that ends; before its end is written.

    Args:
        silent: nobody saw when it ended, so it counts until its work last moved.
    """
    db.execute(
        "UPDATE job SET actual_s = coalesce(actual_s, 0) + max(0,"
        " CASE WHEN :silent THEN min(:now, coalesce(last_progress_at, 0)) ELSE :now END"
        " - (SELECT started_at FROM attempt WHERE job_id = :job AND epoch = :epoch)) / 1e6 WHERE id = :job",
        {"silent": int(silent), "now": now, "job": job, "epoch": epoch},
    )


def outcome(db: Connection, job: int, epoch: int) -> MeasuredSpeed | None:
    """How it came out; None unless this run has ended."""
    row = db.execute(
        "SELECT j.predicted_s, j.actual_s, (a.ended_at - a.started_at) / 1e6 FROM job j"
        " JOIN attempt a ON a.job_id = j.id"
        " WHERE j.id = :job AND a.epoch = :epoch AND a.ended_at IS NOT NULL",
        {"job": job, "epoch": epoch},
    ).first()
    return None if row is None else MeasuredSpeed(*row)


LAST_SQL = (
    # An index of their own: of a million jobs that ended, perhaps none was foretold.
    "SELECT predicted_s, actual_s FROM job INDEXED BY ix_job_foretold WHERE status = 'done'"
    " AND deleted_at IS NULL AND predicted_s IS NOT NULL AND actual_s > 0"
    " ORDER BY completed_at DESC, id DESC LIMIT :limit"
)


def last_outcomes(db: Connection, *, limit: int = LAST_JOBS) -> list[tuple[float, float]]:
    """Predicted and actual seconds of the last finished jobs, newest first."""
    return [(predicted, actual) for predicted, actual in db.execute(LAST_SQL, {"limit": limit})]


@dataclass(frozen=True, slots=True)
class JobOutline:
    """What an estimate needs to know of a job. Times are µs since 1970 in UTC."""

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
    """The first jobs that wait, in the order in which they are claimed."""
    return [_outline(row) for row in db.execute(_WAITING, {"limit": limit})]
