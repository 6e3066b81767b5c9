"""Locks a home so that it has only one supervisor, and binds its socket."""

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
"""How often a supervisor checks its lock file and socket, and restores them."""
_TRIES = 10
_PAUSE_S = 0.01

FileIdentity = tuple[int, int]
"""Device and inode of a file, to detect another one under its name."""


class HomeLock:
    """The lock of a home; the kernel releases it when the supervisor's process ends in any way.

    Locks the folder itself, because people remove lock files that seem stale. Also locks a file, which
    contains the pid, because some file systems (NFS) cannot lock folders.
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
        if not (_try_lock_folder(self._folder) and self._take_file()):
            self.release()
            raise TqError(
                ErrorCode.ALREADY_RUNNING,
                f"a supervisor (pid {self._holder_pid()}) already runs in {self._root}",
            )

    @property
    def folder(self) -> FileIdentity:
        """Identity of the locked home, even if it was moved; call it while locked."""
        assert self._folder is not None
        found = os.fstat(self._folder)
        return found.st_dev, found.st_ino

    def keep(self) -> bool:
        """Restore the lock file if it was removed or replaced; False if another process has locked it."""
        assert self._file is not None
        found = os.fstat(self._file)
        return identity(self._path) == (found.st_dev, found.st_ino) or self._take_file()

    def _take_file(self) -> bool:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if is_ours := try_lock(descriptor):
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

    def _holder_pid(self) -> str:
        """The pid in the lock file, which its supervisor restores within `CHECK_S` if it was removed."""
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


def identity(path: Path) -> FileIdentity | None:
    """Identify the file at a path; None if there is none.

    Raises:
        OSError: it cannot be checked.
    """
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _try_lock_folder(descriptor: int) -> bool:
    """Like `try_lock`; True if the file system cannot lock folders, so that the lock file decides."""
    try:
        return try_lock(descriptor)
    except OSError:
        return True


def try_lock(descriptor: int) -> bool:
    """Lock a file; retries for a moment, because commands lock it briefly to check for a supervisor."""
    for left in reversed(range(_TRIES)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if left:
                time.sleep(_PAUSE_S)
    return False


def bind(path: Path) -> socket.socket:
    """Create a listening unix socket at `path` that only this user can open; call it while locked.

    It is bound in a private folder and renamed, so that no other user can connect before its mode is set, and
    a stale socket is replaced atomically.
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
