"""Defines the answers of the supervisor's HTTP API.

They are `TypedDict`s: clients read plain dicts, so the command line imports no validation library (import
them under `TYPE_CHECKING` there). Requests are the pydantic models of `requests.py`. Times are ISO 8601 in
UTC, durations seconds, sizes bytes, progress 0–100.

Paths of files are given twice: `path` as text, and `path_b64`, the base64 of its bytes. The text may contain
control characters, so pass it through `paths.readable` before printing it; a path that is not UTF-8 is given
with escapes. Names, reasons and messages are printable already.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from tqstudio.errors import TqError
from tqstudio.events import EventKind


class ErrorView(TypedDict):
    """An error: its code, a message and what to do now."""

    code: str
    message: str
    hint: str


class ErrorAnswer(TypedDict):
    """The answer to every call that fails."""

    error: ErrorView


class JobError(ErrorView):
    exhausted: bool
    """All attempts or crashes are used up."""
    log: str | None
    """Absolute path of the failed attempt's log."""


class WarningView(TypedDict):
    """Something missing or damaged in a job's result: code (`errors.WarningCode`) and message."""

    code: str
    text: str


class RenditionState(TypedDict):
    """One quality of a job, as its worker reports it and as it is stored."""

    name: str
    status: str
    reason: str | None
    """Why it is skipped, or a note such as a fallback to the CPU."""
    required: bool
    width: int | None
    """None if the source is too small for it."""
    height: int | None
    encoder: str | None
    progress: float
    """While it runs, of everything encoded so far; otherwise of the finished two-second fragments."""
    segments_done: int
    segments_total: int | None
    speed: float | None
    """Multiple of real time."""
    settings_hash: str | None
    stream_key: str | None
    error: str | None


class RenditionLive(RenditionState):
    """One quality of a running job."""

    eta_s: float | None


class RenditionView(RenditionLive):
    """One quality of a job, with times unless it was kept or skipped."""

    started_at: str | None
    """When its first attempt began."""
    completed_at: str | None


class SourceSummary(TypedDict):
    """A source as lists show it; None until it has been probed."""

    width: int | None
    """0 for sound alone, which has no frame rate."""
    height: int | None
    fps: float | None
    duration_s: float | None
    size: int
    problem: ErrorView | None
    """Error found by the background probe for a waiting job; else None. The job itself may still succeed."""


class EtaView(TypedDict):
    """Estimated seconds until the end, with the range that holds in four of five cases."""

    eta_s: float
    low_s: float
    high_s: float


class EtaError(TypedDict):
    """The median error of predictions: |predicted − actual| ÷ actual over the last 50 finished jobs."""

    median: float | None
    jobs: int


class RangeView(TypedDict):
    """Segments of a job that another worker than its own encodes."""

    worker: str
    first: int
    end: int
    """After the last one."""
    done: int


class DivisionView(TypedDict):
    """How a running job is divided among several workers."""

    renditions: list[str]
    missing: list[tuple[int, int]]
    """Ranges of segments of these, as (first, end); its own worker is at the first one."""
    ranges: list[RangeView]


class StoredJob(TypedDict):
    """What lists show of a job as it is stored."""

    id: int
    video: int
    batch: str | None
    name: str
    """File name, printable."""
    path: str
    path_b64: str
    kind: str
    status: str
    control: str
    profile: str
    priority: int
    predicted_s: float | None
    """Seconds predicted for the whole job when its first run began."""
    attempts: int
    max_attempts: int
    crashes: int
    max_crashes: int
    owner: str
    """Who added it: folder, user, upload, or `token:` and its name."""
    changes: list[ChangeView]
    """What had changed since the ladder was encoded, for a job of the kind `changed`; else empty."""
    viewable: str | None
    """The quality of the video that can be played while the others are missing."""
    created_at: str
    started_at: str | None
    completed_at: str | None
    deleted_at: str | None


