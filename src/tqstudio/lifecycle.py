"""Defines the states of videos, jobs, renditions and workers, and all allowed transitions of a job.

`TRANSITIONS` lists the status changes and their triggers; `decide` checks whether an operation requested by
a user is allowed now. The store applies a transition as one guarded UPDATE plus one event in one transaction.
No I/O and no third-party imports here: the command line and the terminal UI load this module at start.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from tqstudio.events import EventKind


class JobStatus(StrEnum):
    """The status of a job, as shown to users."""

    PENDING = "pending"
    """Waits for a worker. Set by intake, `add`, retry, a retryable failure or a lost worker. While
    `not_before` is in the future the job is in its backoff and cannot be claimed."""
    IN_PROGRESS = "in_progress"
    """Owned by one worker through a lease. Set by a claim only. If the worker dies the supervisor requeues
    the job; finished segments are kept."""
    PAUSED = "paused"
    """Paused by a user and resumed only by a user; finished segments are kept."""
    DONE = "done"
    """Its generation is published. Immutable: a retranscode or a changed source makes a new job."""
    FAILED = "failed"
    """A fatal error, or attempts or crashes used up. A user or autorestart may requeue it."""
    CANCELLED = "cancelled"
    """Ended by a user; its ffmpeg has exited. Finished segments are kept for a later retry."""


TERMINAL = frozenset({JobStatus.DONE, JobStatus.FAILED, JobStatus.CANCELLED})
WAITING = (JobStatus.PENDING, JobStatus.PAUSED)
"""No worker has the job, and it has not ended."""
OPEN = (JobStatus.PENDING, JobStatus.IN_PROGRESS, JobStatus.PAUSED)
"""It has not ended; a video has at most one such job."""

QUEUE_ORDER: tuple[JobStatus, ...] = (
    JobStatus.IN_PROGRESS,
    JobStatus.PENDING,
    JobStatus.PAUSED,
    JobStatus.FAILED,
    JobStatus.CANCELLED,
    JobStatus.DONE,
)
"""The order of statuses in the queue view: running, waiting, needing a user."""


class Control(StrEnum):
    """A control request for a running job; the worker receives it in the answer to its next report."""

    NONE = "none"
    PAUSE = "pause"
    CANCEL = "cancel"
    RESTART = "restart"


class JobKind(StrEnum):
    NEW = "new"
    RETRANSCODE = "retranscode"
    CHANGED = "changed"


class VideoStatus(StrEnum):
    """Derived from the current generation and the newest job; never stored."""

    IDLE = "idle"
    PENDING = "pending"
    PROCESSING = "processing"
    READY = "ready"
    FAILED = "failed"


class RenditionStatus(StrEnum):
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"


class WorkerStatus(StrEnum):
    """Derived from the operator's intent, heartbeats and the current job; never stored."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    DRAINING = "draining"
    OFFLINE = "offline"
    DISABLED = "disabled"


class WorkerKind(StrEnum):
    CPU = "cpu"
    GPU = "gpu"


LogLevel = Literal["debug", "info", "warning"]
"""The least severe lines that the supervisor logs."""


class Step(StrEnum):
    """The steps of a job, in their order."""

    PROBE = "probe"
    EXTRAS = "extras"
    TRANSCODE = "transcode"
    MASTER_PLAYLIST = "master_playlist"
    FINALIZE = "finalize"


class GateKind(StrEnum):
    """Why no job can be claimed; a closed gate does not change jobs."""

    USER = "user"
    DISK = "disk"
    LOAD = "load"
    HOURS = "hours"


PAUSED_WITHOUT_REASON = "paused by user"
"""The reason of a gate that a user closed without giving one."""


class Autorestart(StrEnum):
    """The state of automatic restarts of a failed job; see `store/jobs/autorestart.py`."""

    DISABLED = "disabled"
    ENABLED = "enabled"
    IN_PROGRESS = "in_progress"
    FAILED = "failed"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class AutorestartRule:
    """How often a failed job is restarted automatically (0: never), and the delay after its failure."""

    limit: int = 0
    delay_s: float = 60.0


