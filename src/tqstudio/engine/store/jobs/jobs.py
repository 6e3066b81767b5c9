"""Creates, finds and changes jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs.progress import reset_renditions
from tqstudio.events import EventKind
from tqstudio.lifecycle import (
    NO_AUTORESTART,
    Autorestart,
    AutorestartRule,
    JobKind,
    JobStatus,
    Trigger,
    target_of,
)


@dataclass(frozen=True, slots=True)
class NewJob:
    """The values of a new job."""

    video: int
    profile: str
    profile_json: str
    prefer_gpu: bool
    kind: JobKind = JobKind.NEW
    priority: int = 0
    hold: bool = False
    batch: str | None = None
    requested: tuple[str, ...] | None = None
    dropped: tuple[str, ...] = ()
    max_attempts: int = 3
    max_crashes: int = 3
    autorestart: AutorestartRule = NO_AUTORESTART
    metadata: Mapping[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = None


_CREATE = (
    "INSERT INTO job (video_id, batch, kind, profile, profile_json, prefer_gpu, requested, dropped, status,"
    " priority, ready_at, max_attempts, max_crashes, autorestart, autorestart_limit, autorestart_delay_s,"
    " metadata_json, idempotency_key, created_at, unprobed)"
    " VALUES (:video, :batch, :kind, :profile, :profile_json, :prefer_gpu, :requested, :dropped, :status,"
    " :priority, :ready, :max_attempts, :max_crashes, :autorestart, :autorestart_limit, :autorestart_delay_s,"
    " :metadata, :key, :now, (SELECT facts IS NULL AND probe_error IS NULL FROM video WHERE id = :video))"
    " RETURNING id"
)


def create(db: Connection, new: NewJob, *, now: int, actor: str) -> int | None:
    """Creates a job; None if the video already has an open one."""
    trigger: Trigger = EventKind.CREATE_HELD if new.hold else EventKind.CREATE
    status = target_of(trigger)
    values = {
        "video": new.video,
        "batch": new.batch,
        "kind": new.kind.value,
        "profile": new.profile,
        "profile_json": new.profile_json,
        "prefer_gpu": int(new.prefer_gpu),
        "requested": None if new.requested is None else json.dumps(new.requested),
        "dropped": json.dumps(new.dropped),
        "status": status.value,
        "priority": new.priority,
        "now": now,
        # NULL distinguishes a held job, which was never claimable, from a paused one.
        "ready": None if new.hold else now,
        "max_attempts": new.max_attempts,
        "max_crashes": new.max_crashes,
        "autorestart": (Autorestart.ENABLED if new.autorestart.limit else Autorestart.DISABLED).value,
        "autorestart_limit": new.autorestart.limit,
        "autorestart_delay_s": new.autorestart.delay_s,
        "metadata": json.dumps(dict(new.metadata)),
        "key": new.idempotency_key,
    }
    if open_job_of(db, new.video) is not None:
        return None
    job = int(db.execute(_CREATE, values).scalar_one())
    events.append(
        db, trigger, now=now, actor=actor, job=job, video=new.video, target=status, detail=new.kind.value
    )
    return job


_IS_OPEN = "status IN ('pending', 'in_progress', 'paused')"
_OPEN = f"SELECT id FROM job WHERE video_id = :video AND {_IS_OPEN} AND deleted_at IS NULL"
_NEWEST = (
    "SELECT id, status FROM job WHERE video_id = :video AND deleted_at IS NULL"
    f" ORDER BY {_IS_OPEN} DESC, id DESC LIMIT 1"
)


def open_job_of(db: Connection, video: int) -> int | None:
    """Returns the video's pending, running or paused job."""
    row = db.execute(_OPEN, {"video": video}).first()
    return None if row is None else int(row[0])


def newest_job_of(db: Connection, video: int) -> tuple[int, JobStatus] | None:
    """Returns the video's open job (even an older one that was retried), else its newest."""
    row = db.execute(_NEWEST, {"video": video}).first()
    return None if row is None else (int(row[0]), JobStatus(row[1]))


