"""Quarantines workers that fail several jobs in a row and then a test encode.

Otherwise one broken machine, driver or ffmpeg could fail a whole queue. The test encode distinguishes a
broken worker from several bad files. Only different jobs count, and only errors that a worker can cause.
"""

from __future__ import annotations

import json

from tqstudio.engine.store import events
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

    Args:
        after: number of different jobs failed in a row that requires one; 0 for never.
    """
    if not after or code not in BLAMES:
        return False
    row = db.execute(
        "SELECT id, failed_jobs FROM worker"
        " WHERE id = (SELECT worker_id FROM attempt WHERE job_id = :job AND epoch = :epoch)",
        {"job": job, "epoch": epoch},
    ).first()
    if row is None:
        return False
    worker, jobs = row[0], sorted({*json.loads(row[1]), job})
    full = len(jobs) >= after
    db.execute(
        "UPDATE worker SET failed_jobs = :jobs, suspected_at = CASE WHEN :full THEN :now END"
        " WHERE id = :worker",
        {"jobs": json.dumps(jobs), "full": int(full), "now": now, "worker": worker},
    )
    return full


def tested(db: Connection, worker: int, *, instance: str, problem: str, now: int) -> bool:
    """Clears or quarantines a worker by its test encode; returns whether the test was requested.

    Args:
        problem: why the test encode failed; empty when it passed.
    """
    row = db.execute(
        "SELECT name, failed_jobs FROM worker"
        " WHERE id = :worker AND instance = :instance AND suspected_at IS NOT NULL",
        {"worker": worker, "instance": instance},
    ).first()
    if row is None:
        return False
    jobs = json.loads(row[1])
    reason = f"it failed {len(jobs)} different jobs in a row and a test encode: {problem}"[:500]
    db.execute(
        "UPDATE worker SET suspected_at = NULL, failed_jobs = '[]',"
        " quarantined_at = CASE WHEN :bad THEN :now END, quarantine_reason = CASE WHEN :bad THEN :reason END"
        " WHERE id = :worker",
        {"bad": int(bool(problem)), "now": now, "reason": reason, "worker": worker},
    )
    listed = ", ".join(str(each) for each in jobs)
    events.append(
        db,
        EventKind.WORKER_QUARANTINED if problem else EventKind.WORKER_TESTED,
        now=now,
        actor="supervisor",
        worker=row[0],
        detail=f"{reason} (jobs {listed})" if problem else f"after jobs {listed} failed",
    )
    return True


def succeeded(db: Connection, worker: int) -> None:
    """Resets the failures of a worker that completed a job."""
    db.execute(
        "UPDATE worker SET failed_jobs = '[]', suspected_at = NULL"
        " WHERE id = :worker AND failed_jobs <> '[]'",
        {"worker": worker},
    )
