"""Defines the answers of the supervisor's HTTP API to workers, in the form of those in `answers.py`."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from tqstudio.protocol.answers import WarningView


class FileDescriptor(TypedDict):
    """A source or work folder on a file system both sides see."""

    kind: Literal["file"]
    path_b64: str


class PublishedDuplicate(TypedDict):
    """The ladder of another video whose source probably has the same content."""

    video: int
    folder_b64: str
    """The folder of its generation."""
    full_hash: str | None
    """Hash of its whole source."""
    keys: dict[str, tuple[str, str]]
    """Its renditions: name → settings_hash and stream_key."""


class AssignedRange(TypedDict):
    """The part of a job to be made: segments from `first` up to `end` of these streams."""

    first: int
    end: int
    streams: dict[str, str]
    """Rendition → stream key."""


class DecidedCrf(TypedDict):
    """The CRF that was decided for a codec, which stays for this content and these settings."""

    settings_hash: str
    """Of the largest rung of the codec."""
    encoder: str
    crf: int
    vmaf: float | None
    """What the samples had with it; None if no quality could be measured."""
    remark: str
    """Why it does not reach the quality; empty if it does."""


class ClaimedJob(TypedDict):
    """A claimed job, with all that its worker needs to know."""

    job: int
    epoch: int
    video: int
    attempt: int
    kind: str
    source: FileDescriptor
    source_root_b64: str
    """Its drop folder, or else its parent folder; paths in the attempt's log are relative to it."""
    drop_folder_b64: str | None
    refuses_sound: bool
    """Whether a source without video fails, because its drop folder leaves out sound."""
    """The drop folder it was found in; links below it are not followed. None for a file that was added."""
    source_size: int
    source_mtime_ns: int
    work_dir: FileDescriptor
    """The store's folder on the output's file system, `OUT/.tqstudio/<uuid>`; workers write nowhere else."""
    profile: dict[str, Any]
    requested: list[str] | None
    dropped: list[str]
    """Renditions to leave out, whatever is requested."""
    kept: dict[str, str]
    """Renditions of the current generation: name → settings_hash; equal ones need not be encoded."""
    duplicates: list[PublishedDuplicate]
    """Where equal renditions may be linked from, by the rule of the drop folder."""
    source_warnings: list[WarningView]
    """About files that lie beside the source and that the worker does not see."""
    facts: dict[str, Any] | None
    content_id: str | None
    full_hash: str | None
    """Hash of the whole source when its ladder was encoded."""
    crfs: NotRequired[list[DecidedCrf]]
    """Decided before for this video. Earlier versions have none."""
    first: NotRequired[bool]
    """Whether a quality may be published before the others: nothing is published of the video. Earlier
    versions have none."""
    log: str
    lease_s: float
    range: NotRequired[AssignedRange | None]
    """To be made of a job that another worker has; None for the whole job. Earlier versions have none."""


class SourceFile(TypedDict):
    """A file of a source: the video, or subtitles beside it."""

    name_b64: str
    version: str
    """Version of its present state: it changes with the file's size, inode, samples or times."""
    identity: dict[str, int]
    """As `requests.SourceIdentity`."""
    quick_hash: str
    """By which a worker finds it in a folder that it shares with the studio."""


class JobInputs(TypedDict):
    """What a worker of another machine copies before it begins."""

    files: list[SourceFile]
    """The source first."""
    warnings: list[WarningView]
    """About subtitle files that are left out."""
    store: str
    """Identity of the video's segment store; it changes when the store is emptied."""
    stored: dict[str, tuple[int, str]]
    """Its files: path → size and BLAKE3."""


class ClaimAnswer(TypedDict):
    job: ClaimedJob | None
    test: bool
    """It failed several jobs in a row and must report a test encode (`tested`) before it gets another."""


class TestedAnswer(TypedDict):
    accepted: bool
    """Whether a test encode was requested."""


class WorkerLeft(TypedDict):
    worker: int


class KeptAnswer(TypedDict):
    needed: list[int]
    """The videos that have an open job."""


class StoredNames(TypedDict):
    names: list[str]
    """Paths of the segments that are stored of a job."""


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
    confined: NotRequired[bool]
    """Whether it must confine ffmpeg; earlier versions do not know of it."""
    divides: NotRequired[bool]
    """Whether jobs are divided; earlier versions do not know of it."""
    max_duration_s: NotRequired[float]
    """Longest source in seconds; earlier versions send no limit, and their workers use their own."""


class ProgressAnswer(TypedDict):
    control: str
    divided: bool
    """Whether other workers make parts of the job."""


class HeartbeatAnswer(TypedDict):
    controls: dict[str, str]
    """Job id → control, for every job in the heartbeat that the worker still owns."""
    lost: list[int]


class OutcomeAnswer(TypedDict):
    """The job's status after complete, fail or release; a repeated call gets the same answer."""

    job: int
    status: str
