"""Defines the error codes, the class of each (whether and when a job is retried), and its sentence and hint.

Workers, the retry rules and all screens use the one table `MEANINGS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

MAX_ERROR_TEXT = 500
"""Characters of an error text stored with a job; the full text is in the log."""


class ErrorClass(StrEnum):
    """How the engine reacts to a failure."""

    FATAL = "fatal"
    """Retrying cannot help: the job fails at once and is not restarted automatically."""
    RESOURCE = "resource"
    """A resource is missing for now: the job is pending again, no attempt is counted, a gate may close."""
    RETRYABLE = "retryable"
    """May be temporary: pending again after a backoff until the attempts are used up."""
    LOST = "lost"
    """The worker died; crashes are counted separately from attempts."""
    REQUEST = "request"
    """The request of a user or client cannot be carried out; no job is changed."""


class ErrorCode(StrEnum):
    """Every error code that users and clients can receive."""

    SOURCE_MISSING = "SOURCE_MISSING"
    SOURCE_EMPTY = "SOURCE_EMPTY"
    SOURCE_UNREADABLE = "SOURCE_UNREADABLE"
    SOURCE_TRUNCATED = "SOURCE_TRUNCATED"
    SOURCE_DAMAGED = "SOURCE_DAMAGED"
    NO_MEDIA = "NO_MEDIA"
    PERMISSION = "PERMISSION"
    BAD_CONFIG = "BAD_CONFIG"
    UNSUPPORTED = "UNSUPPORTED"
    FFMPEG_MISSING = "FFMPEG_MISSING"

    DISK_LOW = "DISK_LOW"
    DATABASE_UNWRITABLE = "DATABASE_UNWRITABLE"
    DATABASE_UNREACHABLE = "DATABASE_UNREACHABLE"
    DISK_NOT_RESPONDING = "DISK_NOT_RESPONDING"
    GPU_BUSY = "GPU_BUSY"
    SOURCE_UNAVAILABLE = "SOURCE_UNAVAILABLE"
    OUTSIDE_HOURS = "OUTSIDE_HOURS"
    OUTPUT_UNAVAILABLE = "OUTPUT_UNAVAILABLE"
    OUTPUT_SHARED = "OUTPUT_SHARED"
    OUTPUT_IN_USE = "OUTPUT_IN_USE"
    WORKER_DISK = "WORKER_DISK"
    SYSTEM_LIMIT = "SYSTEM_LIMIT"

    ENCODER_EXIT = "ENCODER_EXIT"
    ENCODER_SIGNAL = "ENCODER_SIGNAL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    STALLED = "STALLED"
    TIMEOUT = "TIMEOUT"
    OUTPUT_EMPTY = "OUTPUT_EMPTY"
    OUTPUT_INVALID = "OUTPUT_INVALID"
    IO_ERROR = "IO_ERROR"
    PUBLISH_FAILED = "PUBLISH_FAILED"
    SOURCE_CHANGED = "SOURCE_CHANGED"
    UPLOAD_FAILED = "UPLOAD_FAILED"
    UPSTREAM = "UPSTREAM"
    INTERNAL = "INTERNAL"

    WORKER_LOST = "WORKER_LOST"
    REPEATED_CRASHES = "REPEATED_CRASHES"

    NOT_FOUND = "NOT_FOUND"
    REFUSED = "REFUSED"
    DUPLICATE = "DUPLICATE"
    LOST_LEASE = "LOST_LEASE"
    BAD_REQUEST = "BAD_REQUEST"
    UNAUTHORIZED = "UNAUTHORIZED"
    TOO_MANY_FAILURES = "TOO_MANY_FAILURES"
    UPLOAD_TOO_LARGE = "UPLOAD_TOO_LARGE"
    UPLOAD_DAMAGED = "UPLOAD_DAMAGED"
    UPLOAD_BUSY = "UPLOAD_BUSY"
    NO_SUPERVISOR = "NO_SUPERVISOR"
    SUPERVISOR_NOT_RESPONDING = "SUPERVISOR_NOT_RESPONDING"
    ALREADY_RUNNING = "ALREADY_RUNNING"
    DATABASE_VERSION = "DATABASE_VERSION"
    DATABASE_DAMAGED = "DATABASE_DAMAGED"
    DATABASE_BUSY = "DATABASE_BUSY"


class WarningCode(StrEnum):
    """What a published ladder lacks of its source or profile, what is damaged, or why the source was kept."""

    STREAMS_LEFT_OUT = "STREAMS_LEFT_OUT"
    AUDIO_LEFT_OUT = "AUDIO_LEFT_OUT"
    AUDIO_CUT = "AUDIO_CUT"
    AUDIO_UNREADABLE = "AUDIO_UNREADABLE"
    SUBTITLES_LEFT_OUT = "SUBTITLES_LEFT_OUT"
    SUBTITLES_BURNT = "SUBTITLES_BURNT"
    CHAPTERS_LEFT_OUT = "CHAPTERS_LEFT_OUT"
    HDR_TONE_MAPPED = "HDR_TONE_MAPPED"
    PROJECTION_LEFT_OUT = "PROJECTION_LEFT_OUT"
    ALPHA_LEFT_OUT = "ALPHA_LEFT_OUT"
    COLOURS_CHANGE = "COLOURS_CHANGE"
    LOW_BITRATE = "LOW_BITRATE"
    NOT_COPIED = "NOT_COPIED"
    QUALITY_NOT_REACHED = "QUALITY_NOT_REACHED"
    LOUDNESS_LIMITED = "LOUDNESS_LIMITED"
    SOURCE_DAMAGED = "SOURCE_DAMAGED"
    SOURCE_INCOMPLETE = "SOURCE_INCOMPLETE"
    RENDITION_LEFT_OUT = "RENDITION_LEFT_OUT"
    POSTER_MISSING = "POSTER_MISSING"
    STORYBOARD_MISSING = "STORYBOARD_MISSING"
    FILE_MISSING = "FILE_MISSING"
    GPU_FAILED = "GPU_FAILED"
    SOURCE_KEPT = "SOURCE_KEPT"


WARNINGS: MappingProxyType[WarningCode, str] = MappingProxyType(
    {
        WarningCode.STREAMS_LEFT_OUT: "other videos or programmes, unknown codecs, streams that begin late",
        WarningCode.AUDIO_LEFT_OUT: "audio tracks are not published: empty, unwanted, or above 32",
        WarningCode.AUDIO_CUT: "audio tracks lose what lies outside of video and default sound",
        WarningCode.AUDIO_UNREADABLE: "this ffmpeg cannot decode these audio tracks",
        WarningCode.SUBTITLES_LEFT_OUT: "bitmaps, unwanted, unreadable, above 32, after the video; drawings",
        WarningCode.SUBTITLES_BURNT: "these subtitles are part of the pictures, as the profile asks",
        WarningCode.CHAPTERS_LEFT_OUT: "chapters are not published: outside of the video, or above 500",
        WarningCode.HDR_TONE_MAPPED: "HDR or Dolby Vision is published as SDR",
        WarningCode.PROJECTION_LEFT_OUT: "3D or 360° pictures are shown flat, or for one eye",
        WarningCode.ALPHA_LEFT_OUT: "the transparency of the source is not published",
        WarningCode.COLOURS_CHANGE: "the colours change within the source, and only the first are converted",
        WarningCode.LOW_BITRATE: "the source has so few bits that qualities get fewer, or are left out",
        WarningCode.NOT_COPIED: "the pictures of the source could not be copied, and were encoded",
        WarningCode.QUALITY_NOT_REACHED: "`video.quality` is missed: bits are limited, or no CRF was found",
        WarningCode.LOUDNESS_LIMITED: "sound is less loud than the profile asks for, to keep its peaks",
        WarningCode.SOURCE_DAMAGED: "the source has a hole, damaged packets or undecodable parts, and where",
        WarningCode.SOURCE_INCOMPLETE: "the source was cut off, and is published as far as it goes",
        WarningCode.RENDITION_LEFT_OUT: "a quality with `required = false`, or a further track, failed",
        WarningCode.POSTER_MISSING: "no poster could be made",
        WarningCode.STORYBOARD_MISSING: "no storyboard could be made",
        WarningCode.FILE_MISSING: "a file that `files` asks for could not be made, and why",
        WarningCode.GPU_FAILED: "the GPU failed, and the CPU did the rest",
        WarningCode.SOURCE_KEPT: "the source could not be moved or deleted as its drop folder says, and why",
    }
)


@dataclass(frozen=True, slots=True)
class JobWarning:
    """A warning about a job that was completed all the same."""

    code: WarningCode
    text: str
    """One sentence, without the name of the file."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """The class of a code, its general sentence, and what to do now."""

    error_class: ErrorClass
    meaning: str
    hint: str


_FATAL, _RESOURCE, _RETRY, _LOST, _REQUEST = ErrorClass

MEANINGS: MappingProxyType[ErrorCode, Meaning] = MappingProxyType(
    {
        ErrorCode.SOURCE_MISSING: Meaning(_FATAL, "the source file is gone", "put the file back, then retry"),
        ErrorCode.SOURCE_EMPTY: Meaning(_FATAL, "the source file is empty", "copy it again, then retry"),
        ErrorCode.SOURCE_UNREADABLE: Meaning(
            _FATAL, "the source cannot be read as a video", "check that it plays elsewhere; copy it again"
        ),
        ErrorCode.SOURCE_TRUNCATED: Meaning(
            _FATAL,
            "the source ends before the length it declares",
            "copy the whole file again, or add it with --set on_damage=accept to publish what is there",
        ),
        ErrorCode.SOURCE_DAMAGED: Meaning(
            _FATAL,
            "the source has holes or errors, and the profile refuses any damage",
            "copy the whole file again, or add it with --set on_damage=accept to publish what is there",
        ),
        ErrorCode.NO_MEDIA: Meaning(_FATAL, "the file contains no video or sound", "remove or replace it"),
        ErrorCode.PERMISSION: Meaning(
            _FATAL,
            "no permission to read or write the file or folder",
            "give the user who runs the supervisor access to it, then retry",
        ),
        ErrorCode.BAD_CONFIG: Meaning(
            _FATAL, "a setting or profile is invalid", "correct the named key, then retry"
        ),
        ErrorCode.UNSUPPORTED: Meaning(
            _FATAL, "this kind of file is not supported", "convert it, or add a regular video file"
        ),
        # Retryable, because an upgrade of ffmpeg removes it only for seconds.
        ErrorCode.FFMPEG_MISSING: Meaning(
            _RETRY, "no usable ffmpeg was found", "install ffmpeg, or set TQSTUDIO_FFMPEG to its path"
        ),
        ErrorCode.DISK_LOW: Meaning(
            _RESOURCE, "the disk has too little free space", "free space; the queue resumes automatically"
        ),
        ErrorCode.DATABASE_UNWRITABLE: Meaning(
            _RESOURCE,
            "the disk of the database cannot be written",
            "check its quota, its mount and the kernel log; the queue resumes automatically",
        ),
        ErrorCode.DATABASE_UNREACHABLE: Meaning(
            _RESOURCE, "the PostgreSQL server does not answer", "start it, or check address and network"
        ),
        ErrorCode.DISK_NOT_RESPONDING: Meaning(
            _RESOURCE, "a disk does not respond", "check the disk; the job resumes automatically"
        ),
        ErrorCode.GPU_BUSY: Meaning(
            _RESOURCE, "the GPU has no free encoder session", "nothing to do: the job waits for one"
        ),
        ErrorCode.SOURCE_UNAVAILABLE: Meaning(
            _RESOURCE,
            "the disk of the source is not mounted",
            "mount it again and the job resumes automatically; cancel the job if the file will not return",
        ),
        ErrorCode.OUTSIDE_HOURS: Meaning(
            _RESOURCE,
            "no job of that drop folder may run now",
            "nothing to do: the job runs in its hours; change them with: tqstudio folder edit --hours",
        ),
        ErrorCode.OUTPUT_UNAVAILABLE: Meaning(
            _RESOURCE,
            "the output folder was moved, removed or unmounted, or its disk fails",
            "restore it; its jobs then resume automatically, with the work already finished there",
        ),
        ErrorCode.OUTPUT_SHARED: Meaning(
            _RESOURCE,
            "other users may write to the output folder",
            "remove their write permission, or set allow_shared_output; the queue resumes automatically",
        ),
        ErrorCode.OUTPUT_IN_USE: Meaning(
            _RESOURCE,
            "another supervisor with a copy of the same database uses the output folder",
            "stop that one (tqstudio down, in its TQSTUDIO_HOME), or start with an empty TQSTUDIO_HOME here",
        ),
        ErrorCode.WORKER_DISK: Meaning(
            _RESOURCE,
            "the work folder of a worker on another machine cannot be used",
            "free space there, or give that worker another folder with --work; the job is retried",
        ),
        ErrorCode.SYSTEM_LIMIT: Meaning(
            _RESOURCE,
            "the system allows no more processes or open files",
            "raise its limits (ulimit -n, ulimit -u), or run fewer workers; the job is retried automatically",
        ),
        ErrorCode.ENCODER_EXIT: Meaning(_RETRY, "ffmpeg exited with an error", "read the log of the attempt"),
        ErrorCode.ENCODER_SIGNAL: Meaning(_RETRY, "ffmpeg was killed", "read the log of the attempt"),
        ErrorCode.OUT_OF_MEMORY: Meaning(
            _RETRY, "ffmpeg ran out of memory", "run fewer workers, or use a smaller ladder"
        ),
        ErrorCode.STALLED: Meaning(_RETRY, "ffmpeg made no progress", "read the log of the attempt"),
        ErrorCode.TIMEOUT: Meaning(_RETRY, "no new segment for too long", "raise the limit, then retry"),
        ErrorCode.OUTPUT_EMPTY: Meaning(_RETRY, "ffmpeg wrote nothing", "read the log of the attempt"),
        ErrorCode.OUTPUT_INVALID: Meaning(
            _RETRY, "the result did not pass the checks and was not published", "read the log of the attempt"
        ),
        ErrorCode.IO_ERROR: Meaning(
            _RETRY,
            "a disk could not be read or written",
            "check the disk, its cable and its mount (see dmesg), then retry",
        ),
        ErrorCode.PUBLISH_FAILED: Meaning(
            _RETRY, "the result could not be published", "check the output folder, then retry"
        ),
        ErrorCode.SOURCE_CHANGED: Meaning(
            _RETRY, "the source changed while it was being transcoded", "nothing to do: it is encoded again"
        ),
        ErrorCode.UPLOAD_FAILED: Meaning(
            _RETRY, "a segment could not be uploaded", "nothing to do: it is sent again"
        ),
        ErrorCode.UPSTREAM: Meaning(
            _RETRY, "another service did not respond", "nothing to do: it is asked again"
        ),
        ErrorCode.INTERNAL: Meaning(
            _RETRY, "internal error in tqstudio", "please report it with the log of the attempt"
        ),
        ErrorCode.WORKER_LOST: Meaning(_LOST, "the worker died", "nothing to do: another worker continues"),
        ErrorCode.REPEATED_CRASHES: Meaning(
            _LOST, "the job repeatedly crashed its worker", "check the source file and repair it, then retry"
        ),
        ErrorCode.NOT_FOUND: Meaning(_REQUEST, "not found", "list the existing ones"),
        ErrorCode.REFUSED: Meaning(
            _REQUEST, "this cannot be done now", "tqstudio job show displays the state of a job"
        ),
        ErrorCode.DUPLICATE: Meaning(
            _REQUEST, "the same content is published already", "remove the file, or add it by hand"
        ),
        ErrorCode.LOST_LEASE: Meaning(
            _REQUEST, "the worker's lease of the job has ended", "stop the job; leave its files alone"
        ),
        ErrorCode.BAD_REQUEST: Meaning(_REQUEST, "the request is invalid", "correct it"),
        ErrorCode.UNAUTHORIZED: Meaning(
            _REQUEST,
            "the token is missing, wrong, expired or revoked",
            "give the right token, or create a new one with: tqstudio token create",
        ),
        ErrorCode.TOO_MANY_FAILURES: Meaning(
            _REQUEST, "too many wrong tokens came from this address", "wait a minute, then try again"
        ),
        ErrorCode.UPLOAD_TOO_LARGE: Meaning(
            _REQUEST, "the file is larger than this studio takes", "raise the setting upload_max_bytes there"
        ),
        ErrorCode.UPLOAD_DAMAGED: Meaning(
            _REQUEST, "the bytes that arrived are not those that were sent", "send them again"
        ),
        ErrorCode.UPLOAD_BUSY: Meaning(
            _REQUEST, "another request is sending to this upload", "wait until it ends, then try again"
        ),
        ErrorCode.NO_SUPERVISOR: Meaning(
            _REQUEST, "no supervisor is running", "start one with: tqstudio up --detach"
        ),
        ErrorCode.SUPERVISOR_NOT_RESPONDING: Meaning(
            _REQUEST, "the supervisor runs but does not respond", "check logs/supervisor.log in its home"
        ),
        ErrorCode.ALREADY_RUNNING: Meaning(
            _REQUEST, "a supervisor is already running in this home", "use it, or stop it with: tqstudio down"
        ),
        ErrorCode.DATABASE_VERSION: Meaning(
            _REQUEST,
            "the database was written by another version of tqstudio",
            "install that version again, or start with an empty TQSTUDIO_HOME",
        ),
        ErrorCode.DATABASE_DAMAGED: Meaning(
            _REQUEST, "the database is damaged", "restore a backup; tqstudio doctor shows details"
        ),
        ErrorCode.DATABASE_BUSY: Meaning(
            _REQUEST, "another program has locked the database", "end that program, then try again"
        ),
    }
)

UNANSWERED = frozenset((ErrorCode.NO_SUPERVISOR, ErrorCode.SUPERVISOR_NOT_RESPONDING))
"""Codes of a request without an answer: it may have been processed, and may be sent again."""

UNWRITTEN = frozenset((ErrorCode.DISK_LOW, ErrorCode.DATABASE_UNWRITABLE, ErrorCode.DATABASE_UNREACHABLE))
"""Codes of a change that the database cannot store for now: it may be requested again."""


class Problem(NamedTuple):
    """Why something cannot be done now: an `ErrorCode`, one sentence, and what to do."""

    code: str
    message: str
    hint: str


class TqError(Exception):
    """An error for users: a code, one sentence, and what to do now.

    Args:
        code: an `ErrorCode` or its name; unknown names become INTERNAL.
        message: one sentence that names the file or object concerned.
        hint: what to do now; by default the hint of the code.
    """

    def __init__(self, code: ErrorCode | str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code_of(code)
        self.message = message
        self.hint = hint or MEANINGS[self.code].hint

    @property
    def problem(self) -> Problem:
        return Problem(self.code.value, self.message, self.hint)

    def __str__(self) -> str:
        return f"{self.code}: {self.message} ({self.hint})"

    def __reduce__(self) -> tuple[type[TqError], tuple[str, str, str]]:
        return (TqError, (str(self.code), self.message, self.hint))


def in_one_line(code: str | None, message: str, hint: str = "") -> str:
    """Formats a problem as `CODE: sentence – what to do`; absent parts are left out."""
    line = f"{code}: {message}" if code else message
    return f"{line} – {hint}" if hint else line


def code_of(code: ErrorCode | str) -> ErrorCode:
    """Returns the code of that name, INTERNAL for an unknown name."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.INTERNAL


def class_of(code: ErrorCode | str) -> ErrorClass:
    """Returns the class of a code. Unknown codes are retryable, bounded by the number of attempts."""
    return MEANINGS[code_of(code)].error_class
