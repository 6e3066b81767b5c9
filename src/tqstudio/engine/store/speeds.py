"""Speeds measured on this machine, and how well what was foretold from them came true."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tqstudio.engine.store.connection import Connection

LAST_JOBS = 50
"""Over so many finished jobs the error of the estimates is told."""


@dataclass(frozen=True, slots=True)
class Speed:
    """A measured cost. `value` is seconds per megapixel, or seconds for what is done once a job."""

    key: str
    value: float
    samples: int


def load(db: Connection) -> list[Speed]:
    return [Speed(*row) for row in db.execute("SELECT key, value, samples FROM speed")]


def save(db: Connection, speeds: Iterable[Speed], *, now: int) -> None:
    for speed in speeds:
        db.execute(
            "INSERT INTO speed (key, value, samples, at) VALUES (:key, :value, :samples, :at)"
            " ON CONFLICT (key) DO UPDATE SET value = :value, samples = :samples, at = :at",
            {"key": speed.key, "value": speed.value, "samples": speed.samples, "at": now},
        )


def record(db: Connection, job: int, *, predicted_s: float | None, actual_s: float) -> None:
    """Log what was foretold of a job's last run, and what it took."""
    db.execute(
        "UPDATE job SET predicted_s = :predicted, actual_s = :actual WHERE id = :job",
        {"predicted": predicted_s, "actual": actual_s, "job": job},
    )


LAST_SQL = (
    # An index of their own: of a million jobs that ended, perhaps none was foretold.
    "SELECT predicted_s, actual_s FROM job INDEXED BY ix_job_foretold WHERE status = 'done'"
    " AND deleted_at IS NULL AND predicted_s IS NOT NULL AND actual_s > 0"
    " ORDER BY completed_at DESC, id DESC LIMIT :limit"
)


def last_errors(db: Connection, *, limit: int = LAST_JOBS) -> list[float]:
    """|foretold − taken| ÷ taken of the last finished jobs, newest first."""
    rows = db.execute(LAST_SQL, {"limit": limit})
    return [abs(predicted - actual) / actual for predicted, actual in rows]


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