def failed_source_missing(db: Connection, job: int) -> bool:
    """Whether a job failed because its source was missing."""
    row = db.execute(
        "SELECT 1 FROM job WHERE id = :job AND status = 'failed' AND error_code = 'SOURCE_MISSING'",
        {"job": job},
    ).first()
    return row is not None


def creator_of(db: Connection, video: int) -> int | None:
    """Returns the job that created a video's current ladder, deleted or not."""
    job: int | None = db.execute(
        "SELECT id FROM job WHERE video_id = :video AND status = 'done' ORDER BY completed_at DESC LIMIT 1",
        {"video": video},
    ).scalar()
    return job


def work_ended_at(db: Connection, video: int) -> int | None:
    """Returns when the last of a video's jobs ended or was deleted, in µs; None while one can still run.

    0 for a video without jobs.
    """
    row = db.execute(
        f"SELECT coalesce(max({_IS_OPEN} AND deleted_at IS NULL), 0),"
        " max(coalesce(deleted_at, completed_at, last_progress_at, created_at))"
        " FROM job WHERE video_id = :video",
        {"video": video},
    ).one()
    return None if row[0] else int(row[1] or 0)


def may_be_retried(db: Connection, video: int) -> bool:
    """Whether a video has a failed or cancelled job that is not deleted."""
    row = db.execute(
        "SELECT 1 FROM job WHERE video_id = :video AND status IN ('failed', 'cancelled')"
        " AND deleted_at IS NULL LIMIT 1",
        {"video": video},
    )
    return row.first() is not None


def with_status(db: Connection, status: JobStatus, *, after: int, limit: int) -> list[int]:
    """Returns the next jobs with this status that are not deleted, by id."""
    rows = db.execute(
        "SELECT id FROM job INDEXED BY ix_job_status WHERE status = :status AND deleted_at IS NULL"
        " AND id > :after ORDER BY id LIMIT :limit",
        {"status": status.value, "after": after, "limit": limit},
    )
    return [int(row[0]) for row in rows]


def failed(db: Connection, *, after: int, batch: str | None, limit: int) -> list[int]:
    """Returns the next failed jobs, by id, whose video has no newer job except cancelled ones."""
    rows = db.execute(
        "SELECT id FROM job WHERE status = 'failed' AND deleted_at IS NULL AND id > :after"
        f"{'' if batch is None else ' AND batch = :batch'}"
        " AND NOT EXISTS (SELECT 1 FROM job later WHERE later.video_id = job.video_id"
        " AND later.id > job.id AND later.status <> 'cancelled' AND later.deleted_at IS NULL)"
        " ORDER BY id LIMIT :limit",
        {"after": after, "batch": batch, "limit": limit},
    )
    return [int(row[0]) for row in rows]


def open_job_elsewhere(db: Connection, source: bytes, output_root: bytes) -> int | None:
    """Returns an open job of the same source for another output."""
    row = db.execute(
        f"SELECT id FROM job WHERE {_IS_OPEN} AND deleted_at IS NULL AND video_id IN"
        " (SELECT id FROM video WHERE source = :source AND output_root <> :output_root) LIMIT 1",
        {"source": source, "output_root": output_root},
    ).first()
    return None if row is None else int(row[0])


def join_batch(db: Connection, job: int, batch: str) -> None:
    """Moves a waiting job that was added again to the newer batch."""
    db.execute(
        "UPDATE job SET batch = :batch WHERE id = :job AND status = 'pending'",
        {"batch": batch, "job": job},
    )


def metadata_of(db: Connection, job: int) -> dict[str, Any]:
    """Returns a job's metadata."""
    metadata: dict[str, Any] = json.loads(
        db.execute("SELECT metadata_json FROM job WHERE id = :job", {"job": job}).scalar_one()
    )
    return metadata


def set_metadata(db: Connection, job: int, metadata: Mapping[str, Any]) -> None:
    db.execute(
        "UPDATE job SET metadata_json = :metadata WHERE id = :job",
        {"metadata": json.dumps(dict(metadata)), "job": job},
    )


_WAITS = "status IN ('pending', 'paused') AND deleted_at IS NULL"


