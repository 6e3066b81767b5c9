"""Checks that files and outputs which entries name lie below `redis_roots`, and are reached without links.

A client that may write to Redis is not the user who runs the supervisor, and must not have it read or write
elsewhere. The root itself may be a link: it is a setting.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tqstudio.engine.files import dir_fd
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display, normal

_LINKS = (errno.ENOTDIR, errno.ELOOP)


def roots_of(setting: str) -> list[bytes]:
    """The folders of the setting `redis_roots`."""
    return [normal(os.fsencode(part.strip())) for part in setting.split(",") if part.strip()]


def require_source(path: bytes, root: bytes) -> None:
    """Check that a path below a root leads to a regular file.

    Raises:
        TqError: BAD_REQUEST for a link, UNSUPPORTED for what is no file, SOURCE_MISSING, PERMISSION;
            SOURCE_UNAVAILABLE if the root is missing, or IO_ERROR: it cannot be decided now.
    """
    if path == root:
        raise TqError(ErrorCode.UNSUPPORTED, f"{display(path)} is not a file")
    *folders, name = _names(path, root)
    with _as_tq_errors(path, root), dir_fd.hold(_path(root), *folders, any_owner=True) as folder:
        mode = os.lstat(folder / name).st_mode
    if stat.S_ISLNK(mode):
        raise _linked(path)
    if not stat.S_ISREG(mode):
        raise TqError(ErrorCode.UNSUPPORTED, f"{display(path)} is not a file")


def require_output(path: bytes, root: bytes) -> None:
    """Check that what exists of an output below a root are folders.

    Raises:
        TqError: BAD_REQUEST for a link, PERMISSION; SOURCE_UNAVAILABLE or IO_ERROR: it cannot be decided now.
    """
    try:
        with _as_tq_errors(path, root), dir_fd.hold(_path(root), *_names(path, root), any_owner=True):
            pass
    except TqError as error:
        if error.code is not ErrorCode.SOURCE_MISSING:  # it is created when it is needed
            raise


def root_of(path: bytes, roots: Sequence[bytes]) -> bytes:
    """The root that a path lies below, or is.

    Raises:
        TqError: BAD_REQUEST if there is none, or the path has dots or doubled slashes.
    """
    if path != normal(path):
        raise TqError(ErrorCode.BAD_REQUEST, f"{display(path)} is not an absolute path without dots")
    for root in roots:
        if path == root or path.startswith(root.rstrip(b"/") + b"/"):
            return root
    raise TqError(
        ErrorCode.BAD_REQUEST,
        f"{display(path)} lies below none of the folders of redis_roots",
        "add its folder to redis_roots, and restart the supervisor",
    )


def _names(path: bytes, root: bytes) -> list[str]:
    return [os.fsdecode(name) for name in path[len(root) :].split(b"/") if name]


def _path(root: bytes) -> Path:
    return Path(os.fsdecode(root))


@contextmanager
def _as_tq_errors(path: bytes, root: bytes) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, dir_fd.NotOurs) or error.errno in _LINKS:
            raise _linked(path) from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise TqError(ErrorCode.PERMISSION, f"{display(path)} cannot be accessed") from None
        if error.errno == errno.ENAMETOOLONG:
            raise TqError(ErrorCode.BAD_REQUEST, f"{display(path)} is too long a path") from None
        if error.errno != errno.ENOENT:
            raise TqError(ErrorCode.IO_ERROR, f"{display(path)}: {error.strerror}") from None
        if error.filename == os.fsdecode(root):
            raise TqError(ErrorCode.SOURCE_UNAVAILABLE, f"{display(root)} is missing") from None
        raise TqError(ErrorCode.SOURCE_MISSING, f"{display(path)} does not exist") from None


def _linked(path: bytes) -> TqError:
    return TqError(
        ErrorCode.BAD_REQUEST,
        f"{display(path)} is or contains a link, or leads through a file",
        "name the file by its own path, without links",
    )
