"""Hashes the content of a source: quickly from samples, or fully where equal samples prove nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from blake3 import blake3

from tqstudio.engine.media.source import source_file
from tqstudio.engine.media.source.source_file import FileId
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display

SAMPLE_BYTES = 1024 * 1024
SAMPLES = 5
_CHUNK_BYTES = 4 * 1024 * 1024
_FULL_DIGITS = 32


class Digest(NamedTuple):
    """The full hash of a file, with the size and mtime that it had."""

    size: int
    mtime_ns: int
    full_hash: str


class Content(NamedTuple):
    """The result of comparing a file with its earlier content."""

    id: str
    """The quick hash; followed by `+` and the full hash where two versions have equal samples."""
    full_hash: str | None
    """None if it was not needed."""
    is_certain: bool
    """Whether every byte was compared; False if no full hash of the earlier version is known."""


class NotHashed(Exception):
    """A full hash is needed to decide whether a file changed; the caller has to compute it and retry."""


class HashingStopped(Exception):
    """Hashing was cancelled by `stop`."""


def quick_hash(path: bytes) -> str:
    """Hash the size and five samples of 1 MiB, spread evenly over the file: 64 hex digits (BLAKE3); some ms.

    A file of at most 5 MiB is hashed whole. Raises as `source_file.check`.
    """
    size = source_file.check(path).st_size
    with source_file.reading(path) as file:
        return quick_hash_of(file.fileno(), size)


def quick_hash_of(descriptor: int, size: int) -> str:
    """Hash an open file, which may be empty, as `quick_hash`."""
    hasher = blake3(f"{size}:".encode())
    if size <= SAMPLES * SAMPLE_BYTES:
        hasher.update(os.pread(descriptor, SAMPLES * SAMPLE_BYTES, 0))
    else:
        for number in range(SAMPLES):
            offset = (size - SAMPLE_BYTES) * number // (SAMPLES - 1)
            hasher.update(os.pread(descriptor, SAMPLE_BYTES, offset))
    return hasher.hexdigest()


def full_hash(path: bytes, stop: Callable[[], bool] | None = None) -> str:
    """Hash the whole file: 64 hex digits (BLAKE3); raises as `source_file.check`.

    `stop` is called every 4 MiB; if it returns True, HashingStopped is raised.
    """
    source_file.check(path)
    # BLAKE3 on one thread: the hash runs beside an encode that needs the cores.
    hasher = blake3()
    with source_file.reading(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            if stop is not None and stop():
                raise HashingStopped
            hasher.update(chunk)
    return hasher.hexdigest()


def digest(path: bytes, stop: Callable[[], bool] | None = None) -> Digest:
    """As `full_hash`, with the state before the hash: a file that is modified meanwhile does not match it."""
    found = source_file.check(path)
    return Digest(found.st_size, found.st_mtime_ns, full_hash(path, stop))


@dataclass(slots=True)
class Original:
    """A source in the state in which it was examined.

    Links, renames, owners and rights move its ctime, `touch` its mtime, without a change of content.
    """

    path: bytes
    identity: FileId
    samples: str
    """Its quick hash."""
    is_hashed: bool = False
    """Whether every byte was hashed before its mtime moved, so that a later hash can be compared."""
    _touched: FileId | None = None
    """Its newest state with other times and equal samples."""

    @classmethod
    def of(cls, path: bytes) -> Original:
        """Record the present state; raises as `source_file.check`."""
        return cls(path, source_file.identity_of(source_file.check(path)), quick_hash(path))

    def note_hashed(self) -> None:
        """Record that every byte was hashed; raises as `source_file.unreadable`."""
        self.is_hashed = source_file.state_of(self.path).mtime_ns == self.identity.mtime_ns

    def require_same(self) -> None:
        """Check with one stat call that it was not modified or replaced; by its samples if only times moved.

        Raises:
            TqError: SOURCE_CHANGED; as `source_file.unreadable`.
        """
        now = source_file.state_of(self.path)
        if now in (self.identity, self._touched):
            return
        if not self._is_touched(now):
            raise TqError(
                ErrorCode.SOURCE_CHANGED, f"{display(self.path)} changed while it was being transcoded"
            )
        self._touched = now

    def _is_touched(self, now: FileId) -> bool:
        before = self.identity
        if (now.size, now.inode) != (before.size, before.inode):
            return False
        is_read = self.is_hashed or now.size <= SAMPLES * SAMPLE_BYTES
        return (is_read or now.mtime_ns == before.mtime_ns) and quick_hash(self.path) == self.samples


def compare(path: bytes, known_id: str, known_hash: str | None, read: Callable[[], str]) -> Content:
    """Compare the content of a file with its recorded hashes.

    Args:
        known_id: the recorded content id.
        known_hash: the recorded full hash, if any.
        read: computes the full hash; called only if the samples are equal and do not cover the file.

    Raises:
        TqError: as `source_file.check`, and as `read`.
    """
    size, samples = source_file.check(path).st_size, quick_hash(path)
    if samples != known_id.partition("+")[0]:
        return Content(samples, None, is_certain=True)
    if size <= SAMPLES * SAMPLE_BYTES or known_hash is None:
        return Content(known_id, None, is_certain=size <= SAMPLES * SAMPLE_BYTES)
    whole = read()
    if whole != known_hash:
        return Content(f"{samples}+{whole[:_FULL_DIGITS]}", whole, is_certain=True)
    return Content(known_id, whole, is_certain=True)