class JobState(TypedDict):
    """What changes of a job while it runs."""

    word: str
    """The status for display, with a pending request: “pausing…”."""
    step: str | None
    """`probe` … `finalize`; `copy 34 %` while a worker of another machine copies the source."""
    progress: float
    """Percent of the whole job, its qualities weighted by pixels and codec. It decreases only if finished
    segments are lost."""
    speed: float | None
    eta_s: float | None
    """Estimated seconds until it is done; of a waiting job, how long it will run."""
    eta: EtaView | None
    """The same with its range."""
    worker: str | None
    division: DivisionView | None
    idle_s: float | None
    """Seconds that a running job has made no progress; None while it makes some."""


class JobRow(StoredJob, JobState):
    """A job as lists show it."""

    claim: str
    """unclaimed, claimed, expired, retrying, completed or failed."""
    actual_s: float | None
    """Seconds that workers spent on the job in all runs; None unless it is done."""
    retry_in_s: float | None
    error: JobError | None
    warnings: list[WarningView]
    """Warnings of the newest attempt, as soon as they are known."""
    source: SourceSummary
    renditions: list[RenditionView]
    last_progress_at: str | None


class ChangeView(TypedDict):
    """Something that changed since a ladder was encoded."""

    what: str
    """`size` (bytes), `modified`, `content` (a hash) of the source, `ladder`, `subtitles`, `profile`, or one
    of its keys."""
    before: str | None
    after: str | None


class AttemptView(TypedDict):
    number: int
    epoch: int
    worker: str
    encoder: str | None
    argv: list[list[str]]
    """Every command that this attempt ran, as argument lists."""
    resumed_from: int | None
    """First segment that this attempt had to encode; None until it is known."""
    resumed_at_s: float | None
    """Seconds of video that were already encoded, after which it resumed; 0 is the start."""
    steps: dict[str, float]
    """Seconds spent in each step. `extras` runs in parallel to `transcode`; `finalize` includes publishing
    by the supervisor."""
    cpu_s: float | None
    """Processor seconds of its ffmpeg processes so far; None if not measured."""
    peak_memory_bytes: int | None
    """Largest resident memory of one of them."""
    started_at: str
    ended_at: str | None
    """When the attempt ended, or its loss was detected; None while it runs."""
    last_progress_at: str | None
    outcome: str
    error_code: str | None
    error: str | None
    log: str | None


class EventView(TypedDict):
    """One event of the history; `trigger` is its kind."""

    seq: int
    at: str
    trigger: EventKind | str
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
    video_name: str | None
    """None too once the video is gone."""


class GenerationView(TypedDict):
    number: int
    settings_hash: str
    """Hash of the settings of the whole ladder."""
    published_at: str
    retired_at: str | None
    """When another generation replaced it."""
    master: str
    """Absolute path of the master playlist that serves this generation, or its address in a bucket."""
    master_b64: str
    poster: str | None
    poster_b64: str | None
    files: list[FileView]
    """The whole video in one file, by `files` of its profile."""
    renditions: list[PublishedView]


class FileView(TypedDict):
    path: str
    """Absolute path, or its address in a bucket."""
    path_b64: str
    size: int
    blake3: str


class DeliveryView(TypedDict):
    """The copy of a video's newest ladder in a bucket."""

    url: str
    """URL of its folder: `s3://films/vod/my-film`."""
    state: str
    """waiting, delivered, unpublishing (of a deleted video) or removing."""
    files: int
    """To upload; 0 until they are counted."""
    files_done: int
    delivered_at: str | None
    evicted_at: str | None
    """When the segments of the local copy were removed."""
    problem: ErrorView | None
    """Why the last try failed."""
    next_at: str | None
    """When it is tried next."""


