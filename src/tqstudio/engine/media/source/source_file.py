"""The file that is transcoded, before anything of it is parsed."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from typing import NamedTuple

from tqstudio.engine.files import errnos
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display

# Demuxers of files people drop. Playlists and scripts (hls, dash, concat, imf, sdp …) are not among them: a
# text file named x.mp4 must never make ffmpeg open another file or an address. Raw elementary streams are not
# either: they have no timestamps, on which everything after rests.
FORMATS = "mov,matroska,mpegts,mpeg,avi,flv,asf,ogg,mxf,gxf,wtv,nut,ivf,dv,rm,yuv4mpegpipe"
PROTOCOLS = "file"
_CHUNK_BYTES = 4 * 1024 * 1024


class FileId(NamedTuple):
    """What tells a file from any other that may bear its name; equal while nobody touches it."""

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int


_held: dict[bytes, int] = {}
"""Descriptors of sources that are held open, by path."""
_DESCRIPTORS = b"/proc/self/fd/"
# Enough to find what is in a folder; not every system has it.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
# Never blocks on a FIFO that has no writer.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


@contextlib.contextmanager
def hold(path: bytes, below: bytes | None = None) -> Iterator[None]:
    """Open a source once: whoever reads it meanwhile reads this file, whatever is put in its place.

    Messages and recorded commands go on naming its path; `to_open` says what is opened instead.

    Args:
        below: the drop folder that it was found in: no link is followed from there on. None for a file that a
            person named, which may be a link.

    Raises:
        TqError: as `check`; UNSUPPORTED where a link is in the way.
    """
    try:
        descriptor = os.open(path, _FILE) if below is None else _open_below(below, path)
    except OSError as error:
        raise unreadable(path, error) from error
    _held[path] = descriptor
    try:
        yield
    finally:
        del _held[path]
        os.close(descriptor)


def _open_below(below: bytes, path: bytes) -> int:
    *folders, name = os.path.relpath(path, below).split(b"/")
    folder = os.open(below, _FOLDER)
    try:
        for inner in folders:
            outer, folder = folder, _open_inner(inner, _FOLDER, folder, path)
            os.close(outer)
        return _open_inner(name, _FILE, folder, path)
    finally:
        os.close(folder)


def _open_inner(name: bytes, flags: int, folder: int, path: bytes) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(name, folder):
            raise TqError(
                ErrorCode.UNSUPPORTED,
                f"{display(path)} is a link by now, or in a folder that is one: links in drop folders are not"
                " followed",
                "put the file itself there; or add what the link leads to: tqstudio add",
            ) from None
        raise


def _is_link(name: bytes, folder: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def descriptor_of(path: bytes) -> int | None:
    """The descriptor of a source that is held, for a child process that reads it; None where none is."""
    return _held.get(path) if os.path.isdir(_DESCRIPTORS) else None


def to_open(path: bytes) -> bytes:
    """What to open for a source: its descriptor while it is held, also in children that inherit that."""
    descriptor = descriptor_of(path)
    return path if descriptor is None else _DESCRIPTORS + str(descriptor).encode()


def with_path(said: bytes) -> bytes:
    """What a program said of a source that is held, with its path in the place of its descriptor."""
    shown = {str(descriptor).encode(): display(path).encode() for path, descriptor in _held.items()}
    return re.sub(rb"/proc/self/fd/(\d+)", lambda found: shown.get(found[1], found[0]), said)


def url(path: bytes) -> str:
    """The `file:` address of a path for ffmpeg and PyAV. A name such as `-y.mp4` or `http:x` stays a name."""
    return "file:" + os.fsdecode(os.path.abspath(path))


def check(path: bytes) -> os.stat_result:
    """Make sure the path is a readable regular file that is not empty.

    Returns:
        Its stat result (of what a symbolic link points to).

    Raises:
        TqError: SOURCE_MISSING, SOURCE_EMPTY, PERMISSION, SOURCE_UNREADABLE, UNSUPPORTED for what is no
            regular file; SOURCE_AWAY, IO_ERROR, SYSTEM_LIMIT where that says nothing of the file.
    """
    name = display(path)
    try:
        descriptor = os.open(to_open(path), _FILE)
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        facts = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if stat.S_ISDIR(facts.st_mode):
        raise TqError(
            ErrorCode.UNSUPPORTED,
            f"{name} is a folder",
            "add the files in it, or watch it: tqstudio folder add",
        )
    if not stat.S_ISREG(facts.st_mode):
        raise TqError(ErrorCode.UNSUPPORTED, f"{name} is not a regular file")
    if facts.st_size == 0:
        raise TqError(ErrorCode.SOURCE_EMPTY, f"{name} is empty")
    return facts


def identity_of(found: os.stat_result) -> FileId:
    return FileId(found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns)


def require_same(path: bytes, identity: FileId) -> None:
    """Make sure that the file is still the one it was. One stat call.

    Raises:
        TqError: SOURCE_CHANGED; SOURCE_MISSING and such when it is gone.
    """
    try:
        same = identity_of(os.stat(path)) == identity
    except OSError as error:
        raise unreadable(path, error) from error
    if not same:
        raise TqError(ErrorCode.SOURCE_CHANGED, f"{display(path)} changed while it was being transcoded")


def unreadable(path: bytes, error: OSError) -> TqError:
    """The error a person should read when the operating system refuses to open or read a source."""
    name = display(path)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        if os.path.islink(path):
            return TqError(ErrorCode.SOURCE_MISSING, f"{name} is a link to a file that does not exist")
        return TqError(ErrorCode.SOURCE_MISSING, f"{name} does not exist")
    if isinstance(error, PermissionError):
        return TqError(ErrorCode.PERMISSION, f"{name} may not be read")
    message = f"{name} cannot be read: {error.strerror or error}"
    if error.errno in errnos.AWAY:
        return TqError(ErrorCode.SOURCE_AWAY, message)
    if error.errno in errnos.FAILING:
        return TqError(ErrorCode.IO_ERROR, message)
    if error.errno in errnos.LIMITS:
        return TqError(ErrorCode.SYSTEM_LIMIT, message)
    return TqError(ErrorCode.SOURCE_UNREADABLE, message)


def require_readable(path: bytes) -> None:
    """Read the whole file: that it seems to end early may be its disk's doing.

    Raises:
        TqError: why it cannot be read.
    """
    try:
        with open(to_open(path), "rb", buffering=0) as file:
            while file.read(_CHUNK_BYTES):
                pass
    except OSError as error:
        raise unreadable(path, error) from error
