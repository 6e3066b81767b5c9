"""Converts failures of ffmpeg and of system calls to errors with a code."""

from __future__ import annotations

import errno
import re
import signal

from tqstudio import path_checks
from tqstudio.errors import ErrorCode, TqError

_READ_ONLY_HINT = "check the disk (see dmesg), and remount it read-write"
_FAILING_HINT = "check the disk, its cable and its mount (see dmesg); the queue resumes automatically"

# The session limit of GeForce cards is reported as one of these; "out of memory (10)" is a status of NVENC.
_GPU_SESSION = (
    re.compile(r"OpenEncodeSessionEx failed: (?:out of memory|incompatible client key)", re.IGNORECASE),
    re.compile(r"CreateInputBuffer failed: out of memory", re.IGNORECASE),
)
_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_AT_LIMIT = re.compile(r"Too many open files|Resource temporarily unavailable")
_NO_MEMORY = re.compile(r"Cannot allocate memory|malloc of size \d+ failed|x264 .*malloc", re.IGNORECASE)
_NOT_BUILT_IN = re.compile(r"(?:No such (filter): |Unknown (encoder) )'([\w-]+)'")
_STATUS_OF_SIGNAL = 255
_HANDLED_SIGNAL = re.compile(r"^Exiting normally, received signal (\d+)\.\s*\Z", re.MULTILINE)
_COMPLAINT = re.compile(
    r"error|failed|invalid|cannot|could not|unable|no such|unknown|not found|not within|not support|lacking"
    r"|minimum required|denied",
    re.IGNORECASE,
)
# Lines that only repeat that something failed.
_SUMMARIES = re.compile(
    r"^(?:Conversion failed!|Error parsing global options)|Task finished with error code"
    r"|Terminating thread with return code|Error (?:re)?initializing filters|Error while opening encoder"
    r"|Failed setup for format|Could not open encoder before EOF|Error sending frames to consumers"
)
# The final statistics, whose overhead is "unknown" for a muxer of many files.
_STATISTICS = re.compile(r"\bmuxing overhead: |^frame= |Nothing was written into output file")
_ADDRESS = re.compile(r" @ 0x[0-9a-f]+")


def classify_exit(returncode: int, log_tail: str) -> TqError:
    """Convert an exit status other than 0 to an error.

    The signal, or the errno that recent versions of ffmpeg put into the status, decides first. Older versions
    exit with 1 for all errors; then the messages in the log decide.

    Args:
        returncode: as `Run.poll`; negative for a signal.
        log_tail: as `Run.log_tail`.
    """
    reason = _last_complaint(log_tail)
    disk_full = TqError(ErrorCode.DISK_LOW, "the disk is full: ffmpeg could not write its output")
    if returncode >= 0 and _DISK_FULL.search(log_tail):
        return disk_full
    number = _signal_of(returncode, log_tail)
    if number is not None:
        if number == signal.SIGKILL:
            return TqError(
                ErrorCode.OUT_OF_MEMORY, "ffmpeg was killed by the system, most likely for lack of memory"
            )
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return TqError(ErrorCode.ENCODER_SIGNAL, f"ffmpeg was terminated by {name}")
    status_errno = 256 - returncode
    if status_errno == errno.ENOSPC:
        return disk_full
    if any(pattern.search(log_tail) for pattern in _GPU_SESSION):
        return TqError(ErrorCode.GPU_BUSY, f"the GPU has no free encoder session: {reason}")
    if status_errno == errno.ENOMEM or _NO_MEMORY.search(log_tail):
        return TqError(ErrorCode.OUT_OF_MEMORY, f"ffmpeg could not allocate memory: {reason}")
    if status_errno in path_checks.LIMITS or _AT_LIMIT.search(log_tail) or _lacked_threads(log_tail):
        return TqError(ErrorCode.SYSTEM_LIMIT, f"ffmpeg could not start a thread or open a file: {reason}")
    if missing := _NOT_BUILT_IN.search(log_tail):
        return TqError(
            ErrorCode.FFMPEG_MISSING,
            f"this ffmpeg was built without the {missing[1] or missing[2]} {missing[3]}",
            "install one that has it, or unset TQSTUDIO_FFMPEG to use the one that comes with tqstudio",
        )
    return TqError(ErrorCode.ENCODER_EXIT, f"ffmpeg exited with status {returncode}: {reason}")


def _lacked_threads(log_tail: str) -> bool:
    """Whether x264 failed to open without a logged reason: it logs all reasons except a failed thread
    start."""
    before, failed, _ = log_tail.partition("Error while opening encoder")
    of_x264 = [line for line in before.splitlines() if "[libx264 @" in line or "x264 [" in line]
    return bool(failed and of_x264 and "] using cpu capabilities" in of_x264[-1])


def _signal_of(returncode: int, log_tail: str) -> int | None:
    """The number of the signal that terminated ffmpeg, or None."""
    if returncode < 0:
        return -returncode
    if 128 < returncode <= 128 + signal.SIGSYS:
        return returncode - 128  # from a shell that wraps ffmpeg
    # ffmpeg handles SIGTERM and SIGINT: it closes its files and logs the signal in its last line.
    handled = _HANDLED_SIGNAL.search(log_tail) if returncode == _STATUS_OF_SIGNAL else None
    return int(handled[1]) if handled else None


def from_os_error(error: OSError, doing: str) -> TqError:
    """Convert the OSError of a system call; `doing` starts the message."""
    hint = _READ_ONLY_HINT if error.errno == errno.EROFS else ""
    code = path_checks.CODES.get(error.errno or 0, ErrorCode.INTERNAL)
    return TqError(code, f"{doing}: {error.strerror or error}", hint)


def from_output_error(error: OSError, doing: str) -> TqError:
    """As `from_os_error`, for a file of the output: OUTPUT_UNAVAILABLE if its disk is missing or fails."""
    detail = f"{doing}: {error.strerror}"
    if error.errno == errno.EROFS:
        return TqError(
            ErrorCode.OUTPUT_UNAVAILABLE, detail, f"{_READ_ONLY_HINT}; the queue resumes automatically"
        )
    if error.errno in path_checks.FAILING:
        return TqError(ErrorCode.OUTPUT_UNAVAILABLE, detail, _FAILING_HINT)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return TqError(ErrorCode.OUTPUT_UNAVAILABLE, detail)
    return from_os_error(error, doing)


def _last_complaint(log_tail: str) -> str:
    """The last line of a log that names a cause; later lines mostly repeat that ffmpeg failed."""
    lines = [line.strip() for line in log_tail.splitlines() if line.strip()]
    own = [line for line in lines if not _SUMMARIES.search(line) and not _STATISTICS.search(line)]
    complaints = [line for line in own if _COMPLAINT.search(line)]
    chosen = (complaints or own or lines or ["its log is empty"])[-1]
    return _ADDRESS.sub("", chosen)[:300]
