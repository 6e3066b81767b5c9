"""Applies status transitions to jobs.

`move` is the only place besides the claim where a status changes: a guarded UPDATE and its event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import IntegrityError

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs.claims import LEASE_FREE, HeldLease, Token
from tqstudio.events import EventKind
from tqstudio.lifecycle import Control, JobStatus, Trigger, sources_of, target_of


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The state of a job that operations check."""

    id: int
    video: int
    status: JobStatus
    control: Control
    deleted: bool
    epoch: int
    instance: str | None
    publishes: bool
    """Whether a publish of this epoch is unfinished."""

    def is_held_by(self, token: Token) -> bool:
        """Whether this is the lease of the token, live or not."""
        return (self.epoch, self.instance) == (token.epoch, token.instance)


def job_facts(db: Connection, job: int) -> JobFacts | None:
    row = db.execute(
        "SELECT video_id, status, control, deleted_at IS NOT NULL, epoch, instance,"
        " EXISTS (SELECT 1 FROM publication p WHERE p.job_id = job.id AND p.epoch = job.epoch)"
        " FROM job WHERE id = :job",
        {"job": job},
    ).first()
    if row is None:
        return None
    video, status, control, deleted, epoch, instance, publishes = row
    return JobFacts(
        job,
        video,
        JobStatus(status),
        Control(control),
        bool(deleted),
        epoch,
        instance,
        bool(publishes),
    )


def move(
    db: Connection,
    job: int,
    trigger: Trigger,
    *,
    now: int,
    actor: str,
    assign: str = "",
    values: Mapping[str, Any] | None = None,
    worker: str | None = None,
    code: str | None = None,
    detail: str | None = None,
    event: EventKind | None = None,
    lease: HeldLease | None = None,
) -> bool:
    """Applies a transition of the lifecycle table; False if the job's status does not allow it.

    Args:
        lease: of the job, if read in the same transaction; saves a query.
    """
    target = target_of(trigger)
    before = (JobStatus.IN_PROGRESS, lease.video) if lease is not None else _status_and_video(db, job)
    if before is None:
        return False
    statement = _moving(trigger, before[0] == JobStatus.IN_PROGRESS, assign)
    given = {"target": target.value, "job": job, "now": now, **(values or {})}
    try:
        moved = db.execute(statement, given).rowcount == 1
    except IntegrityError:
        # The video has another open job, and only one is allowed. SQLite has rolled back the statement only,
        # so no savepoint is needed.
        return False
    if moved:
        events.append(
            db,
            event or trigger,
            now=now,
            actor=actor,
            job=job,
            video=before[1],
            worker=worker,
            source=before[0],
            target=target,
            code=code,
            detail=detail,
        )
    return moved


def _status_and_video(db: Connection, job: int) -> tuple[str, int] | None:
    row = db.execute("SELECT status, video_id FROM job WHERE id = :job", {"job": job}).first()
    return None if row is None else (row[0], row[1])


def _moving(trigger: Trigger, from_progress: bool, assign: str) -> str:
    """Builds the UPDATE of a transition."""
    target = target_of(trigger)
    allowed = ", ".join(f"'{status.value}'" for status in sorted(sources_of(trigger)))
    leaving = f", {LEASE_FREE}" if from_progress else ""
    ready = ", ready_at = :now" if target is JobStatus.PENDING else ""
    more = f", {assign}" if assign else ""
    return (
        f"UPDATE job SET status = :target{leaving}{ready}{more}"
        f" WHERE id = :job AND status IN ({allowed}) AND deleted_at IS NULL"
    )


_UNCOUNTED = "attempts = 0, crashes = 0, segments_at_crash = 0, resumed_at_crash_s = 0"

_FRESH = (
    f"{_UNCOUNTED}, restarts = 0, exhausted = 0, error_code = NULL, error_text = NULL,"
    " error_hint = NULL, error_log = NULL, not_before = NULL, completed_at = NULL,"
    " autorestart = CASE WHEN autorestart = 'disabled' THEN 'disabled' ELSE 'enabled' END"
)


def assignments_of(trigger: Trigger) -> str:
    """Returns the further assignments of a transition by a user or autorestart."""
    match trigger:
        case EventKind.RETRY:
            return _FRESH
        case EventKind.RESTART:
            return f"{_FRESH}, progress = 0, starts_over = 1, predicted_s = NULL, actual_s = NULL"
        case EventKind.AUTORESTART:
            return (
                f"{_UNCOUNTED}, exhausted = 0, completed_at = NULL, not_before = NULL,"
                " restarts = restarts + 1, last_restart_at = :now, autorestart = 'in_progress'"
            )
        case EventKind.CANCEL:
            return "completed_at = :now, not_before = NULL"
        case EventKind.PAUSE:
            return "not_before = NULL"
        case _:
            return ""
