"""One supervisor per home: the locks that say so, and the socket that only it may bind."""

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
CHECK_S = 2.0
"""How often a supervisor looks whether its lock file and its socket are there, and makes them anew."""
_TRIES = 10
_PAUSE_S = 0.01

LockOwner = tuple[int, int]
"""Device and inode of a file: another one under its name is not the same."""


class HomeLock:
    """Held by the supervisor of a home for as long as its process lives; the kernel drops it on any death.

    The folder itself is locked, for a lock file is the first that people remove when something seems stale.
    The file is locked too: it names the process, and some file systems (NFS) lock no folders.
    """

    def __init__(self, home: Home) -> None:
        self._root, self._path = home.root, home.lock
        self._folder: int | None = None
        self._file: int | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            TqError: ALREADY_RUNNING, naming the process that holds it.
        """
        self._folder = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if not (_folder_taken(self._folder) and self._take_file()):
            self.release()
            raise TqError(
                ErrorCode.ALREADY_RUNNING,
                f"a supervisor (pid {self._named_holder()}) runs in {self._root} already",
            )

    @property
    def folder(self) -> LockOwner:
        """The home that is held, wherever it is now; call with the lock held."""
        assert self._folder is not None
        found = os.fstat(self._folder)
        return found.st_dev, found.st_ino

    def keep(self) -> bool:
        """Make the lock file anew if it was removed or replaced; False when somebody else holds that."""
        assert self._file is not None
        found = os.fstat(self._file)
        return identity(self._path) == (found.st_dev, found.st_ino) or self._take_file()

    def _take_file(self) -> bool:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if is_ours := taken(descriptor):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"{os.getpid()}\n".encode())
        except OSError:
            os.close(descriptor)
            raise
        if not is_ours:
            os.close(descriptor)
            return False
        if self._file is not None:
            os.close(self._file)
        self._file = descriptor
        return True

    def _named_holder(self) -> str:
        """The pid in the lock file, which the holder makes anew within `CHECK_S` if somebody removed it."""
        deadline = time.monotonic() + 2 * CHECK_S
        while True:
            with contextlib.suppress(OSError):
                if pid := self._path.read_text(errors="replace").strip():
                    return pid
            if time.monotonic() > deadline:
                return "unknown"
            time.sleep(_PAUSE_S)

    def release(self) -> None:
        for descriptor in (self._file, self._folder):
            if descriptor is not None:
                os.close(descriptor)
        self._file = self._folder = None


def identity(path: Path) -> LockOwner | None:
    """Which file is at a path; None when there is none.

    Raises:
        OSError: it cannot be looked at.
    """
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _folder_taken(descriptor: int) -> bool:
    """The same as `taken`; a file system that locks no folders leaves it to the lock file."""
    try:
        return taken(descriptor)
    except OSError:
        return True


def taken(descriptor: int) -> bool:
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

    It is bound in a private folder and renamed: between binding and its mode nobody can slip in, and a stale
    socket of a dead supervisor is replaced in one step. Call it with the lock held.
    """
    private = path.with_name(f".{os.getpid()}")
    inside = private / "s"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        private.mkdir(mode=0o700, exist_ok=True)
        inside.unlink(missing_ok=True)
        listener.bind(str(inside))
        inside.chmod(0o600)
        listener.listen(BACKLOG)
        inside.rename(path)
    except BaseException:
        listener.close()
        with contextlib.suppress(OSError):
            inside.unlink()
        raise
    finally:
        with contextlib.suppress(OSError):
            private.rmdir()
    listener.setblocking(False)
    return listener