class PublishedView(TypedDict):
    name: str
    kind: Literal["video", "audio", "subtitles"]
    width: int | None
    height: int | None
    codecs: str
    duration_s: float
    average_bps: int
    peak_bps: int
    size: int
    settings_hash: str
    language: str | None
    """BCP 47 tag; None for video, and if it is not known."""
    channels: int | None


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
    """Hash of samples of its bytes."""
    full_hash: str | None
    """Hash of all of its bytes; known once it was transcoded."""
    status: str
    facts: dict[str, Any] | None
    generation: GenerationView | None
    delivery: DeliveryView | None
    job: int | None
    """Newest job."""
    error: ErrorView | None
    deleted_at: str | None
    source_deleted_at: str | None
    """When the rule of its drop folder deleted the source."""
    viewable: str | None
    """The quality that can be played while the others are missing; None for a whole ladder or none."""


class AutorestartView(TypedDict):
    """Whether and when a failed job restarts automatically."""

    state: str
    """disabled, enabled, in_progress, failed or denied."""
    limit: int
    delay_s: float
    restarts: int
    last_at: str | None
    next_at: str | None


class StoredDetail(TypedDict):
    """What only the details of a job show as it is stored."""

    requested: list[str] | None
    """Requested qualities; None means all of the profile."""
    dropped: list[str]
    """Renditions of the previous ladder to leave out."""
    processed_by: str | None
    """The worker that claimed it last."""
    processed_by_id: int | None
    metadata: dict[str, Any]
    idempotency_key: str | None
    """Idempotency key of the request that created it."""
    claimed_at: str | None
    lease_epoch: int


class JobDetail(JobRow, StoredDetail):
    """Everything about one job."""

    video_view: VideoView
    not_before: str | None
    """End of its backoff; it is not claimed before."""
    lease_expires_at: str | None
    autorestart: AutorestartView
    attempts_log: list[AttemptView]
    events: list[EventView]
    """Newest first, at most 200."""


class PictureView(TypedDict):
    """The poster of a video, or pictures of its storyboard that fit beside each other, of one size."""

    width: int
    height: int
    rgb_b64: list[str]
    """Base64 of each one's pixels, three bytes each, row by row."""
    times: list[float]
    """Seconds from the start of the video of each of a storyboard; empty for a poster."""


class RenditionBits(TypedDict):
    name: str
    average_bps: int
    bps: list[int]
    """Bits per second in equal parts of its length, at most one a segment."""


class BitsView(TypedDict):
    """The bit rates of a published ladder along the video."""

    duration_s: float
    renditions: list[RenditionBits]
    """Those of video, largest first; of sound alone, of audio."""


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
    """Processor use of the worker and its ffmpeg together, in percent of one core."""
    memory_bytes: int | None
    note: str | None
    """Why it is off, or what is wrong with it."""
    quarantine: str | None
    """Why it was quarantined after too many failures and gets no jobs. Enabling it lifts the quarantine."""
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
    exclude: list[str]
    after_done: str
    """keep, move or delete: what becomes of sources whose ladder is published."""
    done_dir: str | None
    """Where they are moved to."""
    done_dir_b64: str | None
    duplicates: str
    """encode, skip or link: what becomes of new files with the content of a published source."""
    template: str
    """Where ladders of new videos lie below the output."""
    audio: str
    """encode or skip: what becomes of sound without video."""
    hours: str
    """When its jobs may run; empty: always."""
    settle_s: float
    priority: int
    autorestart: int
    """How often a failed job of this folder restarts automatically; 0 is never."""
    autorestart_delay_s: float
    max_attempts: int
    max_crashes: int
    settling: int
    """Files found that are not complete yet."""
    checking: int
    """Files with a new modification time whose content is being compared with what was transcoded."""
    skipped: list[SkippedFile]
    done_today: int
    failed_today: int
    problem: ErrorView | None


class LeftOut(TypedDict):
    """A file or sub-folder that the rules of a drop folder leave out."""

    name: str
    """Relative to the folder."""
    reason: str


