"""Ends leases in the store: job done, failed, released, or lost with its worker.

Each function reads the lease (`claims.held`, `_reread`) in the transaction that ends it, so its later
statements need no check of the token.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tqstudio.engine.host.clock import MICROSECOND
from tqstudio.engine.retry import RetryRules, judge_failure, judge_loss
from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs import claims, progress
from tqstudio.engine.store.jobs.claims import HeldLease, Token
from tqstudio.engine.store.jobs.transitions import assignments_of, job_facts, move
from tqstudio.engine.store.machine import quarantine, speeds
from tqstudio.errors import MAX_ERROR_TEXT, MEANINGS, ErrorClass, ErrorCode, class_of
from tqstudio.events import EventKind
from tqstudio.lifecycle import AttemptOutcome, Control, JobStatus, Trigger, target_of
from tqstudio.protocol.answers import WarningView

_AUTORESTART = (
    "autorestart = CASE WHEN :final = 0 OR autorestart = 'disabled' THEN autorestart"
    " WHEN :denied THEN 'denied' WHEN restarts >= autorestart_limit THEN 'failed' ELSE autorestart END"
)
"""The autorestart state after a failure; values: final, denied."""
_NOTHING_KEPT = f", progress = 0, segments_at_crash = 0, resumed_at_crash_s = 0, {speeds.FORGOTTEN}"

_GIVEN_UP = "; it failed twice in the same way, so it is not retried automatically"


@dataclass(frozen=True, slots=True)
class Failure:
    code: ErrorCode
    text: str
    hint: str = ""
    log: str | None = None


def fail(
    db: Connection,
    token: Token,
    failure: Failure,
    *,
    now: int,
    rules: RetryRules,
    worker: str,
    forgotten: bool = False,
) -> JobStatus | None:
    """Ends a lease with a failure; the job is pending again or failed, by its class. None: the lease is lost.

    Args:
        forgotten: whether the finished segments are removed.
    """
    lease = claims.held(db, token)
    if lease is None:
        return None
    speeds.add_work(db, lease.job, lease.epoch, now=now)
    controlled = _apply_control(db, lease, now=now, actor=worker, detail=failure.text)
    if controlled is not None:
        return controlled
    error = failure.text[:MAX_ERROR_TEXT]
    repeated = lease.attempts > 0 and _last_error(db, lease.job) == (failure.code, error)
    verdict = judge_failure(
        failure.code,
        attempts=lease.attempts,
        crashes=lease.crashes,
        max_attempts=lease.max_attempts,
        rules=rules,
        repeated=repeated,
    )
    given_up = repeated and verdict.trigger is EventKind.FAIL_FINAL and not verdict.exhausted
    hint = f"{failure.hint or MEANINGS[failure.code].hint}{_GIVEN_UP}" if given_up else failure.hint
    # Segments of a source that has changed are useless, like removed ones.
    discard = forgotten or failure.code is ErrorCode.SOURCE_CHANGED
    denied = class_of(failure.code) is ErrorClass.FATAL
    move(
        db,
        lease.job,
        verdict.trigger,
        now=now,
        lease=lease,
        actor=worker,
        worker=worker,
        code=verdict.code,
        detail=error,
        assign=(
            "attempts = :attempts, error_code = :code, error_text = :error, error_hint = :hint,"
            " error_log = :log, exhausted = :exhausted, not_before = :not_before,"
            " completed_at = :completed,"
            f" {_AUTORESTART}{_NOTHING_KEPT if discard else ''}"
        ),
        values={
            "attempts": verdict.attempts,
            "code": failure.code.value,
            "error": error,
            "hint": hint,
            "log": failure.log,
            "exhausted": int(verdict.exhausted),
            "not_before": None if verdict.wait_s is None else now + int(verdict.wait_s * MICROSECOND),
            "completed": now if verdict.trigger is EventKind.FAIL_FINAL else None,
            "final": int(verdict.trigger is EventKind.FAIL_FINAL),
            "denied": int(denied),
        },
    )
    if discard:
        progress.reset_renditions(db, lease.job)
    answer = target_of(verdict.trigger)
    claims.end_attempt(
        db, lease, AttemptOutcome.FAILED, now=now, answer=answer, code=failure.code, error=error
    )
    return answer


def _last_error(db: Connection, job: int) -> tuple[str | None, str | None]:
    """Returns code and text of the last failure since the last retry by a user."""
    row = db.execute("SELECT error_code, error_text FROM job WHERE id = :job", {"job": job}).one()
    return row[0], row[1]


def release(
    db: Connection, token: Token, reason: Control | None, *, now: int, worker: str
) -> JobStatus | None:
    """Ends the lease of a worker that stopped on request (`reason`) or for a shutdown (None)."""
    lease = claims.held(db, token)
    if lease is None:
        return None
    speeds.add_work(db, lease.job, lease.epoch, now=now)
    controlled = _apply_control(db, lease, now=now, actor=worker)
    if controlled is not None:
        return controlled
    detail = None if reason is None else f"{reason.value} was withdrawn"
    move(
        db,
        lease.job,
        EventKind.RELEASE,
        now=now,
        lease=lease,
        actor=worker,
        worker=worker,
        detail=detail,
        event=EventKind.ABORTED_SHUTDOWN if reason is None else None,
    )
    claims.end_attempt(db, lease, AttemptOutcome.RELEASED, now=now, answer=JobStatus.PENDING)
    return JobStatus.PENDING


_CONTROL_ENDS: dict[Control, tuple[Trigger, AttemptOutcome]] = {
    Control.PAUSE: (EventKind.PAUSE, AttemptOutcome.PAUSED),
    Control.CANCEL: (EventKind.CANCEL, AttemptOutcome.CANCELLED),
    Control.RESTART: (EventKind.RESTART, AttemptOutcome.RELEASED),
}


def _apply_control(
    db: Connection, lease: HeldLease, *, now: int, actor: str, detail: str | None = None
) -> JobStatus | None:
    """Applies the control request of a job whose worker has stopped."""
    if lease.control is Control.NONE:
        return None
    trigger, outcome = _CONTROL_ENDS[lease.control]
    move(
        db,
        lease.job,
        trigger,
        now=now,
        lease=lease,
        actor=actor,
        worker=actor,
        detail=detail,
        assign=assignments_of(trigger),
    )
    answer = target_of(trigger)
    claims.end_attempt(db, lease, outcome, now=now, answer=answer, error=detail)
    return answer


def _reread(db: Connection, lease: HeldLease) -> HeldLease | None:
    """Reads a lease from an earlier transaction again; None if it has ended."""
    current = job_facts(db, lease.job)
    if (
        current is None
        or current.status is not JobStatus.IN_PROGRESS
        or current.epoch != lease.epoch
        or current.instance != lease.instance
    ):
        return None
    return replace(lease, control=current.control)


@dataclass(frozen=True, slots=True)
class _Reached:
    """The progress of a job at a crash."""

    segments: int
    """Finished segments of all qualities."""
    resumed_at_s: float
    """Position in the media where the crashed attempt had resumed, after the finished fragments."""

    def or_further(self, before: _Reached) -> _Reached:
        """Returns the maximum of both: repeating lost work is no progress."""
        return _Reached(max(self.segments, before.segments), max(self.resumed_at_s, before.resumed_at_s))


def _reached(db: Connection, lease: HeldLease) -> tuple[_Reached, _Reached]:
    """Returns the progress now and at the last crash."""
    row = db.execute(
        "SELECT coalesce((SELECT sum(segments_done) FROM rendition WHERE job_id = :job), 0),"
        " coalesce((SELECT resumed_at_s FROM attempt WHERE job_id = :job AND epoch = :epoch), 0),"
        " segments_at_crash, resumed_at_crash_s FROM job WHERE id = :job",
        {"job": lease.job, "epoch": lease.epoch},
    ).one()
    return _Reached(row[0], row[1]), _Reached(row[2], row[3])


def lose(
    db: Connection,
    lease: HeldLease,
    *,
    now: int,
    worker: str,
    why: str,
    event: EventKind | None = None,
) -> JobStatus | None:
    """Ends the lease of a worker that died or is silent, and counts a crash. None: it has ended meanwhile."""
    current = _reread(db, lease)
    if current is None:
        return None
    lease = current
    speeds.add_work(db, lease.job, lease.epoch, now=now, silent=True)
    controlled = _apply_control(db, lease, now=now, actor="supervisor", detail=why)
    if controlled is not None:
        return controlled
    reached, before = _reached(db, lease)
    verdict = judge_loss(
        attempts=lease.attempts,
        crashes=lease.crashes,
        max_crashes=lease.max_crashes,
        got_further=reached.segments > before.segments,
        had_got_further=reached.resumed_at_s > before.resumed_at_s,
    )
    poison = verdict.trigger is EventKind.FAIL_FINAL
    furthest = reached.or_further(before)
    move(
        db,
        lease.job,
        verdict.trigger,
        now=now,
        lease=lease,
        actor="supervisor",
        worker=worker,
        code=verdict.code,
        detail=why,
        event=None if poison else event,
        assign=(
            "crashes = :crashes, segments_at_crash = :segments, resumed_at_crash_s = :resumed_at,"
            " error_code = :code, error_text = :why,"
            " error_hint = NULL, error_log = :log, exhausted = :exhausted, completed_at = :completed,"
            " not_before = NULL,"
            f" {_AUTORESTART}"
        ),
        values={
            "crashes": verdict.crashes,
            "segments": furthest.segments,
            "resumed_at": furthest.resumed_at_s,
            "code": verdict.code.value,
            "why": why[:MAX_ERROR_TEXT],
            "log": f"{lease.epoch}.log",
            "exhausted": int(verdict.exhausted),
            "completed": now if poison else None,
            "final": int(poison),
            "denied": int(poison),
        },
    )
    answer = target_of(verdict.trigger)
    claims.end_attempt(db, lease, AttemptOutcome.LOST, now=now, answer=answer, code=verdict.code, error=why)
    return answer


def requeue(
    db: Connection, lease: HeldLease, *, now: int, why: str, event: EventKind = EventKind.REQUEUED_SUPERVISOR
) -> JobStatus | None:
    """Ends a lease without counting a failure or crash. None: it has ended meanwhile."""
    current = _reread(db, lease)
    if current is None:
        return None
    lease = current
    speeds.add_work(db, lease.job, lease.epoch, now=now, silent=True)
    controlled = _apply_control(db, lease, now=now, actor="supervisor", detail=why)
    if controlled is not None:
        return controlled
    move(
        db,
        lease.job,
        EventKind.RELEASE,
        now=now,
        lease=lease,
        actor="supervisor",
        detail=why,
        event=event,
    )
    claims.end_attempt(
        db,
        lease,
        AttemptOutcome.LOST,
        now=now,
        answer=JobStatus.PENDING,
        code=ErrorCode.WORKER_LOST,
        error=why,
    )
    return JobStatus.PENDING


def complete(
    db: Connection,
    token: Token,
    *,
    now: int,
    worker: str,
    detail: str,
    warnings: Sequence[WarningView] = (),
    silent: bool = False,
) -> bool:
    """Marks a job done whose generation is in place; False if the lease is lost.

    Args:
        warnings: all warnings of the job; each gets an event of its own.
        silent: whether its worker may have ended long ago.
    """
    lease = claims.held(db, token)
    if lease is None:
        return False
    speeds.add_work(db, lease.job, lease.epoch, now=now, silent=silent)
    moved = move(
        db,
        lease.job,
        EventKind.COMPLETE,
        now=now,
        lease=lease,
        actor=worker,
        worker=worker,
        detail=detail,
        assign=(
            "progress = 100, completed_at = :now, last_progress_at = :now, warnings = :warnings,"
            " error_code = NULL,"
            " error_text = NULL, error_hint = NULL, error_log = NULL, exhausted = 0, restarts = 0,"
            " autorestart = CASE WHEN autorestart = 'disabled' THEN 'disabled' ELSE 'enabled' END"
        ),
        values={"warnings": json.dumps(warnings)},
    )
    if moved:
        for warning in warnings:
            events.append(
                db,
                EventKind.WARNING,
                now=now,
                actor=worker,
                job=lease.job,
                video=lease.video,
                code=warning["code"],
                detail=warning["text"],
            )
        quarantine.succeeded(db, lease.worker_id)
        claims.end_attempt(db, lease, AttemptOutcome.DONE, now=now, answer=JobStatus.DONE)
    return moved
