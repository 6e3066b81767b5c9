"""Decides when a file is complete: when its stat is unchanged for the settling time."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import NamedTuple

BUSY_RETRY_S = 1.0
"""Minimum between two checks of a file that a process has open; inotify reports its closing at once."""

FileKey = tuple[int, int]
"""(device, inode): identifies a file or directory independently of its name."""

Stamp = tuple[int, int]
"""(size, mtime_ns): the state of a file as the database stores it."""


class FileStat(NamedTuple):
    """The state of a file. ctime, which programs cannot set, detects copies that preserve the mtime."""

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
    settled_at: float
    """The file is complete if it is found unchanged from this time on."""
    check_at: float
    """When to check it again if no hint comes before."""


class Settling:
    """The files of one folder that are not complete yet. Times are seconds of a monotonic clock."""

    def __init__(self, settle_s: float) -> None:
        self._settle_s = settle_s
        self._waits: dict[bytes, _Wait] = {}

    def __len__(self) -> int:
        return len(self._waits)

    def __contains__(self, path: bytes) -> bool:
        return path in self._waits

    def see(self, path: bytes, look: FileStat, at: float, *, complete: bool = False) -> bool:
        """Record the state of a file; return whether it has settled.

        Args:
            complete: the file was renamed to its path, as programs do with finished files.
        """
        wait = self._waits.get(path)
        if wait is None or wait.look != look:
            settled_at = at if complete else at + self._settle_s
            wait = self._waits[path] = _Wait(look, settled_at, settled_at)
        elif complete:
            wait.settled_at = min(wait.settled_at, at)
        return at >= wait.settled_at

    def hold(self, path: bytes, at: float) -> None:
        """Postpone a settled file that a process has open for writing."""
        wait = self._waits.get(path)
        if wait is not None:
            wait.check_at = at + max(self._settle_s, BUSY_RETRY_S)

    def forget(self, path: bytes) -> None:
        self._waits.pop(path, None)

    def keep(self, paths: set[bytes]) -> None:
        """Forget all files but these."""
        for path in self._waits.keys() - paths:
            del self._waits[path]

    def due(self, at: float) -> list[bytes]:
        """The files to check again now."""
        return [path for path, wait in self._waits.items() if at >= wait.check_at]

    def next_due(self) -> float:
        """When the next file is to be checked; infinite if there is none."""
        return min((wait.check_at for wait in self._waits.values()), default=math.inf)
