"""Looking at processes: what they cost, and which ffmpeg lives. Ends only what was started here."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

from tqstudio.engine.media.ffmpeg.process import start

T = TypeVar("T")
_POLL_S = 0.002


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a piece of work: seconds by the clock, and of all processors (user and system)."""

    wall_s: float
    cpu_s: float


def run(commands: Sequence[Sequence[str]], directory: Path, nice: int) -> Cost:
    """Run commands one after another.

    Raises:
        RuntimeError: one failed, with the end of its output.
    """
    began, before = time.perf_counter(), _children_cpu_s()
    for command in commands:
        ended = subprocess.run(
            ["nice", "-n", str(nice), *command],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            # As the product's: a kernel that schedules by session would treat them differently otherwise.
            start_new_session=True,
            check=False,
        )
        if ended.returncode:
            raise RuntimeError(f"{command[0]} failed: {ended.stderr.decode(errors='replace')[-2000:]}")
    return Cost(time.perf_counter() - began, _children_cpu_s() - before)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_s(pid: int) -> tuple[float, float]:
    """Processor seconds of a process, and of all its children that have ended."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system, times.children_user + times.children_system


def memory_mb(pid: int) -> float:
    """Resident memory in MB of 10⁶ bytes, shared libraries counted in full."""
    return float(psutil.Process(pid).memory_info().rss) / 1e6


def encoders(parent: int) -> list[int]:
    """The ffmpeg processes below a worker that encode; one that is asked for its version is none."""
    try:
        listed = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    except OSError:
        return []
    return [pid for pid in map(int, listed) if _encodes(pid)]


def _encodes(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        # Before the last exec it is still the program that sets the niceness.
        return b"ffmpeg" in os.path.basename(words[0]) and b"-i" in words
    except OSError:
        return False


def living(pids: Sequence[int]) -> list[int]:
    """Those that run; a process that has ended and is not collected yet does not."""
    return [pid for pid in pids if _lives(pid)]


def _lives(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def until(look: Callable[[], T], what: str, timeout_s: float = 30, every_s: float = _POLL_S) -> T:
    """Look again and again until there is something to see.

    Args:
        every_s: seconds between two looks. A look costs the supervisor some processor time, which what is
            measured meanwhile lacks.

    Raises:
        RuntimeError: there was nothing for `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not within {timeout_s:.0f} s")
        time.sleep(every_s)
    return found


@contextlib.contextmanager
def beside(command: Sequence[str], directory: Path, nice: int) -> Iterator[None]:
    """An ffmpeg that runs as long as this lasts, started as the product starts its own."""
    run = start(command, directory, directory / "beside.log", nice=nice)
    try:
        yield
        if run.poll() is not None:
            raise RuntimeError(f"{command[0]} was to run beside and ended: {run.log_tail()}")
    finally:
        run.kill()


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """This process's, without settings of tqstudio's but the choice of ffmpeg."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TQSTUDIO_") or k == "TQSTUDIO_FFMPEG"}
    return kept | dict(more)
