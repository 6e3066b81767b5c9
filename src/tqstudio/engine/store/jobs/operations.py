"""Applies user operations to jobs, as `lifecycle.decide` allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import case, select, update

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.tables import job, video
from tqstudio.engine.store.jobs.jobs import open_job_of
from tqstudio.engine.store.jobs.progress import reset_renditions
from tqstudio.engine.store.jobs.transitions import JobFacts, assignments_of, job_facts, move
from tqstudio.events import EventKind
from tqstudio.lifecycle import (
    WAITING,
    Control,
    Decision,
    Effect,
    JobStatus,
    Operation,
    Trigger,
    decide,
    target_of,
)


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of an operation: the decision, and the job's status and control request after it."""

    decision: Decision
    status: JobStatus
    control: Control


_NOW_TRIGGERS: dict[Operation, Trigger] = {
    Operation.PAUSE: EventKind.PAUSE,
    Operation.RESUME: EventKind.RESUME,
    Operation.CANCEL: EventKind.CANCEL,
    Operation.RETRY: EventKind.RETRY,
    Operation.RESTART: EventKind.RESTART,
}
_CONTROLS = {
    Operation.PAUSE: (Control.PAUSE, EventKind.PAUSE_REQUESTED),
    Operation.CANCEL: (Control.CANCEL, EventKind.CANCEL_REQUESTED),
    Operation.RESTART: (Control.RESTART, EventKind.RESTART_REQUESTED),
    Operation.RESUME: (Control.NONE, EventKind.RESUME_REQUESTED),
}
ASKED = dict(_CONTROLS.values())
"""The event of each control request."""
_REVIVING = (Operation.RETRY, Operation.RESTART, Operation.UNDELETE)


def _is_of_deleted_video(db: Connection, video_id: int) -> bool:
    deleted = select(video.c.id).where(video.c.id == video_id, video.c.deleted_at.is_not(None))
    return db.execute(deleted).first() is not None


def operate(db: Connection, job_id: int, operation: Operation, *, now: int, actor: str) -> Applied | None:
    """Pauses, resumes, cancels, retries, restarts, deletes or undeletes a job; None if it does not exist."""
    facts = job_facts(db, job_id)
    if facts is None:
        return None
    if operation in _REVIVING and _is_of_deleted_video(db, facts.video):
        return _refused(facts, f"is of a deleted video; first: tqstudio video undelete {facts.video}")
    if operation in (Operation.DELETE, Operation.UNDELETE):
        return _set_deleted(db, facts, deleted=operation is Operation.DELETE, now=now, actor=actor)
    if facts.deleted:
        return _refused(facts, "is deleted; undelete it first")
    decision = decide(facts.status, operation, facts.control)
    if decision.effect is Effect.CONTROL:
        control, asked = _CONTROLS[operation]
        db.execute(update(job).where(job.c.id == job_id).values(control=control))
        events.append(db, asked, now=now, actor=actor, job=job_id, video=facts.video, source=facts.status)
        return Applied(decision, facts.status, control)
    if decision.effect is Effect.NOW and operation in _NOW_TRIGGERS:
        trigger = _NOW_TRIGGERS[operation]
        if not move(db, job_id, trigger, now=now, actor=actor, assign=assignments_of(trigger, now=now)):
            other = open_job_of(db, facts.video)
            return _refused(facts, f"cannot continue: job {other} has the same video; cancel that first")
        if trigger is EventKind.RESTART:
            reset_renditions(db, job_id)
        return Applied(decision, target_of(trigger), Control.NONE)
    return Applied(decision, facts.status, facts.control)


def _refused(facts: JobFacts, reason: str) -> Applied:
    return Applied(Decision(None, reason), facts.status, facts.control)


def _set_deleted(db: Connection, facts: JobFacts, *, deleted: bool, now: int, actor: str) -> Applied:
    operation = Operation.DELETE if deleted else Operation.UNDELETE
    decision = decide(facts.status, operation)
    if decision.allowed and facts.deleted == deleted:
        decision = Decision(Effect.NOTHING)
    if decision.effect in (None, Effect.NOTHING):
        return Applied(decision, facts.status, facts.control)
    if not deleted and facts.status in WAITING:
        other = open_job_of(db, facts.video)
        if other is not None:
            return _refused(facts, f"cannot be undeleted: job {other} has the same video; cancel that first")
    db.execute(update(job).where(job.c.id == facts.id).values(deleted_at=now if deleted else None))
    kind, status = EventKind.DELETED if deleted else EventKind.UNDELETED, facts.status
    events.append(
        db, kind, now=now, actor=actor, job=facts.id, video=facts.video, source=status, target=status
    )
    return Applied(decision, status, facts.control)


def set_priority(
    db: Connection, job_id: int, *, value: int | None, delta: int | None, now: int, actor: str
) -> Applied | None:
    """Sets or shifts a job's priority, within ±1000."""
    facts = job_facts(db, job_id)
    if facts is None:
        return None
    if facts.deleted:
        return _refused(facts, "is deleted; undelete it first")
    decision = decide(facts.status, Operation.PRIORITY)
    if decision.allowed:
        wanted = job.c.priority + (delta or 0)
        bounded: Any = case((wanted < -1000, -1000), (wanted > 1000, 1000), else_=wanted)
        if value is not None:
            bounded = max(-1000, min(1000, value))
        priority = db.execute(
            update(job).where(job.c.id == job_id).values(priority=bounded).returning(job.c.priority)
        ).scalar_one()
        detail = f"priority {priority}"
        events.append(
            db, EventKind.PRIORITY_CHANGED, now=now, actor=actor, job=job_id, video=facts.video, detail=detail
        )
    return Applied(decision, facts.status, facts.control)
