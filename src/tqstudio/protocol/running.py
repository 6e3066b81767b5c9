"""Says whether a supervisor has a home, and whether it listens, without asking it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tqstudio.home import Home


def holder(home: Home) -> int | None:
    """Return the pid of the home's supervisor, listening or not; 0 if its pid is unknown, None without one.

    Checks the kernel's lock rather than the pid, so a stale pid or a reused one is no problem.
    """
    if not (is_locked(home.root) or is_locked(home.lock)):
        return None
    try:
        pid = home.lock.read_text(errors="replace").strip()
    except OSError:
        return 0  # the file was removed; the supervisor creates it again shortly
    return int(pid) if pid.isdigit() else 0


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of a file or folder."""
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # the file system does not lock folders
    finally:
        os.close(descriptor)
    return False


def listening(home: Home) -> bool:
    """Whether a supervisor listens; returns at once, even when it is busy."""
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.2)
        try:
            probe.connect(str(home.socket))
        except BlockingIOError:
            # The listen queue is full.
            return True
        except OSError:
            return False
        return True
