"""The messages of the supervisor's HTTP API.

Answers are `TypedDict`s: a client reads them as plain dicts, so the command line pays for no validation
library; import them under `TYPE_CHECKING` there. What comes in is checked by the pydantic models of
`requests.py`. Times are ISO 8601 in UTC, durations seconds, sizes bytes, progress 0–100.

A path of a person's file is given twice: `path` as text, and `path_b64`, its bytes. The text is the path
itself, control characters and all, so whoever shows it makes it `sources.readable`; only of a path that is
no UTF-8 it is a description, with escapes. Names, reasons and messages are readable already.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from tqstudio.errors import TqError


class ErrorView(TypedDict):
    """Why something failed: code, one sentence, and what to do now."""

    code: str
    message: str
    hint: str


class ErrorAnswer(TypedDict):
    """What every call that is refused is answered with."""

    error: ErrorView


class JobError(ErrorView):
    exhausted: bool
    """Attempts or crashes are used up."""
    log: str | None
    """Absolute path of the log of the attempt that failed."""


class WarningView(TypedDict):
    """What a job's result lacks, or is known to be damaged: code (`errors.WarningCode`) and sentence."""

    code: str
    text: str


class RenditionLive(TypedDict):
    """One quality of a running job."""

    name: str
    status: str
    reason: str | None
    """Why it is skipped, or a remark such as a fallback to the CPU."""
    required: bool
    width: int | None
    """None where the source is too small for it."""
    height: int | None
    encoder: str | None
    progress: float
    """While it runs, with what is in the making; else what is kept of it, to the fragment of two seconds."""
    segments_done: int
    segments_total: int | None
    speed: float | None
    """Multiple of real time."""
    eta_s: float | None
    settings_hash: str | None
    stream_key: str | None
    error: str | None


class RenditionView(RenditionLive):
    """One quality of a job. A quality that was kept or skipped has no times."""

    started_at: str | None
    """When it was first worked on; an attempt that goes on with it leaves that as it is."""
    completed_at: str | None


class SourceSummary(TypedDict):
    """What a list shows of a source; None until it has been probed."""

    width: int | None
    height: int | None
    fps: float | None
    duration_s: float | None
    size: int
    problem: ErrorView | None
    """Of a waiting job: what a first look at its file found wrong. The job decides when it runs."""


class EtaView(TypedDict):
    """Seconds until the end, and between which it lies in four of five cases."""

    eta_s: float
    low_s: float
    high_s: float


class EtaError(TypedDict):
    """How far estimates were off: the median of |foretold − taken| ÷ taken of the last 50 finished jobs."""

    median: float | None
    jobs: int


class JobRow(TypedDict):
    """A job as lists show it."""

    id: int
    video: int
    batch: str | None
    name: str
    """File name, for people."""
    path: str
    path_b64: str
    kind: str
    status: str
    word: str
    """The status with what was asked for and is not true yet: “pausing…”."""
    claim: str
    """unclaimed, claimed, expired, retrying, completed or failed."""
    control: str
    step: str | None
    profile: str
    priority: int
    progress: float
    """Of the whole job, its qualities weighted by their pixels. It goes back only where finished segments are
    gone."""
    speed: float | None
    eta_s: float | None
    """Until it is done; of a job that waits, how long it will take once it runs."""
    eta: EtaView | None
    """The same with its range."""
    predicted_s: float | None
    """Seconds foretold of the whole job when its first run began."""
    actual_s: float | None
    """Of a job that is done, the seconds that workers had it, all runs together."""
    attempts: int
    max_attempts: int
    crashes: int
    max_crashes: int
    retry_in_s: float | None
    worker: str | None
    idle_s: float | None
    """Seconds for which it has stood still, though it runs; None while it moves."""
    error: JobError | None
    warnings: list[WarningView]
    """Of the newest attempt; reported as soon as they are known."""
    source: SourceSummary
    renditions: list[RenditionView]
    created_at: str
    started_at: str | None
    completed_at: str | None
    last_progress_at: str | None
    deleted_at: str | None


