"""Stores what the last actions of each actor have changed, and puts jobs back into their former states.

The version of a job is the number of the last event by which a person changed it. A job is put back only if
its version is still that of the action: what a worker did meanwhile does not count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import delete, func, insert, select, update

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import Rows, values_of
from tqstudio.engine.store.db.tables import event, job, undo, undo_step
from tqstudio.engine.store.jobs import jobs, operations
from tqstudio.engine.store.jobs.jobs import open_job_of
from tqstudio.engine.store.jobs.operations import Applied
from tqstudio.engine.store.jobs.transitions import job_facts, move
from tqstudio.events import EventKind
from tqstudio.lifecycle import (
    WAITING,
    Control,
    Decision,
    Effect,
    JobStatus,
    Operation,
    Trigger,
    Undoable,
    target_of,
)

LEVELS = 10
"""Number of actions of an actor that are kept."""
SLICE = 500
"""Jobs that change in one transaction where many are to be changed."""
_BY_PERSONS = (
    *(EventKind.PAUSE, EventKind.RESUME, EventKind.CANCEL, EventKind.RETRY, EventKind.RESTART),
    *(
        EventKind.PAUSE_REQUESTED,
        EventKind.CANCEL_REQUESTED,
        EventKind.RESTART_REQUESTED,
        EventKind.RESUME_REQUESTED,
    ),
    *(EventKind.UNCANCEL, EventKind.UNCANCEL_PAUSED, EventKind.UNCANCEL_FAILED),
    *(
        EventKind.PRIORITY_CHANGED,
        EventKind.PROFILE_CHANGED,
        EventKind.FORCED,
        EventKind.DELETED,
        EventKind.UNDELETED,
    ),
)


@dataclass(frozen=True, slots=True)
class JobState:
    """The part of a job that actions change and an undo puts back."""

    status: JobStatus
    control: Control
    priority: int
    ready_at: int | None
    completed_at: int | None
    settings: dict[str, Any] | None = None
    """Of a change: the fields of `JobSpec` that it replaces."""


_STATES = Rows(JobState, job, settings=None)
_States = Mapping[int, tuple[JobState, int]]
"""States and versions of jobs by their ids."""


@dataclass(frozen=True, slots=True)
class UndoAction:
    """An action that can be undone."""

    id: int
    operation: Undoable


@dataclass(frozen=True, slots=True)
class UndoStep:
    """The former state of one job, video or drop folder, see `tables.UndoStep`."""

    subject: int
    version: int
    before: int
    former: dict[str, Any]


_ACTIONS = Rows(UndoAction, undo)
_STEPS = Rows(UndoStep, undo_step)


def versions(db: Connection, ids: Collection[int]) -> dict[int, int]:
    """Returns the versions of jobs; those that no person ever changed are missing."""
    found = select(event.c.job_id, func.max(event.c.seq)).where(
        # A worker that stops on request is named; it only carries out what a person has asked.
        *(event.c.job_id.in_(ids), event.c.trigger.in_(_BY_PERSONS), event.c.worker.is_(None))
    )
    return {int(row[0]): int(row[1]) for row in db.execute(found.group_by(event.c.job_id))}


def states(db: Connection, ids: Collection[int], *, settings: bool = False) -> _States:
    """Returns the states of jobs before an action, for `changed`; with their settings if these change."""
    known = versions(db, ids)
    found = select(*_STATES.columns, job.c.id).where(job.c.id.in_(ids)).order_by(job.c.id)
    rows = db.execute(found).all()
    specs = {row[-1]: asdict(jobs.spec_of(db, row[-1])) for row in rows if settings}
    former = {number: {name: spec[name] for name in jobs.SETTINGS} for number, spec in specs.items()}
    return {
        row[-1]: (_STATES.value(row, settings=former.get(row[-1])), known.get(row[-1], 0)) for row in rows
    }


def changed(db: Connection, before: _States) -> list[UndoStep]:
    """Returns those of the jobs that a person has changed since."""
    after = versions(db, before)
    return [
        UndoStep(number, after[number], version, asdict(state))
        for number, (state, version) in before.items()
        if after.get(number, 0) > version
    ]


def record(
    db: Connection, operation: Undoable, new: Sequence[UndoStep], *, actor: str, now: int, bulk: str = ""
) -> None:
    """Records an action, if it changed anything, in place of the oldest of its actor's last ten.

    Args:
        bulk: as of the table: the slices of one action are undone together.
    """
    if not new:
        return
    mine = select(undo.c.id).where(undo.c.actor == actor)
    number = db.execute(mine.where(undo.c.bulk == bulk)).scalar() if bulk else None
    if number is None:
        row = {"actor": actor, "operation": operation, "bulk": bulk, "at": now}
        number = db.execute(insert(undo).values(**row).returning(undo.c.id)).scalar_one()
        kept = mine.order_by(undo.c.id.desc()).limit(LEVELS)
        db.execute(delete(undo).where(undo.c.actor == actor, undo.c.id.not_in(kept)))
    db.execute(insert(undo_step), [{"undo_id": number, **values_of(undo_step, step)} for step in new])


def newest(db: Connection, *, actor: str, since: int, number: int | None = None) -> UndoAction | None:
    """Returns the newest action of an actor since a time, or the one with this number."""
    found = select(*_ACTIONS.columns).where(undo.c.actor == actor, undo.c.at >= since)
    if number is not None:
        found = found.where(undo.c.id == number)
    return _ACTIONS.first(db.execute(found.order_by(undo.c.id.desc()).limit(1)))


def steps(db: Connection, action: int, *, limit: int) -> list[UndoStep]:
    """Returns the first steps of an action."""
    found = select(*_STEPS.columns).where(undo_step.c.undo_id == action).order_by(undo_step.c.subject)
    return [_STEPS.value(row) for row in db.execute(found.limit(limit))]


def take(db: Connection, action: int, *, limit: int) -> tuple[list[UndoStep], int]:
    """Removes the first steps of an action, and the action with its last; returns them, and how many are
    left."""
    taken = steps(db, action, limit=limit)
    of_action = undo_step.c.undo_id == action
    db.execute(delete(undo_step).where(of_action, undo_step.c.subject.in_([step.subject for step in taken])))
    left = int(db.execute(select(func.count()).select_from(undo_step).where(of_action)).scalar_one())
    if not left:
        db.execute(delete(undo).where(undo.c.id == action))
    return taken, left


def prune(db: Connection, *, before: int) -> None:
    """Deletes actions from before a time."""
    db.execute(delete(undo).where(undo.c.at < before))


def put_back(
    db: Connection, operation: Undoable, taken: Sequence[UndoStep], *, now: int, actor: str
) -> list[tuple[UndoStep, Applied | None]]:
    """Puts jobs back into their states before an operation; None for those that a person changed since."""
    ids = [step.subject for step in taken]
    known = versions(db, ids)
    results = [
        (
            step,
            None
            if known.get(step.subject, 0) != step.version
            else _put_back(db, operation, step.subject, _former(step), now=now, actor=actor),
        )
        for step in taken
    ]
    after = versions(db, ids)
    for step, applied in results:
        if applied is not None and applied.decision.allowed:
            # So that also the actions before this one can be undone.
            as_before = (undo_step.c.subject == step.subject, undo_step.c.version == step.before)
            if step.before:
                db.execute(update(undo_step).where(*as_before).values(version=after[step.subject]))
    return results


def _former(step: UndoStep) -> JobState:
    status, control = JobStatus(step.former["status"]), Control(step.former["control"])
    return JobState(**step.former | {"status": status, "control": control})


_OPPOSITES = {
    Undoable.PAUSE: Operation.RESUME,
    Undoable.RESUME: Operation.PAUSE,
    Undoable.DELETE: Operation.UNDELETE,
}


def _put_back(
    db: Connection, operation: Undoable, number: int, former: JobState, *, now: int, actor: str
) -> Applied | None:
    if operation is Undoable.PRIORITY:
        return operations.set_priority(db, number, value=former.priority, delta=None, now=now, actor=actor)
    if operation in (Undoable.CANCEL, Undoable.VIDEO_DELETED):
        return _uncancel(db, number, former, now=now, actor=actor)
    if operation is Undoable.CHANGE:
        applied = _unchange(db, number, former, now=now, actor=actor)
    else:
        applied = operations.operate(db, number, _OPPOSITES[operation], now=now, actor=actor)
    if (
        applied is not None
        and applied.decision.allowed
        and applied.status in WAITING
        and former.status in WAITING
    ):
        # NULL distinguishes a held job; a running job has none either, and waits since now.
        db.execute(update(job).where(job.c.id == number).values(ready_at=former.ready_at))
    return applied


def _unchange(db: Connection, number: int, former: JobState, *, now: int, actor: str) -> Applied | None:
    facts = job_facts(db, number)
    if facts is None:
        return None
    if facts.status not in WAITING:
        return Applied(Decision(None, f"is {facts.status} by now"), facts.status, facts.control)
    spec = jobs.spec_of(db, number)
    # Tuples are lists in JSON.
    before: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in (former.settings or {}).items()
    }
    put_back = replace(spec, **before)
    if put_back != spec:
        jobs.set_settings(db, number, put_back, now=now, actor=actor)
    applied = operations.set_priority(db, number, value=former.priority, delta=None, now=now, actor=actor)
    if former.status is facts.status:
        return applied
    operation = Operation.PAUSE if former.status is JobStatus.PAUSED else Operation.RESUME
    return operations.operate(db, number, operation, now=now, actor=actor)


_UNCANCEL: dict[JobStatus, Trigger] = {
    JobStatus.PENDING: EventKind.UNCANCEL,
    JobStatus.IN_PROGRESS: EventKind.UNCANCEL,
    JobStatus.PAUSED: EventKind.UNCANCEL_PAUSED,
    JobStatus.FAILED: EventKind.UNCANCEL_FAILED,
}


def _uncancel(db: Connection, number: int, former: JobState, *, now: int, actor: str) -> Applied | None:
    facts = job_facts(db, number)
    if facts is None:
        return None
    if facts.control is Control.CANCEL:
        asked = operations.ASKED[former.control]
        db.execute(update(job).where(job.c.id == number).values(control=former.control))
        events.append(db, asked, now=now, actor=actor, job=number, video=facts.video, source=facts.status)
        return Applied(Decision(Effect.CONTROL), facts.status, former.control)
    trigger = _UNCANCEL[former.status]
    ready_at = now if former.status is JobStatus.IN_PROGRESS else former.ready_at
    assign = {"completed_at": former.completed_at, "ready_at": ready_at}
    if move(db, number, trigger, now=now, actor=actor, assign=assign):
        return Applied(Decision(Effect.NOW), target_of(trigger), Control.NONE)
    other = open_job_of(db, facts.video)
    why = f"cannot continue: job {other} has the same video" if other else f"is {facts.status} by now"
    return Applied(Decision(None, why), facts.status, facts.control)
