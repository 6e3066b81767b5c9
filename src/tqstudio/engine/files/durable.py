"""Writes files so that they survive a power cut: syncs a file before it is renamed, and its folder after."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path

NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EINVAL)
"""Errors of file systems without hard links (exFAT, some SMB)."""
# Some network file systems cannot sync folders, and write-only folders cannot be opened.
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES)


def write(path: Path, content: bytes) -> None:
    """Write a new file and sync it; the caller syncs its folder.

    An existing file is removed rather than overwritten, because it may be a link to another file.
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
    """Read one of our files, without following links or blocking on a pipe.

    Raises:
        OSError: of the file system; EINVAL if it is not a regular file.
    """
    # With `os.fdopen` the descriptor of a folder, which it refuses, would stay open.
    with open(path, "rb", opener=_reading) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file.read()


def _reading(path: str, _: int) -> int:
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def sync(path: Path) -> None:
    """Sync the content of a file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def link(source: Path, target: Path) -> None:
    """Create a hard link, or a synced copy if the file system does not support links."""
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
    """Sync the entries of a folder."""
    try:
        sync(path)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise


def make_folder(path: Path) -> None:
    """Create a folder with its parents, and sync their names."""
    new = [folder for folder in (path, *path.parents) if not folder.is_dir()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in new:
        sync_folder(folder.parent)


def sync_tree(root: Path) -> None:
    """Sync a folder and its sub-folders; their files were synced when they were written."""
    for folder in [*(entry for entry in root.iterdir() if entry.is_dir()), root]:
        sync_folder(folder)


def discard(path: Path) -> None:
    """Remove a file, or a folder with its content; a missing one is no error.

    Raises:
        OSError: something could not be removed.
    """
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
