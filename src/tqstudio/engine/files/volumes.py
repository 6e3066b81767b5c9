"""Measures the free space of file systems, and the size of unfinished work."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Volume:
    """The state of a file system: its device number, and the bytes free for this user."""

    device: int
    free: int
    files: int | None = None
    """Free inodes; None if the file system has no limit."""
    total: int = 0
    """Size in bytes; 0 if unknown."""

    def never_has(self, needed: int) -> bool:
        """Whether it is smaller than the bytes needed."""
        return 0 < self.total < needed


def volume_of(path: Path) -> Volume | None:
    """The volume where `path` is or will be; None if neither it nor a parent can be accessed."""
    for folder in (path, *path.parents):
        try:
            found = os.statvfs(folder)
            files = found.f_favail if found.f_files else None
            total = found.f_blocks * found.f_frsize
            return Volume(folder.stat().st_dev, found.f_bavail * found.f_frsize, files, total)
        except OSError:
            continue
    return None


def occupied_bytes(folder: Path) -> int:
    """The size of all files below a folder, ignoring those that disappear meanwhile."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_size
            except OSError:
                continue
    return total


def still_to_come(
    source_bytes: int, factor: float, max_bytes: int, made_bytes: int, files_bytes: int = 0
) -> int:
    """Estimate the bytes still to be written for the ladder of a source.

    Args:
        max_bytes: what its bit rates allow, see `rungs.max_ladder_bytes`; 0 if that is unknown.
        files_bytes: of files of the whole video, see `rungs.max_files_bytes`.
    """
    estimate = int(factor * source_bytes)
    return max(0, min(estimate, max_bytes or estimate) + files_bytes - made_bytes)
