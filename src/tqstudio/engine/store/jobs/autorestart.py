"""Failed jobs that start again by themselves.

| state | means |
|---|---|
| disabled | it was not asked for |
| enabled | on, and none was used since the last success or a person's retry |
| in_progress | started again at least once; may be again |
| failed | failed again with all restarts used up |
| denied | failed for a reason that no restart mends, or as poison |
"""

from __future__ import annotations

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs.transitions import assignments_of, move
from tqstudio.lifecycle import AutorestartRule, Trigger

DUE_SQL = (
    "SELECT id, restarts, autorestart_limit FROM job INDEXED BY ix_job_autorestart"
    " WHERE status = 'failed' AND autorestart IN ('enabled', 'in_progress') AND deleted_at IS NULL"
    " AND restarts < autorestart_limit"
    " AND max(coalesce(last_restart_at, 0), coalesce(completed_at, 0))"
    " + autorestart_delay_s * 1000000 <= :now"
    # A newer job of the same video stands for it now; beside an open one there is room for no other.
    " AND NOT EXISTS (SELECT 1 FROM job AS other WHERE other.video_id = job.video_id"
    " AND other.deleted_at IS NULL"
    " AND (other.id > job.id OR other.status IN ('pending', 'in_progress', 'paused'))) LIMIT :limit"
)


def is_any_due(db: Connection, *, now: int) -> bool:
    return db.execute(DUE_SQL, {"now": now, "limit": 1}).first() is not None


def restart_due(db: Connection, *, now: int, limit: int = 100) -> list[int]:
    """Start the failed jobs again whose delay has passed, since their failure or their last restart."""
    restarted = []
    for job, restarts, allowed in db.execute(DUE_SQL, {"now": now, "limit": limit}):
        detail = f"restart {restarts + 1} of {allowed}"
        assign = assignments_of(Trigger.AUTORESTART)
        if move(db, job, Trigger.AUTORESTART, now=now, actor="autorestart", assign=assign, detail=detail):
            restarted.append(int(job))
    return restarted


def set_rule(db: Connection, job: int, rule: AutorestartRule) -> bool:
    """Let a job start again by itself by another rule; whether that changed anything."""
    return bool(
        db.execute(
            "UPDATE job SET autorestart_limit = :limit, autorestart_delay_s = :delay_s,"
            " autorestart = CASE WHEN :limit = 0 THEN 'disabled'"
            " WHEN autorestart = 'disabled' THEN 'enabled' ELSE autorestart END"
            " WHERE id = :job AND (autorestart_limit <> :limit OR autorestart_delay_s <> :delay_s)",
            {"job": job, "limit": rule.limit, "delay_s": rule.delay_s},
        ).rowcount
    )
