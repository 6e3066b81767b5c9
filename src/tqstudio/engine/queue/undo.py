"""Undoes the newest action of an actor, a part of its jobs at a time."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tqstudio.engine.host.ages import Ages
from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.live.running_jobs import RunningJobs
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import undo
from tqstudio.engine.store.jobs.undo import SLICE, UndoAction, UndoStep
from tqstudio.engine.store.library import folders, videos
from tqstudio.engine.store.lists import records
from tqstudio.engine.store.machine import supervisors
from tqstudio.errors import TqError
from tqstudio.lifecycle import Control, JobStatus, Undoable
from tqstudio.paths import data, decode
from tqstudio.protocol.answers import UndoAnswer
from tqstudio.protocol.requests import UndoRequest

UNDO_KEPT_US = 86_400 * MICROSECOND
_OF_FOLDERS = (Undoable.FOLDER_ON, Undoable.FOLDER_OFF, Undoable.FOLDER_CHANGED, Undoable.FOLDER_REMOVED)


@dataclass
class _Undone:
    subject: str = ""
    back: int = 0
    reasons: list[str] = field(default_factory=list)
    """Why each of the others was left; empty for one that was changed since."""
    controls: dict[int, Control] = field(default_factory=dict)
    """Control requests of running jobs."""


class Undo:
    """Undoes actions.

    Args:
        undelete: brings a deleted video back, see `Wings`.
        reload_folders: called after a drop folder was changed.
    """

    def __init__(
        self,
        db: Database,
        running_jobs: RunningJobs,
        ages: Ages,
        undelete: Callable[[int, str], Awaitable[None]],
        reload_folders: Callable[[], Awaitable[None]],
    ) -> None:
        self._db, self._running_jobs, self._ages = db, running_jobs, ages
        self._undelete, self._reload_folders = undelete, reload_folders

    async def undo(self, request: UndoRequest, *, actor: str) -> UndoAnswer:
        """Undoes the next part of an actor's newest action, or of the one that the request names."""
        key = f"undo:{request.idempotency_key}" if request.idempotency_key else None
        if key is not None and (stored := await self._db.read(supervisors.stored_answer, key)) is not None:
            answer: UndoAnswer = json.loads(stored)
            return answer
        since = self._ages.before(UNDO_KEPT_US)
        action = await self._db.read(undo.newest, actor=actor, since=since, number=request.undo)
        refusal: str | None = None
        if action is not None and action.operation is Undoable.VIDEO_DELETED:
            refusal = await self._bring_back(action, actor)
        answer, controls = await self._db.write(self._undo, action, key, actor, refusal)
        for job, control in controls.items():
            self._running_jobs.control(job, control)
        if action is not None and action.operation in _OF_FOLDERS:
            await self._reload_folders()
        return answer

    async def _bring_back(self, action: UndoAction, actor: str) -> str | None:
        """Brings a video back; returns why it does not come back, None if it does."""
        for step in await self._db.read(undo.steps, action.id, limit=1):
            row = await self._db.read(videos.get, step.subject)
            if row is None or row.deleted_at != step.former["deleted_at"]:
                return ""
            try:
                await self._undelete(step.subject, actor)
            except TqError as error:
                return error.message
        return None

    def _undo(
        self, db: Connection, action: UndoAction | None, key: str | None, actor: str, refusal: str | None
    ) -> tuple[UndoAnswer, dict[int, Control]]:
        """Undoes in one transaction; `refusal` is why a video does not come back."""
        undone, remaining = _Undone(), 0
        if action is not None:
            steps, remaining = undo.take(db, action.id, limit=SLICE)
            if action.operation in _OF_FOLDERS:
                _undo_folder(db, steps, undone)
            elif action.operation is Undoable.VIDEO_DELETED:
                _undo_video(db, steps, undone, actor, refusal)
            else:
                _undo_jobs(db, action.operation, steps, undone, actor)
        answer: UndoAnswer = {
            "undo": action.id if action is not None and remaining else None,
            "operation": None if action is None else action.operation.value,
            "subject": undone.subject,
            "restored": undone.back,
            "not_restored": len(undone.reasons),
            "reason": next(filter(None, undone.reasons), ""),
            "remaining": remaining,
        }
        if key is not None:
            supervisors.store_answer(db, key, json.dumps(answer), now=now_us())
        return answer, undone.controls


def _undo_jobs(
    db: Connection, operation: Undoable, steps: list[UndoStep], undone: _Undone, actor: str
) -> None:
    for step, applied in undo.put_back(db, operation, steps, now=now_us(), actor=actor):
        if applied is None:
            undone.reasons.append("")
        elif not applied.decision.allowed:
            undone.reasons.append(f"job {step.subject} {applied.decision.reason}")
        else:
            undone.back += 1
            if applied.status is JobStatus.IN_PROGRESS:
                undone.controls[step.subject] = applied.control
    if len(steps) == 1:
        record = records.one(db, steps[0].subject)
        undone.subject = f"job {steps[0].subject}, {record['name']}" if record else ""


def _undo_video(
    db: Connection, steps: list[UndoStep], undone: _Undone, actor: str, refusal: str | None
) -> None:
    for step in steps:
        video = videos.get(db, step.subject)
        undone.subject = video.name if video else ""
        if refusal is not None:
            undone.reasons.append(refusal)
            continue
        # The deletion cancelled the job that was open.
        cancelled = [UndoStep(**each) for each in step.former["cancelled"]]
        _undo_jobs(db, Undoable.CANCEL, cancelled, of_jobs := _Undone(), actor)
        undone.controls |= of_jobs.controls
        undone.back += 1


def _undo_folder(db: Connection, steps: list[UndoStep], undone: _Undone) -> None:
    for step in steps:
        undone.subject = data(decode(step.former["before"]["path"]))
        if folders.put_back(db, step.subject, step.former, now=now_us()):
            undone.back += 1
        else:
            undone.reasons.append("")
