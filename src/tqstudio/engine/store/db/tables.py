"""Defines the tables. Columns named `*_at` are microseconds since 1970 in UTC; paths are the kernel's bytes.

Enumerations are stored by value with a CHECK. Ids are AUTOINCREMENT, because a reused id would adopt the
files of a deleted job. Statements are in the other modules of this package.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    Float,
    ForeignKey,
    FromClause,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Text,
    TypeDecorator,
    UniqueConstraint,
    cast,
    literal_column,
    text,
)
from sqlmodel import Field, SQLModel

from tqstudio.lifecycle import (
    OPEN,
    WAITING,
    AttemptOutcome,
    Autorestart,
    Control,
    DeletionState,
    DeliveryState,
    GateKind,
    JobKind,
    JobStatus,
    RenditionStatus,
    Step,
    WorkerKind,
)
from tqstudio.protocol.roles import GRANTABLE

SQLModel.metadata.naming_convention = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
).naming_convention

NO_WARNINGS = "[]"
AUTOINCREMENT = {"sqlite_autoincrement": True}


def _in(values: Iterable[StrEnum]) -> str:
    return ", ".join(f"'{each.value}'" for each in values)


def _one_of(column: str, values: Iterable[StrEnum]) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({_in(values)})", name=column)


def _column(kind: Any, *, default: str | int | None = None, optional: bool = False) -> Any:
    """Defines a column. One that is optional has no default: it is NULL."""
    given = None if default is None or optional else text(repr(default))
    return Field(sa_column=Column(kind, nullable=optional, server_default=given))


class _WithoutNul(TypeDecorator[str]):
    """Text of PostgreSQL, which has no NUL: in text of other programs it becomes U+FFFD, in JSON too."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: object) -> str | None:
        del dialect
        return value and value.replace("\0", "\ufffd").replace("\\u0000", "\\ufffd")


# Integers of SQLite have 64 bits, and it compares text by its bytes.
_INTEGER = Integer().with_variant(BigInteger(), "postgresql")
_TEXT = Text().with_variant(_WithoutNul(collation="C"), "postgresql")
_bytes = partial(_column, LargeBinary)
_text = partial(_column, _TEXT)
_int = partial(_column, _INTEGER, default=0)
_big = partial(_column, BigInteger)
_float = partial(_column, Float, default=0)
_time = partial(_column, BigInteger, optional=True)


def _id() -> Any:
    return Field(default=None, sa_column=Column(_INTEGER, primary_key=True, autoincrement=True))


def _ref(target: str, *, optional: bool = False) -> Any:
    return Field(sa_column=Column(_INTEGER, ForeignKey(target), nullable=optional))


def _of_job() -> Any:
    """Defines a key of rows that are removed with their job."""
    return Field(sa_column=Column(_INTEGER, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True))


def _index(name: str, columns: str, where: str, *, unique: bool = False) -> Index:
    """Defines a partial index on columns, perhaps descending: `priority DESC, id`."""
    sorted_by = (text(each) if " " in each else each for each in columns.split(", "))
    return Index(name, *sorted_by, unique=unique, sqlite_where=text(where), postgresql_where=text(where))


def _orders(prefix: str, where: str) -> tuple[Index, ...]:
    """Defines the indexes for the orders of job lists.

    `video_id` is there for text filters: beside these they read only `ix_video_search`.
    """
    return (
        _index(f"{prefix}_waiting", "status, priority DESC, created_at, id, video_id", where),
        _index(f"{prefix}_ended", "status, completed_at DESC, id DESC, video_id", where),
        _index(f"{prefix}_status", "status, id, video_id", where),
    )


class Folder(SQLModel, table=True):
    """A drop folder and its rules."""

    __table_args__ = (UniqueConstraint("path"), AUTOINCREMENT)
    id: int | None = _id()
    path: bytes = _bytes()
    output_root: bytes = _bytes()
    profile: str = _text()
    watch: str = _text(default="auto")
    enabled: int = _int(default=1)
    recursive: int = _int(default=1)
    patterns: str = _text(default="[]")
    settle_s: float = _float(optional=True)
    priority: int = _int()
    created_at: int | None = _time(optional=False)
    autorestart_limit: int = _int()
    """How often a failed job of this folder is restarted automatically; 0: never."""
    autorestart_delay_s: float = _float()
    exclude: str = _text(default="[]")
    after_done: str = _text(default="keep")
    done_dir: bytes = _bytes(optional=True)
    """Where sources are moved to."""
    duplicates: str = _text(default="encode")
    template: str = _text(default="{slug}")
    """Where ladders lie below the output."""
    audio: str = _text(default="skip")
    max_attempts: int = _int(optional=True)
    max_crashes: int = _int(optional=True)
    """Limits of jobs of this folder; NULL: those of the settings."""
    hours: str = _text(default="")
    """When its jobs may run; empty: always."""


