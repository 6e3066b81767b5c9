"""Defines and validates the requests of clients and workers.

Only the supervisor imports these pydantic models; clients send plain dicts of the same shape.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from tqstudio import hours
from tqstudio.lifecycle import Control, LogLevel, Operation, RenditionStatus, Step, WorkerKind
from tqstudio.paths import decode, readable
from tqstudio.protocol import filters
from tqstudio.protocol.roles import Role

ShortText = Annotated[str, StringConstraints(max_length=500)]
ShownText = Annotated[str, StringConstraints(max_length=500), AfterValidator(readable)]
"""Text that people see in their terminals, which it must not control."""


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
"""Any name: it is only compared with those of existing profiles."""
AutorestartLimit = Annotated[int, Field(ge=0, le=100)]
AutorestartDelay = Annotated[float, Field(ge=0, le=30 * 86_400)]
Tries = Annotated[int, Field(ge=1, le=100)]
"""Failed attempts, or crashes, until a job fails for good."""
Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""The integers that SQLite stores. A larger one would fail the whole transaction that a report shares."""
Count = Annotated[int, Field(ge=0, lt=2**63)]
Amount = Annotated[float, Field(ge=0, le=1e12)]
"""Seconds, or a multiple of real time; bounded so that sums stay finite."""
Settle = Annotated[float, Field(ge=0, le=30 * 86_400)]
MAX_METADATA_BYTES = 10_000
"""Limit for a job's or worker's metadata and a worker's capabilities, as JSON."""
MAX_METADATA_LEVELS = 20
MAX_KEYS = 10_000
"""Limit for the keys of one object."""
MAX_BITS = 13_000
"""Limit for integers in metadata: Python refuses to print more than 4 300 digits."""


def _answerable(value: Any, levels: int = MAX_METADATA_LEVELS) -> Any:
    """Reject stored JSON that could not be serialised again unchanged."""
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

    @model_validator(mode="before")
    @classmethod
    def _refuse_first_wrong_key(cls, value: Any) -> Any:
        """Refuse the first unknown key, and too many: pydantic alone would list each of millions."""
        if isinstance(value, dict):
            for key, each in value.items():
                shown = {"key": f"{key.encode('ascii', 'backslashreplace').decode():.100}"}
                if key not in cls.model_fields:
                    raise PydanticCustomError("unknown_key", "unknown key {key}", shown)
                if isinstance(each, dict) and len(each) > MAX_KEYS:
                    raise PydanticCustomError("too_many_keys", "too many keys in {key}", shown)
        return value


class AddOptions(Message):
    """Options of added files, whether named by path or uploaded."""

    profile: ProfileName | None = None
    priority: int | None = Field(None, ge=-1000, le=1000)
    """Default: 0 for new jobs; a waiting job keeps its own."""
    hold: bool = False
    force: bool = False
    """Encode a finished ladder again even when nothing changed."""
    batch: Annotated[str, StringConstraints(max_length=64)] | None = None
    metadata: AnyJson = Field(default_factory=dict)
    """Data of the caller, stored with the jobs; merged by key into that of an existing job."""
    overrides: dict[ShortText, ShortText] = Field(default_factory=dict)
    """Profile keys set for these files only (`--set KEY=VALUE`)."""
    autorestart: AutorestartLimit | None = None
    """How often a failed job restarts automatically."""
    autorestart_delay_s: AutorestartDelay | None = None
    max_attempts: Tries | None = None
    """Default: that of the settings; a waiting job keeps its own."""
    max_crashes: Tries | None = None


class AddRequest(AddOptions):
    """Files to enqueue; absolute paths as base64 of their bytes."""

    paths_b64: Annotated[list[PathB64], FailFast()] = Field(min_length=1, max_length=10_000)
    output_b64: PathB64 | None = None
    verify_full: bool = False
    """Read every byte to check whether a file has changed, even if its modification time has not."""
    retry_failed: bool = True
    idempotency_key: Annotated[str, StringConstraints(max_length=100)] | None = None


class FetchRequest(AddOptions):
    """A file in object storage to fetch and enqueue."""

    url: Annotated[str, StringConstraints(max_length=2000)]
    """Such as `s3://films/raw/film.mov`."""
    output_b64: PathB64 | None = None