class AttemptView(TypedDict):
    number: int
    epoch: int
    worker: str
    encoder: str | None
    argv: list[list[str]]
    """Every command this attempt ran, each as one argument list."""
    resumed_from: int | None
    """First segment that this attempt had to make; None before that is known."""
    resumed_at_s: float | None
    """Seconds of video, to the fragment, that it found made and went on behind; 0 is the start."""
    steps: dict[str, float]
    """Seconds spent in each step. `thumbnail` is the poster's own run, beside `transcode`; `finalize` has the
    supervisor's publish in it."""
    started_at: str
    ended_at: str | None
    """Of one that was lost: when that was found."""
    last_progress_at: str | None
    outcome: str
    error_code: str | None
    error: str | None
    log: str | None


class EventView(TypedDict):
    """One line of the history; `trigger` says what caused it."""

    seq: int
    at: str
    trigger: str
    job: int | None
    video: int | None
    worker: str | None
    source: str | None
    """Status before."""
    target: str | None
    """Status after."""
    actor: str
    code: str | None
    detail: str | None


class GenerationView(TypedDict):
    number: int
    settings_hash: str
    """Of the whole ladder."""
    published_at: str
    retired_at: str | None
    """Since when another one plays."""
    master: str
    """Absolute path of the master playlist that serves this generation."""
    master_b64: str
    poster: str | None
    poster_b64: str | None
    renditions: list[PublishedView]


class PublishedView(TypedDict):
    name: str
    kind: Literal["video", "audio"]
    width: int | None
    height: int | None
    codecs: str
    duration_s: float
    average_bps: int
    peak_bps: int
    size: int
    settings_hash: str


class VideoView(TypedDict):
    id: int
    name: str
    path: str
    path_b64: str
    output_root: str
    output_root_b64: str
    slug: str
    title: str
    size: int
    mtime_ns: int
    quick_hash: str | None
    """Of samples of its bytes."""
    full_hash: str | None
    """Of all of them; known once it was transcoded."""
    status: str
    facts: dict[str, Any] | None
    generation: GenerationView | None
    job: int | None
    """Newest job."""
    error: ErrorView | None
    deleted_at: str | None


class AutorestartView(TypedDict):
    """Whether and when a failed job starts again by itself."""

    state: str
    """disabled, enabled, in_progress, failed or denied."""
    limit: int
    delay_s: float
    restarts: int
    last_at: str | None
    next_at: str | None


class JobDetail(JobRow):
    """Everything about one job."""

    video_view: VideoView
    requested: list[str] | None
    """Qualities asked for; None means all of the profile."""
    dropped: list[str]
    """Renditions of the ladder before it that it shall not have."""
    not_before: str | None
    """When it may be claimed again, while it waits out a backoff."""
    processed_by: str | None
    """The worker that claimed it last."""
    processed_by_id: int | None
    metadata: dict[str, Any]
    idempotency_key: str | None
    """Of the request that made it."""
    claimed_at: str | None
    lease_expires_at: str | None
    lease_epoch: int
    autorestart: AutorestartView
    attempts_log: list[AttemptView]
    events: list[EventView]
    """Newest first, at most 200."""


class WorkerView(TypedDict):
    id: int
    name: str
    kind: str
    type: str
    status: str
    enabled: bool
    draining: bool
    encoder: str | None
    device: str | None
    pid: int | None
    registered_at: str | None
    last_heartbeat_at: str | None
    job: int | None
    step: str | None
    speed: float | None
    cpu_percent: float | None
    """Of one processor, worker and its ffmpeg together."""
    memory_bytes: int | None
    note: str | None
    """Why it is off, or what is wrong with it."""
    quarantine: str | None
    """Why it takes no jobs although nobody has switched it off: it failed too many. Enabling it ends that."""
    capabilities: dict[str, Any]
    metadata: dict[str, Any]


