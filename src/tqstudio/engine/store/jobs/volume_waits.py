"""Stores which jobs wait alone for a volume: their disk does not answer, or that of their source is away.

Such a job is pending with the time of the next check and the error as its reason; no attempt is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.machine.gates import NEED_COLUMNS, Need
from tqstudio.events import EventKind


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that waits, until when (µs since 1970 in UTC), and the code of its error."""

    until: int
    code: str
    need: Need


def begin(db: Connection, job: int, *, now: int, until: int, code: str, why: str, hint: str) -> None:
    """Lets a ready job wait for its volume, and records why."""
    before = db.execute("SELECT video_id, error_text FROM job WHERE id = :job", {"job": job}).one()
    db.execute(
        "UPDATE job SET not_before = :until, ready_at = NULL, error_code = :code, error_text = :why,"
        " error_hint = :hint, error_log = NULL WHERE id = :job",
        {"job": job, "until": until, "code": code, "why": why, "hint": hint},
    )
    if before[1] != why:
        events.append(
            db,
            EventKind.PUT_OFF,
            now=now,
            actor="supervisor",
            job=job,
            video=before[0],
            code=code,
            detail=why,
        )


_WAITING = (
    f"SELECT job.not_before, job.error_code, {NEED_COLUMNS} FROM job INDEXED BY ix_job_backoff"
    " JOIN video ON video.id = job.video_id WHERE job.status = 'pending' AND job.not_before IS NOT NULL"
    " AND job.error_code IN ('DISK_SILENT', 'SOURCE_AWAY') ORDER BY job.not_before LIMIT :limit"
)
_WAITS = "WHERE id = :job AND status = 'pending' AND not_before IS NOT NULL"


def waiting(db: Connection, *, limit: int) -> list[Waiting]:
    """Returns the jobs that wait, first those whose wait ends first."""
    return [Waiting(row[0], row[1], Need(*row[2:])) for row in db.execute(_WAITING, {"limit": limit})]


def settle(db: Connection, *, longer: Iterable[int], back: Iterable[int], now: int, until: int) -> None:
    """Extends the wait of jobs in `longer`, and makes those in `back` claimable, if they still wait.

    A longer wait is recorded neither as an attempt nor as an event.
    """
    for job in longer:
        db.execute(f"UPDATE job SET not_before = :until {_WAITS}", {"job": job, "until": until})
    for job in back:
        db.execute(f"UPDATE job SET not_before = NULL, ready_at = :now {_WAITS}", {"job": job, "now": now})