class RelocateRequest(Message):
    """An output folder that was moved, and where it is now."""

    from_b64: PathB64
    to_b64: PathB64


class JobSettings(Message):
    """What a change or a retranscode gives to jobs; what is left out stays as it is."""

    priority: int | None = Field(None, ge=-1000, le=1000)
    renditions: list[ShortText] | None = None
    """Qualities to encode; empty: all. A retranscode encodes all by default."""
    profile: ProfileName | None = None
    overrides: dict[ShortText, ShortText] = Field(default_factory=dict)
    """Profile keys set for these jobs only (`--set KEY=VALUE`)."""
    hold: bool | None = None
    """Whether they wait on hold."""
    drop: list[ShortText] = Field(default_factory=list)
    """Of done jobs: renditions of the current ladder to leave out, `subtitles`, `storyboard`."""


class JobsRequest(JobSettings):
    """An operation on jobs."""

    operation: Operation
    delta: int | None = Field(None, ge=-1000, le=1000)
    """Added to each job's priority instead of setting it."""


class ActionRequest(JobsRequest):
    ids: list[Whole] = Field(min_length=1, max_length=10_000)
    idempotency_key: Annotated[str, StringConstraints(max_length=100)] | None = None


class BulkRequest(JobsRequest):
    """An operation on the next of all jobs that match a filter."""

    filter: Annotated[str, StringConstraints(max_length=filters.LONGEST)] = ""
    newest: Count
    """Number of the last job; those that are added meanwhile are left alone."""
    after: Count = 0
    """Number of the last job of the slice before, as its answer says."""
    idempotency_key: Annotated[str, StringConstraints(min_length=1, max_length=60)]
    """The same for all slices, which are undone together; each is applied once."""


class ForecastRequest(JobSettings):
    """Asks what a change of jobs would cost: of these, or of all that match a filter."""

    operation: Literal[Operation.CHANGE, Operation.RETRANSCODE] = Operation.CHANGE
    ids: list[Whole] = Field(default_factory=list, max_length=10_000)
    filter: Annotated[str, StringConstraints(max_length=filters.LONGEST)] = ""
    newest: Count = 0
    """Without ids: number of the last job that may match."""


class UndoRequest(Message):
    undo: int | None = None
    """The action to continue with, as the answer named it; default: the newest one of the caller."""
    idempotency_key: Annotated[str, StringConstraints(max_length=100)] | None = None


def _excludes(value: str) -> str:
    if not value.strip("/ ") or value.startswith("!"):
        raise PydanticCustomError("no_glob", "not the glob of a name; exceptions go into a .tqignore file")
    return value


Patterns = list[Annotated[str, StringConstraints(max_length=200)]]
Exclude = list[Annotated[str, StringConstraints(max_length=200), AfterValidator(_excludes)]]


def _hours(value: str) -> str:
    try:
        hours.parse(value)
    except ValueError as error:
        raise PydanticCustomError("no_hours", "{what}", {"what": str(error)}) from None
    return value


Hours = Annotated[str, StringConstraints(max_length=200, strip_whitespace=True), AfterValidator(_hours)]
Template = Annotated[str, StringConstraints(max_length=200)]


class FolderRules(Message):
    """Rules of a drop folder that both its creation and a change may leave out."""

    output_b64: PathB64 | None = None
    profile: ProfileName | None = None
    done_dir_b64: PathB64 | None = None
    """Where sources are moved to when they are done."""
    settle_s: Settle | None = None
    autorestart_delay_s: AutorestartDelay | None = None
    max_attempts: Tries | None = None
    max_crashes: Tries | None = None


AfterDone = Literal["keep", "move", "delete"]
"""What becomes of sources whose ladder is published and complete."""
Duplicates = Literal["encode", "skip", "link"]
"""What becomes of new files with the content of a source that is published with the same settings."""
Audio = Literal["encode", "skip"]
"""What becomes of sound without video."""
Watch = Literal["auto", "inotify", "polling"]


