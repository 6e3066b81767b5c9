"""Stores which jobs wait alone: their disk does not answer, their source is away, or it is still written.

Such a job is pending with the time of the next check and the error as its reason; no attempt is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import bindparam, select, update

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.tables import const, folder, job, video
from tqstudio.engine.store.dialects.expressions import indexed_by
from tqstudio.engine.store.machine.gates import NEED, JobVolumes, of_folder
from tqstudio.errors import ErrorCode
from tqstudio.events import EventKind
from tqstudio.lifecycle import JobStatus


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that waits, until when (µs since 1970 in UTC), and the code of its error."""

    until: int
    code: str
    need: JobVolumes


def begin(db: Connection, job_id: int, *, now: int, until: int, code: str, why: str, hint: str) -> None:
    """Lets a ready job wait for its volume, and records why."""
    of_video, reason = db.execute(select(job.c.video_id, job.c.error_text).where(job.c.id == job_id)).one()
    values = {"error_code": code, "error_text": why, "error_hint": hint, "error_log": None}
    db.execute(update(job).where(job.c.id == job_id).values(not_before=until, ready_at=None, **values))
    if reason != why:
        kind = EventKind.POSTPONED
        events.append(
            db, kind, now=now, actor="supervisor", job=job_id, video=of_video, code=code, detail=why
        )


_WAITS = (job.c.status == const(JobStatus.PENDING), job.c.not_before.is_not(None))
_WAITING = (
    select(job.c.not_before, job.c.error_code, *NEED)
    .join_from(job, video)
    .with_hint(job, indexed_by("ix_job_backoff"), "sqlite")
    .where(*_WAITS, job.c.error_code.in_([ErrorCode.DISK_NOT_RESPONDING, ErrorCode.SOURCE_UNAVAILABLE]))
    .order_by(job.c.not_before)
    .limit(bindparam("most"))
)


def waiting(db: Connection, *, limit: int) -> list[Waiting]:
    """Returns the jobs that wait, first those whose wait ends first."""
    return [Waiting(row[0], row[1], JobVolumes(*row[2:])) for row in db.execute(_WAITING, {"most": limit})]


@dataclass(frozen=True, slots=True)
class Changed:
    """A job that waits until its source has settled, until when (µs since 1970 in UTC) at first."""

    job: int
    until: int
    source: bytes
    settle_s: float | None
    """Settle time in seconds of its drop folder; None for that of the settings."""


_CHANGED = (
    select(job.c.id, job.c.not_before, video.c.source, of_folder(folder.c.settle_s))
    .join_from(job, video)
    .with_hint(job, indexed_by("ix_job_backoff"), "sqlite")
    .where(*_WAITS, job.c.error_code == const(ErrorCode.SOURCE_CHANGED))
    .order_by(job.c.not_before)
    .limit(bindparam("most"))
)


def changed(db: Connection, *, limit: int = 200) -> list[Changed]:
    """Returns the jobs whose source has changed, first those whose wait ends first."""
    return [Changed(*row) for row in db.execute(_CHANGED, {"most": limit})]


def update_waits(db: Connection, *, longer: Iterable[int], back: Iterable[int], now: int, until: int) -> None:
    """Extends the wait of jobs in `longer`, and makes those in `back` claimable, if they still wait.

    A longer wait is recorded neither as an attempt nor as an event.
    """
    for jobs, values in ((longer, {"not_before": until}), (back, {"not_before": None, "ready_at": now})):
        for job_id in jobs:
            db.execute(update(job).where(job.c.id == job_id, *_WAITS).values(values))