class Video(SQLModel, table=True):
    """A source and its facts; at most one per (source, output root)."""

    __table_args__ = (
        UniqueConstraint("source", "output_root"),
        UniqueConstraint("output_root", "slug"),
        # Only what list filters compare, sorted by id: a filter reads up to a million rows of it.
        Index("ix_video_search", "id", "folder_id", "name_lower", "size", "length_ms"),
        # The orders of job lists by their videos.
        Index("ix_video_by_name", "name_lower", "id"),
        Index("ix_video_by_size", "size", "id"),
        Index("ix_video_by_length", "length_ms", "id"),
        _index("ix_video_size", "size", "generation_id IS NOT NULL"),
        _index("ix_video_inode", "inode", "inode IS NOT NULL"),
        AUTOINCREMENT,
    )
    id: int | None = _id()
    folder_id: int = _ref("folder.id", optional=True)
    source: bytes = _bytes()
    output_root: bytes = _bytes()
    name: str = _text()
    """Displayed file name."""
    name_lower: str = _text()
    """The same in lower case, searched by text filters: LIKE ignores case for ASCII only."""
    title: str = _text()
    slug: str = _text()
    size: int = _big()
    mtime_ns: int = _big()
    quick_hash: str = _text(optional=True)
    full_hash: str = _text(optional=True)
    facts: str = _text(optional=True)
    probe_error: str = _text(optional=True)
    """JSON of the background probe's error for the present source."""
    inode: int = _big(optional=True)
    """Inode of the source; with size and time it identifies a renamed file."""
    generation_id: int = _int(optional=True)
    created_at: int | None = _time(optional=False)
    deleted_at: int | None = _time()
    source_deleted_at: int | None = _time()
    """When the rule of its drop folder deleted the source."""
    crfs: str = _text(default="[]")
    """JSON [`worker_answers.DecidedCrf`, …]: those that were found for `video.quality`, newest last."""
    viewable: str = _text(optional=True)
    """The quality that is published before the others of its ladder."""
    length_ms: int = _big(default=0)
    """Milliseconds of the source by its facts; 0 if unknown."""


class Generation(SQLModel, table=True):
    """One published ladder of a video; the current one is named by `video.generation_id`."""

    __table_args__ = (UniqueConstraint("video_id", "number"), AUTOINCREMENT)
    id: int | None = _id()
    video_id: int = _ref("video.id")
    number: int = _int()
    settings_hash: str = _text()
    omitted: str = _text(default="{}")
    """JSON {name: settings_hash} of renditions left out on purpose."""
    poster: str = _text(optional=True)
    published_at: int | None = _time(optional=False)
    retired_at: int | None = _time()
    removed_at: int | None = _time()
    files: str = _text(default="[]")
    """JSON [name, size, blake3] of each file with the whole video."""


class PublishedRendition(SQLModel, table=True):
    """One rendition of a generation."""

    __tablename__ = "published_rendition"
    __table_args__ = (UniqueConstraint("generation_id", "name"), AUTOINCREMENT)
    id: int | None = _id()
    generation_id: int = _ref("generation.id")
    name: str = _text()
    kind: str = _text()
    width: int = _int(optional=True)
    height: int = _int(optional=True)
    frame_rate: float = _float(optional=True)
    codecs: str = _text()
    duration_s: float = _float()
    average_bps: int = _int()
    peak_bps: int = _int()
    size: int = _big()
    settings_hash: str = _text()
    stream_key: str = _text()
    language: str = _text(optional=True)
    title: str = _text(optional=True)
    channels: int = _int(optional=True)
    is_default: int = _int()
    files: str = _text()
    """JSON [[name, size, duration_s, blake3, [[offset, size, duration_s], …]], …] of the segments, in order,
    with their I-frames."""
    role: str = _text(default="")
    surround_of: str = _text(optional=True)
    video_range: str = _text(default="SDR")