class FolderRequest(FolderRules):
    path_b64: PathB64
    recursive: bool = True
    patterns: Patterns = Field(default_factory=list)
    exclude: Exclude = Field(default_factory=list)
    after_done: AfterDone = "keep"
    duplicates: Duplicates = "encode"
    template: Template = "{slug}"
    """Where ladders of new videos lie below the output: names, `{relative_dir}`, `{date}` and `{slug}`."""
    audio: Audio = "skip"
    hours: Hours = ""
    """When its jobs may run, such as `mon-fri 22:00-06:00; sat,sun`; empty: always."""
    priority: int = Field(0, ge=-1000, le=1000)
    watch: Watch = "auto"
    autorestart: AutorestartLimit = 0


class FolderChange(FolderRules):
    recursive: bool | None = None
    patterns: Patterns | None = None
    exclude: Exclude | None = None
    after_done: AfterDone | None = None
    duplicates: Duplicates | None = None
    template: Template | None = None
    audio: Audio | None = None
    hours: Hours | None = None
    priority: int | None = Field(None, ge=-1000, le=1000)
    watch: Watch | None = None
    enabled: bool | None = None
    autorestart: AutorestartLimit | None = None


class QueuePause(Message):
    reason: ShownText = ""
    until: Annotated[str, StringConstraints(max_length=40)] | None = None
    """ISO 8601: when it resumes; default: when it is resumed."""


class QueueRetry(Message):
    batch: Annotated[str, StringConstraints(max_length=64)] | None = None
    """Only the failed jobs of this batch."""


class QueueClear(Message):
    history: bool = False
    """Also delete all events."""
    manifest: bool = False
    """Also forget the videos without open jobs, and delete all events; ladders stay."""


class BackupRequest(Message):
    path_b64: PathB64
    """The file to create; it must not exist."""


class ShutdownRequest(Message):
    drain: bool = False


class LogLevelRequest(Message):
    level: LogLevel


class JoinRequest(Message):
    """Registers a command for as long as its process runs."""

    pid: int = Field(gt=0, lt=2**31)
    stay: bool = False
    """A supervisor that was started for a run does not shut down when idle any more."""


class LeaveRequest(Message):
    pid: int = Field(gt=0, lt=2**31)
    ignores_jobs: bool = False
    """The supervisor is not needed for the jobs that are open: they are all the command's."""


class AddWorkerRequest(Message):
    """Starts a CPU worker on the supervisor's machine."""


class WorkerTokenRequest(Message):
    """Creates a token for a worker that the pool does not spawn, or for one that joins."""

    name: Name
    kind: WorkerKind = WorkerKind.CPU


DEFAULT_JOINS = 16
"""Workers that may join by a token, unless it says otherwise: as many as one machine runs."""


class TokenRequest(Message):
    """Creates a token of the API."""

    name: Name
    """Name of the token; with the role worker, also the name of its worker."""
    role: Literal[Role.VIEW, Role.OPERATE, Role.ADMIN, Role.WORKER, Role.JOIN]
    expires_at: Annotated[str, StringConstraints(max_length=40)] | None = None
    """ISO 8601, in UTC without a zone; None is never."""
    kind: WorkerKind = WorkerKind.CPU
    """Kind of the worker of a token with the role worker."""
    max_workers: int | None = Field(DEFAULT_JOINS, ge=1, le=10_000)
    """How many workers may join by a token with the role join; null: any number."""


# From workers.


class WorkerMessage(Message):
    instance: Annotated[str, StringConstraints(min_length=8, max_length=64)]
    """Identifies one run of the worker's process."""


class RegisterRequest(WorkerMessage):
    pid: Count
    pid_started: float
    """Start time of the process in seconds since the epoch; with the pid it identifies the process."""
    encoder: ShownText | None = None
    capabilities: AnyJson = Field(default_factory=dict)
    metadata: AnyJson = Field(default_factory=dict)


class KeptRequest(WorkerMessage):
    """Asks which of the files that a worker keeps are still needed."""

    videos: list[Count] = Field(max_length=1000)


class RangeAbility(Message):
    """With what a worker encodes: ranges that were encoded otherwise could not be joined."""

    build: ShortText
    """Build of ffmpeg."""
    encoders: list[ShortText] = Field(max_length=64)


class ClaimRequest(WorkerMessage):
    wait_s: float = Field(0, ge=0, le=60)
    ranges: RangeAbility | None = None
    """Which ranges of jobs of other workers it takes too."""


