"""Writing that outlives a power cut: a file is synced before it gets its name, a folder after."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path

NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EINVAL)
"""A file system without hard links (exFAT, some SMB) answers one of these."""
# Some network file systems cannot sync a folder, and one that may only be written to cannot be opened: there
# is nothing better to ask of them.
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES)


def write(path: Path, content: bytes) -> None:
    """Write a new file and sync it; its folder is the caller's to sync.

    A file that is there is removed, not written to: it may be a link to another file.
    """
    with os.fdopen(_create(path), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _create(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileExistsError:
        path.unlink()
        return os.open(path, flags, 0o666)


def read(path: Path) -> bytes:
    """Read a file of ours; a link in its place is not followed, and a pipe there holds nobody up.

    Raises:
        OSError: as of the file system; EINVAL where there is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "no regular file", str(path))
        return file.read()


def sync(path: Path) -> None:
    """Make what was written to a file durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def link(source: Path, target: Path) -> None:
    """A hard link, or a synced copy where the file system refuses links."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(source, flags), "rb") as old, os.fdopen(_create(target), "wb") as new:
            shutil.copyfileobj(old, new)
            new.flush()
            os.fsync(new.fileno())


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    try:
        sync(path)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise


def make_folder(path: Path) -> None:
    """Make a folder and those above it, with their names: what is synced in it later is then found."""
    new = [folder for folder in (path, *path.parents) if not folder.is_dir()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in new:
        sync_folder(folder.parent)


def sync_tree(root: Path) -> None:
    """Sync a folder and those in it; their files were synced when they were written."""
    for folder in [*(entry for entry in root.iterdir() if entry.is_dir()), root]:
        sync_folder(folder)


def discard(path: Path) -> None:
    """Remove a file or a folder with all that is in it; one that is not there is no error.

    Raises:
        OSError: something of it stays.
    """
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