class Publication(SQLModel, table=True):
    """A generation that is being published; finished or undone at a supervisor's start."""

    job_id: int = _of_job()
    epoch: int = _int()
    video_id: int = _ref("video.id")
    number: int = _int()
    slug: str = _text()
    """The folder below the output; becomes the video's slug when the publish is recorded."""
    manifest: str = _text()
    full_hash: str = _text(optional=True)
    begun_at: int | None = _time(optional=False)


class SourceRemoval(SQLModel, table=True):
    """The source of a job that is done, to be moved or deleted; ends when that is recorded."""

    __tablename__ = "source_removal"
    job_id: int = _of_job()
    video_id: int = _ref("video.id")
    size: int = _big()
    mtime_ns: int = _big()
    inode: int = _big()
    ctime_ns: int = _big()
    target: bytes = _bytes(optional=True)
    """Where it is being moved to."""
    begun_at: int | None = _time()
    """Since when it may be gone."""


class Deletion(SQLModel, table=True):
    """A deleted video whose ladder still exists, or is on its way back."""

    __table_args__ = (_one_of("state", DeletionState),)
    video_id: int = Field(sa_column=Column(_INTEGER, ForeignKey("video.id"), primary_key=True))
    state: str = _text()


class Delivery(SQLModel, table=True):
    """The copy of a generation in a bucket, from its publish until it is removed there."""

    __table_args__ = (
        UniqueConstraint("video_id", "number"),
        _one_of("state", DeliveryState),
        _index("ix_delivery_next", "next_at, id", "next_at IS NOT NULL"),
        Index("ix_delivery_url", "url", "id"),
        AUTOINCREMENT,
    )
    id: int | None = _id()
    video_id: int = _ref("video.id")
    number: int = _int()
    """Number of the generation."""
    job_id: int = _int(optional=True)
    """The job that published it."""
    url: str = _text()
    """URL of the ladder's folder: `s3://films/vod/my-film`."""
    state: str = _text()
    files: int = _int()
    """Number of files to upload; 0 until they are counted."""
    files_done: int = _int()
    """How many of them, in their order, are in the bucket."""
    tries: int = _int()
    """Failures in a row."""
    code: str = _text(optional=True)
    error: str = _text(optional=True)
    """Why the last try failed."""
    hint: str = _text(optional=True)
    next_at: int | None = _time()
    """When it is to be uploaded or removed; None while there is nothing to do."""
    delivered_at: int | None = _time()
    evicted_at: int | None = _time()
    """When the segments of the local copy were removed."""


class Speed(SQLModel, table=True):
    """A speed measured on this machine, by kind of work."""

    key: str = Field(sa_column=Column(_TEXT, primary_key=True))
    value: float = _float()
    samples: int = _int()
    work_s: float = _float()
    """Seconds of work that the value was measured on, older ones weighted less."""
    at: int | None = _time(optional=False)


