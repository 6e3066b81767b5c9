"""A file system that does not answer: mounted, and no process there that serves it."""

from __future__ import annotations

import ctypes
import fcntl
import os
import subprocess
from pathlib import Path

import pytest

_NODEV, _NOSUID = 4, 2


class HungMount:
    """Whoever asks this file system anything waits until `end`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        try:
            self._server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            pytest.skip(f"no file system can be made to hang here: {error}")
        libc = ctypes.CDLL(None, use_errno=True)
        options = f"fd={self._server},rootmode=40000,user_id=0,group_id=0".encode()
        if libc.mount(b"hung", os.fsencode(folder), b"fuse", _NODEV | _NOSUID, options):
            os.close(self._server)
            pytest.skip(f"no file system can be made to hang here: {os.strerror(ctypes.get_errno())}")
        self._mounted = True

    def leave(self) -> None:
        """The server goes and the mount stays: whoever asks gets the error that no server is connected."""
        os.close(self._server)
        self._server = -1

    def end(self) -> None:
        """What is below it can be seen again, and whoever waits gets the error that it is gone."""
        if self._mounted:
            subprocess.run(["umount", "--lazy", self.folder], check=True)
            self._mounted = False
        if self._server >= 0:
            os.close(self._server)
            self._server = -1


class HungDatabase:
    """A database that another process keeps locked: whoever reads or writes it waits, until `end`.

    SQLite gives up after 10 s and reports an error; the next call waits again.
    """

    _LOCKS = 120, 8
    """Where the locks of SQLite's write-ahead log are in its shared memory, and how many they are."""

    def __init__(self, database: Path) -> None:
        self._file = os.open(f"{database}-shm", os.O_RDWR | os.O_CLOEXEC)
        start, count = self._LOCKS
        fcntl.lockf(self._file, fcntl.LOCK_EX, count, start)

    def end(self) -> None:
        # Closing it releases the locks.
        os.close(self._file)

    def __enter__(self) -> HungDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
