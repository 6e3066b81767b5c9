"""Opens and checks source files, before any of their content is parsed."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import stat
from collections.abc import Iterator
from typing import NamedTuple

from tqstudio import path_checks
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display

# Demuxers of supported files. Playlists and scripts (hls, dash, concat, imf, sdp …) are excluded: a text file
# named x.mp4 must never make ffmpeg open another file or a URL. So are raw streams of video: they have no
# timestamps.
FORMATS = (
    "mov,matroska,mpegts,mpeg,avi,flv,asf,ogg,mxf,gxf,wtv,nut,ivf,dv,rm,yuv4mpegpipe,gif,"
    "mp3,aac,flac,wav,aiff"
)
PROTOCOLS = "file"
OPTIONS = {
    "protocol_whitelist": PROTOCOLS,
    "format_whitelist": FORMATS,
    # Slides change every few seconds, and a transport stream shows the size of the first when the second
    # begins: look for it in 90 s (ffmpeg's limit for FLV) instead of 7 s, in the same 5 MB at most.
    "analyzeduration": "90000000",
}
"""ffmpeg's options to open a source."""
_CHUNK_BYTES = 4 * 1024 * 1024


class FileId(NamedTuple):
    """Identifies one state of a file; equal as long as the file is not modified or replaced."""

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int


_open_sources: dict[bytes, int] = {}
"""Path → descriptor of sources that are kept open."""
_open_folders: dict[bytes, int] = {}
"""Path → descriptor of the folders of these sources."""
_DESCRIPTORS = b"/proc/self/fd/"
# O_PATH suffices to open files in a folder; not every system has it.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Never blocks on a FIFO that has no writer.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


@contextlib.contextmanager
def keep_open(path: bytes, below: bytes | None) -> Iterator[None]:
    """Keep a source and its folder open, so that all readers read this file even if another one replaces it.

    Messages and recorded commands still name its path; `to_open` returns what to open instead.

    Args:
        below: the drop folder that contains it: no symbolic link below it is followed. None for a file that
            a person named, which may be a link.

    Raises:
        TqError: as `check`; UNSUPPORTED if a path component below `below` is a symbolic link.
    """
    with _opened(path, below) as (descriptor, folder):
        _open_sources[path], _open_folders[path] = descriptor, folder
        try:
            yield
        finally:
            del _open_sources[path], _open_folders[path]


@contextlib.contextmanager
def opened(path: bytes, below: bytes | None) -> Iterator[int]:
    """Open a source for reading, with the arguments and errors of `keep_open`; yield its descriptor."""
    with _opened(path, below) as (descriptor, _):
        yield descriptor


@contextlib.contextmanager
def _opened(path: bytes, below: bytes | None) -> Iterator[tuple[int, int]]:
    """Open a source and its folder; yield their descriptors."""
    with contextlib.ExitStack() as opened:
        try:
            folder = os.open(_folder(path), _FOLDER) if below is None else _open_below(below, path)
            opened.callback(os.close, folder)
            name = os.path.basename(path)
            descriptor = os.open(path, _FILE) if below is None else _open_inner(name, _FILE, folder, path)
            opened.callback(os.close, descriptor)
        except OSError as error:
            raise unreadable(path, error) from error
        yield descriptor, folder


@contextlib.contextmanager
def folder_of(path: bytes) -> Iterator[int]:
    """Open the folder of a source to list it and to read its files: the one kept open with it, if it is."""
    kept = _open_folders.get(path)
    descriptor = os.open(_folder(path) if kept is None else b".", _LISTED, dir_fd=kept)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _folder(path: bytes) -> bytes:
    return os.path.dirname(path) or b"."


def _open_below(below: bytes, path: bytes) -> int:
    """Open the folder of a source, following no link below `below`."""
    *folders, _ = os.path.relpath(path, below).split(b"/")
    folder = os.open(below, _FOLDER)
    for inner in folders:
        outer = folder
        try:
            folder = _open_inner(inner, _FOLDER, outer, path)
        finally:
            os.close(outer)
    return folder


