"""Applies status transitions to jobs.

`move` is the only place besides the claim where a status changes: a guarded UPDATE and its event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from sqlalchemy import ColumnElement, bindparam, case, exists, select, update

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import Rows
from tqstudio.engine.store.db.tables import const, is_open, job, publication
from tqstudio.engine.store.jobs.claims import NO_LEASE, HeldLease, LeaseToken
from tqstudio.events import EventKind
from tqstudio.lifecycle import (
    TERMINAL,
    WAITING,
    Autorestart,
    Control,
    JobStatus,
    Trigger,
    sources_of,
    target_of,
)


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The state of a job that operations check."""

    id: int
    video: int
    status: JobStatus
    control: Control
    deleted: bool
    epoch: int
    instance: str | None
    publishes: bool
    """Whether a publish of this epoch is unfinished."""

    def is_held_by(self, token: LeaseToken) -> bool:
        """Whether this is the lease of the token, live or not."""
        return (self.epoch, self.instance) == (token.epoch, token.instance)


_PUBLISHES = exists().where(publication.c.job_id == job.c.id, publication.c.epoch == job.c.epoch)
_ROWS = Rows(JobFacts, job, video="video_id", deleted=job.c.deleted_at.is_not(None), publishes=_PUBLISHES)
_FACTS = select(*_ROWS.columns).where(job.c.id == bindparam("job"))


def job_facts(db: Connection, job_id: int) -> JobFacts | None:
    return _ROWS.first(db.execute(_FACTS, {"job": job_id}))


_other = job.alias("other")
_OTHER_IS_OPEN = exists().where(
    _other.c.video_id == job.c.video_id,
    _other.c.id != job.c.id,
    is_open(_other),
    _other.c.deleted_at.is_(None),
)


def _movable(trigger: Trigger) -> list[ColumnElement[bool]]:
    """Returns the conditions of a transition on its job; a video may have one open job only."""
    status = job.c.status.in_([const(status) for status in sorted(sources_of(trigger))])
    opens = target_of(trigger) in WAITING and sources_of(trigger) & TERMINAL
    return [status, job.c.deleted_at.is_(None), *([~_OTHER_IS_OPEN] if opens else [])]


_MOVES = {
    trigger: update(job).where(job.c.id == bindparam("number"), *_movable(trigger))
    for trigger in get_args(Trigger)
    if sources_of(trigger)
}
_STATUS_AND_VIDEO = select(job.c.status, job.c.video_id).where(job.c.id == bindparam("number"))


def move(
    db: Connection,
    job_id: int,
    trigger: Trigger,
    *,
    now: int,
    actor: str,
    assign: Mapping[str, Any] | None = None,
    worker: str | None = None,
    code: str | None = None,
    detail: str | None = None,
    event: EventKind | None = None,
    lease: HeldLease | None = None,
) -> bool:
    """Applies a transition of the lifecycle table; False if the job's status does not allow it.

    Args:
        assign: further columns to set.
        lease: of the job, if read in the same transaction; saves a query.
    """
    target = target_of(trigger)
    if lease is not None:
        source, of_video = JobStatus.IN_PROGRESS, lease.video
    elif (row := db.execute(_STATUS_AND_VIDEO, {"number": job_id}).first()) is None:
        return False
    else:
        source, of_video = row
    values: dict[str, Any] = {"status": target}
    if source == JobStatus.IN_PROGRESS:
        values |= NO_LEASE
    if target is JobStatus.PENDING:
        values["ready_at"] = now
    values |= assign or {}
    computed = {name: value for name, value in values.items() if isinstance(value, ColumnElement)}
    given = {name: value for name, value in values.items() if name not in computed}
    statement = _MOVES[trigger].values(computed) if computed else _MOVES[trigger]
    moved = db.execute(statement, {"number": job_id, **given}).rowcount == 1
    if moved:
        events.append(
            db,
            event or trigger,
            now=now,
            actor=actor,
            job=job_id,
            video=of_video,
            worker=worker,
            source=source,
            target=target,
            code=code,
            detail=detail,
        )
    return moved


NO_ESTIMATE = {"predicted_s": None, "actual_s": None}
NO_ERROR = {"error_code": None, "error_text": None, "error_hint": None, "error_log": None, "exhausted": 0}
_IS_OFF = job.c.autorestart == Autorestart.DISABLED
AUTORESTART_AGAIN = {"autorestart": case((_IS_OFF, Autorestart.DISABLED), else_=Autorestart.ENABLED)}
"""All restarts are available again."""
_UNCOUNTED = {"attempts": 0, "crashes": 0, "segments_at_crash": 0, "resumed_at_crash_s": 0}
_AGAIN = {**_UNCOUNTED, "exhausted": 0, "not_before": None, "completed_at": None}
_RETRIED = {**_AGAIN, **NO_ERROR, **AUTORESTART_AGAIN, "restarts": 0}


def assignments_of(trigger: Trigger, *, now: int) -> dict[str, Any]:
    """Returns the columns that a transition by a user or autorestart also sets."""
    match trigger:
        case EventKind.RETRY:
            return _RETRIED
        case EventKind.RESTART:
            return {**_RETRIED, **NO_ESTIMATE, "progress": 0, "starts_over": 1}
        case EventKind.AUTORESTART:
            return {
                **_AGAIN,
                "restarts": job.c.restarts + 1,
                "last_restart_at": now,
                "autorestart": Autorestart.IN_PROGRESS,
            }
        case EventKind.CANCEL:
            return {"completed_at": now, "not_before": None}
        case EventKind.PAUSE:
            return {"not_before": None}
        case _:
            return {}
