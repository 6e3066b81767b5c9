"""Measures the memory of the machine, or of the control group that limits this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil

_CGROUPS = Path("/sys/fs/cgroup")


def total() -> int:
    """Bytes that this process and its children may use at most, without swap."""
    return min([int(psutil.virtual_memory().total), *(limit for _, limit in _limited_groups())])


def available() -> int:
    """Bytes available without swapping."""
    found = [int(psutil.virtual_memory().available)]
    for group, limit in _limited_groups():
        try:
            used = int((group / "memory.current").read_text())
            kinds = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):
            continue
        # Cached files count as free.
        found.append(max(0, limit - used + int(kinds.get("inactive_file", 0))))
    return min(found)


def _limited_groups() -> Iterator[tuple[Path, int]]:
    """Our control group and its parents that limit memory, with the limit in bytes."""
    try:
        own = Path("/proc/self/cgroup").read_text().strip().rpartition("::")[2].lstrip("/")
    except OSError:
        return
    for group in (_CGROUPS / own, *(_CGROUPS / own).parents):
        if not group.is_relative_to(_CGROUPS):
            break
        try:
            limit = (group / "memory.max").read_text().strip()
        except OSError:
            continue
        if limit.isdigit():
            yield group, int(limit)
