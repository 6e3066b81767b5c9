"""Joins fragments into the segment that players load. The media is copied, not changed.

What ffmpeg writes for a fragment is a segment of its own: a type, an index of one entry, `moof` and `mdat`.
The joined one has a single type and a single index, with an entry for each fragment (ISO/IEC 14496-12,
8.16.3).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from tqstudio.engine.media.segments import boxes

# Bytes of a `sidx` payload before its count of entries, by its version: times have 32 or 64 bits.
_BEFORE_COUNT = {0: 22, 1: 30}
_COPY_BYTES = 1024 * 1024


def join(fragments: Sequence[Path], target: Path) -> None:
    """Write a segment of fragments that follow each other.

    Raises:
        boxes.Damage: one of them is not whole.
        OSError: as of the file system; FileNotFoundError where one of them is not there.
    """
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
    except (struct.error, IndexError) as damage:
        raise boxes.Damage(str(damage) or "a box is cut short") from damage


def _head(fragments: Sequence[Path]) -> tuple[bytes, bytes]:
    """The type of the first, and the index of all; no index where one of them has none."""
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
    """The head of the first, which says where the segment begins, and the entries of all."""
    try:
        begins = [_BEFORE_COUNT[index[0]] for index in indexes]
    except KeyError:
        raise boxes.Damage("an index of a kind that is not known") from None
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
            raise boxes.Damage("it became shorter while it was read")
        target.write(chunk)
        length -= len(chunk)