class FolderView(TypedDict):
    id: int
    path: str
    path_b64: str
    output_root: str
    output_root_b64: str
    profile: str
    watch: str
    """inotify or polling."""
    enabled: bool
    recursive: bool
    patterns: list[str]
    settle_s: float
    priority: int
    autorestart: int
    """How often a failed job of this folder starts again by itself; 0 is never."""
    autorestart_delay_s: float
    settling: int
    """Files seen that are not complete yet."""
    checking: int
    """Files whose time is new and of which every byte is compared with what was transcoded."""
    skipped: list[SkippedFile]
    done_today: int
    failed_today: int
    problem: ErrorView | None


class SkippedFile(TypedDict):
    """A file in a drop folder that is not taken."""

    name: str
    """Within the folder."""
    code: str
    reason: str
    hint: str


class GateView(TypedDict):
    """What holds the queue up. Where room is short it says where, and bytes free and needed there now; where
    inodes are, the reason has them."""

    kind: str
    code: str | None
    """Of a trouble; None where it is a wish, the machine's load, or that no worker is switched on."""
    reason: str
    since: str
    hint: str
    path: NotRequired[str]
    path_b64: NotRequired[str]
    free: NotRequired[int]
    needed: NotRequired[int]


class DiskView(TypedDict):
    path: str
    path_b64: str
    free: int
    total: int
    reserve: int


class SupervisorView(TypedDict):
    pid: int
    version: str
    started_at: str
    home: str
    draining: bool
    cleanup_partial: bool
    """Whether deleting a failed or cancelled job removes what it had made."""
    ffmpeg: str
    ffmpeg_version: str


class StatusView(TypedDict):
    supervisor: SupervisorView
    jobs: dict[str, int]
    """Count by status; deleted jobs are not counted."""
    workers: list[WorkerView]
    gates: list[GateView]
    disk: list[DiskView]
    speed: float | None
    """Sum of the running jobs' speeds, multiple of real time."""
    eta_s: float | None
    """Until everything that waits and runs is done."""
    eta: EtaView | None
    """The same with its range."""
    eta_error: EtaError


class JobPage(TypedDict):
    """Some jobs of a list. A search may answer few or none and still have a cursor: it goes on from there."""

    jobs: list[JobRow]
    total: int | None
    """Jobs on all pages together; None where counting them would take a walk."""
    searching: bool
    """The time for a search was up before the page was full."""
    before: str | None
    """Cursor for the page above; None at the top."""
    after: str | None
    """Cursor for the page below; None at the end."""


class EventPage(TypedDict):
    events: list[EventView]
    last_seq: int


class VideoPage(TypedDict):
    videos: list[VideoView]
    before: int | None
    after: int | None
    """Ids from which to ask for the pages before and after this one; None where there is none."""


class ActionResult(TypedDict):
    job: int
    ok: bool
    status: str | None
    word: str | None
    new_job: int | None
    removed_segments: int
    """Finished segments that went with a job that was deleted; undeleting it does not bring them back."""
    error: ErrorView | None


class RetryAnswer(TypedDict):
    retried: int
    refused: list[ActionResult]


class ClearAnswer(TypedDict):
    deleted: int
    """Jobs taken off the list."""
    removed_segments: int
    """Finished segments of failed and cancelled ones among them, which are gone for good."""
    pruned: int
    """Events forgotten."""


class AddResult(TypedDict):
    """What became of one file that was offered.

    `decision`: queued (a new job), changed (a new job for what differs), cached (its ladder is complete
    and unchanged), retried (its failed job goes again), waiting (it has an open job), failed (its job
    failed and attempts are used up), rejected (see `error`).
    """

    path: str
    path_b64: str
    decision: str
    video: int | None
    job: int | None
    """Of `cached`, the one that made the ladder; it may be off the list."""
    slug: str | None
    master: str | None
    master_b64: str | None
    reason: str | None
    """Of `changed`, what for: source or settings (they differ), ladder (a published file is damaged or gone),
    asked (a person wants it made again)."""
    status: str | None
    """Of its open job, now."""
    applied: dict[str, Any]
    """What a job that was there already took over, of profile, priority, metadata and such: name → value."""
    other_job: int | None
    """An open job that makes the same file for another output."""
    error: ErrorView | None


