"""Restarts failed jobs automatically.

| state | meaning |
|---|---|
| disabled | not requested |
| enabled | on, and no restart was used since the last success or retry by a user |
| in_progress | restarted at least once, with restarts left |
| failed | failed again with all restarts used up |
| denied | failed with an error that a restart cannot fix, or as POISON |
"""

from __future__ import annotations

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs.transitions import assignments_of, move
from tqstudio.events import EventKind
from tqstudio.lifecycle import AutorestartRule

DUE_SQL = (
    "SELECT id, restarts, autorestart_limit FROM job INDEXED BY ix_job_autorestart"
    " WHERE status = 'failed' AND autorestart IN ('enabled', 'in_progress') AND deleted_at IS NULL"
    " AND restarts < autorestart_limit"
    " AND max(coalesce(last_restart_at, 0), coalesce(completed_at, 0))"
    " + autorestart_delay_s * 1000000 <= :now"
    # A newer job of the same video replaces it, and a video can have only one open job.
    " AND NOT EXISTS (SELECT 1 FROM job AS other WHERE other.video_id = job.video_id"
    " AND other.deleted_at IS NULL"
    " AND (other.id > job.id OR other.status IN ('pending', 'in_progress', 'paused'))) LIMIT :limit"
)


def is_any_due(db: Connection, *, now: int) -> bool:
    return db.execute(DUE_SQL, {"now": now, "limit": 1}).first() is not None


def restart_due(db: Connection, *, now: int, limit: int = 100) -> list[int]:
    """Restarts the failed jobs whose delay, since their failure or last restart, is over."""
    restarted = []
    for job, restarts, allowed in db.execute(DUE_SQL, {"now": now, "limit": limit}):
        detail = f"restart {restarts + 1} of {allowed}"
        assign = assignments_of(EventKind.AUTORESTART)
        if move(db, job, EventKind.AUTORESTART, now=now, actor="autorestart", assign=assign, detail=detail):
            restarted.append(int(job))
    return restarted


def set_rule(db: Connection, job: int, rule: AutorestartRule) -> bool:
    """Changes a job's autorestart rule; returns whether it differed."""
    return bool(
        db.execute(
            "UPDATE job SET autorestart_limit = :limit, autorestart_delay_s = :delay_s,"
            " autorestart = CASE WHEN :limit = 0 THEN 'disabled'"
            " WHEN autorestart = 'disabled' THEN 'enabled' ELSE autorestart END"
            " WHERE id = :job AND (autorestart_limit <> :limit OR autorestart_delay_s <> :delay_s)",
            {"job": job, "limit": rule.limit, "delay_s": rule.delay_s},
        ).rowcount
    )
