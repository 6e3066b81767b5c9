"""Error codes: what each means, what the engine does about it, and what a person can do.

One table serves the worker (which class is this failure?), the scheduler (again, later or never?) and
every screen (one sentence and the next step).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

MAX_ERROR_TEXT = 500
"""Characters of an error text kept with a job; the log holds the rest."""


class ErrorClass(StrEnum):
    """What follows from a failure."""

    FATAL = "fatal"
    """Trying again cannot help: the job fails at once and autorestart is denied."""
    RESOURCE = "resource"
    """The machine lacks something for now: back to pending, no attempt counted, a gate may shut."""
    RETRYABLE = "retryable"
    """May pass: pending again after a backoff until the attempts are used up."""
    LOST = "lost"
    """The worker died; crashes are counted apart from attempts."""
    REQUEST = "request"
    """A person or client asked for something that cannot be done; no job is changed."""


class ErrorCode(StrEnum):
    """Every code a person or client can meet."""

    SOURCE_MISSING = "SOURCE_MISSING"
    SOURCE_EMPTY = "SOURCE_EMPTY"
    SOURCE_UNREADABLE = "SOURCE_UNREADABLE"
    SOURCE_TRUNCATED = "SOURCE_TRUNCATED"
    NO_MEDIA = "NO_MEDIA"
    PERMISSION = "PERMISSION"
    BAD_CONFIG = "BAD_CONFIG"
    UNSUPPORTED = "UNSUPPORTED"
    FFMPEG_MISSING = "FFMPEG_MISSING"

    DISK_LOW = "DISK_LOW"
    DATABASE_UNWRITABLE = "DATABASE_UNWRITABLE"
    DISK_SILENT = "DISK_SILENT"
    GPU_SESSION = "GPU_SESSION"
    SOURCE_AWAY = "SOURCE_AWAY"
    OUTPUT_GONE = "OUTPUT_GONE"
    OUTPUT_SHARED = "OUTPUT_SHARED"
    OUTPUT_IN_USE = "OUTPUT_IN_USE"
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
    POISON = "POISON"

    NOT_FOUND = "NOT_FOUND"
    REFUSED = "REFUSED"
    LOST_LEASE = "LOST_LEASE"
    BAD_REQUEST = "BAD_REQUEST"
    UNAUTHORIZED = "UNAUTHORIZED"
    NO_SUPERVISOR = "NO_SUPERVISOR"
    SUPERVISOR_SILENT = "SUPERVISOR_SILENT"
    ALREADY_RUNNING = "ALREADY_RUNNING"
    NEWER_DATABASE = "NEWER_DATABASE"
    DATABASE_DAMAGED = "DATABASE_DAMAGED"
    DATABASE_BUSY = "DATABASE_BUSY"


class WarningCode(StrEnum):
    """What a finished ladder lacks of its source or its profile, or what is known to be damaged."""

    AUDIO_LEFT_OUT = "AUDIO_LEFT_OUT"
    AUDIO_UNREADABLE = "AUDIO_UNREADABLE"
    SUBTITLES_LEFT_OUT = "SUBTITLES_LEFT_OUT"
    CAPTIONS_LEFT_OUT = "CAPTIONS_LEFT_OUT"
    CHAPTERS_LEFT_OUT = "CHAPTERS_LEFT_OUT"
    HDR_TONE_MAPPED = "HDR_TONE_MAPPED"
    ALPHA_LEFT_OUT = "ALPHA_LEFT_OUT"
    SOURCE_DAMAGED = "SOURCE_DAMAGED"
    SOURCE_INCOMPLETE = "SOURCE_INCOMPLETE"
    RENDITION_LEFT_OUT = "RENDITION_LEFT_OUT"
    POSTER_MISSING = "POSTER_MISSING"
    GPU_FAILED = "GPU_FAILED"


@dataclass(frozen=True, slots=True)
class JobWarning:
    """Something a person should know about a job although it is done.

    It leaves the worker as `schemas.WarningView`.
    """

    code: WarningCode
    text: str
    """One sentence without the name of the file: the job has it."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """The class of a code, what it says in general, and what to do now."""

    error_class: ErrorClass
    meaning: str
    hint: str


_FATAL, _RESOURCE, _RETRY, _LOST, _REQUEST = (
    ErrorClass.FATAL,
    ErrorClass.RESOURCE,
    ErrorClass.RETRYABLE,
    ErrorClass.LOST,
    ErrorClass.REQUEST,
)

MEANINGS: MappingProxyType[ErrorCode, Meaning] = MappingProxyType(
    {
        ErrorCode.SOURCE_MISSING: Meaning(_FATAL, "the source file is gone", "put the file back, then retry"),
        ErrorCode.SOURCE_EMPTY: Meaning(
            _FATAL, "the source file is empty", "copy the file again, then retry"
        ),
        ErrorCode.SOURCE_UNREADABLE: Meaning(
            _FATAL, "the source cannot be read as a video", "check that it plays elsewhere; copy it again"
        ),
        ErrorCode.SOURCE_TRUNCATED: Meaning(
            _FATAL, "the source ends before the length it declares", "copy the whole file again, then retry"
        ),
        ErrorCode.NO_MEDIA: Meaning(_FATAL, "the file holds no video", "remove it, or replace it by a video"),
        ErrorCode.PERMISSION: Meaning(
            _FATAL,
            "the file or folder may not be read or written",
            "give the user that runs the supervisor access to it, then retry",
        ),
        ErrorCode.BAD_CONFIG: Meaning(
            _FATAL, "a setting or profile is wrong", "correct the named key, then retry"
        ),
        ErrorCode.UNSUPPORTED: Meaning(
            _FATAL, "this kind of file is not supported", "convert it, or add a regular video file"
        ),
        # An upgrade takes it away for seconds: no queue is to be lost over that.
        ErrorCode.FFMPEG_MISSING: Meaning(
            _RETRY, "no usable ffmpeg was found", "install ffmpeg, or set TQSTUDIO_FFMPEG to its path"
        ),
        ErrorCode.DISK_LOW: Meaning(
            _RESOURCE, "the disk has too little free space", "free some space; the queue goes on by itself"
        ),
        ErrorCode.DATABASE_UNWRITABLE: Meaning(
            _RESOURCE,
            "the disk of the database does not take writes",
            "see to that disk: its quota, its mount, the kernel's log; everything goes on by itself",
        ),
        ErrorCode.DISK_SILENT: Meaning(
            _RESOURCE, "a disk does not answer", "see to that disk; the job goes on by itself"
        ),
        ErrorCode.GPU_SESSION: Meaning(
            _RESOURCE, "the GPU has no free encoder session", "nothing: the job waits for one"
        ),
        ErrorCode.SOURCE_AWAY: Meaning(
            _RESOURCE,
            "the disk of the source is not there",
            "mount it again: the job goes on by itself; cancel the job if the file is not to come back",
        ),
        ErrorCode.OUTPUT_GONE: Meaning(
            _RESOURCE,
            "the output folder was moved, removed or unmounted, or its disk fails",
            "put it back: what was made there goes on by itself when it is found again",
        ),
        ErrorCode.OUTPUT_SHARED: Meaning(
            _RESOURCE,
            "other users may write to the output folder",
            "take away their write permission, or set allow_shared_output; the queue continues by itself",
        ),
        ErrorCode.OUTPUT_IN_USE: Meaning(
            _RESOURCE,
            "another supervisor with a copy of the same database works in the output folder",
            "stop that one (tqstudio down, in its TQSTUDIO_HOME), or begin with an empty TQSTUDIO_HOME here",
        ),
        ErrorCode.SYSTEM_LIMIT: Meaning(
            _RESOURCE,
            "the system allows no more processes or open files",
            "raise its limits (ulimit -n, ulimit -u), or run fewer workers; the job goes again by itself",
        ),
        ErrorCode.ENCODER_EXIT: Meaning(_RETRY, "ffmpeg ended with an error", "read the log of the attempt"),
        ErrorCode.ENCODER_SIGNAL: Meaning(_RETRY, "ffmpeg was killed", "read the log of the attempt"),
        ErrorCode.OUT_OF_MEMORY: Meaning(
            _RETRY, "ffmpeg ran out of memory", "run fewer workers, or a smaller ladder"
        ),
        ErrorCode.STALLED: Meaning(_RETRY, "ffmpeg made no progress", "read the log of the attempt"),
        ErrorCode.TIMEOUT: Meaning(
            _RETRY, "the job took longer than its limit", "raise the limit, then retry"
        ),
        ErrorCode.OUTPUT_EMPTY: Meaning(_RETRY, "ffmpeg wrote nothing", "read the log of the attempt"),
        ErrorCode.OUTPUT_INVALID: Meaning(
            _RETRY, "the result did not pass the checks and was not published", "read the log of the attempt"
        ),
        ErrorCode.IO_ERROR: Meaning(
            _RETRY,
            "a disk could not be read or written",
            "check the disk, its cable and its mount (dmesg tells more), then retry",
        ),
        ErrorCode.PUBLISH_FAILED: Meaning(
            _RETRY, "the result could not be put in its place", "check the output folder, then retry"
        ),
        ErrorCode.SOURCE_CHANGED: Meaning(
            _RETRY, "the source changed while it was being transcoded", "nothing: it starts again"
        ),
        ErrorCode.UPLOAD_FAILED: Meaning(_RETRY, "a segment could not be sent", "nothing: it is sent again"),
        ErrorCode.UPSTREAM: Meaning(_RETRY, "another service did not answer", "nothing: it is asked again"),
        ErrorCode.INTERNAL: Meaning(
            _RETRY, "tqstudio made a mistake", "please report it with the log of the attempt"
        ),
        ErrorCode.WORKER_LOST: Meaning(_LOST, "the worker died", "nothing to do: another worker goes on"),
        ErrorCode.POISON: Meaning(
            _LOST, "the job killed its workers again and again", "look at the source; retry when it is mended"
        ),
        ErrorCode.NOT_FOUND: Meaning(_REQUEST, "there is no such thing", "list what there is"),
        ErrorCode.REFUSED: Meaning(
            _REQUEST, "this cannot be done now", "tqstudio job show tells how a job stands"
        ),
        ErrorCode.LOST_LEASE: Meaning(
            _REQUEST, "the worker's lease of the job has ended", "stop working on it; touch nothing"
        ),
        ErrorCode.BAD_REQUEST: Meaning(_REQUEST, "the request makes no sense", "correct it"),
        ErrorCode.UNAUTHORIZED: Meaning(_REQUEST, "the token is wrong", "register again"),
        ErrorCode.NO_SUPERVISOR: Meaning(
            _REQUEST, "no supervisor answers", "start one with: tqstudio up --detach"
        ),
        ErrorCode.SUPERVISOR_SILENT: Meaning(
            _REQUEST, "the supervisor runs but does not answer", "look at logs/supervisor.log in its home"
        ),
        ErrorCode.ALREADY_RUNNING: Meaning(
            _REQUEST, "a supervisor runs in this home already", "use it, or stop it with: tqstudio down"
        ),
        ErrorCode.NEWER_DATABASE: Meaning(
            _REQUEST,
            "the database was written by a newer tqstudio",
            "install that version again, or start with an empty TQSTUDIO_HOME",
        ),
        ErrorCode.DATABASE_DAMAGED: Meaning(
            _REQUEST, "the database is damaged", "put a backup in its place; tqstudio doctor tells more"
        ),
        ErrorCode.DATABASE_BUSY: Meaning(
            _REQUEST, "another program holds the database", "end that program, then try again"
        ),
    }
)


UNANSWERED = frozenset((ErrorCode.NO_SUPERVISOR, ErrorCode.SUPERVISOR_SILENT))
"""Codes of a call that got no answer: it may have been heard, and may be sent again."""

UNWRITTEN = frozenset((ErrorCode.DISK_LOW, ErrorCode.DATABASE_UNWRITABLE))
"""Codes of a change that the database does not take for now: it may be asked for again."""


class Problem(NamedTuple):
    """Why something is not done for now: an `ErrorCode`, one sentence, and the next step."""

    code: str
    message: str
    hint: str


class TqError(Exception):
    """Something a person should read: a code, one sentence, and what to do now.

    Args:
        code: an `ErrorCode` or its name; unknown names become INTERNAL.
        message: one sentence that names the file or thing concerned.
        hint: the next step; by default the one that belongs to the code.
    """

    def __init__(self, code: ErrorCode | str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code_of(code)
        self.message = message
        self.hint = hint or MEANINGS[self.code].hint

    def __str__(self) -> str:
        return f"{self.code}: {self.message} ({self.hint})"

    def __reduce__(self) -> tuple[type[TqError], tuple[str, str, str]]:
        return (TqError, (str(self.code), self.message, self.hint))


def in_one_line(code: str | None, message: str, hint: str = "") -> str:
    """`CODE: sentence – what to do`, where a trouble has one line; without the parts that there are not."""
    said = f"{code}: {message}" if code else message
    return f"{said} – {hint}" if hint else said


def code_of(code: ErrorCode | str) -> ErrorCode:
    """The code of that name; INTERNAL for a name that is not in the table."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.INTERNAL


def class_of(code: ErrorCode | str) -> ErrorClass:
    """What follows from a failure with this code. An unknown code is retryable: the counter bounds it."""
    return MEANINGS[code_of(code)].error_class
