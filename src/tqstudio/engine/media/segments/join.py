"""Joins fragments into one segment. The media is copied unchanged.

ffmpeg writes each fragment as a complete segment: `styp`, a `sidx` with one entry, `moof` and `mdat`. The
    joined segment has one `styp` and one `sidx` with an entry per fragment (ISO/IEC 14496-12, 8.16.3).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from tqstudio.engine.media.segments import boxes

# Offset of the entry count in a `sidx` payload by version: times have 32 or 64 bits.
_BEFORE_COUNT = {0: 22, 1: 30}
_COPY_BYTES = 1024 * 1024


def join(fragments: Sequence[Path], target: Path) -> None:
    """Write contiguous fragments as one segment; boxes.BoxError or FileNotFoundError if one is not whole."""
    try:
        kind, index = _head(fragments)
        with target.open("wb") as file:
            file.writelines([kind, index])
            for path in fragments:
                with path.open("rb") as fragment:
                    for name, offset, length in _boxes(fragment):
                        if name not in (b"styp", b"sidx"):
                            file.write(_header(name, length))
                            _copy(fragment, offset, length, file)
    except (struct.error, IndexError) as error:
        raise boxes.BoxError(str(error) or "a box is truncated") from error


def _head(fragments: Sequence[Path]) -> tuple[bytes, bytes]:
    """The `styp` of the first fragment and the joined `sidx`; empty if any fragment has none."""
    kinds: list[bytes] = []
    indexes: list[bytes] = []
    for path in fragments:
        with path.open("rb") as file:
            for name, offset, length in _boxes(file):
                if name == b"styp":
                    kinds.append(_header(name, length) + boxes.load(file, offset, length))
                elif name == b"sidx":
                    indexes.append(boxes.load(file, offset, length))
    index = _joined_index(indexes) if len(indexes) == len(fragments) else b""
    return kinds[0] if kinds else b"", index


def _joined_index(indexes: Sequence[bytes]) -> bytes:
    """The `sidx` with the header of the first one, which has the start time, and the entries of all."""
    try:
        begins = [_BEFORE_COUNT[index[0]] for index in indexes]
    except KeyError:
        raise boxes.BoxError("a sidx box of an unknown version") from None
    entries = b"".join(index[begin + 2 :] for index, begin in zip(indexes, begins, strict=True))
    payload = indexes[0][: begins[0]] + struct.pack(">H", len(entries) // 12) + entries
    return _header(b"sidx", len(payload)) + payload


def _boxes(file: BinaryIO) -> list[tuple[bytes, int, int]]:
    return boxes.top_level(file, file.seek(0, 2))


def _header(name: bytes, length: int) -> bytes:
    if length + 8 < 1 << 32:
        return struct.pack(">I4s", length + 8, name)
    return struct.pack(">I4sQ", 1, name, length + 16)


def _copy(source: BinaryIO, offset: int, length: int, target: BinaryIO) -> None:
    source.seek(offset)
    while length:
        chunk = source.read(min(length, _COPY_BYTES))
        if not chunk:
            raise boxes.BoxError("the file was truncated while it was read")
        target.write(chunk)
        length -= len(chunk)
