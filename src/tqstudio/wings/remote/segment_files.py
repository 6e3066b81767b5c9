"""Reads and writes the segment store of a video for a worker of another machine. All functions may block."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tqstudio.engine.files import durable
from tqstudio.engine.media.check import digests
from tqstudio.engine.outputs.workspace import RECEIVED_NAME
from tqstudio.errors import ErrorCode, TqError

MAX_FILE_BYTES = 1 << 30
"""A segment of 6 s has some megabytes, a run of subtitles less."""
_ORIGIN = ".origin"
_MAX_DEPTH = 6
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class FilePart:
    """The place of some bytes in a file."""

    offset: int
    size: int
    """Size of the whole file in bytes."""
    blake3: str
    """BLAKE3 hash of the whole file."""


def names_of(path: str) -> tuple[str, ...]:
    """Split a path below the store.

    Raises:
        TqError: BAD_REQUEST for a path that leads elsewhere, or to a hidden file.
    """
    names = tuple(path.split("/"))
    if len(names) > _MAX_DEPTH or any(not name or name[0] == "." or "\0" in name for name in names):
        raise TqError(ErrorCode.BAD_REQUEST, f"{path[:200]!r} is no path of a segment store")
    return names


def origin(store: Path) -> str:
    """The identity of a store: a worker's copy of one that was emptied since is worthless."""
    try:
        return (store / _ORIGIN).read_text()
    except FileNotFoundError:
        durable.write(store / _ORIGIN, uuid.uuid4().hex.encode())
        durable.sync_folder(store)
        return (store / _ORIGIN).read_text()


def mark_received(store: Path) -> None:
    """Record durably that files of this store come from another machine."""
    if not (store / RECEIVED_NAME).exists():
        durable.write(store / RECEIVED_NAME, b"")
        durable.sync_folder(store)


def listing(store: Path) -> Iterator[str]:
    """The paths of all files of a store; hidden ones are unfinished."""
    for folder, folders, names in os.walk(store):
        folders[:] = [name for name in folders if name[0] != "."]
        for name in names:
            if name[0] != ".":
                yield os.path.relpath(os.path.join(folder, name), store)


def digest(path: Path) -> tuple[int, str]:
    """Size and BLAKE3 of a file."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb", buffering=0) as file:
        return os.fstat(file.fileno()).st_size, digests.of_open(file)


def read(path: Path, offset: int, length: int) -> bytes:
    """Some bytes of a file; fewer at its end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return read_all(descriptor, offset, length)
    finally:
        os.close(descriptor)


def read_all(descriptor: int, offset: int, length: int) -> bytes:
    """Some bytes of an open file; fewer at its end only."""
    found = b""
    while len(found) < length and (piece := os.pread(descriptor, length - len(found), offset + len(found))):
        found += piece
    return found


def require_equal(path: Path, part: FilePart) -> None:
    """Check that a file is stored with this content.

    Raises:
        TqError: OUTPUT_INVALID; OUTPUT_UNAVAILABLE if it is not stored yet: ask again.
    """
    try:
        is_equal = digest(path) == (part.size, part.blake3)
    except FileNotFoundError:
        text = f"{path.name} of the job's own worker is not here yet"
        raise TqError(ErrorCode.OUTPUT_UNAVAILABLE, text, "nothing to do: it is sent again") from None
    if not is_equal:
        raise TqError(ErrorCode.OUTPUT_INVALID, f"{path.name} differs from that of the job's own worker")


def receive(
    folder: Path, name: str, part: FilePart, body: bytes, *, writer: str = "", keep: bool = False
) -> None:
    """Append a part to a file; with the last one, check the file and give it its name, durably.

    A repeated part replaces itself.

    Args:
        writer: identifies the caller, because others may send parts of the same file.
        keep: never replace a file of that name.

    Raises:
        TqError: UPLOAD_DAMAGED: the file has another hash, or earlier parts of it are missing; send it again
            from its start.
    """
    temporary = folder / f".{name}.{writer}.part"
    file = os.open(temporary, _FLAGS, 0o666)
    try:
        if os.fstat(file).st_size < part.offset:
            with contextlib.suppress(FileNotFoundError):
                if digest(folder / name) == (part.size, part.blake3):
                    temporary.unlink()
                    return  # stored before, by a request whose answer was lost
            raise TqError(ErrorCode.UPLOAD_DAMAGED, f"earlier parts of {name} are missing")
        os.ftruncate(file, part.offset)
        at, view = part.offset, memoryview(body)
        while view:
            written = os.pwrite(file, view, at)
            view, at = view[written:], at + written
        if at < part.size:
            return
        os.fsync(file)
    finally:
        os.close(file)
    if digest(temporary) != (part.size, part.blake3):
        temporary.unlink()
        raise TqError(ErrorCode.UPLOAD_DAMAGED, f"{name} did not arrive as it was sent")
    if keep:
        with contextlib.suppress(FileExistsError):
            durable.link(temporary, folder / name)
        temporary.unlink()
    else:
        temporary.replace(folder / name)
    durable.sync_folder(folder)
