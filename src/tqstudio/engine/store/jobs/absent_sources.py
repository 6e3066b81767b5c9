"""Finds and updates jobs that wait because the disk of their source is not mounted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tqstudio.engine.store.db.connection import Connection


@dataclass(frozen=True, slots=True)
class AbsentSource:
    """A job and the path of its source; `added_at` in µs since 1970 in UTC."""

    job: int
    source: bytes
    folder: bytes | None
    """The drop folder of the source."""
    added_at: int
    """When the source was first seen."""


_COLUMNS = (
    "SELECT job.id, video.source, folder.path, video.created_at FROM job"
    " {index} JOIN video ON video.id = job.video_id LEFT JOIN folder ON folder.id = video.folder_id"
)
_OF_JOB = f"{_COLUMNS.format(index='')} WHERE job.id = :job"
_DUE = (
    f"{_COLUMNS.format(index='INDEXED BY ix_job_backoff')}"
    " WHERE job.status = 'pending' AND job.not_before <= :now"
    " AND job.error_code = 'SOURCE_AWAY' ORDER BY job.not_before LIMIT :limit"
)
_WAITS = "WHERE id = :job AND status = 'pending' AND not_before IS NOT NULL"


def of_job(db: Connection, job: int) -> AbsentSource | None:
    """Returns the source of a job; None if the job does not exist."""
    row = db.execute(_OF_JOB, {"job": job}).first()
    return None if row is None else AbsentSource(*row)


def due(db: Connection, *, now: int, limit: int = 1000) -> list[AbsentSource]:
    """Returns the jobs whose wait is over, longest first."""
    return [AbsentSource(*row) for row in db.execute(_DUE, {"now": now, "limit": limit})]


def settle(db: Connection, *, away: Iterable[int], back: Iterable[int], now: int, until: int) -> None:
    """Extends the wait of jobs in `away` and makes those in `back` claimable, if they still wait.

    A longer wait is recorded neither as an attempt nor as an event.
    """
    for job in away:
        db.execute(f"UPDATE job SET not_before = :until {_WAITS}", {"job": job, "until": until})
    for job in back:
        db.execute(f"UPDATE job SET not_before = NULL, ready_at = :now {_WAITS}", {"job": job, "now": now})
