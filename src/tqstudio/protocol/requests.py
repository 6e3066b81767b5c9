"""What clients and workers may send to the supervisor, checked field by field.

Only the supervisor loads these; clients send plain dicts of the same shape.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from tqstudio.lifecycle import Control, Operation, RenditionStatus, Step, WorkerKind
from tqstudio.paths import decode

ShortText = Annotated[str, StringConstraints(max_length=500)]


def _path(value: str) -> str:
    try:
        decode(value)
    except ValueError:
        raise PydanticCustomError("path", "not base64 of the bytes of a path") from None
    return value


PathB64 = Annotated[
    str,
    StringConstraints(min_length=1, max_length=8192),
    AfterValidator(_path),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 8192, "format": "path-base64"}),
]
Name = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._-]+$")]
ProfileName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
"""Only looked up among the files there are, so it may be any name."""
AutorestartLimit = Annotated[int, Field(ge=0, le=100)]
AutorestartDelay = Annotated[float, Field(ge=0, le=30 * 86_400)]
Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""What the database holds. One report with a larger number would spoil the transaction that it shares."""
Count = Annotated[int, Field(ge=0, lt=2**63)]
Amount = Annotated[float, Field(ge=0, le=1e12)]
"""Seconds, or a multiple of real time: sums of them stay finite."""
Settle = Annotated[float, Field(ge=0, le=30 * 86_400)]
MAX_METADATA_BYTES = 10_000
"""Of a job's or a worker's metadata, and of its capabilities, as JSON."""
MAX_METADATA_LEVELS = 20
MAX_BITS = 13_000
"""Of a whole number in metadata: Python refuses to write one of more than 4 300 digits."""


def _answerable(value: Any, levels: int = MAX_METADATA_LEVELS) -> Any:
    """Refuse what is kept with a job and could not be answered again as it came."""
    match value:
        case dict() | list() if not levels:
            raise PydanticCustomError("too_deep", f"nested more than {MAX_METADATA_LEVELS} levels deep")
        case dict():
            for key, each in value.items():
                _answerable(key)
                _answerable(each, levels - 1)
        case list():
            for each in value:
                _answerable(each, levels - 1)
        case str() if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                shown = value.encode("ascii", "backslashreplace").decode()
                raise PydanticCustomError("not_unicode", f"{shown:.100} is not valid Unicode") from None
        case int() if value.bit_length() > MAX_BITS:
            raise PydanticCustomError("too_large", f"a whole number has more than {MAX_BITS} bits")
        case float() if not math.isfinite(value):
            raise PydanticCustomError("not_finite", "NaN and infinite numbers are not valid JSON")
    return value


AnyJson = Annotated[dict[str, Any], AfterValidator(_answerable)]


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class AddRequest(Message):
    """Files to enqueue; absolute paths as base64 of their bytes."""

    paths_b64: list[PathB64] = Field(min_length=1, max_length=10_000)
    output_b64: PathB64 | None = None
    profile: ProfileName | None = None
    priority: int | None = Field(None, ge=-1000, le=1000)
    """0 for new jobs where none is given; a waiting job keeps its own then."""
    hold: bool = False
    force: bool = False
    """Make a finished ladder again even when nothing changed."""
    verify_full: bool = False
    """Read every byte to see whether a file has changed, even where its time has not."""
    retry_failed: bool = True
    batch: Annotated[str, StringConstraints(max_length=64)] | None = None
    metadata: AnyJson = Field(default_factory=dict)
    """What the caller wants to find again with the jobs; a job that is there takes it over, key by key."""
    overrides: dict[ShortText, ShortText] = Field(default_factory=dict)
    """Profile keys set for these files alone (`--set KEY=VALUE`)."""
    autorestart: AutorestartLimit | None = None
    """How often a failed job starts again by itself."""
    autorestart_delay_s: AutorestartDelay | None = None
    idempotency_key: Annotated[str, StringConstraints(max_length=100)] | None = None


class ActionRequest(Message):
    operation: Operation
    ids: list[Whole] = Field(min_length=1, max_length=10_000)
    priority: int | None = Field(None, ge=-1000, le=1000)
    delta: int | None = Field(None, ge=-1000, le=1000)
    """Added to each job's priority instead of setting it."""
    renditions: list[ShortText] | None = None
    profile: ProfileName | None = None
    """Of a retranscode; the job's own otherwise."""
    drop: list[ShortText] = Field(default_factory=list)
    """Of a retranscode: renditions of the current ladder that the new one shall not have."""
    idempotency_key: Annotated[str, StringConstraints(max_length=100)] | None = None


class FolderRequest(Message):
    path_b64: PathB64
    output_b64: PathB64 | None = None
    profile: ProfileName | None = None
    recursive: bool = True
    patterns: list[Annotated[str, StringConstraints(max_length=200)]] = Field(default_factory=list)
    settle_s: Settle | None = None
    priority: int = Field(0, ge=-1000, le=1000)
    watch: Literal["auto", "inotify", "polling"] = "auto"
    autorestart: AutorestartLimit = 0
    autorestart_delay_s: AutorestartDelay | None = None


class FolderChange(Message):
    output_b64: PathB64 | None = None
    profile: ProfileName | None = None
    recursive: bool | None = None
    patterns: list[Annotated[str, StringConstraints(max_length=200)]] | None = None
    settle_s: Settle | None = None
    priority: int | None = Field(None, ge=-1000, le=1000)
    watch: Literal["auto", "inotify", "polling"] | None = None
    enabled: bool | None = None
    autorestart: AutorestartLimit | None = None
    autorestart_delay_s: AutorestartDelay | None = None


class QueuePause(Message):
    reason: ShortText = ""


