"""How much room a file system has, and how much unfinished work takes up."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Volume:
    """A file system as it was looked at: its device number and free bytes."""

    device: int
    free: int


def volume_of(path: Path) -> Volume | None:
    """The volume on which `path` is or will be; None when nothing of it can be looked at."""
    for folder in (path, *path.parents):
        try:
            return Volume(folder.stat().st_dev, shutil.disk_usage(folder).free)
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
