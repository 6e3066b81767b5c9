"""When a file is complete, as far as looks can tell: one stat tuple at two looks, far enough apart."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple

BUSY_RETRY_S = 1.0
"""Between two looks at a file that a process holds open, at least; inotify tells its closing at once."""

FileKey = tuple[int, int]
"""(device, inode): what a file or directory is, whatever it is called."""

Stamp = tuple[int, int]
"""(size, mtime_ns): which state of a file the database knows."""


class FileStat(NamedTuple):
    """What one look at a file shows. Programs cannot set ctime, so a copy that keeps an old mtime shows."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, stat: os.stat_result) -> FileStat:
        return cls(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)

    @property
    def identity(self) -> FileKey:
        return (self.device, self.inode)

    @property
    def stamp(self) -> Stamp:
        return (self.size, self.mtime_ns)


@dataclass(slots=True)
class _Wait:
    look: FileStat
    ripe: float
    """From then on, one more look like this one shows that the file has settled."""
    again: float
    """When to look again if nothing happens before."""


class Settling:
    """The files of one folder that are being waited for. Times are seconds of any one monotonic clock."""

    def __init__(self, settle_s: float) -> None:
        self._settle_s = settle_s
        self._waits: dict[bytes, _Wait] = {}

    def __len__(self) -> int:
        return len(self._waits)

    def __contains__(self, path: bytes) -> bool:
        return path in self._waits

    def see(self, path: bytes, look: FileStat, at: float, *, complete: bool = False) -> bool:
        """Take in a look; whether the file has settled.

        Args:
            complete: the file was renamed into place, which programs do with what they have finished.
        """
        wait = self._waits.get(path)
        if wait is None or wait.look != look:
            ripe = at if complete else at + self._settle_s
            wait = self._waits[path] = _Wait(look, ripe, ripe)
        elif complete:
            wait.ripe = min(wait.ripe, at)
        return at >= wait.ripe

    def hold(self, path: bytes, at: float) -> None:
        """Wait on: the file looks settled, but a process has it open for writing."""
        wait = self._waits.get(path)
        if wait is not None:
            wait.again = at + max(self._settle_s, BUSY_RETRY_S)

    def forget(self, path: bytes) -> None:
        self._waits.pop(path, None)

    def keep(self, paths: set[bytes]) -> None:
        """Forget all files but these."""
        for path in self._waits.keys() - paths:
            del self._waits[path]

    def due(self, at: float) -> list[bytes]:
        """The files to look at again now."""
        return [path for path, wait in self._waits.items() if at >= wait.again]

    def next_due(self) -> float | None:
        """When the next file is to be looked at; None when none is waited for."""
        return min((wait.again for wait in self._waits.values()), default=None)
