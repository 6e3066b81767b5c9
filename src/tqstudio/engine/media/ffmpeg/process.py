"""Starts ffmpeg processes, reads their progress, and kills them."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

from tqstudio.engine.media.ffmpeg import confine
from tqstudio.engine.media.ffmpeg.binary import environment
from tqstudio.engine.media.ffmpeg.errors import from_os_error
from tqstudio.engine.media.source import source_file
from tqstudio.errors import ErrorCode, TqError

_T = TypeVar("_T")
_LOG_TAIL_BYTES = 16 * 1024
_REAP_TIMEOUT_S = 10.0
_WAIT_POLL_S = 0.01
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PEAK_KB = re.compile(rb"^VmHWM:\s*(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Progress:
    """The latest complete block of `-progress`. Values that ffmpeg does not know yet are None."""

    frame: int | None = None
    """Frames written to the first video output in this run."""
    out_time_us: int | None = None
    """Output time in µs; negative at first, may decrease."""
    speed: float | None = None
    """Output seconds per second."""


class Run:
    """One running ffmpeg process. Create it with `start`, from a thread that outlives it."""

    def __init__(self, process: subprocess.Popen[bytes], argv: tuple[str, ...], log_path: Path) -> None:
        self.argv = argv
        """The ffmpeg command, without the program in front of it."""
        self.log_path = log_path
        self.started = time.monotonic()
        self.cpu_s = 0.0
        """Processor seconds that it has used, as of the last `poll`; exact once it has exited."""
        self.peak_memory = 0
        """Largest resident memory in bytes, as of the last `poll` while it ran; 0 before the first."""
        self._process = process
        self._progress = Progress()
        self._reader: threading.Thread | None = None
        if process.stdout is not None:
            self._reader = threading.Thread(
                target=self._read, args=(process.stdout,), name=f"progress-{process.pid}", daemon=True
            )
            self._reader.start()

    @property
    def pid(self) -> int:
        """The process id of ffmpeg."""
        return self._process.pid

    @property
    def progress(self) -> Progress:
        """The latest progress; empty before the first block."""
        return self._progress

    @property
    def bytes_read(self) -> int:
        """Bytes that it has read so far; 0 where the system does not provide it."""
        try:
            counters = Path(f"/proc/{self._process.pid}/io").read_bytes()
        except OSError:
            return 0
        return int(counters.split(b"\n", 1)[0].removeprefix(b"rchar: "))

    def poll(self) -> int | None:
        """The exit status (negative: the signal that terminated it), or None while it runs."""
        if self._process.returncode is None:
            self._measure()
            # Popen does not keep what the kernel counted.
            pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                self.cpu_s = used.ru_utime + used.ru_stime
                self._process.returncode = os.waitstatus_to_exitcode(status)
        return self._process.returncode

    def _measure(self) -> None:
        """Read what it has used so far.

        Of memory the kernel's final count is no use: it includes that of this process, from before the exec.
        """
        try:
            counters = Path(f"/proc/{self._process.pid}/stat").read_bytes().rpartition(b")")[2].split()
            peak = _PEAK_KB.search(Path(f"/proc/{self._process.pid}/status").read_bytes())
        except OSError:
            return
        self.cpu_s = (int(counters[11]) + int(counters[12])) / _TICKS_PER_S
        if peak:
            self.peak_memory = max(self.peak_memory, int(peak[1]) * 1024)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it exits and return the exit status; subprocess.TimeoutExpired after `timeout`."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() >= until:
                raise subprocess.TimeoutExpired(self.argv, timeout or 0)
            time.sleep(_WAIT_POLL_S)
        if self._reader is not None:
            # The pipe closes with ffmpeg; a grandchild of a wrapper may keep it open a little longer.
            self._reader.join(1.0)
        return status

    def kill(self) -> None:
        """Kill it and its process group with SIGKILL, and reap it. Idempotent.

        SIGTERM would take up to 12 s and leave a short last segment with its final name.
        """
        if self.poll() is None:
            # Kill the process group, because a wrapper script may run ffmpeg as a child.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            # Not by Popen, which would reap it first.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
        # A process in uninterruptible I/O (dead network mount) exits later.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(_REAP_TIMEOUT_S)

    def threads(self) -> list[str]:
        """What each of its threads does: its name and state, and where in the kernel it waits.

        ffmpeg names its threads after their work: `dec0:0:h264`, `mux1:hls`. Empty without /proc.
        """
        lines = []
        for thread in Path(f"/proc/{self._process.pid}/task").glob("*"):
            with contextlib.suppress(OSError):
                # `pid (name) state …`; the name may contain parentheses.
                name, _, rest = (thread / "stat").read_text().partition("(")[2].rpartition(")")
                lines.append(f"{name} {rest.split()[0]} {(thread / 'wchan').read_text()}".rstrip(" 0"))
        return lines

    def log_from(self, at: int) -> tuple[bytes, int]:
        """Read the complete lines of stderr from offset `at` on; returns them and the offset of their end."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(at)
                lines = log.read()
        except OSError:
            return b"", at
        lines = lines[: lines.rfind(b"\n") + 1]
        return lines, at + len(lines)

    def log_tail(self) -> str:
        """The last 16 KiB of ffmpeg's stderr as text; empty if its log does not exist."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
                return source_file.with_path(log.read()).decode(errors="replace")
        except OSError:
            return ""

    def _read(self, stream: IO[bytes]) -> None:
        block: dict[str, str] = {}
        with stream:
            for line in stream:
                key, _, value = line.decode(errors="replace").strip().partition("=")
                block[key] = value.strip()
                if key == "progress":
                    self._progress = parse_progress(block)
                    block = {}


def parse_progress(block: dict[str, str]) -> Progress:
    """Parse one `-progress` block (key → value, both as written)."""
    return Progress(
        frame=_number(int, block.get("frame", "")),
        out_time_us=_number(int, block.get("out_time_us", "")),
        speed=_number(float, block.get("speed", "").removesuffix("x")),
    )


def start(
    argv: Sequence[str],
    cwd: Path,
    log_path: Path,
    progress: bool = False,
    nice: int = 10,
    memory_limit: int | None = None,
    reads: bytes | None = None,
    confined: bool = False,
    largest: int = confine.MAX_FILE_BYTES,
) -> Run:
    """Start ffmpeg so that it is killed when this process dies, and return immediately.

    Call it from a thread that lives as long as the run: the parent-death signal also fires when the spawning
    thread ends.

    Args:
        argv: the ffmpeg command; with `progress` it must write `-progress pipe:1`.
        cwd: an existing directory, to which output names are relative.
        log_path: receives stderr (appended); an unread pipe would block ffmpeg.
        progress: read `-progress` blocks from stdout; otherwise stdout is discarded.
        nice: added to the niceness. At 0, two encodes make every other command four times slower.
        memory_limit: bytes of private memory; beyond it allocations fail (OUT_OF_MEMORY).
        reads: the source. While it is kept open (`source_file.keep_open`) ffmpeg gets its descriptor;
            `Run.argv` has its path.
        confined: let it see only `reads`, `cwd` and its libraries (`confine.py`), as far as the kernel can.
        largest: bytes of a file that a confined one may write.

    Raises:
        TqError: FFMPEG_MISSING; DISK_LOW, PERMISSION, OUT_OF_MEMORY or SYSTEM_LIMIT if the log cannot be
            written or the process not be started.
    """
    if shutil.which(argv[0]) is None:
        # Otherwise the program in front of it would start and fail instead.
        raise TqError(ErrorCode.FFMPEG_MISSING, f"{argv[0]} cannot be started: it is not an executable file")
    try:
        with log_path.open("ab") as log:
            process = subprocess.Popen(
                _confined(_with_descriptor(argv, reads), nice, reads, confined, largest),
                cwd=cwd,
                pass_fds=_descriptors(reads),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if progress else subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
                env=environment(),
            )
    except OSError as error:
        raise from_os_error(error, f"{argv[0]} cannot be started") from error
    _set_group_niceness(process.pid, nice)
    if memory_limit is not None and hasattr(resource, "prlimit"):
        # DATA counts private writable memory; AS would also count mapped files and fail far too early.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (memory_limit, memory_limit))
    try:
        return Run(process, tuple(argv), log_path)
    except RuntimeError as error:
        # The thread that reads progress could not be started.
        process.kill()
        process.wait()
        raise TqError(ErrorCode.SYSTEM_LIMIT, f"cannot read the progress of {argv[0]}: {error}") from None


def _with_descriptor(argv: Sequence[str], path: bytes | None) -> list[str]:
    """Replace the URL of a source that is kept open by that of its descriptor."""
    if path is None:
        return [*argv]
    named, opened = source_file.url(path), source_file.url(source_file.to_open(path))
    return [opened if word == named else word for word in argv]


def _descriptors(path: bytes | None) -> tuple[int, ...]:
    descriptor = None if path is None else source_file.descriptor_of(path)
    return () if descriptor is None else (descriptor,)


def _set_group_niceness(pid: int, nice: int) -> None:
    """Apply the niceness to the autogroup of ffmpeg's session: with autogroups, Linux's default, the niceness
    of a process counts only within its session."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))


