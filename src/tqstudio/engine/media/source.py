"""The file that is transcoded, before anything of it is parsed."""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from tqstudio.engine.media import disk_errors
from tqstudio.errors import ErrorCode, TqError
from tqstudio.sources import display

# Demuxers of files people drop. Playlists and scripts (hls, dash, concat, imf, sdp …) are not among them: a
# text file named x.mp4 must never make ffmpeg open another file or an address. Raw elementary streams are not
# either: they have no timestamps, on which everything after rests.
FORMATS = "mov,matroska,mpegts,mpeg,avi,flv,asf,ogg,mxf,gxf,wtv,nut,ivf,dv,rm,yuv4mpegpipe"
PROTOCOLS = "file"
_CHUNK_BYTES = 4 * 1024 * 1024


class Identity(NamedTuple):
    """What tells a file from any other that may bear its name; equal while nobody touches it."""

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int


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
        # Never blocks on a FIFO that nobody writes to.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
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


def identity_of(found: os.stat_result) -> Identity:
    return Identity(found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns)


def require_same(path: bytes, identity: Identity) -> None:
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
    if error.errno in disk_errors.AWAY:
        return TqError(ErrorCode.SOURCE_AWAY, message)
    if error.errno in disk_errors.FAILING:
        return TqError(ErrorCode.IO_ERROR, message)
    if error.errno in disk_errors.LIMITS:
        return TqError(ErrorCode.SYSTEM_LIMIT, message)
    return TqError(ErrorCode.SOURCE_UNREADABLE, message)


def require_readable(path: bytes) -> None:
    """Read the whole file: that it seems to end early may be its disk's doing.

    Raises:
        TqError: why it cannot be read.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            while file.read(_CHUNK_BYTES):
                pass
    except OSError as error:
        raise unreadable(path, error) from error