class Job(SQLModel, table=True):
    """A transcode of a video. The lease is set exactly while it is in progress."""

    __table_args__ = (
        _one_of("kind", JobKind),
        _one_of("status", JobStatus),
        CheckConstraint(f"step IS NULL OR step IN ({_in(Step)})", name="step"),
        _one_of("control", Control),
        _one_of("autorestart", Autorestart),
        CheckConstraint(
            "(status = 'in_progress') = (supervisor_id IS NOT NULL)"
            " AND (status = 'in_progress') = (worker_id IS NOT NULL)"
            " AND (status = 'in_progress') = (instance IS NOT NULL)",
            name="lease",
        ),
        CheckConstraint("status = 'in_progress' OR control = 'none'", name="control_of_running"),
        CheckConstraint("attempts <= max_attempts AND crashes <= max_crashes", name="counters"),
        # A plain index on status makes SQLite sort every pending job for one claim.
        _index(
            "ix_job_ready",
            "prefer_gpu, priority DESC, created_at, id",
            "status = 'pending' AND not_before IS NULL AND deleted_at IS NULL",
        ),
        _index("ix_job_backoff", "not_before", "status = 'pending' AND not_before IS NOT NULL"),
        _index(
            "ix_job_unprobed",
            "priority DESC, created_at, id",
            f"unprobed = 1 AND status IN ({_in(WAITING)}) AND deleted_at IS NULL",
        ),
        _index("ix_job_instance", "instance", "status = 'in_progress'"),
        _index("ix_job_one_open", "video_id", f"status IN ({_in(OPEN)}) AND deleted_at IS NULL", unique=True),
        Index("ix_job_video", "video_id", "id"),
        # Only what list filters compare, sorted by id, like `ix_video_search`.
        Index("ix_job_origin", "id", "kind", "owner", "profile", "error_code", "created_at"),
        _index("ix_job_batch", "batch, id", "batch IS NOT NULL"),
        _index("ix_job_warned", "id", f"warnings <> '{NO_WARNINGS}'"),
        *_orders("ix_job", "deleted_at IS NULL"),
        *_orders("ix_job_deleted", "deleted_at IS NOT NULL"),
        _index(
            "ix_job_predicted",
            "completed_at DESC, id DESC",
            "predicted_s IS NOT NULL AND status = 'done' AND deleted_at IS NULL",
        ),
        _index(
            "ix_job_autorestart",
            "id",
            "status = 'failed' AND autorestart IN ('enabled', 'in_progress') AND deleted_at IS NULL",
        ),
        AUTOINCREMENT,
    )
    id: int | None = _id()
    video_id: int = _ref("video.id")
    batch: str = _text(optional=True)
    kind: str = _text(default=JobKind.NEW.value)
    profile: str = _text()
    profile_json: str = _text()
    """The resolved profile; later edits of the profile's file do not affect it."""
    unprobed: int = _int()
    """Whether the video has neither facts nor a probe's error: the key of the probe's work list."""
    prefer_gpu: int = _int()
    requested: str = _text(optional=True)
    dropped: str = _text(default="[]")
    status: str = _text(default=JobStatus.PENDING.value)
    step: str = _text(optional=True)
    progress: float = _float()
    priority: int = _int()
    not_before: int | None = _time()
    ready_at: int | None = _time()
    """Since when it could be claimed; limits the wait for a GPU."""
    attempts: int = _int()
    crashes: int = _int()
    """Crashes in a row without a finished segment in between."""
    segments_at_crash: int = _int()
    """Finished segments of all qualities at the last crash."""
    resumed_at_crash_s: float = _float()
    """Position in the media, in seconds, where the attempt that crashed last had resumed."""
    starts_over: int = _int()
    """Whether it was restarted and its earlier work still has to be removed."""
    max_attempts: int = _int(default=3)
    max_crashes: int = _int(default=3)
    epoch: int = _int()
    supervisor_id: int = _ref("supervisor.id", optional=True)
    """The supervisor that granted the lease and keeps its deadline."""
    worker_id: int = _ref("worker.id", optional=True)
    instance: str = _text(optional=True)
    claimed_at: int | None = _time()
    control: str = _text(default=Control.NONE.value)
    error_code: str = _text(optional=True)
    error_text: str = _text(optional=True)
    error_hint: str = _text(optional=True)
    error_log: str = _text(optional=True)
    exhausted: int = _int()
    autorestart: str = _text(default=Autorestart.DISABLED.value)
    autorestart_limit: int = _int()
    autorestart_delay_s: float = _float()
    restarts: int = _int()
    last_restart_at: int | None = _time()
    processed_by_id: int = _int(optional=True)
    processed_by: str = _text(optional=True)
    metadata_json: str = _text(default="{}")
    warnings: str = _text(default=NO_WARNINGS)
    """JSON [{code, text}, …] of the newest attempt."""
    created_at: int | None = _time(optional=False)
    started_at: int | None = _time()
    last_progress_at: int | None = _time()
    completed_at: int | None = _time()
    deleted_at: int | None = _time()
    predicted_s: float = _float(optional=True)
    """Seconds predicted at the start of its first run; with `actual_s` the error of the ETA."""
    actual_s: float = _float(optional=True)
    """Seconds of all attempts so far."""
    idempotency_key: str = _text(optional=True)
    """Idempotency key of the request that created it."""
    from_folder: int = _int()
    """Whether its drop folder queued it, so that the folder's rule for sources applies."""
    owner: str = _text(default="user")
    """Who added it: `folder`, `user`, `upload`, or `token:` and its name."""
    changes: str = _text(default="[]")
    """JSON [{what, before, after}, …]: why a ladder is encoded again after a change."""


