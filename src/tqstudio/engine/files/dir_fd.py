"""Folders below an output, held open while they are written to.

Other users who may write to an output can replace one of our folders by a link, or by a folder of theirs, at
any moment. So each folder on the way is opened without following links, and the last one is used through its
descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

_DESCRIPTORS = Path("/proc/self/fd")
# Enough to reach what is in a folder, also in one that may not be listed; not every system has it.
_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


class NotOurs(NotADirectoryError):
    """Something else is in the place of one of our folders."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(errno.ENOTDIR, why, str(path))


def shared_with(folder: Path) -> str:
    """Who besides us and root may put something into a folder, for people; empty where no other user may.

    Access lists are not looked at.

    Raises:
        OSError: it cannot be looked at.
    """
    try:
        found = folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    if found.st_uid not in (os.geteuid(), 0):
        return f"it belongs to another user (uid {found.st_uid})"
    if not others_may_write(found):
        return ""
    if not all(_others_may(stat.S_IXGRP, stat.S_IXOTH, above.stat()) for above in folder.resolve().parents):
        return ""  # others do not get there
    mode = stat.S_IMODE(found.st_mode)
    return f"{'everybody' if mode & stat.S_IWOTH else 'its group'} may write to it (mode {mode:04o})"


@contextlib.contextmanager
def hold(root: Path, *names: str, make: bool = False) -> Iterator[Path]:
    """A path to a folder below an output that leads to this very folder, whatever is put in its place.

    Good in this process alone.

    Args:
        root: the output; what it is a link to counts.
        names: of the folders from there on.
        make: make those that are missing.

    Raises:
        NotOurs: one of them is a link or no folder; or, where other users may write to the output, belongs to
            neither us nor the owner of the output.
        OSError: as of the file system.
    """
    if make:
        root.mkdir(parents=True, exist_ok=True)
    folder = os.open(root, _FLAGS)
    try:
        output = os.fstat(folder)
        trusted = {os.geteuid(), output.st_uid} if others_may_write(output) else None
        path = root
        for name in names:
            path /= name
            inner = _open(folder, name, path, make=make)
            os.close(folder)
            folder = inner
            if trusted is not None and os.fstat(folder).st_uid not in trusted:
                raise NotOurs(path, f"{path.name} belongs to another user")
        yield _DESCRIPTORS / str(folder) if _DESCRIPTORS.is_dir() else path
    finally:
        os.close(folder)


def _open(folder: int, name: str, path: Path, *, make: bool) -> int:
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
            _sync(folder)
    try:
        return os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise NotOurs(path, f"{path.name} is a link or no folder") from None
        error.filename = str(path)
        raise


def _sync(folder: int) -> None:
    # As `durable.sync_folder`: some file systems sync no folders.
    with contextlib.suppress(OSError):
        listed = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(listed)
        finally:
            os.close(listed)


def others_may_write(found: os.stat_result) -> bool:
    """Whether a user other than ours and root may change what was found, as far as owner and mode tell."""
    return found.st_uid not in (os.geteuid(), 0) or _others_may(stat.S_IWGRP, stat.S_IWOTH, found)


def _others_may(group: int, everybody: int, found: os.stat_result) -> bool:
    return bool(found.st_mode & everybody or (found.st_mode & group and not _is_own_group(found.st_gid)))


def _is_own_group(group: int) -> bool:
    """Whether a group is that of our user alone, as most systems make one for each user, or root's."""
    if group == 0:
        return True
    try:
        name, found = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_name == name and set(found.gr_mem) <= {name}
