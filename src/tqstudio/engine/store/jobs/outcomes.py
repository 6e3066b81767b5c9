"""Ends leases in the store: job done, failed, released, or lost with its worker.

Each function reads the lease (`claims.held`) in the transaction that ends it, so its later statements need no
check of the token.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import bindparam, case, func, select

from tqstudio.engine.host.clock import MICROSECOND
from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.tables import attempt, const, job, rendition
from tqstudio.engine.store.jobs import claims, progress
from tqstudio.engine.store.jobs.claims import HeldLease, LeaseToken
from tqstudio.engine.store.jobs.retry_rules import RetryRules, judge_failure, judge_loss
from tqstudio.engine.store.jobs.transitions import (
    AUTORESTART_AGAIN,
    NO_ERROR,
    NO_ESTIMATE,
    assignments_of,
    move,
)
from tqstudio.engine.store.machine import quarantine, speeds
from tqstudio.errors import MAX_ERROR_TEXT, MEANINGS, ErrorClass, ErrorCode, class_of
from tqstudio.events import EventKind
from tqstudio.lifecycle import (
    PROCESS_BATCH,
    AttemptOutcome,
    Autorestart,
    Control,
    JobStatus,
    Trigger,
    target_of,
)
from tqstudio.protocol.answers import WarningView

_NOTHING_KEPT = {"progress": 0, "segments_at_crash": 0, "resumed_at_crash_s": 0, **NO_ESTIMATE}

_STILL_WRITTEN = "make sure that no program writes to it any more, then retry"
_GIVEN_UP = "; it failed twice in the same way, so it is not retried automatically"


@dataclass(frozen=True, slots=True)
class Failure:
    code: ErrorCode
    text: str
    hint: str = ""
    log: str | None = None


_LAST_ERROR = select(job.c.error_code, job.c.error_text, job.c.batch).where(job.c.id == bindparam("leased"))
_CHANGES = select(func.count()).where(
    attempt.c.job_id == bindparam("leased"), attempt.c.error_code == const(ErrorCode.SOURCE_CHANGED)
)


def fail(
    db: Connection,
    token: LeaseToken,
    failure: Failure,
    *,
    now: int,
    rules: RetryRules,
    worker: str,
    forgotten: bool = False,
) -> JobStatus | None:
    """Ends a lease with a failure; the job is pending again or failed, by its class. None: the lease is lost.

    With `forgotten` the finished segments are removed.
    """
    lease = _ending(db, token, now=now, actor=worker, detail=failure.text)
    if not isinstance(lease, HeldLease):
        return lease
    error = failure.text[:MAX_ERROR_TEXT]
    # Of the last failure since the last retry by a user.
    *last_error, batch = db.execute(_LAST_ERROR, lease.token.values).one()
    repeated = lease.attempts > 0 and last_error == [failure.code, error]
    is_changed = failure.code is ErrorCode.SOURCE_CHANGED
    verdict = judge_failure(
        failure.code,
        attempts=lease.attempts,
        crashes=lease.crashes,
        max_attempts=lease.max_attempts,
        rules=rules,
        repeated=repeated,
        changes=db.execute(_CHANGES, lease.token.values).scalar_one() if is_changed else 0,
        waits=not (batch or "").startswith(PROCESS_BATCH),
    )
    given_up = repeated and verdict.trigger is EventKind.FAIL_FINAL and not verdict.exhausted
    hint = f"{failure.hint or MEANINGS[failure.code].hint}{_GIVEN_UP}" if given_up else failure.hint
    if is_changed and verdict.exhausted:
        hint = _STILL_WRITTEN
    # Segments of a source that has changed are useless, like removed ones.
    discard = forgotten or is_changed
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
        assign={
            "attempts": verdict.attempts,
            "error_code": failure.code,
            "error_text": error,
            "error_hint": hint,
            "error_log": failure.log,
            "exhausted": int(verdict.exhausted),
            "not_before": None if verdict.wait_s is None else now + int(verdict.wait_s * MICROSECOND),
            **(_NOTHING_KEPT if discard else {}),
            **(_failed(now, denied=denied) if verdict.trigger is EventKind.FAIL_FINAL else {}),
        },
    )
    if discard:
        progress.reset_renditions(db, lease.job)
    answer = target_of(verdict.trigger)
    claims.end_attempt(
        db, lease, AttemptOutcome.FAILED, now=now, answer=answer, code=failure.code, error=error
    )
    return answer


def _failed(now: int, *, denied: bool) -> dict[str, Any]:
    """Returns what a job sets that failed: its end, and whether autorestart may still restart it."""
    if denied:
        after: Any = Autorestart.DENIED
    else:
        after = case((job.c.restarts >= job.c.autorestart_limit, Autorestart.FAILED), else_=job.c.autorestart)
    kept = (job.c.autorestart == Autorestart.DISABLED, job.c.autorestart)
    return {"completed_at": now, "autorestart": case(kept, else_=after)}


def release(
    db: Connection,
    token: LeaseToken,
    reason: Control | Literal["hours"] | None,
    *,
    now: int,
    worker: str,
) -> JobStatus | None:
    """Ends the lease of a worker that stopped on request (`reason`), at the end of its hours, or for a
    shutdown (None)."""
    lease = _ending(db, token, now=now, actor=worker)
    if not isinstance(lease, HeldLease):
        return lease
    detail = f"{reason.value} was withdrawn" if isinstance(reason, Control) else None
    aborted = EventKind.ABORTED_SHUTDOWN if reason is None else EventKind.ABORTED_HOURS
    move(
        db,
        lease.job,
        EventKind.RELEASE,
        now=now,
        lease=lease,
        actor=worker,
        worker=worker,
        detail=detail,
        event=None if isinstance(reason, Control) else aborted,
    )
    claims.end_attempt(db, lease, AttemptOutcome.RELEASED, now=now, answer=JobStatus.PENDING)
    return JobStatus.PENDING


_CONTROL_ENDS: dict[Control, tuple[Trigger, AttemptOutcome]] = {
    Control.PAUSE: (EventKind.PAUSE, AttemptOutcome.PAUSED),
    Control.CANCEL: (EventKind.CANCEL, AttemptOutcome.CANCELLED),
    Control.RESTART: (EventKind.RESTART, AttemptOutcome.RELEASED),
}


def _ending(
    db: Connection,
    token: LeaseToken,
    *,
    now: int,
    actor: str,
    detail: str | None = None,
    until_last_progress: bool = False,
) -> HeldLease | JobStatus | None:
    """Returns the lease that is to be ended, or the job's status if a control request has ended it.

    None if it is lost. With `until_last_progress` later time does not count, as its worker may have ended
    long ago.
    """
    lease = claims.held(db, token)
    if lease is None:
        return None
    speeds.add_work(db, lease.job, lease.epoch, now=now, until_last_progress=until_last_progress)
    if lease.control is Control.NONE:
        return lease
    trigger, outcome = _CONTROL_ENDS[lease.control]
    assign = assignments_of(trigger, now=now)
    move(
        db, lease.job, trigger, now=now, lease=lease, actor=actor, worker=actor, detail=detail, assign=assign
    )
    answer = target_of(trigger)
    claims.end_attempt(
        db, lease, outcome, now=now, answer=answer, error=detail, until_last_progress=until_last_progress
    )
    return answer


_SEGMENTS = select(func.sum(rendition.c.segments_done)).where(rendition.c.job_id == bindparam("leased"))
_RESUMED = select(attempt.c.resumed_at_s).where(claims.IS_ATTEMPT)
_REACHED = select(
    func.coalesce(_SEGMENTS.scalar_subquery(), 0),
    func.coalesce(_RESUMED.scalar_subquery(), 0),
    job.c.segments_at_crash,
    job.c.resumed_at_crash_s,
).where(job.c.id == bindparam("leased"))


def lose(
    db: Connection,
    lease: HeldLease,
    *,
    now: int,
    worker: str,
    why: str,
    event: EventKind | None = None,
) -> JobStatus | None:
    """Ends the lease of a dead or offline worker, and counts a crash. None: it has ended meanwhile."""
    current = _ending(db, lease.token, now=now, actor="supervisor", detail=why, until_last_progress=True)
    if not isinstance(current, HeldLease):
        return current
    lease = current
    # Repeating lost work is no progress: what counts is the furthest that any attempt has reached.
    segments, resumed_at_s, segments_before, resumed_before_s = db.execute(_REACHED, lease.token.values).one()
    verdict = judge_loss(
        attempts=lease.attempts,
        crashes=lease.crashes,
        max_crashes=lease.max_crashes,
        got_further=segments > segments_before,
        had_got_further=resumed_at_s > resumed_before_s,
    )
    poison = verdict.trigger is EventKind.FAIL_FINAL
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
        assign={
            "crashes": verdict.crashes,
            "segments_at_crash": max(segments, segments_before),
            "resumed_at_crash_s": max(resumed_at_s, resumed_before_s),
            "error_code": verdict.code,
            "error_text": why[:MAX_ERROR_TEXT],
            "error_hint": None,
            "error_log": f"{lease.epoch}.log",
            "exhausted": int(verdict.exhausted),
            "not_before": None,
            **(_failed(now, denied=True) if poison else {}),
        },
    )
    answer = target_of(verdict.trigger)
    claims.end_attempt(
        db,
        lease,
        AttemptOutcome.LOST,
        now=now,
        answer=answer,
        code=verdict.code,
        error=why,
        until_last_progress=True,
    )
    return answer


def requeue(
    db: Connection, lease: HeldLease, *, now: int, why: str, event: EventKind = EventKind.REQUEUED_SUPERVISOR
) -> JobStatus | None:
    """Ends a lease without counting a failure or crash. None: it has ended meanwhile."""
    current = _ending(db, lease.token, now=now, actor="supervisor", detail=why, until_last_progress=True)
    if not isinstance(current, HeldLease):
        return current
    lease = current
    move(db, lease.job, EventKind.RELEASE, now=now, lease=lease, actor="supervisor", detail=why, event=event)
    answer, code = JobStatus.PENDING, ErrorCode.WORKER_LOST
    claims.end_attempt(
        db, lease, AttemptOutcome.LOST, now=now, answer=answer, code=code, error=why, until_last_progress=True
    )
    return answer


def complete(
    db: Connection,
    token: LeaseToken,
    *,
    now: int,
    worker: str,
    detail: str,
    warnings: Sequence[WarningView] = (),
    until_last_progress: bool = False,
    bytes_out: int = 0,
) -> bool:
    """Marks a job done whose generation is in place; False if the lease is lost.

    Each warning gets an event of its own. With `until_last_progress` later time does not count;
    `bytes_out` is the size of what it encoded.
    """
    lease = claims.held(db, token)
    if lease is None:
        return False
    speeds.add_work(db, lease.job, lease.epoch, now=now, until_last_progress=until_last_progress)
    moved = move(
        db,
        lease.job,
        EventKind.COMPLETE,
        now=now,
        lease=lease,
        actor=worker,
        worker=worker,
        detail=detail,
        assign={
            **NO_ERROR,
            **AUTORESTART_AGAIN,
            "progress": 100,
            "completed_at": now,
            "last_progress_at": now,
            "restarts": 0,
            "warnings": json.dumps(warnings),
        },
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
        claims.end_attempt(
            db,
            lease,
            AttemptOutcome.DONE,
            now=now,
            answer=JobStatus.DONE,
            until_last_progress=until_last_progress,
            bytes_out=bytes_out,
        )
    return moved