class Rendition(SQLModel, table=True):
    """One quality of a job."""

    __table_args__ = (_one_of("status", RenditionStatus),)
    job_id: int = _of_job()
    name: str = Field(sa_column=Column(_TEXT, primary_key=True))
    position: int = _int()
    status: str = _text(default=RenditionStatus.PENDING.value)
    reason: str = _text(optional=True)
    required: int = _int(default=1)
    width: int = _int(optional=True)
    height: int = _int(optional=True)
    encoder: str = _text(optional=True)
    progress: float = _float()
    segments_done: int = _int()
    segments_total: int = _int(optional=True)
    speed: float = _float(optional=True)
    settings_hash: str = _text(optional=True)
    stream_key: str = _text(optional=True)
    error: str = _text(optional=True)
    started_at: int | None = _time()
    """When an attempt first worked on it; NULL if it was kept or skipped."""
    completed_at: int | None = _time()


class Attempt(SQLModel, table=True):
    """One lease of a job: its worker, commands and outcome."""

    __table_args__ = (UniqueConstraint("job_id", "epoch"), _one_of("outcome", AttemptOutcome), AUTOINCREMENT)
    id: int | None = _id()
    job_id: int = _ref("job.id")
    number: int = _int()
    epoch: int = _int()
    worker_id: int = _ref("worker.id")
    worker: str = _text()
    instance: str = _text()
    encoder: str = _text(optional=True)
    argv: str = _text(default="[]")
    steps: str = _text(default="{}")
    resumed_from: int = _int(optional=True)
    resumed_at_s: float = _float(optional=True)
    started_at: int | None = _time(optional=False)
    ended_at: int | None = _time()
    """For a lost attempt: when the loss was detected, possibly hours later."""
    last_progress_at: int | None = _time()
    outcome: str = _text(default=AttemptOutcome.RUNNING.value)
    answer: str = _text(optional=True)
    """The job's status after this attempt; the answer to a repeated complete or fail."""
    error_code: str = _text(optional=True)
    error_text: str = _text(optional=True)
    log: str = _text(optional=True)
    cpu_s: float = _float(optional=True)
    """Processor seconds of its ffmpeg processes."""
    peak_memory_bytes: int = _big(optional=True)


class Statistic(SQLModel, table=True):
    """The figures of an attempt that ended. Rows are small and sorted by time, so that a million are quickly
    added up; they outlive their jobs."""

    __table_args__ = {"sqlite_with_rowid": False}
    at: int = Field(sa_column=Column(BigInteger, primary_key=True))
    """When it ended."""
    job_id: int = Field(sa_column=Column(_INTEGER, primary_key=True))
    epoch: int = Field(sa_column=Column(_INTEGER, primary_key=True))
    status: str = _text()
    """The job's status after it."""
    worker: str = _text()
    batch: str = _text(optional=True)
    wall_s: float = _float()
    cpu_s: float = _float()
    media_s: float = _float()
    """Seconds of source of a job that it completed; as the bytes, 0 for others."""
    bytes_in: int = _big(default=0)
    bytes_out: int = _big(default=0)
    eta_error_percent: int = _int(optional=True)
    """Error of the estimate of the job that it completed, in percent of the actual time."""


class Worker(SQLModel, table=True):
    """A worker by name. Its status is derived from intent, heartbeats and current job."""

    __table_args__ = (UniqueConstraint("name"), _one_of("kind", WorkerKind), AUTOINCREMENT)
    id: int | None = _id()
    name: str = _text()
    type: str = _text(default="local")
    kind: str = _text()
    device: str = _text(optional=True)
    encoder: str = _text(optional=True)
    enabled: int = _int(default=1)
    """The operator's intent; workers cannot change it."""
    draining: int = _int()
    instance: str = _text(optional=True)
    pid: int = _int(optional=True)
    pid_started: float = _float(optional=True)
    capabilities: str = _text(default="{}")
    metadata_json: str = _text(default="{}")
    registered_at: int | None = _time()
    last_heartbeat_at: int | None = _time()
    offline_at: int | None = _time()
    """Since when it is marked as offline; a heartbeat clears it."""
    suspected_at: int | None = _time()
    """Since when it must pass a test encode before it gets a job."""
    quarantined_at: int | None = _time()
    """Since when it gets no jobs because it failed several jobs and a test encode."""
    quarantine_reason: str = _text(optional=True)
    failed_jobs: str = _text(default="[]")
    """JSON list of the different jobs it failed since its last success."""
    joined_by: str = _text(optional=True)
    """Name of the token by which it joined, also where that was revoked; NULL if none did."""


