"""Hashes of a source's bytes: a quick one that can prove it changed, a full one that settles doubt."""

from __future__ import annotations

import os
from collections.abc import Callable

from blake3 import blake3

from tqstudio.engine.media import source

SAMPLE_BYTES = 1024 * 1024
SAMPLES = 5
_CHUNK_BYTES = 4 * 1024 * 1024


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
    size = source.check(path).st_size
    hasher = blake3(f"{size}:".encode())
    try:
        with open(path, "rb", buffering=0) as file:
            if size <= SAMPLES * SAMPLE_BYTES:
                hasher.update(file.read())
            else:
                for number in range(SAMPLES):
                    offset = (size - SAMPLE_BYTES) * number // (SAMPLES - 1)
                    hasher.update(os.pread(file.fileno(), SAMPLE_BYTES, offset))
    except OSError as error:
        raise source.unreadable(path, error) from error
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
    source.check(path)
    # One thread: the hash runs beside an encode that wants the cores.
    hasher = blake3()
    try:
        with open(path, "rb", buffering=0) as file:
            while chunk := file.read(_CHUNK_BYTES):
                if stop is not None and stop():
                    raise Stopped
                hasher.update(chunk)
    except OSError as error:
        raise source.unreadable(path, error) from error
    return hasher.hexdigest()