class QueueRetry(Message):
    batch: Annotated[str, StringConstraints(max_length=64)] | None = None
    """Only the failed jobs of this batch."""


class QueueClear(Message):
    history: bool = False
    """Also forget every event."""


class BackupRequest(Message):
    path_b64: PathB64
    """A new file."""


class ShutdownRequest(Message):
    drain: bool = False


class NewWorker(Message):
    """Asks for a token for a worker that is not spawned by the pool."""

    name: Name
    kind: WorkerKind = WorkerKind.CPU


# From workers.


class WorkerMessage(Message):
    instance: Annotated[str, StringConstraints(min_length=8, max_length=64)]
    """One life of the worker's process."""


class RegisterRequest(WorkerMessage):
    pid: Count
    pid_started: float
    """Start time of the process, seconds since the epoch; with the pid it names one process for ever."""
    encoder: ShortText | None = None
    capabilities: AnyJson = Field(default_factory=dict)
    metadata: AnyJson = Field(default_factory=dict)


class ClaimRequest(WorkerMessage):
    wait_s: float = Field(0, ge=0, le=60)


class TestedRequest(WorkerMessage):
    """How the test encode ended that a claim asked for."""

    problem: ShortText = ""
    """Why it failed; empty when it passed."""


class Beat(Message):
    job: Whole
    epoch: Whole


class HeartbeatRequest(WorkerMessage):
    jobs: list[Beat] = Field(default_factory=list, max_length=64)
    cpu_percent: Amount | None = None
    memory_bytes: Count | None = None


class RenditionReport(Message):
    name: Annotated[str, StringConstraints(max_length=40)]
    status: RenditionStatus
    reason: ShortText | None = None
    required: bool = True
    width: Count | None = None
    height: Count | None = None
    encoder: ShortText | None = None
    progress: float = Field(0, ge=0, le=100)
    """With what is in the making."""
    kept: float = Field(0, ge=0, le=100)
    """What is finished, to the fragment: where the next attempt goes on."""
    segments_done: Count = 0
    segments_total: Count | None = None
    speed: Amount | None = None
    settings_hash: ShortText | None = None
    stream_key: ShortText | None = None
    error: ShortText | None = None


class WarningReport(Message):
    """See `schemas.WarningView`."""

    code: Annotated[str, StringConstraints(max_length=40)]
    text: ShortText


class Token(WorkerMessage):
    """What a worker shows with every write: (job in the path), epoch and instance."""

    epoch: Whole


class ProgressRequest(Token):
    step: Step
    progress: float = Field(ge=0, le=100)
    speed: Amount | None = None
    eta_s: Amount | None = None
    renditions: list[RenditionReport] | None = None
    warnings: list[WarningReport] | None = None
    """All that are known so far; None when nothing has changed."""
    steps: dict[Step, Amount] = Field(default_factory=dict)
    argv: list[list[str]] | None = None
    resumed_from: Count | None = None
    resumed_at_s: Amount | None = None
    encoder: ShortText | None = None
    facts: AnyJson | None = None
    content_id: ShortText | None = None
    quiet_s: Amount = 0
    """For how long the worker's main thread has not run: it may wait for a disk."""


class ManifestFile(Message):
    name: Annotated[str, StringConstraints(max_length=80, pattern=r"^[A-Za-z0-9_.-]+$")]
    size: int = Field(gt=0, lt=2**63)
    duration_s: float = Field(gt=0, le=1e12)
    blake3: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class ManifestRendition(Message):
    """A finished rendition, as it lies in the segment store."""

    name: Annotated[str, StringConstraints(max_length=40, pattern=r"^[A-Za-z0-9_-]+$")]
    kind: Literal["video", "audio"]
    folder: Annotated[str, StringConstraints(max_length=400)]
    """Relative to the sink."""
    segments: list[ManifestFile] = Field(min_length=1)
    init_size: int = Field(gt=0, lt=2**63)
    codecs: ShortText
    width: Count | None = None
    height: Count | None = None
    frame_rate: Amount | None = None
    duration_s: float = Field(gt=0, le=1e12)
    average_bps: Count
    peak_bps: Count
    settings_hash: ShortText
    stream_key: ShortText
    language: Annotated[str, StringConstraints(max_length=20)] | None = None
    title: ShortText | None = None
    channels: Count | None = None
    default: bool = False


class SourceIdentity(Message):
    """What tells the file that was transcoded from any other that may bear its name."""

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int


class Manifest(Message):
    """What a worker made and verified, for the supervisor to publish."""

    renditions: list[ManifestRendition]
    keep: list[ShortText] = Field(default_factory=list)
    """Renditions of the current generation that go on unchanged."""
    poster: Annotated[str, StringConstraints(max_length=400)] | None = None
    """Relative to the sink."""
    settings_hash: ShortText
    source: SourceIdentity | None = None
    """The source as it was when work on it began; another file there now stops the publish."""
    warnings: list[WarningReport] = Field(default_factory=list)


class Outcome(Token):
    """How a lease ends, with the seconds spent in each step."""

    steps: dict[Step, Amount] = Field(default_factory=dict)

    def steps_by_name(self) -> dict[str, float]:
        return {step.value: seconds for step, seconds in self.steps.items()}


class CompleteRequest(Outcome):
    manifest: Manifest
    full_hash: ShortText | None = None


class FailRequest(Outcome):
    code: Annotated[str, StringConstraints(max_length=40)]
    text: Annotated[str, StringConstraints(max_length=2000)]
    hint: ShortText = ""


class ReleaseRequest(Outcome):
    """The worker stopped on request; its ffmpeg is dead."""

    reason: Control | Literal["shutdown"]
