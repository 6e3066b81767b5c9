"""Processes that outlived their supervisor: known by a mark in their environment, and ended.

Parent-death signals end a worker with its supervisor, and an ffmpeg with its worker. What slips through (a
system without `setpriv`, a death between two system calls) still burns a processor and writes files, so the
next supervisor ends it. The mark names the database and the supervisor that was the process's root; whatever
has that supervisor still running is left alone, also under a copied home.
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
"""Names database, supervisor and home in the environment of workers, and so of all that they start: an ffmpeg
too, which gets none of the variables that begin with `TQSTUDIO_`."""

_PROC = Path("/proc")
_DEATH_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class Root:
    """A supervisor: its database, its pid and when it started, in the kernel's ticks since boot."""

    store: str
    pid: int
    started: int

    def __str__(self) -> str:
        return f"{self.store}:{self.pid}:{self.started}"

    @property
    def lives(self) -> bool:
        return _started(self.pid) == self.started


def root(store: str) -> Root:
    """This process, as the root of what it starts."""
    return Root(store, os.getpid(), _started(os.getpid()) or 0)


def mark(store: str, home: Path) -> str:
    """What is to be known of a process that this one starts."""
    return f"{root(store)}:{home}"


def end_orphans(store: str) -> list[int]:
    """End every process of this database whose supervisor is gone, and wait for their death; their pids."""
    ended = []
    with contextlib.ExitStack() as open_ones:
        for pid in _pids():
            if not _is_orphan(pid, store):
                continue
            with contextlib.suppress(OSError):
                pidfd = os.pidfd_open(pid)
                open_ones.callback(os.close, pidfd)
                # Looked at again: until the descriptor held it, the pid could have passed to another.
                if _is_orphan(pid, store):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                    ended.append((pid, pidfd))
        _wait_for_death([pidfd for _, pidfd in ended])
        return [pid for pid, _ in ended]


def mark_of(pid: int) -> str | None:
    """The mark in a process's environment; None without one, or when it is not ours to look at."""
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    wanted = MARK.encode() + b"="
    found = (entry for entry in environment.split(b"\0") if entry.startswith(wanted))
    return next((os.fsdecode(entry[len(wanted) :]) for entry in found), None)


def root_of(pid: int) -> Root | None:
    """The supervisor that a process was started by; None for one that is not ours to look at, or not ours."""
    store, _, rest = (mark_of(pid) or "").partition(":")
    owner, _, rest = rest.partition(":")
    started = rest.partition(":")[0]
    if not owner.isdigit() or not started.isdigit():
        return None
    return Root(store, int(owner), int(started))


def home_of(pid: int) -> str | None:
    """The home of the supervisor that a process was started by; None as of `root_of`."""
    named = (mark_of(pid) or "").split(":", 3)
    return named[3] if len(named) == 4 else None


def _is_orphan(pid: int, store: str) -> bool:
    found = root_of(pid)
    return found is not None and found.store == store and not found.lives


def _pids() -> Iterator[int]:
    with contextlib.suppress(OSError):
        yield from [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def _started(pid: int) -> int | None:
    """When a process started; None when it does not run any more."""
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
