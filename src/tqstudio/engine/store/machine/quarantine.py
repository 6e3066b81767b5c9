"""Quarantines workers that fail several jobs in a row and then a test encode.

Otherwise one broken machine, driver or ffmpeg could fail a whole queue. The test encode distinguishes a
broken worker from several bad files. Only different jobs count, and only errors that a worker can cause.
"""

from __future__ import annotations

import json

from sqlalchemy import select, update

from tqstudio.engine.store import events
from tqstudio.engine.store.db import tables
from tqstudio.engine.store.db.connection import Connection
from tqstudio.errors import ErrorCode
from tqstudio.events import EventKind

BLAMES = frozenset(
    {
        ErrorCode.FFMPEG_MISSING,
        ErrorCode.ENCODER_EXIT,
        ErrorCode.ENCODER_SIGNAL,
        ErrorCode.OUT_OF_MEMORY,
        ErrorCode.STALLED,
        ErrorCode.TIMEOUT,
        ErrorCode.OUTPUT_EMPTY,
        ErrorCode.OUTPUT_INVALID,
        ErrorCode.UPLOAD_FAILED,
        ErrorCode.INTERNAL,
        ErrorCode.WORKER_LOST,
    }
)
"""Errors that a worker may cause, unlike those of sources, settings and disks."""


def failed(db: Connection, job: int, epoch: int, code: ErrorCode, *, after: int, now: int) -> bool:
    """Counts a failure of the worker of this lease; returns whether it must pass a test encode now.

    That is `after` so many different jobs failed in a row; 0 for never.
    """
    if not after or code not in BLAMES:
        return False
    failed_by = select(*tables.worker.c["id", "failed_jobs"]).join_from(tables.attempt, tables.worker)
    row = db.execute(failed_by.where(tables.attempt.c.job_id == job, tables.attempt.c.epoch == epoch)).first()
    if row is None:
        return False
    jobs = sorted({*json.loads(row.failed_jobs), job})
    full = len(jobs) >= after
    counted = update(tables.worker).where(tables.worker.c.id == row.id)
    db.execute(counted.values(failed_jobs=json.dumps(jobs), suspected_at=now if full else None))
    return full


def tested(db: Connection, worker: int, *, instance: str, problem: str, now: int) -> bool:
    """Clears a worker, or quarantines it for the `problem` of its test encode; False if that was not due."""
    of_worker = tables.worker.c.id == worker
    tested = (of_worker, tables.worker.c.instance == instance, tables.worker.c.suspected_at.is_not(None))
    row = db.execute(select(*tables.worker.c["name", "failed_jobs"]).where(*tested)).first()
    if row is None:
        return False
    jobs = json.loads(row.failed_jobs)
    reason = f"it failed {len(jobs)} different jobs in a row and a test encode: {problem}"[:500]
    values = {
        "suspected_at": None,
        "failed_jobs": "[]",
        "quarantined_at": now if problem else None,
        "quarantine_reason": reason if problem else None,
    }
    db.execute(update(tables.worker).where(of_worker).values(values))
    listed = ", ".join(str(each) for each in jobs)
    events.append(
        db,
        EventKind.WORKER_QUARANTINED if problem else EventKind.WORKER_TESTED,
        now=now,
        actor="supervisor",
        worker=row.name,
        detail=f"{reason} (jobs {listed})" if problem else f"after jobs {listed} failed",
    )
    return True


def succeeded(db: Connection, worker: int) -> None:
    """Resets the failures of a worker that completed a job."""
    row = tables.worker.c
    failing = update(tables.worker).where(row.id == worker, row.failed_jobs != "[]")
    db.execute(failing.values(failed_jobs="[]", suspected_at=None))
