"""Workers that fail one job after another: they take no more until a person has looked.

One broken machine, driver or ffmpeg would otherwise fail a whole queue in a night. Only different jobs count,
for one bad file must not stop a worker, and only failures that a worker can be the reason of.
"""

from __future__ import annotations

import json

from tqstudio.engine.store import events
from tqstudio.engine.store.connection import Connection
from tqstudio.errors import ErrorCode

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
"""What may be the worker's fault. What is wrong with a source, a setting or the disk is not."""


def failed(db: Connection, job: int, epoch: int, code: ErrorCode, *, after: int, now: int) -> bool:
    """Hold a failure against the worker that had this lease; whether it takes no more jobs for that.

    Args:
        after: different jobs in a row that are one too many; 0 for never.
    """
    if not after or code not in BLAMES:
        return False
    row = db.execute(
        "SELECT id, name, failed_jobs, quarantined_at FROM worker"
        " WHERE id = (SELECT worker_id FROM attempt WHERE job_id = :job AND epoch = :epoch)",
        {"job": job, "epoch": epoch},
    ).first()
    if row is None or row[3] is not None:
        return False
    worker, name, jobs = row[0], row[1], sorted({*json.loads(row[2]), job})
    full = len(jobs) >= after
    reason = f"it failed {len(jobs)} different jobs in a row, the last one with {code}" if full else None
    db.execute(
        "UPDATE worker SET failed_jobs = :jobs, quarantined_at = :at, quarantine_reason = :reason"
        " WHERE id = :worker",
        {"jobs": json.dumps(jobs), "at": now if full else None, "reason": reason, "worker": worker},
    )
    if full:
        listed = ", ".join(str(each) for each in jobs)
        events.append(
            db,
            "worker_quarantined",
            now=now,
            actor="supervisor",
            worker=name,
            code=code,
            detail=f"{reason} (jobs {listed})"[:500],
        )
    return full


def succeeded(db: Connection, worker: int) -> None:
    """A job that is done shows that the worker is sound."""
    db.execute(
        "UPDATE worker SET failed_jobs = '[]' WHERE id = :worker AND failed_jobs <> '[]'",
        {"worker": worker},
    )