class Supervisor(SQLModel, table=True):
    """A run of a supervisor; the newest leads. Its row stays: a deletion would look for it in all jobs."""

    __table_args__ = (AUTOINCREMENT,)
    id: int | None = _id()
    store_uuid: str = _text()
    """Identifies this database in the segment stores of its outputs."""
    pid: int = _int(optional=True)
    version: str = _text(optional=True)
    started_at: int | None = _time()
    expires_at: int | None = _time(optional=False)
    """When its lease runs out unless it is renewed: then others take over its jobs."""
    home: str = _text(default="")
    """Id of its home."""
    name: str = _text(default="")
    """Name of its host, or the name in its settings."""
    url: str = _text(optional=True)
    """URL of its TCP listener, for supervisors that stand by; NULL without one."""
    certificate: str = _text(optional=True)
    """PEM of that listener's certificate; NULL without TLS."""


class Standby(SQLModel, table=True):
    """A supervisor that stands by, to lead when the one that leads is gone."""

    home: str = Field(sa_column=Column(_TEXT, primary_key=True))
    """Id of its home."""
    name: str = _text()
    """Name of its host, or the name in its settings."""
    version: str = _text()
    seen_at: int | None = _time(optional=False)


class Gate(SQLModel, table=True):
    """A closed gate: while there is one, no job is claimed. Jobs do not change."""

    __table_args__ = (_one_of("kind", GateKind),)
    kind: str = Field(sa_column=Column(_TEXT, primary_key=True))
    reason: str = _text()
    path: bytes = _bytes(optional=True)
    """The full volume, for a disk gate."""
    since: int | None = _time(optional=False)
    until: int | None = _time()
    """When it is expected to open, for one that opens at a known time."""


class Event(SQLModel, table=True):
    """An event, written in the transaction of the change. Append-only."""

    __table_args__ = (
        CheckConstraint("detail IS NULL OR length(detail) <= 500", name="detail"),
        Index("ix_event_job", "job_id", "seq"),
        Index("ix_event_at", "at"),
        AUTOINCREMENT,
    )
    seq: int | None = _id()
    at: int | None = _time(optional=False)
    trigger: str = _text()
    job_id: int = _int(optional=True)
    video_id: int = _int(optional=True)
    worker: str = _text(optional=True)
    source: str = _text(optional=True)
    target: str = _text(optional=True)
    actor: str = _text()
    code: str = _text(optional=True)
    detail: str = _text(optional=True)


class JobCount(SQLModel, table=True):
    """Number of jobs by status, kept by triggers, because counting a million rows is too slow."""

    __tablename__ = "job_count"
    status: str = Field(sa_column=Column(_TEXT, primary_key=True))
    n: int = _int()


class Idempotency(SQLModel, table=True):
    """Answers to requests with an idempotency key; a repeated key gets the same answer."""

    key: str = Field(sa_column=Column(_TEXT, primary_key=True))
    answer: str = _text()
    at: int | None = _time(optional=False)


class Undo(SQLModel, table=True):
    """An action that can be undone; each actor has a few."""

    __table_args__ = (Index("ix_undo_actor", "actor", "id"), AUTOINCREMENT)
    id: int | None = _id()
    actor: str = _text()
    operation: str = _text()
    """A `lifecycle.Undoable`."""
    bulk: str = _text(default="")
    """Key that the slices of one action share; empty for an action of one request."""
    at: int | None = _time(optional=False)


class UndoStep(SQLModel, table=True):
    """The former state of one job, video or drop folder that an action changed."""

    __tablename__ = "undo_step"
    __table_args__ = (Index("ix_undo_step_version", "subject", "version"),)
    undo_id: int = Field(
        sa_column=Column(_INTEGER, ForeignKey("undo.id", ondelete="CASCADE"), primary_key=True)
    )
    subject: int = Field(sa_column=Column(_INTEGER, primary_key=True))
    """Id of the job, video or drop folder."""
    version: int = _int()
    """Number of the last event by which a person changed the job, after the action; 0 without a job."""
    before: int = _int()
    """The same before it."""
    former: str = _text()
    """JSON of what is put back."""


