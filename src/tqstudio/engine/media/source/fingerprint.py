"""Hashes of a source's bytes: a quick one that can prove it changed, a full one that settles doubt."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from blake3 import blake3

from tqstudio.engine.media.source import source_file

SAMPLE_BYTES = 1024 * 1024
SAMPLES = 5
_CHUNK_BYTES = 4 * 1024 * 1024
_FULL_DIGITS = 32


class Digest(NamedTuple):
    """The full hash of a file, and which state of the file it was computed from."""

    size: int
    mtime_ns: int
    full_hash: str


class Content(NamedTuple):
    """What a file holds, compared with what it held before."""

    id: str
    """The quick hash; where that does not tell two versions apart, the full hash behind a `+`."""
    full_hash: str | None
    """Where it had to be computed."""
    is_certain: bool
    """Whether every byte was compared; False where no full hash of the earlier version is known."""


class NotHashed(Exception):
    """Only a full hash tells whether a file changed, and who asks is to compute that first."""


class Stopped(Exception):
    """The hash was given up because `stop` said so."""


def quick_hash(path: bytes) -> str:
    """Hash the size and five samples of 1 MiB, the first at the start, the last ending at the end.

    A file of at most five samples is hashed whole. Reads 5 MiB: some ms.

    Returns:
        64 hex digits (BLAKE3).

    Raises:
        TqError: as `source.check`.
    """
    size = source_file.check(path).st_size
    hasher = blake3(f"{size}:".encode())
    try:
        with open(source_file.to_open(path), "rb", buffering=0) as file:
            if size <= SAMPLES * SAMPLE_BYTES:
                hasher.update(file.read())
            else:
                for number in range(SAMPLES):
                    offset = (size - SAMPLE_BYTES) * number // (SAMPLES - 1)
                    hasher.update(os.pread(file.fileno(), SAMPLE_BYTES, offset))
    except OSError as error:
        raise source_file.unreadable(path, error) from error
    return hasher.hexdigest()


def full_hash(path: bytes, stop: Callable[[], bool] | None = None) -> str:
    """Hash every byte, at memory speed when cached.

    Args:
        stop: asked every 4 MiB; True gives up.

    Returns:
        64 hex digits (BLAKE3).

    Raises:
        TqError: as `source.check`.
        Stopped: when `stop` returned True.
    """
    source_file.check(path)
    # One thread: the hash runs beside an encode that wants the cores.
    hasher = blake3()
    try:
        with open(source_file.to_open(path), "rb", buffering=0) as file:
            while chunk := file.read(_CHUNK_BYTES):
                if stop is not None and stop():
                    raise Stopped
                hasher.update(chunk)
    except OSError as error:
        raise source_file.unreadable(path, error) from error
    return hasher.hexdigest()


def digest(path: bytes, stop: Callable[[], bool] | None = None) -> Digest:
    """As `full_hash`; a file that is written to meanwhile does not match the state that is answered."""
    found = source_file.check(path)
    return Digest(found.st_size, found.st_mtime_ns, full_hash(path, stop))


def compare(path: bytes, known_id: str, known_hash: str | None, read: Callable[[], str]) -> Content:
    """Tell whether a file still holds what is known of it.

    Args:
        known_id: the content id it had.
        known_hash: the full hash it had, if that is known.
        read: computes the full hash; called only where the samples do not tell.

    Raises:
        TqError: as of `source.check`; whatever `read` raises.
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
