"""Spawns the supervisor's child processes and notices their end at once.

Only the event loop's thread may spawn them: the parent-death signal is sent when the *thread* that spawned
the child ends. `parent_death` is the child's side.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import psutil

from tqstudio.engine.host import orphan_processes
from tqstudio.engine.host.parent_death import PARENT

_PR_SET_CHILD_SUBREAPER = 36
_OWN_WAIT_S = 3.0


class Child:
    """A child process; as soon as it ends it is reaped and `exited` is set."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.exited = asyncio.Event()
        self._process = process
        self._pidfd = os.pidfd_open(process.pid)
        _ours[process.pid] = self
        asyncio.get_running_loop().add_reader(self._pidfd, self._on_exit)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdin(self) -> IO[bytes] | None:
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes] | None:
        return self._process.stdout

    @property
    def status(self) -> int:
        """Its exit status, negative for a signal; read it after `exited`."""
        return self._process.returncode or 0

    @property
    def how(self) -> str:
        """How it ended, for messages."""
        status = self._process.returncode
        if status is not None and status < 0:
            return f"was killed by {signal.Signals(-status).name}"
        return f"ended with status {status}" if status else "ended"

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended, whatever process has its pid now."""
        if not self.exited.is_set():
            with contextlib.suppress(ProcessLookupError, OSError):
                signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        """Kill it and its descendants, which live on if it is in uninterruptible I/O and survives SIGKILL."""
        self.signal(signal.SIGKILL)
        if not self.exited.is_set():
            with contextlib.suppress(psutil.Error):
                for descendant in psutil.Process(self.pid).children(recursive=True):
                    descendant.kill()

    def _on_exit(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._process.wait()
        del _ours[self.pid]
        self.exited.set()


_ours: dict[int, Child] = {}
_zombies: dict[int, float] = {}
"""When each ended process was first found."""
_marks: dict[str, str] = {}


def mark(store: str, home: Path) -> None:
    """Mark the processes spawned from now on, and their descendants, as ours; see `orphan_processes`."""
    _marks[orphan_processes.MARK] = orphan_processes.mark(store, home)


def spawn(
    module: str,
    *arguments: str,
    environment: Mapping[str, str],
    stderr: IO[bytes],
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
) -> Child:
    """Start one of our programs; call it in the event loop's thread.

    Args:
        module: the module to run, as with `python -m`.
        environment: variables added to our own environment.
        stdout: by default the same as stderr.

    Raises:
        OSError: the process cannot be created.
    """
    process = subprocess.Popen(
        # -P: a json.py in the working directory must not be imported.
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=stdin,
        stdout=stderr if stdout is None else stdout,
        stderr=stderr,
        env={**os.environ, **environment, **_marks, PARENT: str(os.getpid())},
        # Its own group, because Ctrl-C in the supervisor's terminal is handled by the supervisor.
        process_group=0,
    )
    return Child(process)


def become_subreaper() -> None:
    """Adopt the ffmpeg of a dead worker, so that no zombies remain in a container without an init."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_orphans() -> None:
    """Kill and reap descendants that were reparented to us because their parent, our child, died.

    The kernel ends most of them with their parent.
    """
    now = time.monotonic()
    earlier = dict(_zombies)
    _zombies.clear()
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error, ChildProcessError):
            if child.pid in _ours:
                continue
            if child.status() == psutil.STATUS_ZOMBIE:
                # A thread of ours may still have to read its exit status, as in a trial of ffmpeg on a GPU.
                since = _zombies[child.pid] = earlier.get(child.pid, now)
                if now - since > _OWN_WAIT_S:
                    os.waitpid(child.pid, os.WNOHANG)
            elif orphan_processes.mark_of(child.pid) == _marks.get(orphan_processes.MARK, ""):
                child.kill()
