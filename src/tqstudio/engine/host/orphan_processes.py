"""Kills processes that outlived their supervisor, which are found by a mark in their environment.

Parent-death signals end a worker with its supervisor, and an ffmpeg with its worker. Others (those that
a script of the user starts, or after a death between two system calls) would still use CPU and write files,
so the next supervisor kills them. The mark names the database and the supervisor; processes whose supervisor
still runs, for instance in a copied home, are not touched.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MARK = "STARTED_BY_TQSTUDIO"
"""Environment variable with database, supervisor and home. Workers inherit it, and their ffmpeg, which gets
no variables that begin with `TQSTUDIO_`."""

_PROC = Path("/proc")
_DEATH_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class Root:
    """A supervisor: its database, pid, and start time in ticks since boot."""

    store: str
    pid: int
    started: int

    def __str__(self) -> str:
        return f"{self.store}:{self.pid}:{self.started}"

    @property
    def lives(self) -> bool:
        return _started(self.pid) == self.started


def root(store: str) -> Root:
    """Describe this process as a supervisor."""
    return Root(store, os.getpid(), _started(os.getpid()) or 0)


def mark(store: str, home: Path) -> str:
    """The mark for child processes of this process."""
    return f"{root(store)}:{home}"


def end_orphans(store: str) -> list[int]:
    """Kill every process of this database whose supervisor is dead, and wait for the end; return the pids.

    A script that a supervisor ran may have started this one, which then carries its mark.
    """
    ended = []
    with contextlib.ExitStack() as open_ones:
        for pid in _pids():
            if pid == os.getpid() or not _is_orphan(pid, store):
                continue
            with contextlib.suppress(OSError):
                pidfd = os.pidfd_open(pid)
                open_ones.callback(os.close, pidfd)
                # Checked again: the pid could have been reused before the pidfd was opened.
                if _is_orphan(pid, store):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                    ended.append((pid, pidfd))
        _wait_for_death([pidfd for _, pidfd in ended])
        return [pid for pid, _ in ended]


def mark_of(pid: int) -> str | None:
    """The mark in a process's environment; None without one, or if it may not be read."""
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    wanted = MARK.encode() + b"="
    found = (entry for entry in environment.split(b"\0") if entry.startswith(wanted))
    return next((os.fsdecode(entry[len(wanted) :]) for entry in found), None)


def root_of(pid: int) -> Root | None:
    """The supervisor that started a process; None if it is not ours or may not be read."""
    store, _, rest = (mark_of(pid) or "").partition(":")
    owner, _, rest = rest.partition(":")
    started = rest.partition(":")[0]
    if not owner.isdigit() or not started.isdigit():
        return None
    return Root(store, int(owner), int(started))


def home_of(pid: int) -> str | None:
    """The home of the supervisor that started a process; None as with `root_of`."""
    named = (mark_of(pid) or "").split(":", 3)
    return named[3] if len(named) == 4 else None


def _is_orphan(pid: int, store: str) -> bool:
    found = root_of(pid)
    return found is not None and found.store == store and not found.lives


def _pids() -> Iterator[int]:
    with contextlib.suppress(OSError):
        yield from [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def _started(pid: int) -> int | None:
    """The start time of a process in ticks since boot; None if it does not run."""
    try:
        state, *fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else int(fields[18])


def _wait_for_death(pidfds: list[int]) -> None:
    waiting, deadline = set(pidfds), time.monotonic() + _DEATH_TIMEOUT_S
    poll = select.poll()
    for pidfd in pidfds:
        poll.register(pidfd, select.POLLIN)
    while waiting and (left := deadline - time.monotonic()) > 0:
        for pidfd, _ in poll.poll(left * 1000):
            poll.unregister(pidfd)
            waiting.discard(pidfd)
