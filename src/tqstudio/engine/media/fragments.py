"""Joins fragments into the segment that players load. The media is copied, not changed.

What ffmpeg writes for a fragment is a segment of its own: a type, an index of one entry, `moof` and `mdat`.
The joined one has a single type and a single index, with an entry for each fragment (ISO/IEC 14496-12,
8.16.3).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from tqstudio.engine.media import boxes

# Bytes of a `sidx` payload before its count of entries, by its version: times have 32 or 64 bits.
_BEFORE_COUNT = {0: 22, 1: 30}


def join(fragments: Sequence[Path], target: Path) -> None:
    """Write a segment of fragments that follow each other.

    Raises:
        boxes.Damage: one of them is not whole.
        OSError: as of the file system; FileNotFoundError where one of them is not there.
    """
    kind = b""
    indexes: list[bytes] = []
    media: list[bytes] = []
    for path in fragments:
        with path.open("rb") as file:
            for name, offset, length in boxes.top_level(file, file.seek(0, 2)):
                file.seek(offset)
                payload = file.read(length)
                if name == b"styp":
                    kind = kind or _box(name, payload)
                elif name == b"sidx":
                    indexes.append(payload)
                else:
                    media.append(_box(name, payload))
    index = _joined_index(indexes) if len(indexes) == len(fragments) else b""
    with target.open("wb") as file:
        file.writelines([kind, index, *media])


def _box(name: bytes, payload: bytes) -> bytes:
    if len(payload) + 8 < 1 << 32:
        return struct.pack(">I4s", len(payload) + 8, name) + payload
    return struct.pack(">I4sQ", 1, name, len(payload) + 16) + payload


def _joined_index(indexes: Sequence[bytes]) -> bytes:
    """The head of the first, which says where the segment begins, and the entries of all."""
    try:
        begins = [_BEFORE_COUNT[index[0]] for index in indexes]
    except (KeyError, IndexError):
        raise boxes.Damage("an index of a kind that is not known") from None
    entries = b"".join(index[begin + 2 :] for index, begin in zip(indexes, begins, strict=True))
    head = indexes[0][: begins[0]]
    return _box(b"sidx", head + struct.pack(">H", len(entries) // 12) + entries)
