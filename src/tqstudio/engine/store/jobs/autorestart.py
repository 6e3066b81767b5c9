"""Restarts failed jobs automatically.

| state | meaning |
|---|---|
| disabled | not requested |
| enabled | on, and no restart was used since the last success or retry by a user |
| in_progress | restarted at least once, with restarts left |
| failed | failed again with all restarts used up |
| denied | failed with an error that a restart cannot fix, or as REPEATED_CRASHES |
"""

from __future__ import annotations

from sqlalchemy import BindParameter, bindparam, case, exists, func, or_, select, update

from tqstudio.engine.host.clock import MICROSECOND
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.tables import const, is_open, job
from tqstudio.engine.store.dialects.expressions import greatest, indexed_by
from tqstudio.engine.store.jobs.transitions import assignments_of, move
from tqstudio.events import EventKind
from tqstudio.lifecycle import Autorestart, AutorestartRule, JobStatus

_other = job.alias("other")
_REPLACED = exists().where(
    # A newer job of the same video replaces it, and a video can have only one open job.
    _other.c.video_id == job.c.video_id,
    _other.c.deleted_at.is_(None),
    or_(_other.c.id > job.c.id, is_open(_other)),
)
_SINCE = greatest(func.coalesce(job.c.last_restart_at, 0), func.coalesce(job.c.completed_at, 0))
_DELAY = job.c.autorestart_delay_s * MICROSECOND
_NOW: BindParameter[int] = bindparam("now")
DUE = (
    select(job.c.id, job.c.restarts, job.c.autorestart_limit)
    .with_hint(job, indexed_by("ix_job_autorestart"), "sqlite")
    .where(
        job.c.status == const(JobStatus.FAILED),
        job.c.autorestart.in_([const(Autorestart.ENABLED), const(Autorestart.IN_PROGRESS)]),
        job.c.deleted_at.is_(None),
        job.c.restarts < job.c.autorestart_limit,
        # As long before the failure as after it, because the wall clock was set back.
        or_(_NOW >= _SINCE + _DELAY, _NOW < _SINCE - _DELAY),
        ~_REPLACED,
    )
    .order_by(job.c.id)
    .limit(bindparam("limit"))
)


def is_any_due(db: Connection, *, now: int) -> bool:
    return db.execute(DUE, {"now": now, "limit": 1}).first() is not None


def restart_due(db: Connection, *, now: int, limit: int = 100) -> list[int]:
    """Restarts the failed jobs whose delay, since their failure or last restart, is over."""
    restarted = []
    for job_id, restarts, allowed in db.execute(DUE, {"now": now, "limit": limit}).all():
        detail = f"restart {restarts + 1} of {allowed}"
        assign = assignments_of(EventKind.AUTORESTART, now=now)
        if move(
            db, job_id, EventKind.AUTORESTART, now=now, actor="autorestart", assign=assign, detail=detail
        ):
            restarted.append(int(job_id))
    return restarted


def set_rule(db: Connection, job_id: int, rule: AutorestartRule) -> bool:
    """Changes a job's autorestart rule; returns whether it differed."""
    state = case((job.c.autorestart == Autorestart.DISABLED, Autorestart.ENABLED), else_=job.c.autorestart)
    differs = or_(job.c.autorestart_limit != rule.limit, job.c.autorestart_delay_s != rule.delay_s)
    changed = db.execute(
        update(job)
        .where(job.c.id == job_id, differs)
        .values(
            autorestart_limit=rule.limit,
            autorestart_delay_s=rule.delay_s,
            autorestart=state if rule.limit else Autorestart.DISABLED,
        )
    )
    return bool(changed.rowcount)