def _confined(
    argv: Sequence[str],
    nice: int,
    reads: bytes | None,
    confine_it: bool,
    largest: int = confine.MAX_FILE_BYTES,
) -> list[str]:
    """The command with `confine.py` in front of it, which executes it: the pid is that of ffmpeg."""
    policy = {
        "parent": os.getpid(),
        "nice": nice,
        "confined": confine_it,
        "largest": largest,
        "reads": [] if reads is None else [os.fsdecode(source_file.to_open(reads))],
        "writes": ["."],
    }
    program = shutil.which(argv[0]) or argv[0]
    return [sys.executable, "-I", "-S", confine.__file__, json.dumps(policy), program, *argv[1:]]


@functools.cache
def can_be_confined(ffmpeg: str) -> bool:
    """Whether ffmpeg works where it sees nothing but the libraries of the system; takes 0.05 s.

    A script of the user does not count: it may need any file.
    """
    if not confine.is_program(ffmpeg):
        return False
    with tempfile.TemporaryDirectory(prefix="tqstudio-confined-") as scratch:
        command, none = _confined([ffmpeg, "-version"], 0, None, True), subprocess.DEVNULL
        return not subprocess.call(
            command, cwd=scratch, env=environment(), stdin=none, stdout=none, stderr=none
        )


def confinement_lacks(ffmpeg: str) -> str:
    """Say why encodes on the CPU are not confined, or not wholly; empty if they are."""
    if not confine.is_program(ffmpeg):
        return f"{ffmpeg} is a script, which may need any file"
    if not can_be_confined(ffmpeg):
        return f"{ffmpeg} needs more than the libraries of the system"
    lacks = confine.missing()
    return f"this system lacks {' and '.join(lacks)}" if lacks else ""


def require_confinement(ffmpeg: str) -> None:
    """Raise BAD_CONFIG if encodes on the CPU are not confined wholly."""
    if why := confinement_lacks(ffmpeg):
        raise TqError(
            ErrorCode.BAD_CONFIG,
            f"require_confinement is set, and ffmpeg cannot be confined: {why}",
            "set TQSTUDIO_FFMPEG to a program, use a kernel with Landlock, or leave require_confinement out",
        )


def _number(read: Callable[[str], _T], text: str) -> _T | None:
    try:
        return read(text)
    except ValueError:
        return None