def set_profile(
    db: Connection, job: int, *, profile: str, profile_json: str, prefer_gpu: bool, now: int, actor: str
) -> bool:
    """Changes the profile of a waiting job and resets its progress."""
    row = db.execute(
        "UPDATE job SET profile = :profile, profile_json = :profile_json, prefer_gpu = :prefer_gpu,"
        f" progress = 0, predicted_s = NULL, actual_s = NULL WHERE id = :job AND {_WAITS} RETURNING video_id",
        {"profile": profile, "profile_json": profile_json, "prefer_gpu": int(prefer_gpu), "job": job},
    ).first()
    if row is None:
        return False
    reset_renditions(db, job)
    events.append(
        db, EventKind.PROFILE, now=now, actor=actor, job=job, video=row[0], detail=f"profile {profile}"
    )
    return True


def encode_all(db: Connection, job: int, *, now: int, actor: str) -> bool:
    """Makes a waiting job encode everything instead of only differences; False if it does already."""
    row = db.execute(
        "UPDATE job SET kind = 'retranscode', requested = NULL"
        f" WHERE id = :job AND {_WAITS} AND (kind = 'changed' OR requested IS NOT NULL)"
        " RETURNING video_id",
        {"job": job},
    ).first()
    if row is None:
        return False
    events.append(
        db, EventKind.FORCED, now=now, actor=actor, job=job, video=row[0], detail="encodes everything again"
    )
    return True


_IN_BACKOFF = "FROM job INDEXED BY ix_job_backoff WHERE status = 'pending' AND not_before IS NOT NULL"


def is_any_due(db: Connection, *, now: int, longest_us: int) -> bool:
    """Whether the backoff of a job is over.

    Args:
        longest_us: the longest possible backoff; a longer one was set before the wall clock was set back.
    """
    row = db.execute(
        f"SELECT (SELECT min(not_before) {_IN_BACKOFF}) <= :now"
        f" OR (SELECT max(not_before) {_IN_BACKOFF}) > :latest",
        {"now": now, "latest": now + longest_us},
    ).scalar()
    return bool(row)


def promote_due(db: Connection, *, now: int, longest_us: int, limit: int = 1000) -> int:
    """Makes jobs claimable whose backoff is over, see `is_any_due`; returns how many."""
    return db.execute(
        f"UPDATE job SET not_before = NULL, ready_at = :now WHERE id IN (SELECT id {_IN_BACKOFF}"
        " AND (not_before <= :now OR not_before > :latest) ORDER BY not_before LIMIT :limit)",
        {"now": now, "latest": now + longest_us, "limit": limit},
    ).rowcount


@dataclass(frozen=True, slots=True)
class JobSpec:
    """The request of a job."""

    kind: JobKind
    profile: str
    profile_json: str
    prefer_gpu: bool
    requested: tuple[str, ...] | None
    dropped: tuple[str, ...]
    max_attempts: int
    max_crashes: int
    priority: int
    autorestart: AutorestartRule

    @property
    def encodes_all(self) -> bool:
        """Whether no rendition of the current generation is kept."""
        return self.kind is not JobKind.CHANGED and self.requested is None


def spec_of(db: Connection, job: int) -> JobSpec:
    row = db.execute(
        "SELECT kind, profile, profile_json, prefer_gpu, requested, dropped, max_attempts, max_crashes,"
        " priority, autorestart_limit, autorestart_delay_s FROM job WHERE id = :job",
        {"job": job},
    ).one()
    return JobSpec(
        kind=JobKind(row[0]),
        profile=row[1],
        profile_json=row[2],
        prefer_gpu=bool(row[3]),
        requested=None if row[4] is None else tuple(json.loads(row[4])),
        dropped=tuple(json.loads(row[5])),
        max_attempts=row[6],
        max_crashes=row[7],
        priority=row[8],
        autorestart=AutorestartRule(row[9], row[10]),
    )


def starts_over(db: Connection, job: int) -> bool:
    """Whether the work before a job's restart still has to be removed."""
    return bool(db.execute("SELECT starts_over FROM job WHERE id = :job", {"job": job}).scalar())


def has_started_over(db: Connection, job: int) -> None:
    db.execute("UPDATE job SET starts_over = 0 WHERE id = :job", {"job": job})
