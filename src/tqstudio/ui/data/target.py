"""The facts about a job that actions need, and whether the job allows an operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tqstudio.lifecycle import Control, Effect, JobStatus, Operation, decide

if TYPE_CHECKING:
    from tqstudio.protocol.answers import JobRow

DOING = {
    Control.PAUSE: "is already being paused",
    Control.CANCEL: "is already being cancelled",
    Control.RESTART: "is already being restarted",
}


@dataclass(frozen=True, slots=True)
class Target:
    """The facts about a job that actions need, whether or not its row is loaded."""

    id: int
    name: str
    status: JobStatus
    control: Control
    segments_done: int
    deleted: bool = False

    @classmethod
    def of(cls, row: JobRow) -> Target:
        done = sum(rendition["segments_done"] for rendition in row["renditions"])
        status, control = JobStatus(row["status"]), Control(row["control"])
        deleted = row["deleted_at"] is not None
        return cls(row["id"], row["name"], status, control, done, deleted)

    @property
    def pausable(self) -> bool:
        """Whether `p` pauses the job; otherwise it resumes it."""
        if self.status is JobStatus.PAUSED:
            return False
        return self.control is not Control.PAUSE


def refusal(operation: Operation, target: Target) -> str:
    """Why the operation is not possible on this job now; empty if it is."""
    if target.deleted != (operation is Operation.UNDELETE):
        return (
            f"job {target.id} is deleted; restore it first"
            if target.deleted
            else f"job {target.id} is not deleted"
        )
    decision = decide(target.status, operation, target.control)
    if not decision.allowed:
        return f"job {target.id} {decision.reason}"
    if decision.effect is Effect.NOTHING:
        word = "running" if target.status is JobStatus.IN_PROGRESS else target.status.value
        return f"job {target.id} {DOING.get(target.control, f'is already {word}')}"
    return ""
