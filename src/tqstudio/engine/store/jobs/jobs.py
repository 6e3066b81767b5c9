"""Creates, finds and changes jobs."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    and_,
    bindparam,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import Rows, values_of
from tqstudio.engine.store.db.tables import UNPROBED, const, is_open, job, video
from tqstudio.engine.store.dialects.expressions import greatest, indexed_by
from tqstudio.engine.store.jobs.folder_hours import FOREVER
from tqstudio.engine.store.jobs.progress import reset_renditions
from tqstudio.engine.store.jobs.transitions import NO_ESTIMATE
from tqstudio.errors import ErrorCode
from tqstudio.events import EventKind
from tqstudio.lifecycle import (
    NO_AUTORESTART,
    WAITING,
    Autorestart,
    AutorestartRule,
    JobKind,
    JobStatus,
    Trigger,
    target_of,
)
from tqstudio.protocol.answers import ChangeView


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What a job was requested to do."""

    profile: str
    profile_json: str
    prefer_gpu: bool
    kind: JobKind = JobKind.NEW
    priority: int = 0
    requested: tuple[str, ...] | None = None
    dropped: tuple[str, ...] = ()
    max_attempts: int = 3
    max_crashes: int = 3
    autorestart: AutorestartRule = NO_AUTORESTART

    @property
    def encodes_all(self) -> bool:
        """Whether no rendition of the current generation is kept."""
        return self.kind is not JobKind.CHANGED and self.requested is None and not self.dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob(JobSpec):
    video: int
    hold: bool = False
    batch: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = None
    from_folder: bool = False
    owner: str | None = None
    """Who added it; None means the actor."""
    changes: Sequence[ChangeView] = ()

    @property
    def trigger(self) -> Trigger:
        return EventKind.CREATE_HELD if self.hold else EventKind.CREATE

    @property
    def status(self) -> JobStatus:
        return target_of(self.trigger)


_INSERT = (
    insert(job)
    .values(unprobed=select(UNPROBED).where(video.c.id == bindparam("of_video")).scalar_subquery())
    .returning(job.c.id)
)


def create(db: Connection, new: NewJob, *, now: int, actor: str) -> int | None:
    """Creates a job; None if the video already has an open one."""
    if open_job_of(db, new.video) is not None:
        return None
    values = values_of(job, new) | {
        "video_id": new.video,
        "status": new.status,
        # NULL distinguishes a held job, which was never claimable, from a paused one.
        "ready_at": None if new.hold else now,
        "autorestart": Autorestart.ENABLED if new.autorestart.limit else Autorestart.DISABLED,
        "autorestart_limit": new.autorestart.limit,
        "autorestart_delay_s": new.autorestart.delay_s,
        "metadata_json": json.dumps(dict(new.metadata)),
        "owner": new.owner or actor,
        "created_at": now,
        "of_video": new.video,
    }
    created = int(db.execute(_INSERT, values).scalar_one())
    kind, status = new.kind.value, new.status
    events.append(
        db, new.trigger, now=now, actor=actor, job=created, video=new.video, target=status, detail=kind
    )
    return created


_OPEN_JOB = select(job.c.id).where(is_open(job), job.c.deleted_at.is_(None))
_OPEN_JOB_OF = _OPEN_JOB.where(job.c.video_id == bindparam("video"))


def open_job_of(db: Connection, video: int) -> int | None:
    """Returns the video's pending, running or paused job."""
    found: int | None = db.execute(_OPEN_JOB_OF, {"video": video}).scalar()
    return found


def newest_job_of(db: Connection, video: int) -> tuple[int, JobStatus] | None:
    """Returns the video's open job (even an older one that was retried), else its newest."""
    found = select(job.c.id, job.c.status).where(job.c.video_id == video, job.c.deleted_at.is_(None))
    row = db.execute(found.order_by(is_open(job).desc(), job.c.id.desc()).limit(1)).first()
    return None if row is None else (int(row[0]), JobStatus(row[1]))


def failed_source_missing(db: Connection, job_id: int) -> bool:
    """Whether a job failed because its source was missing."""
    missing = (job.c.status == JobStatus.FAILED, job.c.error_code == ErrorCode.SOURCE_MISSING)
    return db.execute(select(job.c.id).where(job.c.id == job_id, *missing)).first() is not None