def _open_inner(name: bytes, flags: int, folder: int, path: bytes) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(name, folder):
            raise TqError(
                ErrorCode.UNSUPPORTED,
                f"{display(path)} was replaced by a symbolic link, or its folder was: links in drop folders"
                " are not followed",
                "put the file itself there, or add the target of the link: tqstudio add",
            ) from None
        raise


def _is_link(name: bytes, folder: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def descriptor_of(path: bytes) -> int | None:
    """The descriptor of a source that is kept open, for child processes to inherit; None if it is not."""
    return _open_sources.get(path) if os.path.isdir(_DESCRIPTORS) else None


def to_open(path: bytes) -> bytes:
    """The path to open for a source: that of its descriptor while it is kept open, valid in children too."""
    descriptor = descriptor_of(path)
    return path if descriptor is None else _DESCRIPTORS + str(descriptor).encode()


def with_path(output: bytes) -> bytes:
    """Replace `/proc/self/fd/N` by the path of the source in the output of a program."""
    shown = {str(descriptor).encode(): display(path).encode() for path, descriptor in _open_sources.items()}
    return re.sub(rb"/proc/self/fd/(\d+)", lambda found: shown.get(found[1], found[0]), output)


def url(path: bytes) -> str:
    """The `file:` URL of a path for ffmpeg and PyAV, so that `-y.mp4` or `http:x` is read as a file name."""
    return "file:" + os.fsdecode(os.path.abspath(path))


def check(path: bytes) -> os.stat_result:
    """Check that the path is a readable regular file that is not empty.

    Returns:
        Its stat result (of the target of a symbolic link).

    Raises:
        TqError: SOURCE_MISSING, SOURCE_EMPTY, PERMISSION, SOURCE_UNREADABLE; UNSUPPORTED if it is not a
            regular file; SOURCE_UNAVAILABLE, IO_ERROR, SYSTEM_LIMIT if the storage or the system failed.
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
    """The identity of a file from its stat result."""
    return FileId(found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns)


def state_of(path: bytes) -> FileId:
    """The identity of the file that is at this path now, with one stat call; raises as `unreadable`."""
    try:
        return identity_of(os.stat(path))
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: bytes, error: OSError) -> TqError:
    """Convert the OSError of a failed open, stat or read of a source to a TqError."""
    name = display(path)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        hint = "put the file back, then retry; or check the path"
        if os.path.islink(path):
            return TqError(ErrorCode.SOURCE_MISSING, f"{name} is a link to a file that does not exist", hint)
        return TqError(ErrorCode.SOURCE_MISSING, f"{name} does not exist", hint)
    if isinstance(error, PermissionError):
        return TqError(ErrorCode.PERMISSION, f"{name} may not be read")
    message = f"{name} cannot be read: {error.strerror or error}"
    if error.errno in path_checks.AWAY:
        return TqError(ErrorCode.SOURCE_UNAVAILABLE, message)
    if error.errno in path_checks.FAILING:
        return TqError(ErrorCode.IO_ERROR, message)
    if error.errno in path_checks.LIMITS:
        return TqError(ErrorCode.SYSTEM_LIMIT, message)
    return TqError(ErrorCode.SOURCE_UNREADABLE, message)


def encrypted(path: bytes, scheme: str) -> TqError:
    """The error of a source that is encrypted, by a scheme such as `cenc`."""
    return TqError(
        ErrorCode.UNSUPPORTED,
        f"{display(path)} is encrypted ({scheme}): it cannot be decoded without a key",
        "add a copy that is not encrypted",
    )


def require_readable(path: bytes) -> None:
    """Read the whole file, to tell a disk error (as `unreadable`) from a truncated file; ffmpeg does not."""
    with reading(path) as file:
        while file.read(_CHUNK_BYTES):
            pass


@contextlib.contextmanager
def reading(path: bytes) -> Iterator[io.FileIO]:
    """Open a source, the one that is kept open if it is; errors of the file system become `unreadable`."""
    try:
        with open(to_open(path), "rb", buffering=0) as file:
            yield file
    except OSError as error:
        raise unreadable(path, error) from error