class FolderPreview(TypedDict):
    """What a folder holds now, by some rules."""

    videos: int
    length_s: float
    """Of the videos that were examined."""
    unknown: int
    """Videos that were not examined yet."""
    left_out: int
    reasons: list[LeftOut]
    """The first that are left out."""
    complete: bool
    """Whether the whole folder was looked through; else there may be more."""
    problem: ErrorView | None
    """Why a part of the folder cannot be read."""


class SkippedFile(TypedDict):
    """A file in a drop folder that is not queued."""

    name: str
    """Relative to the folder."""
    code: str
    reason: str
    hint: str


class GateView(TypedDict):
    """A reason why the queue is held. If disk space is short: the path, and the bytes free and needed there;
    if inodes are, their numbers are in the reason."""

    kind: str
    code: str | None
    """Error code; None if a person paused the queue, the load is too high, or no worker is enabled."""
    reason: str
    since: str
    until: str | None
    """When it opens, if that is known."""
    hint: str
    path: NotRequired[str]
    path_b64: NotRequired[str]
    free: NotRequired[int]
    needed: NotRequired[int]


class LogLevelAnswer(TypedDict):
    level: str
    before: str


class DiskView(TypedDict):
    path: str
    path_b64: str
    free: int
    total: int
    reserve: int


class TokenView(TypedDict):
    """A token of the API, without its secret."""

    name: str
    role: str
    prefix: str
    """The part of the token after `tq_`, by which it is recognised."""
    worker: str | None
    """The worker in whose name it acts."""
    joined_by: str | None
    """The token by which that worker joined."""
    max_workers: int | None
    """How many workers may join by it; null: any number."""
    created_at: str
    expires_at: str | None
    expired: bool


class RevokedTokens(TypedDict):
    revoked: str
    joined: list[str]
    """The workers whose tokens were revoked with it."""


class NewTokenView(TypedDict):
    name: str
    role: str
    token: str
    """Shown once; only its hash is stored."""


class SupervisorView(TypedDict):
    pid: int
    version: str
    started_at: str
    home: str
    draining: bool
    cleanup_partial: bool
    """Whether deleting a failed or cancelled job removes its partial output."""
    ffmpeg: str
    ffmpeg_version: str
    listen: str | None
    """URL of the TCP listener; None without one."""
    name: str
    """Among the supervisors of a database."""
    standbys: list[StandbyView]
    damage: NotRequired[ErrorView]
    """What the weekly check of the database found; absent if nothing."""
    clock_jump: NotRequired[ClockJumpView]
    """Present for a day of running time after the wall clock jumped ahead."""


class ClockJumpView(TypedDict):
    """A jump of the wall clock, after which nothing is removed by its age for a while."""

    ahead_s: float
    held_s: float
    """For how much longer."""


class StandbyView(TypedDict):
    """A supervisor that stands by, to lead when this one is gone."""

    name: str
    version: str
    seen_at: str
    """When it last looked; long ago if it was killed or cut off."""


class StandbyAnswer(TypedDict):
    """The supervisor of a home, while it stands by."""

    pid: int
    standby: str
    """For whom, in a sentence."""


class JoinAnswer(TypedDict):
    """The supervisor that a command uses."""

    pid: int
    draining: bool


KeepAliveReason = Literal["stay", "commands", "jobs", "uploads"]
"""What needs a supervisor: a request to stay, other commands, other open jobs, or ladders to upload."""


class LeaveAnswer(TypedDict):
    needed_by: KeepAliveReason | None
    """None: it shuts down."""


class Reason(TypedDict):
    """Why the supervisor is not healthy or not ready; `redis` alone leaves it healthy."""

    kind: str
    """`database`, `draining`, `workers`, `redis`, or the kind of a gate."""
    reason: str


class HealthView(TypedDict):
    healthy: bool
    reasons: list[Reason]


class ReadyView(TypedDict):
    """Whether a new job would be processed now."""

    ready: bool
    reasons: list[Reason]


class UnfinishedDeliveries(TypedDict):
    """Copies of ladders in buckets that wait to be uploaded or removed."""

    count: int
    problem: ErrorView | None
    """Why the one failed that has failed most often."""