NO_AUTORESTART = AutorestartRule()


class DeletionState(StrEnum):
    """Where the ladder of a deleted video is going; see `store/library/deletions.py`."""

    TRASHING = "trashing"
    TRASHED = "trashed"
    RESTORING = "restoring"
    PURGING = "purging"


class DeliveryState(StrEnum):
    """What is to be done with the copy of a generation in a bucket; see `store/library/deliveries.py`."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    UNPUBLISHING = "unpublishing"
    REMOVING = "removing"


class AttemptOutcome(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    RELEASED = "released"


Trigger = Literal[
    EventKind.CREATE,
    EventKind.CREATE_HELD,
    EventKind.CLAIM,
    EventKind.PAUSE,
    EventKind.RESUME,
    EventKind.CANCEL,
    EventKind.RETRY,
    EventKind.RESTART,
    EventKind.UNCANCEL,
    EventKind.UNCANCEL_PAUSED,
    EventKind.UNCANCEL_FAILED,
    EventKind.COMPLETE,
    EventKind.FAIL_RETRYABLE,
    EventKind.FAIL_FINAL,
    EventKind.WORKER_LOST,
    EventKind.RELEASE,
    EventKind.AUTORESTART,
]
"""The kinds of events that change the status of a job."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One allowed change of a job's status."""

    trigger: Trigger
    source: JobStatus | None
    target: JobStatus


def _t(trigger: Trigger, sources: tuple[JobStatus | None, ...], target: JobStatus) -> list[Transition]:
    return [Transition(trigger, source, target) for source in sources]


_P, _R, _H, _D, _F, _C = (
    JobStatus.PENDING,
    JobStatus.IN_PROGRESS,
    JobStatus.PAUSED,
    JobStatus.DONE,
    JobStatus.FAILED,
    JobStatus.CANCELLED,
)

TRANSITIONS: tuple[Transition, ...] = (
    *_t(EventKind.CREATE, (None,), _P),
    *_t(EventKind.CREATE_HELD, (None,), _H),
    *_t(EventKind.CLAIM, (_P,), _R),
    *_t(EventKind.PAUSE, (_P, _R), _H),
    *_t(EventKind.RESUME, (_H,), _P),
    *_t(EventKind.CANCEL, (_P, _H, _F, _R), _C),
    *_t(EventKind.RETRY, (_F, _C), _P),
    *_t(EventKind.RESTART, (_R, _H, _F, _C), _P),
    *_t(EventKind.UNCANCEL, (_C,), _P),
    *_t(EventKind.UNCANCEL_PAUSED, (_C,), _H),
    *_t(EventKind.UNCANCEL_FAILED, (_C,), _F),
    *_t(EventKind.COMPLETE, (_R,), _D),
    *_t(EventKind.FAIL_RETRYABLE, (_R,), _P),
    *_t(EventKind.FAIL_FINAL, (_R,), _F),
    *_t(EventKind.WORKER_LOST, (_R,), _P),
    *_t(EventKind.RELEASE, (_R,), _P),
    *_t(EventKind.AUTORESTART, (_F,), _P),
)

_BY_TRIGGER: dict[Trigger, dict[JobStatus | None, JobStatus]] = {}
for _transition in TRANSITIONS:
    _BY_TRIGGER.setdefault(_transition.trigger, {})[_transition.source] = _transition.target


def sources_of(trigger: Trigger) -> frozenset[JobStatus]:
    """Returns the statuses that this trigger may change."""
    return frozenset(source for source in _BY_TRIGGER[trigger] if source is not None)


def target_of(trigger: Trigger) -> JobStatus:
    """Returns the status that this trigger leads to; each has exactly one."""
    return next(iter(_BY_TRIGGER[trigger].values()))


PROCESS_BATCH = "process-"
"""Beginning of the batches of `tqstudio process`, which does not wait for files that are still written."""