def creator_of(db: Connection, video: int) -> int | None:
    """Returns the job that created a video's current ladder, deleted or not."""
    done = select(job.c.id).where(job.c.video_id == video, job.c.status == JobStatus.DONE)
    found: int | None = db.execute(done.order_by(job.c.completed_at.desc()).limit(1)).scalar()
    return found


def work_ended_at(db: Connection, video: int) -> int | None:
    """Returns when a video's last job ended or was deleted, 0 without jobs; None while one can run."""
    if open_job_of(db, video) is not None:
        return None
    ended = func.coalesce(job.c.deleted_at, job.c.completed_at, job.c.last_progress_at, job.c.created_at)
    return int(db.execute(select(func.max(ended)).where(job.c.video_id == video)).scalar() or 0)


def may_be_retried(db: Connection, video: int) -> bool:
    """Whether a video has a failed or cancelled job that is not deleted."""
    ended = job.c.status.in_([JobStatus.FAILED, JobStatus.CANCELLED])
    found = select(job.c.id).where(job.c.video_id == video, ended, job.c.deleted_at.is_(None))
    return db.execute(found.limit(1)).first() is not None


def with_status(db: Connection, status: JobStatus, *, after: int, limit: int) -> list[int]:
    """Returns the next jobs with this status that are not deleted, by id."""
    found = (
        select(job.c.id)
        .with_hint(job, indexed_by("ix_job_status"), "sqlite")
        .where(job.c.status == status, job.c.deleted_at.is_(None), job.c.id > after)
    )
    return [int(row[0]) for row in db.execute(found.order_by(job.c.id).limit(limit))]


def is_replaced(of: FromClause) -> ColumnElement[bool]:
    """Returns whether the video of a job has a newer job, except cancelled and deleted ones."""
    later = job.alias("later")
    return exists().where(
        later.c.video_id == of.c.video_id,
        later.c.id > of.c.id,
        later.c.status != JobStatus.CANCELLED,
        later.c.deleted_at.is_(None),
    )


def failed(db: Connection, *, after: int, batch: str | None, limit: int) -> list[int]:
    """Returns the next failed jobs, by id, whose video has no newer job except cancelled ones."""
    found = select(job.c.id).where(
        job.c.status == JobStatus.FAILED, job.c.deleted_at.is_(None), job.c.id > after, ~is_replaced(job)
    )
    if batch is not None:
        found = found.where(job.c.batch == batch)
    return [int(row[0]) for row in db.execute(found.order_by(job.c.id).limit(limit))]


_ELSEWHERE = select(video.c.id).where(
    video.c.source == bindparam("source"), video.c.output_root != bindparam("root")
)
_OPEN_JOB_ELSEWHERE = _OPEN_JOB.where(job.c.video_id.in_(_ELSEWHERE)).limit(1)


def open_job_elsewhere(db: Connection, source: bytes, output_root: bytes) -> int | None:
    """Returns an open job of the same source for another output."""
    values = {"source": source, "root": output_root}
    job_id: int | None = db.execute(_OPEN_JOB_ELSEWHERE, values).scalar()
    return job_id


def join_batch(db: Connection, job_id: int, batch: str) -> None:
    """Moves a waiting job that was added again to the newer batch."""
    waits = (job.c.id == job_id, job.c.status == JobStatus.PENDING)
    db.execute(update(job).where(*waits).values(batch=batch))


def metadata_of(db: Connection, job_id: int) -> dict[str, Any]:
    """Returns a job's metadata."""
    found = select(job.c.metadata_json).where(job.c.id == job_id)
    metadata: dict[str, Any] = json.loads(db.execute(found).scalar_one())
    return metadata


def set_metadata(db: Connection, job_id: int, metadata: Mapping[str, Any]) -> None:
    db.execute(update(job).where(job.c.id == job_id).values(metadata_json=json.dumps(dict(metadata))))


_WAITS = job.c.status.in_(WAITING) & job.c.deleted_at.is_(None)


SETTINGS = ("profile", "profile_json", "prefer_gpu", "requested", "dropped")
"""The fields of `JobSpec` that `set_settings` changes."""


