"""Finds files that a process has open for writing, from /proc."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tqstudio.engine.intake.settling import FileKey


def open_for_writing(wanted: Mapping[FileKey, bytes]) -> set[FileKey]:
    """Return those of the given files that a process has open for writing.

    One pass over all file descriptors serves all files. Processes of other users, in other containers or on
    other machines may be invisible.
    """
    names = {os.path.basename(path) for path in wanted.values()}
    inodes = {inode for _, inode in wanted}
    found: set[FileKey] = set()
    for process in _listing("/proc"):
        if process.isdigit():
            for descriptor in _listing(f"/proc/{process}/fd"):
                identity = _writes_to(process, descriptor, names, inodes)
                if identity is not None and identity in wanted:
                    found.add(identity)
    return found


def _listing(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        # The process ended, or belongs to another user.
        return []


def _writes_to(process: str, descriptor: str, names: set[bytes], inodes: set[int]) -> FileKey | None:
    """The file of a descriptor that is open for writing, if it may be one of the wanted; else None.

    The file itself is checked last, and only if name or inode number fit: a stat of a file on a dead network
    mount never returns.
    """
    link = f"/proc/{process}/fd/{descriptor}"
    try:
        target = os.readlink(os.fsencode(link))
        if not target.startswith(b"/"):
            return None
        with open(f"/proc/{process}/fdinfo/{descriptor}", "rb") as lines:
            info = dict(line.split(b":", 1) for line in lines.read(512).splitlines() if b":" in line)
        if not int(info.get(b"flags", b"0"), 8) & os.O_ACCMODE:
            return None
        if os.path.basename(target) not in names and int(info.get(b"ino", b"0")) not in inodes:
            return None
        stat = os.stat(link)
    except (OSError, ValueError):
        return None
    return (stat.st_dev, stat.st_ino)