class Token(SQLModel, table=True):
    """A bearer token of the API. Only a hash of its secret is stored."""

    __table_args__ = (
        UniqueConstraint("name"),
        UniqueConstraint("prefix"),
        _one_of("role", GRANTABLE),
        AUTOINCREMENT,
    )
    id: int | None = _id()
    name: str = _text()
    role: str = _text()
    prefix: str = _text()
    """The part of the token by which it is looked up; not secret."""
    salt: bytes = _bytes()
    hash: bytes = _bytes()
    worker_id: int = _ref("worker.id", optional=True)
    """The worker in whose name a token with the role worker acts."""
    created_at: int | None = _time(optional=False)
    expires_at: int | None = _time()
    max_workers: int = _int(optional=True)
    """How many workers may join by it; NULL: any number."""


class Upload(SQLModel, table=True):
    """A file that a client sends in parts; until it is whole, its bytes are in a part file of this id."""

    id: str = Field(sa_column=Column(_TEXT, primary_key=True))
    """Part of the URL; not guessable."""
    size: int = Field(sa_column=Column(BigInteger, nullable=False))
    received: int = Field(sa_column=Column(BigInteger, nullable=False, server_default=text("0")))
    """How many bytes are durable in the part file."""
    upload_metadata: str = _text()
    """The header Upload-Metadata, as the client sent it."""
    actor: str = _text()
    expires_at: int | None = _time(optional=False)
    path: bytes = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """Where the whole file is, or is just being moved to."""
    answer: str = _text(optional=True)
    """JSON of the result of adding that file."""
    url: str = _text(optional=True)
    """URL of the object in a bucket that is fetched; NULL if a client sends the file."""
    version: str = _text(optional=True)
    """ETag of that object."""
    output_root: bytes = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """Output folder of its ladder; NULL for the default."""


class Alert(SQLModel, table=True):
    """An alert for one channel; it waits for delivery while `next_at` is set."""

    __table_args__ = (
        UniqueConstraint("channel", "key"),
        _index("ix_alert_waiting", "channel, next_at", "next_at IS NOT NULL"),
        Index("ix_alert_subject", "channel", "kind", "subject", "id"),
        AUTOINCREMENT,
    )
    id: int | None = _id()
    channel: str = _text()
    key: str = _text()
    """The idempotency key: the same in every attempt, and in every channel."""
    kind: str = _text()
    subject: str = _text()
    """The video, worker, gate or disk that it is about."""
    payload: str = _text()
    """JSON of what is sent."""
    suppressed: int = _int()
    """Number of earlier alerts of the same kind and subject that this one replaced."""
    due_at: int | None = _time(optional=False)
    """When it was first due."""
    next_at: int | None = _time()
    tries: int = _int()
    error: str = _text(optional=True)
    sent_at: int | None = _time()


class AlertPosition(SQLModel, table=True):
    """The sequence number of the last event that alerts were made of; one row, none while alerts are off."""

    __tablename__ = "alert_position"
    seq: int = Field(sa_column=Column(_INTEGER, primary_key=True))


def const(value: StrEnum) -> ColumnElement[str]:
    """Returns a value as text of a statement, not as a parameter, which no partial index would serve."""
    return literal_column(f"'{value.value}'")


_tables = SQLModel.metadata.tables
alert = _tables["alert"]
alert_position = _tables["alert_position"]
attempt = _tables["attempt"]
deletion = _tables["deletion"]
delivery = _tables["delivery"]
event = _tables["event"]
folder = _tables["folder"]
gate = _tables["gate"]
generation = _tables["generation"]
idempotency = _tables["idempotency"]
job = _tables["job"]
job_count = _tables["job_count"]
publication = _tables["publication"]
published_rendition = _tables["published_rendition"]
source_removal = _tables["source_removal"]
rendition = _tables["rendition"]
speed = _tables["speed"]
statistic = _tables["statistic"]
standby = _tables["standby"]
supervisor = _tables["supervisor"]
token = _tables["token"]
undo = _tables["undo"]
undo_step = _tables["undo_step"]
upload = _tables["upload"]
video = _tables["video"]
worker = _tables["worker"]


def is_open(jobs: FromClause) -> ColumnElement[bool]:
    """Returns the condition of the index `ix_job_one_open` on the status, for `job` or an alias of it."""
    return jobs.c.status.in_([const(status) for status in OPEN])


UNPROBED: ColumnElement[int] = cast(video.c.facts.is_(None) & video.c.probe_error.is_(None), Integer)
"""The value of `job.unprobed` by the row of its video."""