class RemovedFiles(Message):
    """Files that a worker has removed from its segment store."""

    paths: list[ShortText] = Field(max_length=10_000)


class TestedRequest(WorkerMessage):
    """The result of the test encode that a claim requested."""

    problem: ShownText = ""
    """Why it failed; empty when it passed."""


class Beat(Message):
    job: Whole
    epoch: Whole


class HeartbeatRequest(WorkerMessage):
    jobs: list[Beat] = Field(default_factory=list, max_length=64)
    cpu_percent: Amount | None = None
    memory_bytes: Count | None = None


class RenditionReport(Message):
    name: Annotated[str, StringConstraints(max_length=40), AfterValidator(readable)]
    status: RenditionStatus
    reason: ShownText | None = None
    required: bool = True
    width: Count | None = None
    height: Count | None = None
    encoder: ShownText | None = None
    progress: float = Field(0, ge=0, le=100)
    """Percent of the rendition that is encoded so far."""
    kept: float = Field(0, ge=0, le=100)
    """Percent of the rendition in finished fragments, from which the next attempt resumes."""
    segments_done: Count = 0
    segments_total: Count | None = None
    speed: Amount | None = None
    settings_hash: ShortText | None = None
    stream_key: ShortText | None = None
    error: ShownText | None = None


class WarningReport(Message):
    """See `answers.WarningView`."""

    code: Annotated[str, StringConstraints(max_length=40), AfterValidator(readable)]
    text: ShownText


class CrfReport(Message):
    """See `worker_answers.DecidedCrf`."""

    settings_hash: ShortText
    encoder: ShortText
    crf: int = Field(ge=1, le=63)
    vmaf: float | None = Field(None, ge=0, le=100)
    remark: ShownText = ""


class Token(WorkerMessage):
    """The lease token of every write: epoch and instance, with the job in the path."""

    epoch: Whole


SegmentNumber = Annotated[int, Field(ge=0, le=10_000_000)]


class Division(Message):
    """What other workers may make of a running job: these segments of these streams."""

    missing: list[tuple[SegmentNumber, SegmentNumber]] = Field(max_length=10_000)
    """Ranges, in order, from the one in which its own worker encodes: the first segment, and the end."""
    segment_s: float = Field(gt=0, le=1e6)
    streams: dict[Annotated[str, StringConstraints(max_length=40)], ShortText] = Field(max_length=64)
    """Rendition → stream key."""
    encoder: ShortText
    build: ShortText
    """Build of ffmpeg."""


class RangeRequest(Token):
    """The end of a range."""

    steps: dict[Step, Amount] = Field(default_factory=dict)
    problem: ShownText = ""
    """Why it is not whole; empty if it is."""


class ProgressRequest(Token):
    step: Step
    copied: float | None = Field(None, ge=0, le=100)
    """How much of the source has been copied to a worker of another machine; None before and afterwards."""
    doing: ShownText | None = None
    """What is shown in place of the step."""
    quality_s: Amount = 0
    """Seconds spent on `video.quality` so far."""
    progress: float = Field(ge=0, le=100)
    speed: Amount | None = None
    eta_s: Amount | None = None
    renditions: list[RenditionReport] | None = Field(None, max_length=1000)
    division: Division | None = None
    warnings: list[WarningReport] | None = Field(None, max_length=1000)
    """All that are known so far; None if unchanged."""
    steps: dict[Step, Amount] = Field(default_factory=dict)
    cpu_s: Amount | None = None
    """Processor seconds of all ffmpeg processes of this attempt so far."""
    peak_memory_bytes: Count | None = None
    """Largest resident memory of one of them."""
    argv: list[list[str]] | None = Field(None, max_length=10_000)
    resumed_from: Count | None = None
    resumed_at_s: Amount | None = None
    encoder: ShownText | None = None
    facts: AnyJson | None = None
    content_id: ShortText | None = None
    crfs: list[CrfReport] | None = Field(None, max_length=64)
    """Decided in this attempt."""
    first: Manifest | None = None
    """A quality with all sound and subtitles, to be published before the others."""
    blocked_s: Amount = 0
    """Seconds that the worker's main thread has not run; it may be blocked on a disk."""