def set_settings(
    db: Connection, job_id: int, new: JobSpec, *, keep: Collection[str] = (), now: int, actor: str
) -> bool:
    """Changes profile and qualities of a waiting job and resets its progress.

    Args:
        keep: the renditions that show their finished segments on, because they are used again.
    """
    values = values_of(job, new)
    changed = {**{name: values[name] for name in SETTINGS}, "progress": 0, **NO_ESTIMATE}
    of_video = db.execute(
        update(job).where(job.c.id == job_id, _WAITS).values(changed).returning(job.c.video_id)
    ).scalar()
    if of_video is None:
        return False
    reset_renditions(db, job_id, keep=keep)
    detail = ", ".join((f"profile {new.profile}", *(new.requested or ())))[:500]
    events.append(
        db, EventKind.PROFILE_CHANGED, now=now, actor=actor, job=job_id, video=of_video, detail=detail
    )
    return True


def set_limits(db: Connection, job_id: int, limits: Mapping[str, int]) -> dict[str, int]:
    """Changes how often a waiting job may fail and crash; returns those that differ now.

    What it has used up already stays allowed.
    """
    columns = [job.c[name] for name in limits]
    before = db.execute(select(*columns).where(job.c.id == job_id)).one()
    used = {"max_attempts": job.c.attempts, "max_crashes": job.c.crashes}
    values = {name: greatest(used[name], literal(value)) for name, value in limits.items()}
    changed = update(job).where(job.c.id == job_id, _WAITS).values(values).returning(*columns)
    after = db.execute(changed).first() or before
    return {name: new for name, old, new in zip(limits, before, after, strict=True) if new != old}


def encode_all(db: Connection, job_id: int, *, now: int, actor: str) -> bool:
    """Makes a waiting job encode everything instead of only differences; False if it does already."""
    in_part = or_(job.c.kind == JobKind.CHANGED, job.c.requested.is_not(None), job.c.dropped != "[]")
    of_video = db.execute(
        update(job)
        .where(job.c.id == job_id, _WAITS, in_part)
        .values(kind=JobKind.RETRANSCODE, requested=None, dropped="[]")
        .returning(job.c.video_id)
    ).scalar()
    if of_video is None:
        return False
    detail = "encodes everything again"
    events.append(db, EventKind.FORCED, now=now, actor=actor, job=job_id, video=of_video, detail=detail)
    return True


_BACKOFF = indexed_by("ix_job_backoff")
_WAITS_UNTIL = and_(job.c.status == const(JobStatus.PENDING), job.c.not_before.is_not(None))


_ENDS = job.c.not_before < FOREVER
_BACKOFFS = select(job).with_hint(job, _BACKOFF, "sqlite").where(_WAITS_UNTIL)
# Two lookups: min and max in one SELECT would scan the whole index.
_FIRST_AND_LAST = select(
    _BACKOFFS.with_only_columns(func.min(job.c.not_before)).scalar_subquery(),
    _BACKOFFS.with_only_columns(func.max(job.c.not_before)).where(_ENDS).scalar_subquery(),
)


def is_any_due(db: Connection, *, now: int, longest_us: int) -> bool:
    """Whether the backoff of a job is over, see `promote_due`."""
    soonest, latest = db.execute(_FIRST_AND_LAST).one()
    return latest is not None and (soonest <= now or latest > now + longest_us)


def promote_due(db: Connection, *, now: int, longest_us: int, limit: int = 1000) -> int:
    """Makes jobs claimable whose backoff is over; returns how many.

    A backoff beyond `longest_us` was set before the wall clock was set back.
    """
    over = or_(job.c.not_before <= now, and_(job.c.not_before > now + longest_us, _ENDS))
    due = _BACKOFFS.with_only_columns(job.c.id).where(over).order_by(job.c.not_before)
    chosen = job.c.id.in_(due.limit(limit))
    return db.execute(update(job).where(chosen).values(not_before=None, ready_at=now)).rowcount


_SPECS = Rows(JobSpec, job, autorestart=None)


def spec_of(db: Connection, job_id: int) -> JobSpec:
    rule = job.c["autorestart_limit", "autorestart_delay_s"]
    row = db.execute(select(*_SPECS.columns, *rule).where(job.c.id == job_id)).one()
    return _SPECS.value(row, autorestart=AutorestartRule(*row[-2:]))


def starts_over(db: Connection, job_id: int) -> bool:
    """Whether the work before a job's restart still has to be removed."""
    return bool(db.execute(select(job.c.starts_over).where(job.c.id == job_id)).scalar())


def has_started_over(db: Connection, job_id: int) -> None:
    db.execute(update(job).where(job.c.id == job_id).values(starts_over=0))