class FolderProblem(TypedDict):
    """A drop folder that does not take its files as it should, and why."""

    id: int
    path: str
    problem: ErrorView


class StatusView(TypedDict):
    supervisor: SupervisorView
    ready: ReadyView
    jobs: dict[str, int]
    """Count by status, without deleted jobs."""
    workers: list[WorkerView]
    gates: list[GateView]
    disk: list[DiskView]
    folders: list[FolderProblem]
    """Those with a problem."""
    deliveries: UnfinishedDeliveries
    speed: float | None
    """Sum of the running jobs' speeds, multiple of real time."""
    eta_s: float | None
    """Estimated seconds until all waiting and running jobs are done."""
    eta: EtaView | None
    """The same with its range."""
    eta_error: EtaError


class BatchSummary(TypedDict):
    """What people know a batch by."""

    jobs: int
    first: str
    """The name of its first video."""
    created_at: str
    """When that was added."""


class StatisticsRow(TypedDict):
    """Sums of the attempts that ended in a time. Media and bytes are those of jobs that are done."""

    key: str
    """The hour, day, batch or worker; empty for jobs without a batch, and for the total."""
    batch: BatchSummary | None
    """None for other rows than batches, and where its jobs are gone."""
    done: int
    failed: int
    """Jobs that failed for good."""
    attempts: int
    media_s: float
    bytes_in: int
    """Bytes of the sources."""
    bytes_out: int
    """Bytes of what was encoded from them."""
    wall_s: float
    """Time of all attempts, also of those that did not complete their job."""
    cpu_s: float
    """Processor seconds of their ffmpeg processes."""
    speed: float | None
    """`media_s` ÷ `wall_s`, a multiple of real time; None without attempts."""
    eta_error: float | None
    """Median of |predicted − actual| ÷ actual, in whole percents; None without predictions."""
    eta_error_p90: float | None
    """What nine of ten predictions did not exceed."""
    queue: int | None
    """Jobs that were open at the end of an hour or day, by the events that are kept; else None."""


class StatisticsView(TypedDict):
    since: str
    until: str
    by: Literal["hour", "day", "batch", "worker"]
    total: StatisticsRow
    rows: list[StatisticsRow]
    """One row per hour or day, oldest first, or per batch or worker, at most 100, latest first."""


class JobPage(TypedDict):
    """A page of jobs."""

    jobs: list[JobRow]
    total: int | None
    """Jobs on all pages; None if counting them would take a scan."""
    before: str | None
    """Cursor of the previous page; None at the top."""
    after: str | None
    """Cursor of the next page; None at the end."""


class EventPage(TypedDict):
    events: list[EventView]
    last_seq: int


class VideoPage(TypedDict):
    videos: list[VideoView]
    before: int | None
    after: int | None
    """Cursors of the previous and next page; None if there is none."""


class UnmovedVideo(TypedDict):
    video: int
    reason: str


class RelocateAnswer(TypedDict):
    moved: int
    """Videos that followed their ladders."""
    not_moved: list[UnmovedVideo]
    folders: list[int]
    """Drop folders whose output changed."""


class ActionResult(TypedDict):
    job: int
    ok: bool
    status: str | None
    control: str
    """The request to its worker, as in `JobRow`."""
    word: str | None
    new_job: int | None
    removed_segments: int
    """Finished segments removed with a deleted job; undeleting it does not restore them."""
    error: ErrorView | None


Becomes = Literal["encoded", "copied", "kept", "left_out", "unknown"]
"""`unknown`: the source was not examined yet, and may be too small."""


class ForecastQuality(TypedDict):
    """What becomes of a quality in some of the jobs."""

    name: str
    becomes: Becomes
    reason: str
    """Why it is left out."""
    possible: bool
    """Whether it is encoded if it is requested."""
    jobs: int
    """How many of those that were looked at."""