class ManifestFile(Message):
    name: Annotated[str, StringConstraints(max_length=80, pattern=r"^[A-Za-z0-9_.-]+$")]
    size: int = Field(gt=0, lt=2**63)
    duration_s: float = Field(gt=0, le=1e12)
    blake3: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    iframes: Annotated[list[tuple[Count, Count, Annotated[float, Field(gt=0, le=1e12)]]], FailFast()] = Field(
        default_factory=list
    )
    """Key frames of video: offset and size of each with its fragment header, and seconds until the next."""


class ManifestRendition(Message):
    """A finished rendition in the segment store."""

    name: Annotated[str, StringConstraints(max_length=40, pattern=r"^[A-Za-z0-9_-]+$")]
    kind: Literal["video", "audio", "subtitles"]
    folder: Annotated[str, StringConstraints(max_length=400)]
    """Relative to the work folder."""
    segments: Annotated[list[ManifestFile], FailFast()] = Field(min_length=1)
    init_size: int = Field(ge=0, lt=2**63)
    """0 without an initialisation segment: subtitles have none."""
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
    role: Literal["", "commentary", "description", "forced", "captions"] = ""
    surround_of: ShortText | None = None
    """Name of the rendition with the same sound in fewer channels."""
    video_range: Literal["SDR", "PQ", "HLG"] = "SDR"
    linked_from: Count | None = None
    """Id of the video that had published its segments."""

    @model_validator(mode="after")
    def _has_init(self) -> ManifestRendition:
        if (self.init_size == 0) != (self.kind == "subtitles"):
            raise ValueError("all but subtitles have an initialisation segment")
        return self


class ManifestChapter(Message):
    """A chapter, in seconds from the start of the video."""

    start_s: Amount
    end_s: Amount
    title: Annotated[str, StringConstraints(max_length=100)]
    language: Annotated[str, StringConstraints(max_length=20)]


class SourceIdentity(Message):
    """Identifies the file that was transcoded, as opposed to another one of the same name."""

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int


class Manifest(Message):
    """What a worker encoded and verified, for the supervisor to publish."""

    renditions: Annotated[list[ManifestRendition], FailFast()] = Field(max_length=1000)
    keep: list[ShortText] = Field(default_factory=list, max_length=1000)
    """Renditions of the current generation to keep unchanged."""
    poster: Annotated[str, StringConstraints(max_length=400)] | None = None
    """Relative to the work folder."""
    storyboard: Annotated[str, StringConstraints(max_length=400)] | None = None
    """Its folder, relative to the work folder."""
    keep_storyboard: bool = False
    """Whether to publish the storyboard of the current generation again."""
    dash: bool = False
    """Whether an MPD is published."""
    first: bool = False
    """Whether it is published before the other qualities of the ladder, as the supervisor decides."""
    files: list[Annotated[str, StringConstraints(pattern=r"^(m4a|mp4(:[0-9a-z-]{1,30})?)$")]] = Field(
        default_factory=list, max_length=64
    )
    """The files of the whole video that are published, as in profiles."""
    chapters: list[ManifestChapter] = Field(default_factory=list, max_length=500)
    settings_hash: ShortText
    source: SourceIdentity | None = None
    """The source when work on it began; if another file is there now, nothing is published."""
    warnings: Annotated[list[WarningReport], FailFast()] = Field(default_factory=list, max_length=1000)


class OutcomeRequest(Token):
    """Ends a lease; carries the seconds spent in each step."""

    steps: dict[Step, Amount] = Field(default_factory=dict)

    def steps_by_name(self) -> dict[str, float]:
        return {step.value: seconds for step, seconds in self.steps.items()}


class CompleteRequest(OutcomeRequest):
    manifest: Manifest
    full_hash: ShortText | None = None


class FailRequest(OutcomeRequest):
    code: Annotated[str, StringConstraints(max_length=40)]
    text: Annotated[str, StringConstraints(max_length=2000), AfterValidator(readable)]
    hint: ShownText = ""


class ReleaseRequest(OutcomeRequest):
    """The worker stopped on request; its ffmpeg is dead."""

    reason: Control | Literal["shutdown", "hours"]
