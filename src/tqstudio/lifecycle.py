"""The states of videos, jobs, renditions and workers, and every change a job may make.

One table (`TRANSITIONS`) says what may happen to a job and who may cause it; `decide` answers whether an
operation asked for by a person is possible now. The store applies a transition as one guarded UPDATE
plus one event in the same transaction. No I/O here, and no third-party imports: the command line and the
terminal UI load this module at start.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class JobStatus(StrEnum):
    """Where a job stands; the six words a person reads."""

    PENDING = "pending"
    """Waits for a worker. Set by intake, `add`, retry, a retryable failure or a lost worker. A crash of
    anything leaves it as it is. With `not_before` set it waits out a backoff and is not claimable yet."""
    IN_PROGRESS = "in_progress"
    """Owned by one worker through a lease. Set by the claim only. If the worker dies the supervisor makes
    it pending again; its finished segments stay."""
    PAUSED = "paused"
    """Set aside by a person; finished segments stay. Only a person resumes it."""
    DONE = "done"
    """Its generation is published. Immutable: a retranscode or a changed source makes a new job."""
    FAILED = "failed"
    """A fatal error, or attempts or crashes used up. A person (or autorestart) may send it back."""
    CANCELLED = "cancelled"
    """Ended by a person; its ffmpeg is confirmed dead. Finished segments stay for a later retry."""


TERMINAL = frozenset({JobStatus.DONE, JobStatus.FAILED, JobStatus.CANCELLED})
OPEN = frozenset({JobStatus.PENDING, JobStatus.IN_PROGRESS, JobStatus.PAUSED})

QUEUE_ORDER: tuple[JobStatus, ...] = (
    JobStatus.IN_PROGRESS,
    JobStatus.PENDING,
    JobStatus.PAUSED,
    JobStatus.FAILED,
    JobStatus.CANCELLED,
    JobStatus.DONE,
)
"""The order in which the queue view shows statuses: what works, what waits, what needs a person."""


class Control(StrEnum):
    """What a person asked of a running job and is not true yet; the worker sees it with its next report."""

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
    """Derived from intent, beats and the current job; never stored."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    DRAINING = "draining"
    OFFLINE = "offline"
    DISABLED = "disabled"


class WorkerKind(StrEnum):
    CPU = "cpu"
    GPU = "gpu"


class Step(StrEnum):
    """The steps of a job, in their order."""

    PROBE = "probe"
    THUMBNAIL = "thumbnail"
    TRANSCODE = "transcode"
    MASTER_PLAYLIST = "master_playlist"
    FINALIZE = "finalize"


class GateKind(StrEnum):
    """Why no job is handed out; jobs themselves do not change while a gate is shut."""

    USER = "user"
    DISK = "disk"
    BACKPRESSURE = "backpressure"


PAUSED_WITHOUT_REASON = "paused by user"
"""The reason of a gate that a person shut and gave none for."""


class Autorestart(StrEnum):
    """Whether a failed job starts again by itself; `store/autorestart.py` says what each means."""

    DISABLED = "disabled"
    ENABLED = "enabled"
    IN_PROGRESS = "in_progress"
    FAILED = "failed"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class AutorestartRule:
    """How often a failed job starts again by itself (0: never), and how long after its failure."""

    limit: int = 0
    delay_s: float = 60.0


NO_AUTORESTART = AutorestartRule()


class AttemptOutcome(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    RELEASED = "released"


class Trigger(StrEnum):
    """What moves a job. The names appear in the event log."""

    CREATE = "create"
    CREATE_HELD = "create_held"
    CLAIM = "claim"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY = "retry"
    RESTART = "restart"
    COMPLETE = "complete"
    FAIL_RETRYABLE = "fail_retryable"
    FAIL_FINAL = "fail_final"
    WORKER_LOST = "worker_lost"
    RELEASE = "release"
    AUTORESTART = "autorestart"


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
    *_t(Trigger.CREATE, (None,), _P),
    *_t(Trigger.CREATE_HELD, (None,), _H),
    *_t(Trigger.CLAIM, (_P,), _R),
    *_t(Trigger.PAUSE, (_P, _R), _H),
    *_t(Trigger.RESUME, (_H,), _P),
    *_t(Trigger.CANCEL, (_P, _H, _F, _R), _C),
    *_t(Trigger.RETRY, (_F, _C), _P),
    *_t(Trigger.RESTART, (_R, _H, _F, _C), _P),
    *_t(Trigger.COMPLETE, (_R,), _D),
    *_t(Trigger.FAIL_RETRYABLE, (_R,), _P),
    *_t(Trigger.FAIL_FINAL, (_R,), _F),
    *_t(Trigger.WORKER_LOST, (_R,), _P),
    *_t(Trigger.RELEASE, (_R,), _P),
    *_t(Trigger.AUTORESTART, (_F,), _P),
)

