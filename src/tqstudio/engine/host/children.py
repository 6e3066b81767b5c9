"""The supervisor's own processes: spawned from the event loop's thread, seen at once when they end.

The thread matters: a parent-death signal fires when the *thread* that spawned the child ends, so no thread of
a pool may spawn. `engine/parent.py` is the child's side.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import psutil

from tqstudio.engine.host import orphan_processes
from tqstudio.engine.host.parent_death import PARENT


class Child:
    """A running process of ours; `exited` is set, and the process collected, as soon as it has ended."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.exited = asyncio.Event()
        self._process = process
        self._pidfd = os.pidfd_open(process.pid)
        _ours[process.pid] = self
        asyncio.get_running_loop().add_reader(self._pidfd, self._see_exit)

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
    def how(self) -> str:
        """How it ended, for people: what is said of it."""
        status = self._process.returncode
        if status is not None and status < 0:
            return f"was killed by {signal.Signals(-status).name}"
        return f"ended with status {status}" if status else "ended"

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; to a process that has ended it is not sent, whoever has its pid now."""
        if not self.exited.is_set():
            with contextlib.suppress(ProcessLookupError, OSError):
                signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        """End it with what it started: while it waits for a disk the kernel does not end it, and they live
        on as it does."""
        self.signal(signal.SIGKILL)
        if not self.exited.is_set():
            with contextlib.suppress(psutil.Error):
                for started in psutil.Process(self.pid).children(recursive=True):
                    started.kill()

    def _see_exit(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._process.wait()
        del _ours[self.pid]
        self.exited.set()


_ours: dict[int, Child] = {}
_marks: dict[str, str] = {}


def mark(store: str, home: Path) -> None:
    """Let what is spawned from now on, and all that it starts, be known as ours: see `orphans`."""
    _marks[orphan_processes.MARK] = orphan_processes.mark(store, home)


def spawn(
    module: str,
    *arguments: str,
    environment: Mapping[str, str],
    stderr: IO[bytes],
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
) -> Child:
    """Start one of our programs; call from the event loop's thread.

    Args:
        module: what runs, as of `python -m`.
        environment: what it gets besides our own environment.
        stdout: by default the same as stderr.

    Raises:
        OSError: the process cannot be made.
    """
    process = subprocess.Popen(
        # -P: a json.py in the working directory must not become the program's json.
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=stdin,
        stdout=stderr if stdout is None else stdout,
        stderr=stderr,
        env={**os.environ, **environment, **_marks, PARENT: str(os.getpid())},
        # Its own group: ctrl-c at the supervisor's terminal is for the supervisor to handle.
        process_group=0,
    )
    return Child(process)


def reap_orphans() -> None:
    """End and collect descendants that were handed to us because their parent, a child of ours, died first.

    The kernel ends most of them with their parent, where the system has `setpriv`.
    """
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error, ChildProcessError):
            if child.pid in _ours:
                continue
            if child.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(child.pid, os.WNOHANG)
            elif orphan_processes.mark_of(child.pid) == _marks.get(orphan_processes.MARK, ""):
                child.kill()