class JobValues(TypedDict):
    """Settings that jobs have in common; null where they differ."""

    profile: str | None
    crf: int | None
    quality: float | None
    """VMAF that is asked for; 0: none."""
    copy: str | None
    priority: int | None
    hold: bool | None


class ForecastView(TypedDict):
    """What a change of jobs would cost; sums, by what was looked at, of all of them."""

    jobs: int | None
    """All that were asked about; null if counting them would need a scan."""
    sampled: int
    """A sample of at most 50, of which `reencoded` … `unknown` and the qualities are."""
    reencoded: int
    """Done jobs that are encoded again."""
    changed: int
    """Waiting jobs that change."""
    refused: int
    reason: str
    """Why the first of them is refused; empty if none is."""
    unknown: int
    """Jobs that were not examined yet, which the sums leave out."""
    max_bytes: int
    """Space that what is encoded or copied takes at most."""
    eta: EtaView | None
    """Time on one CPU worker, by what earlier jobs took; null if that is unknown."""
    segments_kept: int
    """Finished segments that stay."""
    segments_reencoded: int
    """Finished segments that are made again."""
    qualities: list[ForecastQuality]
    values: JobValues


class BulkAnswer(TypedDict):
    after: int | None
    """Number of the last job of this slice; null if it is the last slice."""
    done: int
    skipped: dict[str, int]
    """Jobs that refused the operation, by the words of their states."""
    reason: str
    """Why the first of them did."""
    removed_segments: int


class UndoAnswer(TypedDict):
    undo: int | None
    """The action, while parts of it remain."""
    operation: str | None
    """What was undone, as `lifecycle.Undoable`; null if there is nothing to undo."""
    subject: str
    """The job, video or drop folder, if it is one alone."""
    restored: int
    """How many have their former state."""
    not_restored: int
    """How many have not."""
    reason: str
    """Why the first of those has not; empty if it was changed since."""
    remaining: int
    """How many are to be undone by the next request."""


class RetryAnswer(TypedDict):
    retried: int
    refused: list[ActionResult]


class ClearAnswer(TypedDict):
    deleted: int
    """Jobs deleted."""
    removed_segments: int
    """Finished segments of failed and cancelled jobs among them; they cannot be restored."""
    forgotten: int
    """Videos forgotten."""
    pruned: int
    """Events deleted."""


class AddResult(TypedDict):
    """The result of adding one file.

    `decision`: queued (a new job), changed (a new job for what differs), cached (its ladder is complete
    and unchanged), retried (its failed job is requeued), waiting (it has an open job), failed (its job
    failed and all attempts are used up), rejected (see `error`).
    """

    path: str
    path_b64: str
    decision: str
    video: int | None
    job: int | None
    """The new, open, requeued or failed job; for `cached`, the one that created the ladder (may be gone)."""
    slug: str | None
    master: str | None
    master_b64: str | None
    reason: str | None
    """Why it is `changed`: source or settings (they differ), ladder (a published file is damaged or missing),
    forced (encoding it again was requested)."""
    status: str | None
    """Status of its open job; None if it has none."""
    applied: dict[str, Any]
    """Changes applied to an existing job, such as profile, priority or metadata: name → value."""
    other_job: int | None
    """An open job that encodes the same file for another output."""
    error: ErrorView | None


class AddAnswer(TypedDict):
    batch: str
    results: list[AddResult]


class UploadView(TypedDict):
    """A file that is uploaded in parts."""

    name: str
    """The name that it gets, before a number is added."""
    size: int
    offset: int
    """How many bytes are durable."""
    expires_at: str
    """When it is removed unless more arrives; for a finished one, until when its result is known."""
    batch: str | None
    result: AddResult | None
    """What became of the whole file."""
    problem: ErrorView | None
    """Why the last try failed, if the supervisor fetches it."""


class FetchAnswer(TypedDict):
    """A file that is fetched from object storage."""

    upload: str
    """Its state is that of `/v1/uploads/{upload}`."""
    size: int