class Operation(StrEnum):
    """An operation on a job that a user can request."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY = "retry"
    RESTART = "restart"
    RETRANSCODE = "retranscode"
    CHANGE = "change"
    PRIORITY = "priority"
    DELETE = "delete"
    UNDELETE = "undelete"


class Undoable(StrEnum):
    """A kind of action that can be undone: an `Operation` on jobs, or a change of a video or drop folder."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    CHANGE = "change"
    PRIORITY = "priority"
    DELETE = "delete"
    VIDEO_DELETED = "video_deleted"
    FOLDER_ON = "folder_on"
    FOLDER_OFF = "folder_off"
    FOLDER_CHANGED = "folder_changed"
    FOLDER_REMOVED = "folder_removed"


UNDOABLE = frozenset(
    Operation(each) for each in ("pause", "resume", "cancel", "change", "priority", "delete")
)
"""A retry, a restart and a new job are not undone, and a job is deleted again by hand."""


class Effect(StrEnum):
    """How an allowed operation is carried out."""

    NOW = "now"
    """The store applies it at once."""
    CONTROL = "control"
    """Sent to the running worker; shown as “pausing…” or “cancelling…” until its ffmpeg has exited."""
    NEW_JOB = "new_job"
    """Leaves the job as it is and creates a new one."""
    NOTHING = "nothing"
    """The job is already in the requested state."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether and how an operation is carried out; if refused: why, and what to do instead."""

    effect: Effect | None
    reason: str = ""

    @property
    def allowed(self) -> bool:
        return self.effect is not None


_NOW, _CONTROL, _NEW, _NOTHING = (
    Decision(Effect.NOW),
    Decision(Effect.CONTROL),
    Decision(Effect.NEW_JOB),
    Decision(Effect.NOTHING),
)


def _no(reason: str) -> Decision:
    return Decision(None, reason)


OPERATIONS: dict[Operation, dict[JobStatus, Decision]] = {
    Operation.PAUSE: {
        _P: _NOW,
        _R: _CONTROL,
        _H: _NOTHING,
        _D: _no("is done; there is nothing left to pause"),
        _F: _no("has failed; retry it first"),
        _C: _no("is cancelled; retry it first"),
    },
    Operation.RESUME: {
        _P: _NOTHING,
        _R: _NOTHING,
        _H: _NOW,
        _D: _no("is done; use retranscode to encode it again"),
        _F: _no("has failed; use retry"),
        _C: _no("is cancelled; use retry"),
    },
    Operation.CANCEL: {
        _P: _NOW,
        _R: _CONTROL,
        _H: _NOW,
        _D: _no("is done; use delete to remove it from the list"),
        _F: _NOW,
        _C: _NOTHING,
    },
    Operation.RETRY: {
        _P: _NOTHING,
        _R: _no("is running; use restart to start it over"),
        _H: _no("is paused; use resume"),
        _D: _no("is done; use retranscode to encode it again"),
        _F: _NOW,
        _C: _NOW,
    },
    Operation.RESTART: {
        _P: _no("is still waiting; to start it over, cancel it first, then restart it"),
        _R: _CONTROL,
        _H: _NOW,
        _D: _no("is done; use retranscode to encode it again"),
        _F: _NOW,
        _C: _NOW,
    },
    Operation.RETRANSCODE: {
        _P: _no("is still waiting; use change to give it other settings"),
        _R: _no("is running; use restart to start it over, or cancel"),
        _H: _no("is paused; use change to give it other settings, or resume"),
        _D: _NEW,
        _F: _no("has failed; use retry or restart"),
        _C: _no("is cancelled; use retry or restart"),
    },
    Operation.CHANGE: {
        _P: _NOW,
        _R: _no("is running; pause it first, then change it"),
        _H: _NOW,
        _D: _NEW,
        _F: _no("has failed; retry it first, then change it"),
        _C: _no("is cancelled; retry it first, then change it"),
    },
    Operation.PRIORITY: {
        _P: _NOW,
        _R: _no("is already running; pause it first, then set its priority"),
        _H: _NOW,
        _D: _no("is done; use retranscode, which accepts a priority"),
        _F: _NOW,
        _C: _NOW,
    },
    Operation.DELETE: {
        _P: _NOW,
        _R: _no("is running; cancel it first"),
        _H: _NOW,
        _D: _NOW,
        _F: _NOW,
        _C: _NOW,
    },
    Operation.UNDELETE: {status: _NOW for status in JobStatus if status is not _R}
    | {_R: _no("is running and was never deleted")},
}


