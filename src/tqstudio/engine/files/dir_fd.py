"""Opens folders below an output for writing, safely against links planted by other users.

Users who may write to an output can replace one of our folders by a link, or by their own folder, at any
moment. So each folder of the path is opened without following links, and the last one is used through its
descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tqstudio.path_checks import others_may, others_may_write

WORK = ".tqstudio"
"""The folder of unfinished work in an output; only we may enter it."""
_DESCRIPTORS = Path("/proc/self/fd")
# O_PATH suffices to access entries, even of folders that may not be listed; not every system has it.
_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


class NotOurs(NotADirectoryError):
    """One of our folders was replaced."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(errno.ENOTDIR, why, str(path))


def shared_with(folder: Path) -> str:
    """Why users besides us and root may write to a folder, for display; empty if none may.

    Ignores access control lists.

    Raises:
        OSError: it cannot be checked.
    """
    try:
        found = folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    if found.st_uid not in (os.geteuid(), 0):
        return f"it belongs to another user (uid {found.st_uid})"
    if not others_may_write(found):
        return ""
    if not all(others_may(stat.S_IXGRP, stat.S_IXOTH, above.stat()) for above in folder.resolve().parents):
        return ""  # others cannot access it
    mode = stat.S_IMODE(found.st_mode)
    return f"{'everybody' if mode & stat.S_IWOTH else 'its group'} may write to it (mode {mode:04o})"


@contextlib.contextmanager
def hold(root: Path, *names: str, make: bool = False, any_owner: bool = False) -> Iterator[Path]:
    """Yield a path to a folder below an output that stays valid even if the folder is replaced.

    The path is only valid in this process.

    Args:
        root: the output; may be a link.
        names: the names of the folders below it.
        make: create missing folders.
        any_owner: use folders of other users too.

    Raises:
        NotOurs: one of them is a link or not a folder; or, if other users may write to the output, it belongs
            to neither us nor the owner of the output.
        OSError: of the file system.
    """
    if make:
        root.mkdir(parents=True, exist_ok=True)
    folder = os.open(root, _FLAGS)
    try:
        output = os.fstat(folder)
        trusted = {os.geteuid(), output.st_uid} if others_may_write(output) and not any_owner else None
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
            os.mkdir(name, 0o700 if name == WORK else 0o777, dir_fd=folder)
            _sync(folder)
    try:
        return os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise NotOurs(path, f"{path.name} is a link or not a folder") from None
        error.filename = str(path)
        raise


def _sync(folder: int) -> None:
    # Like `durable.sync_folder`: some file systems cannot sync folders.
    with contextlib.suppress(OSError):
        listed = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(listed)
        finally:
            os.close(listed)
