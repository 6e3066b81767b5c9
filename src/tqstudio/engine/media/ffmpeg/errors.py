"""Converts failures of ffmpeg and of system calls to errors with a code."""

from __future__ import annotations

import errno
import re
import signal

from tqstudio.engine.files import errnos
from tqstudio.errors import ErrorCode, TqError

_WRITABLE_AGAIN = "check the disk (dmesg tells why), and mount it for writing again"
_SOUND_AGAIN = "check the disk, its cable and its mount (dmesg tells more); the queue goes on by itself"

# The session limit of GeForce cards shows as one of these; "out of memory (10)" is NVENC's own status code.
_GPU_SESSION = (
    re.compile(r"OpenEncodeSessionEx failed: (?:out of memory|incompatible client key)", re.IGNORECASE),
    re.compile(r"CreateInputBuffer failed: out of memory", re.IGNORECASE),
)
_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_AT_LIMIT = re.compile(r"Too many open files|Resource temporarily unavailable")
_NO_MEMORY = re.compile(r"Cannot allocate memory|malloc of size \d+ failed|x264 .*malloc", re.IGNORECASE)
_NO_FILTER = re.compile(r"No such filter: '(\w+)'")
_STATUS_OF_SIGNAL = 255
_TOOK_SIGNAL = re.compile(r"^Exiting normally, received signal (\d+)\.\s*\Z", re.MULTILINE)
_COMPLAINT = re.compile(
    r"error|failed|invalid|cannot|could not|unable|no such|unknown|not found|denied", re.IGNORECASE
)
# The statistics that end a run, whose overhead is "unknown" for a muxer of many files.
_STATISTICS = re.compile(r"\bmuxing overhead: ")
_ADDRESS = re.compile(r" @ 0x[0-9a-f]+")


def classify_exit(returncode: int, log_tail: str) -> TqError:
    """Say what an exit status other than 0 means.

    The signal and the errno that recent ffmpeg puts into its status decide first; older ones exit 1 for
    everything, and then their messages decide.

    Args:
        returncode: as of `Run.poll`: negative for a signal.
        log_tail: the end of stderr, as of `Run.log_tail`.
    """
    said = _last_complaint(log_tail)
    disk_full = TqError(ErrorCode.DISK_LOW, "the disk became full while ffmpeg wrote to it")
    if returncode >= 0 and _DISK_FULL.search(log_tail):
        return disk_full
    number = _signal_of(returncode, log_tail)
    if number is not None:
        if number == signal.SIGKILL:
            return TqError(
                ErrorCode.OUT_OF_MEMORY, "ffmpeg was killed by the system, most likely for its memory"
            )
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return TqError(ErrorCode.ENCODER_SIGNAL, f"ffmpeg was ended by {name}")
    status_errno = 256 - returncode
    if status_errno == errno.ENOSPC:
        return disk_full
    if any(pattern.search(log_tail) for pattern in _GPU_SESSION):
        return TqError(ErrorCode.GPU_SESSION, f"the GPU has no free encoder session: {said}")
    if status_errno == errno.ENOMEM or _NO_MEMORY.search(log_tail):
        return TqError(ErrorCode.OUT_OF_MEMORY, f"ffmpeg could not get the memory it needs: {said}")
    if status_errno in errnos.LIMITS or _AT_LIMIT.search(log_tail) or _lacked_threads(log_tail):
        return TqError(ErrorCode.SYSTEM_LIMIT, f"ffmpeg could not start a thread or open a file: {said}")
    if missing := _NO_FILTER.search(log_tail):
        return TqError(
            ErrorCode.FFMPEG_MISSING,
            f"this ffmpeg was built without the filter {missing[1]}",
            "install one that has it, or unset TQSTUDIO_FFMPEG to use the one that comes with tqstudio",
        )
    return TqError(ErrorCode.ENCODER_EXIT, f"ffmpeg ended with status {returncode}: {said}")


def _lacked_threads(log_tail: str) -> bool:
    """Whether x264 failed to open without a reason: it names every other one but that it got no thread."""
    before, failed, _ = log_tail.partition("Error while opening encoder")
    of_x264 = [line for line in before.splitlines() if "[libx264 @" in line or "x264 [" in line]
    return bool(failed and of_x264 and "] using cpu capabilities" in of_x264[-1])


def _signal_of(returncode: int, log_tail: str) -> int | None:
    """The number of the signal that ended ffmpeg; None where none did."""
    if returncode < 0:
        return -returncode
    if 128 < returncode <= 128 + signal.SIGSYS:
        return returncode - 128  # of a shell between us and ffmpeg
    # SIGTERM and SIGINT it takes itself: it closes its files, and says so in its last line.
    taken = _TOOK_SIGNAL.search(log_tail) if returncode == _STATUS_OF_SIGNAL else None
    return int(taken[1]) if taken else None


def from_os_error(error: OSError, doing: str) -> TqError:
    """The error for an operating system call of ours that failed while `doing` something."""
    detail = f"{doing}: {error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return TqError(ErrorCode.DISK_LOW, detail)
    if error.errno == errno.ENOMEM:
        return TqError(ErrorCode.OUT_OF_MEMORY, detail)
    if error.errno in errnos.LIMITS:
        return TqError(ErrorCode.SYSTEM_LIMIT, detail)
    if error.errno in (errno.EACCES, errno.EPERM):
        return TqError(ErrorCode.PERMISSION, detail)
    if error.errno == errno.EROFS:
        return TqError(ErrorCode.IO_ERROR, detail, _WRITABLE_AGAIN)
    if error.errno in errnos.FAILING:
        return TqError(ErrorCode.IO_ERROR, detail)
    return TqError(ErrorCode.INTERNAL, detail)


def from_output_error(error: OSError, doing: str) -> TqError:
    """As `from_os_error`, of a call on a file in the output folder, which is as good as gone without it."""
    detail = f"{doing}: {error.strerror}"
    if error.errno == errno.EROFS:
        return TqError(ErrorCode.OUTPUT_GONE, detail, f"{_WRITABLE_AGAIN}; the queue goes on by itself")
    if error.errno in errnos.FAILING:
        return TqError(ErrorCode.OUTPUT_GONE, detail, _SOUND_AGAIN)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return TqError(ErrorCode.OUTPUT_GONE, detail)
    return from_os_error(error, doing)


def _last_complaint(log_tail: str) -> str:
    """The last line that names a cause; the lines after it mostly repeat that ffmpeg gave up."""
    lines = [line.strip() for line in log_tail.splitlines() if line.strip()]
    complaints = [
        line
        for line in lines
        if _COMPLAINT.search(line) and line != "Conversion failed!" and not _STATISTICS.search(line)
    ]
    chosen = (complaints or lines or ["it said nothing"])[-1]
    return _ADDRESS.sub("", chosen)[:300]
