"""How much room a file system has, and how much unfinished work takes up."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Volume:
    """A file system as it was found: its device number, and the bytes free for this user."""

    device: int
    free: int
    files: int | None = None
    """Files (inodes) that this user may still make; None where the file system sets no number."""
    total: int = 0
    """Bytes in all; 0 where that is not known."""

    def never_has(self, needed: int) -> bool:
        """Whether so many bytes would not be free even if it were empty."""
        return 0 < self.total < needed


def volume_of(path: Path) -> Volume | None:
    """The volume on which `path` is or will be; None when nothing of it can be looked at."""
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
    """Sizes of all files below a folder; what disappears meanwhile counts nothing."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_size
            except OSError:
                continue
    return total


def still_to_come(source_bytes: int, factor: float, made_bytes: int) -> int:
    """Bytes that the ladder of a source will take beside what is made of it already."""
    return max(0, int(factor * source_bytes) - made_bytes)