_BY_TRIGGER: dict[Trigger, dict[JobStatus | None, JobStatus]] = {}
for _transition in TRANSITIONS:
    _BY_TRIGGER.setdefault(_transition.trigger, {})[_transition.source] = _transition.target


def sources_of(trigger: Trigger) -> frozenset[JobStatus]:
    """The statuses from which this trigger may move a job."""
    return frozenset(source for source in _BY_TRIGGER[trigger] if source is not None)


def target_of(trigger: Trigger) -> JobStatus:
    """The status to which this trigger leads; each trigger has one."""
    return next(iter(_BY_TRIGGER[trigger].values()))


class Operation(StrEnum):
    """What a person can ask of a job."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY = "retry"
    RESTART = "restart"
    RETRANSCODE = "retranscode"
    PRIORITY = "priority"
    DELETE = "delete"
    UNDELETE = "undelete"


class Effect(StrEnum):
    """How an allowed operation comes about."""

    NOW = "now"
    """The store makes it true at once."""
    CONTROL = "control"
    """The running worker is asked; the word is “pausing…” or “cancelling…” until ffmpeg is dead."""
    NEW_JOB = "new_job"
    """The job stays as it is and a new one is made."""
    NOTHING = "nothing"
    """It is so already."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether an operation is possible now, how, and if not: why, and the way out."""

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
        _D: _no("is done; use retranscode to make it again"),
        _F: _no("has failed; use retry"),
        _C: _no("is cancelled; use retry"),
    },
    Operation.CANCEL: {
        _P: _NOW,
        _R: _CONTROL,
        _H: _NOW,
        _D: _no("is done; use delete to take it off the list"),
        _F: _NOW,
        _C: _NOTHING,
    },
    Operation.RETRY: {
        _P: _NOTHING,
        _R: _no("is running; use restart to start it over"),
        _H: _no("is paused; use resume"),
        _D: _no("is done; use retranscode to make it again"),
        _F: _NOW,
        _C: _NOW,
    },
    Operation.RESTART: {
        _P: _no("is still waiting; to start it over, cancel it first, then restart it"),
        _R: _CONTROL,
        _H: _NOW,
        _D: _no("is done; use retranscode to make it again"),
        _F: _NOW,
        _C: _NOW,
    },
    Operation.RETRANSCODE: {
        _P: _no("is still waiting; use cancel to take it back"),
        _R: _no("is running; use restart to start it over, or cancel"),
        _H: _no("is paused; use resume, restart or cancel"),
        _D: _NEW,
        _F: _no("has failed; use retry or restart"),
        _C: _no("is cancelled; use retry or restart"),
    },
    Operation.PRIORITY: {
        _P: _NOW,
        _R: _no("is running and nothing goes before it; pause it first, then set its priority"),
        _H: _NOW,
        _D: _no("is done; use retranscode, whose new job takes a priority"),
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
    """Whether a person may do `operation` to a job with this status and pending control.

    A stronger wish replaces a weaker one while the worker has not answered yet: cancel overrides pause
    and restart; asking twice is no error. Resuming a job that is “pausing…” takes the wish back.
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


def job_word(status: JobStatus, control: Control, *, retrying: bool = False, held: bool = False) -> str:
    """The word a screen shows for a job, with what was asked for but is not true yet.

    Args:
        retrying: the job is pending and waits out a backoff.
        held: the job is paused since it was made.
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
    if status is JobStatus.PAUSED and held:
        return "held"
    return status.value


def claim_word(status: JobStatus, *, expired: bool = False, attempts: int = 0) -> str:
    """The derived word for a job's claim: unclaimed, claimed, expired, retrying, completed or failed."""
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
    """A video's status from its current generation and its newest job.

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
    """A worker's status from the operator's intent, the age of its last beat and whether it holds a job.

    Args:
        beat_age_s: seconds since the last heartbeat, or since registration when none came yet; None when
            its process has ended.
        offline_s: seconds without a beat after which a worker counts as offline.
    """
    if not enabled:
        return WorkerStatus.DISABLED if not busy else WorkerStatus.DRAINING
    if beat_age_s is None or beat_age_s > offline_s:
        return WorkerStatus.OFFLINE
    if not registered:
        return WorkerStatus.STARTING
    if draining:
        # What it drained for has come: it takes no jobs until it is enabled again.
        return WorkerStatus.DRAINING if busy else WorkerStatus.DISABLED
    return WorkerStatus.BUSY if busy else WorkerStatus.IDLE
