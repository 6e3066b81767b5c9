"""Moves a source without ever overwriting another file; at each moment it is whole in at least one place."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from blake3 import blake3

from tqstudio.engine.files import durable
from tqstudio.engine.host import failpoints
from tqstudio.engine.media.source.fingerprint import HashingStopped

_CHUNK_BYTES = 4 * 1024 * 1024


def move(
    source: Path, target: Path, copy: Path, *, require: Callable[[], None], stop: Callable[[], bool]
) -> None:
    """Move a file to a free name, durably; across file systems as a copy that is compared.

    An empty file at `target` counts as free: the name is reserved with one.

    Args:
        copy: the name of an unfinished copy beside the target; what has it is removed.
        require: called before the file is removed that was copied; raises if it has changed.
        stop: polled while it is copied.

    Raises:
        FileExistsError: something else is at `target`.
        HashingStopped: by `stop`.
        OSError: of the file systems; EIO if the copy differs.
    """
    durable.discard(copy)
    _reserve(target)
    try:
        failpoints.reach("removal.reserved")
        try:
            source.rename(target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy(source, copy, stop)
            failpoints.reach("removal.copied")
            require()
            copy.rename(target)
            durable.sync_folder(target.parent)
            failpoints.reach("removal.named")
            source.unlink()
    except BaseException:
        with contextlib.suppress(OSError):
            durable.discard(copy)
            if not target.lstat().st_size:
                target.unlink()
        raise
    durable.sync_folder(target.parent)
    durable.sync_folder(source.parent)


def _reserve(target: Path) -> None:
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        found = target.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size:
            raise


def _copy(source: Path, copy: Path, stop: Callable[[], bool]) -> None:
    with source.open("rb", buffering=0) as old, copy.open("xb", buffering=0) as new:
        read = _each(old.fileno(), stop, lambda part: _write(new.fileno(), part))
        shutil.copystat(source, copy)
        os.fsync(new.fileno())
    with copy.open("rb", buffering=0) as written:
        if hasattr(os, "posix_fadvise"):
            # So that it is read back from the disk.
            os.posix_fadvise(written.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if _each(written.fileno(), stop, lambda _: None) != read:
            raise OSError(errno.EIO, "the copy differs from the file", str(copy))


def _each(descriptor: int, stop: Callable[[], bool], use: Callable[[bytes], None]) -> bytes:
    """Use each part of a file; its digest."""
    hasher = blake3()
    while part := os.read(descriptor, _CHUNK_BYTES):
        if stop():
            raise HashingStopped
        hasher.update(part)
        use(part)
    return hasher.digest()


def _write(descriptor: int, part: bytes) -> None:
    while part:
        part = part[os.write(descriptor, part) :]