def decide(status: JobStatus, operation: Operation, control: Control = Control.NONE) -> Decision:
    """Checks whether a user may apply `operation` to a job with this status and pending control request.

    Until the worker has answered, cancel overrides pause and restart, and resume withdraws a pause.
    Repeating a request is no error.
    """
    decision = OPERATIONS[operation][status]
    if status is not JobStatus.IN_PROGRESS or control is Control.NONE:
        return decision
    if operation is Operation.RESUME and control is Control.PAUSE:
        return _CONTROL
    if operation is Operation.RESUME and control is Control.CANCEL:
        return _no("is being cancelled; wait for it, then retry")
    if decision.effect is Effect.CONTROL and operation.value == control.value:
        return _NOTHING
    if control is Control.CANCEL and decision.effect is Effect.CONTROL:
        return _no("is being cancelled; wait for it, then retry")
    return decision


def job_word(
    status: JobStatus, control: Control, *, retrying: bool = False, held: bool = False, changed: bool = False
) -> str:
    """Returns the displayed word for a job, including a pending control request.

    Args:
        retrying: the job is pending and in its backoff.
        held: the job has been paused since it was created.
        changed: its source or settings changed since its ladder was encoded.
    """
    if status is JobStatus.IN_PROGRESS:
        return {
            Control.NONE: "running",
            Control.PAUSE: "pausing…",
            Control.CANCEL: "cancelling…",
            Control.RESTART: "restarting…",
        }[control]
    if status is JobStatus.PENDING and retrying:
        return "retry"
    if status is JobStatus.PENDING and changed:
        return "changed"
    if status is JobStatus.PAUSED and held:
        return "held"
    return status.value


def claim_word(status: JobStatus, *, expired: bool = False, attempts: int = 0) -> str:
    """Returns the state of a job's claim: unclaimed, claimed, expired, retrying, completed or failed."""
    match status:
        case JobStatus.IN_PROGRESS:
            return "expired" if expired else "claimed"
        case JobStatus.DONE:
            return "completed"
        case JobStatus.FAILED:
            return "failed"
        case _:
            return "retrying" if attempts and status is JobStatus.PENDING else "unclaimed"


def video_status(*, has_generation: bool, job: JobStatus | None) -> VideoStatus:
    """Derives a video's status from its current generation and its newest job.

    A ready video stays ready while a retranscode waits, runs or fails.
    """
    if has_generation:
        return VideoStatus.READY
    match job:
        case JobStatus.IN_PROGRESS:
            return VideoStatus.PROCESSING
        case JobStatus.PENDING | JobStatus.PAUSED:
            return VideoStatus.PENDING
        case JobStatus.FAILED:
            return VideoStatus.FAILED
        case _:
            return VideoStatus.IDLE


def worker_status(
    *, enabled: bool, draining: bool, beat_age_s: float | None, offline_s: float, registered: bool, busy: bool
) -> WorkerStatus:
    """Derives a worker's status from the operator's intent, its last heartbeat and whether it has a job.

    Args:
        beat_age_s: seconds since the last heartbeat, or since registration; None when its process has ended.
        offline_s: seconds without a heartbeat until a worker counts as offline.
    """
    if not enabled:
        return WorkerStatus.DISABLED if not busy else WorkerStatus.DRAINING
    if beat_age_s is None or beat_age_s > offline_s:
        return WorkerStatus.OFFLINE
    if not registered:
        return WorkerStatus.STARTING
    if draining:
        # Once drained it takes no jobs until it is enabled again.
        return WorkerStatus.DRAINING if busy else WorkerStatus.DISABLED
    return WorkerStatus.BUSY if busy else WorkerStatus.IDLE
