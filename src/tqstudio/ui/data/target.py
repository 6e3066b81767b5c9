"""What an action must know of a job, and whether the job allows it now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tqstudio.lifecycle import Control, Effect, JobStatus, Operation, decide

if TYPE_CHECKING:
    from tqstudio.protocol.answers import JobRow

DOING = {
    Control.PAUSE: "is being paused already",
    Control.CANCEL: "is being cancelled already",
    Control.RESTART: "is being restarted already",
}
CONTROL_OF_WORD = {"pausing…": Control.PAUSE, "cancelling…": Control.CANCEL, "restarting…": Control.RESTART}
"""What was asked of a running job, from the word that an action answers."""


@dataclass(frozen=True, slots=True)
class Target:
    """What an action must know of a job, whether or not its row is on screen."""

    id: int
    name: str
    status: JobStatus
    control: Control
    segments_done: int
    qualities: tuple[tuple[str, str], ...] = ()
    """Those that the source can have, each with the reason why the job made none of it; "" where it did."""

    @classmethod
    def of(cls, row: JobRow) -> Target:
        done = sum(rendition["segments_done"] for rendition in row["renditions"])
        status, control = JobStatus(row["status"]), Control(row["control"])
        return cls(row["id"], row["name"], status, control, done, tuple(_qualities(row)))

    @property
    def pausable(self) -> bool:
        """Whether `p` pauses; otherwise it lets the job go on."""
        if self.status is JobStatus.PAUSED:
            return False
        return self.control is not Control.PAUSE


def _qualities(row: JobRow) -> Iterator[tuple[str, str]]:
    for rendition in row["renditions"]:
        if rendition["status"] != "skipped":
            yield rendition["name"], ""
        elif rendition["width"] is not None:
            yield rendition["name"], rendition["reason"] or "left out"


def refusal(operation: Operation, target: Target) -> str:
    """Why the operation cannot be done to this job now; empty when it can."""
    decision = decide(target.status, operation, target.control)
    if not decision.allowed:
        return f"job {target.id} {decision.reason}"
    if decision.effect is Effect.NOTHING:
        word = "running" if target.status is JobStatus.IN_PROGRESS else target.status.value
        return f"job {target.id} {DOING.get(target.control, f'is {word} already')}"
    return ""
