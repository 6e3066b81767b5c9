"""Makes jobs claimable that wait for the hours of their drop folder.

Such a job is pending like one in its backoff, but until `FOREVER`: only the begin of those hours ends its
wait, whatever happens to the clock and to the rules of the folder meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Select, or_, select, update

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.tables import const, folder, job, video
from tqstudio.engine.store.dialects.expressions import indexed_by
from tqstudio.lifecycle import JobStatus

FOREVER = 253_402_300_799_000_000
"""µs since 1970: the last second of the year 9999, which can still be shown as a date."""

_WAITING = (
    select(job.c.id)
    .join_from(job, video)
    .with_hint(job, indexed_by("ix_job_backoff"), "sqlite")
    .where(job.c.status == const(JobStatus.PENDING), job.c.not_before == FOREVER)
)
_CLOSING = select(folder.c.id, folder.c.hours).where(folder.c.hours != "")


def closing(db: Connection) -> dict[int, str]:
    """Returns the hours of the drop folders that have some: {folder: hours}."""
    return {int(row[0]): row[1] for row in db.execute(_CLOSING)}


def _over(closed: Collection[int]) -> Select[int]:
    """Selects the jobs that wait, and whose folder is not among `closed`."""
    if not closed:
        return _WAITING
    return _WAITING.where(or_(video.c.folder_id.is_(None), video.c.folder_id.not_in(closed)))


def is_any_over(db: Connection, closed: Collection[int]) -> bool:
    """Whether a job waits whose folder is not among `closed`."""
    return db.execute(_over(closed).limit(1)).first() is not None


def end_waits(db: Connection, closed: Collection[int], *, now: int) -> int:
    """Makes jobs claimable whose folder is not among `closed`; returns how many."""
    values = {"not_before": None, "ready_at": now, "error_code": None, "error_text": None, "error_hint": None}
    return db.execute(update(job).where(job.c.id.in_(_over(closed))).values(values)).rowcount
