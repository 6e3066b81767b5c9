"""The marked jobs, including those that are off screen or hidden by the filter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tqstudio.events import EventKind
from tqstudio.lifecycle import Control, JobStatus
from tqstudio.ui.data.target import Target
from tqstudio.words.format import counted

if TYPE_CHECKING:
    from tqstudio.protocol.answers import EventView, JobLive
    from tqstudio.ui.data.job_window import JobWindow

CONTROL_REQUESTED: dict[str, Control] = {
    EventKind.PAUSE_REQUESTED: Control.PAUSE,
    EventKind.CANCEL_REQUESTED: Control.CANCEL,
    EventKind.RESTART_REQUESTED: Control.RESTART,
    EventKind.RESUME_REQUESTED: Control.NONE,
}
_EMPTIED = (EventKind.RESTART, EventKind.WORK_REMOVED)
"""Events after which a job has no finished segments."""


@dataclass(frozen=True, slots=True)
class Matching:
    """Marks of all jobs that match a filter, up to the newest one at the keypress: only the supervisor
    knows which these are."""

    line: str
    newest: int
    total: int | None
    """How many matched at the keypress; None if that is unknown."""

    def __str__(self) -> str:
        jobs = "jobs" if self.total is None else counted(self.total, "job")
        return f"all {jobs}{f' that match {self.line}' if self.line else ''}"


class Marks(dict[int, Target]):
    """Marked jobs by id, kept up to date by the event stream; or all that match a filter.

    An action needs to know whether an invisible job still exists, whether it runs, and how much work it has.
    """

    matching: Matching | None = None

    def __bool__(self) -> bool:
        return self.matching is not None or len(self) > 0

    def clear(self) -> None:
        super().clear()
        self.matching = None

    def has(self, job: int, line: str) -> bool:
        """Whether a job is marked that a list with this filter line shows."""
        of = self.matching
        return job in self or (of is not None and job <= of.newest and line == of.line)

    def toggle(self, target: Target) -> None:
        if self.pop(target.id, None) is None:
            self[target.id] = target

    def drop(self, jobs: Iterable[int]) -> None:
        for job in jobs:
            self.pop(job, None)

    def hidden(self, window: JobWindow) -> list[int]:
        """The marked jobs that the filter hides, as opposed to those on another page of the list."""
        if not window.query.narrowed:
            return []
        return [
            job
            for job, target in self.items()
            if window.index_of(job) is None
            and (window.whole or not window.query.shows(target.status.value, target.name))
        ]

    def take_event(self, event: EventView) -> None:
        target = self.get(event["job"] or 0)
        if target is None:
            return
        trigger = event["trigger"]
        if trigger == EventKind.DELETED:
            del self[target.id]
            return
        if event["target"] is not None:
            target = replace(target, status=JobStatus(event["target"]), control=Control.NONE)
        if trigger == EventKind.UNDELETED:
            target = replace(target, deleted=False)
        if trigger in CONTROL_REQUESTED:
            target = replace(target, control=CONTROL_REQUESTED[trigger])
        if trigger in _EMPTIED:
            target = replace(target, segments_done=0)
        self[target.id] = target

    def take_progress(self, updates: Iterable[JobLive]) -> None:
        for update in updates:
            if (target := self.get(update["id"])) is not None and "renditions" in update:
                done = sum(rendition["segments_done"] for rendition in update["renditions"])
                self[target.id] = replace(target, segments_done=done)

    def patch(self, job: int, fields: Mapping[str, Any]) -> None:
        """Apply the answer to an action."""
        if (target := self.get(job)) is not None:
            status, control = JobStatus(fields["status"]), Control(fields["control"])
            self[job] = replace(target, status=status, control=control)
