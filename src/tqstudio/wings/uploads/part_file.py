"""Keeps the bytes of an unfinished upload, in a private folder below the incoming files.

Scans do not enter that folder, because its name begins with a dot. All functions here may block.
"""

from __future__ import annotations

import contextlib
import filecmp
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from blake3 import blake3

from tqstudio.engine.files import dir_fd, durable

PARTS = ".uploads"
_CHUNK_BYTES = 4 * 1024 * 1024
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Shortened(Exception):
    """A part file lacks bytes that were acknowledged: it was changed or removed by hand."""


class PartFile:
    """An open part file.

    Args:
        incoming: the folder of the whole files.
        received: its durable bytes; what lies after them was never acknowledged, and is removed.

    Raises:
        Shortened: it has fewer.
        OSError: of the file system; NotOurs if the folder was replaced.
    """

    def __init__(self, incoming: Path, number: str, received: int) -> None:
        with _part(incoming, number) as path:
            # A file object, which closes itself if it comes too late for the request.
            self._file = os.fdopen(os.open(path, _FLAGS, 0o600), "r+b", buffering=0)
            try:
                if os.fstat(self._file.fileno()).st_size < received:
                    raise Shortened
                self._file.truncate(received)
                if not received:
                    durable.sync_folder(path.parent)
            except BaseException:
                self._file.close()
                raise

    def write(self, at: int, block: bytes | bytearray) -> None:
        view = memoryview(block)
        while view:
            written = os.pwrite(self._file.fileno(), view, at)
            view, at = view[written:], at + written

    def sync(self) -> None:
        os.fsync(self._file.fileno())

    def close(self, cut: int | None = None) -> None:
        """Close the file; with `cut`, leave only so many bytes of it."""
        try:
            if cut is not None:
                self._file.truncate(cut)
        finally:
            self._file.close()


def hash_of(incoming: Path, number: str, stop: Callable[[], bool]) -> str | None:
    """The BLAKE3 of a whole part file; None if `stop` returned True meanwhile."""
    hasher = blake3()
    with _part(incoming, number) as path, open(path, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK_BYTES):
            if stop():
                return None
            hasher.update(chunk)
    return hasher.hexdigest()


def reserve(incoming: Path, number: str, name: str) -> Path:
    """Give a whole file its name: the one wanted, or that with a number; durable at return.

    A file with this name and content counts as the same one. No other file is touched.
    """
    with _part(incoming, number) as part:
        for target in _numbered(incoming, name):
            try:
                _claim(part, target)
            except FileExistsError:
                if not _is_same(part, target):
                    continue
            durable.sync_folder(incoming)
            return target
    raise AssertionError("numbers do not end")


def _claim(part: Path, target: Path) -> None:
    try:
        os.link(part, target)
    except OSError as error:
        if error.errno not in durable.NO_LINKS:
            raise
        # `promote` puts the part in place of this empty file.
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def promote(incoming: Path, number: str, target: Path) -> None:
    """Leave a whole file under its reserved name alone; repeatable."""
    with contextlib.suppress(FileNotFoundError), _part(incoming, number) as part:
        part.lstat()
        if target.exists() and target.stat().st_size:
            part.unlink()
        else:
            os.replace(part, target)
        durable.sync_folder(part.parent)
        durable.sync_folder(incoming)


def remove(incoming: Path, number: str) -> None:
    """Remove a part file; a missing one is no error."""
    with contextlib.suppress(FileNotFoundError), _part(incoming, number) as part:
        part.unlink()


@contextlib.contextmanager
def _part(incoming: Path, number: str) -> Iterator[Path]:
    with dir_fd.hold(incoming, PARTS, make=True) as folder:
        yield folder / f"{number}.part"


def _numbered(incoming: Path, name: str) -> Iterator[Path]:
    stem, extension = os.path.splitext(name)
    yield incoming / name
    number = 2
    while True:
        yield incoming / f"{stem}-{number}{extension}"
        number += 1


def _is_same(part: Path, target: Path) -> bool:
    """Whether a name is that of the part file, or of a regular file with its content."""
    if target.is_symlink() or not target.is_file():
        return False
    return os.path.samefile(part, target) or filecmp.cmp(part, target, shallow=False)