class BatchView(TypedDict):
    """Counts of the jobs that were added together, without deleted ones."""

    batch: str
    counts: dict[str, int]
    """Count by status, without zeros."""
    total: int


class JobLive(JobState):
    """The changing part of a running job, sent as `progress` on the event stream."""

    id: int
    status: str
    control: str
    renditions: NotRequired[list[RenditionLive]]
    """Absent until its worker has reported them: earlier values stay valid."""
    warnings: NotRequired[list[WarningView]]
    """Absent until its worker has reported any."""


class LoadView(TypedDict):
    """The load of the last minutes, oldest first, one sample every so many seconds."""

    interval_s: float
    speed: list[float]
    """Of all jobs together, multiple of real time."""
    cpu_percent: list[float]
    """Of all workers together, in percent of one core."""


class WallQuality(TypedDict):
    """A quality of a running job: what is complete of it, and who made that."""

    name: str
    status: str
    encoder: str | None
    progress: float
    speed: float | None
    segments_total: int | None
    made: list[tuple[int | None, int]]
    """Its segments from the first one, as runs of one maker: number in `workers`, -1 for an unknown one, None
    while they are missing; and how many."""
    front: list[tuple[int, int]]
    """The segments that are being encoded, each with the number of its worker."""


class WallJob(TypedDict):
    """A running job as the wall shows it."""

    id: int
    name: str
    profile: str
    source: SourceSummary
    step: str | None
    progress: float
    speed: float | None
    eta: EtaView | None
    speeds: list[float]
    """The course of its speed since its first attempt, oldest first."""
    qualities: list[WallQuality]


class WallView(TypedDict):
    """The running jobs with what each machine made of them."""

    workers: list[str]
    jobs: list[WallJob]
    """Oldest first."""


class JobSource(TypedDict):
    """New facts about a waiting job's source, sent as `sources` on the event stream."""

    id: int
    source: SourceSummary


class SettingView(TypedDict):
    name: str
    value: str
    """As it is written in the file; of a secret only that it is set."""
    default: str
    allowed: str
    meaning: str


class SettingsView(TypedDict):
    file: str
    """The path of the file that sets them."""
    settings: list[SettingView]


class ProfileView(TypedDict):
    name: str
    description: str
    origin: str
    """shipped, or the path of the user's file."""
    rungs: list[str]
    """Largest first; empty if the profile is invalid."""
    codec: str
    """A summary for display: `h264 medium crf 22`."""
    default: bool
    """Used if no profile is named."""
    error: ErrorView | None
    """Why it cannot be used."""


class BackupView(TypedDict):
    """A backup of the database; `size` in bytes."""

    path: str
    path_b64: str
    size: int


class AlertView(TypedDict):
    """An alert for one channel."""

    channel: str
    kind: str
    text: str
    state: Literal["waiting", "sent", "failed"]
    due_at: str
    """When it was first due."""
    next_at: str | None
    """When it is tried next, while it waits."""
    sent_at: str | None
    tries: int
    error: str | None
    """Why the last try failed."""
    suppressed: int
    """Number of earlier alerts of the kind and subject that it replaced."""


class AlertTest(TypedDict):
    """How a channel received a test alert."""

    channel: str
    error: str | None


CheckLevel = Literal["ok", "warn", "fail"]


class CheckView(TypedDict):
    """One check of `doctor`; `ok` unless it failed."""

    name: str
    ok: bool
    level: CheckLevel
    detail: str
    hint: str


def check_view(name: str, level: CheckLevel, detail: str, hint: str = "") -> CheckView:
    """Build a line of `doctor`; the hint is dropped if the check passed."""
    return {
        "name": name,
        "ok": level != "fail",
        "level": level,
        "detail": detail,
        "hint": "" if level == "ok" else hint,
    }


def error_view(error: TqError) -> ErrorView:
    """Convert an error to its form in answers."""
    return {"code": error.code.value, "message": error.message, "hint": error.hint}