class AddAnswer(TypedDict):
    batch: str
    results: list[AddResult]


class BatchView(TypedDict):
    """How the jobs that were asked for together stand; deleted ones are not counted."""

    batch: str
    counts: dict[str, int]
    """Count by status; a status that none has is left out."""
    total: int


class JobLive(TypedDict):
    """The moving part of a running job, as the event stream's `progress` carries it."""

    id: int
    status: str
    word: str
    control: str
    step: str | None
    progress: float
    speed: float | None
    eta_s: float | None
    eta: EtaView | None
    worker: str | None
    idle_s: float | None
    renditions: NotRequired[list[RenditionLive]]
    """Left out before its worker has said anything of them: what is known stays true."""
    warnings: NotRequired[list[WarningView]]
    """Left out before its worker has reported any."""


class JobSource(TypedDict):
    """What became known of a waiting job's source, as the event stream's `sources` carries it."""

    id: int
    source: SourceSummary


class ProfileView(TypedDict):
    name: str
    description: str
    origin: str
    """shipped, or the path of the user's file."""
    rungs: list[str]
    """Largest first; none where it is broken."""
    codec: str
    """How it encodes, for people: `h264 medium crf 22, aac`."""
    default: bool
    """Taken where no profile is named."""
    error: ErrorView | None
    """Why it cannot be used."""


class BackupView(TypedDict):
    """A copy of the database; `size` in bytes."""

    path: str
    path_b64: str
    size: int


CheckLevel = Literal["ok", "warn", "fail"]


class CheckView(TypedDict):
    """One line of `doctor`; `ok` is whether it did not fail."""

    name: str
    ok: bool
    level: CheckLevel
    detail: str
    hint: str


# What workers are answered.


class FileDescriptor(TypedDict):
    """A source or sink on a file system both sides see."""

    kind: Literal["file"]
    path_b64: str


class ClaimedJob(TypedDict):
    """All a worker needs to know about the job it now owns."""

    job: int
    epoch: int
    video: int
    attempt: int
    kind: str
    source: FileDescriptor
    source_root_b64: str
    """Its drop folder, else the folder it lies in: what paths in the attempt's log are relative to."""
    drop_folder_b64: str | None
    """Where it was found; no link is followed from there on. None for a file that a person named."""
    source_size: int
    source_mtime_ns: int
    sink: FileDescriptor
    """The store's folder on the output's file system: `OUT/.tqstudio/<uuid>`: all that a worker writes."""
    profile: dict[str, Any]
    requested: list[str] | None
    dropped: list[str]
    """Renditions that the ladder shall not have, whatever is requested."""
    kept: dict[str, str]
    """Renditions of the current generation: name → settings_hash; what is equal need not be made."""
    facts: dict[str, Any] | None
    content_id: str | None
    full_hash: str | None
    """Of the whole source, as it was when a ladder was made of it."""
    log: str
    lease_s: float


class ClaimAnswer(TypedDict):
    job: ClaimedJob | None
    test: bool
    """It failed several jobs in a row and has to report a test encode (`tested`) before it gets another."""


class TestedAnswer(TypedDict):
    heard: bool
    """Whether a test encode was asked for."""


class RegisterAnswer(TypedDict):
    worker: int
    name: str
    heartbeat_s: float
    long_poll_s: float
    ffmpeg_nice: int
    stall_s: float
    time_limit_factor: float
    time_limit_min_s: float
    time_limit_max_s: float
    disk_reserve_bytes: int
    disk_factor: float


class ProgressAnswer(TypedDict):
    control: str


class HeartbeatAnswer(TypedDict):
    controls: dict[str, str]
    """Job id → control, for every job that the beat named and the worker still owns."""
    lost: list[int]
    enabled: bool


class OutcomeAnswer(TypedDict):
    """How the job stands after complete, fail or release; a repeated call is answered alike."""

    job: int
    status: str


def error_view(error: TqError) -> ErrorView:
    """Describe an error as answers carry it."""
    return {"code": error.code.value, "message": error.message, "hint": error.hint}
