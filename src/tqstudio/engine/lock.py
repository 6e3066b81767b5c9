"""One supervisor per home: the lock that says so, and the socket that only it may bind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from pathlib import Path

from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home

BACKLOG = 256
_TRIES = 10
_PAUSE_S = 0.01


class HomeLock:
    """Held by the supervisor of a home for as long as its process lives; the kernel drops it on any death."""

    def __init__(self, home: Home) -> None:
        self._path = home.lock
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            TqError: ALREADY_RUNNING, naming the process that holds it.
        """
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _taken(descriptor):
            holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise TqError(
                ErrorCode.ALREADY_RUNNING,
                f"a supervisor (pid {holder}) runs in {self._path.parent} already",
            )
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _taken(descriptor: int) -> bool:
    """Take the lock, unless it is held for longer than commands need to see whether anybody holds it."""
    for left in reversed(range(_TRIES)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if left:
                time.sleep(_PAUSE_S)
    return False


def bind(path: Path) -> socket.socket:
    """A listening unix socket at `path` that only this user can open.

    It is bound under another name and renamed: between binding and its mode nobody can slip in, and a stale
    socket of a dead supervisor is replaced in one step. Call it with the lock held.
    """
    temporary = path.with_name(f".{os.getpid()}.sock")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        temporary.unlink(missing_ok=True)
        listener.bind(str(temporary))
        listener.listen(BACKLOG)
        temporary.rename(path)
    except BaseException:
        listener.close()
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    finally:
        os.umask(before)
    listener.setblocking(False)
    return listener
