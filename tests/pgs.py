"""Writes PGS, the bitmap subtitles of Blu-ray discs, as a .sup file: one box in one colour at a time."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

WHITE = 235, 128, 128
"""Y, Cr, Cb."""


class Box(NamedTuple):
    """A box that is shown for a while."""

    from_s: float
    to_s: float
    x: int
    y: int
    width: int
    height: int
    forced: bool = False
    colour: tuple[int, int, int] = WHITE


def sup(boxes: Sequence[Box], canvas: tuple[int, int]) -> bytes:
    """A track with these boxes, which must not overlap in time."""
    shown = b""
    for number, box in enumerate(boxes):
        window = struct.pack(">BBHHHH", 1, 0, box.x, box.y, box.width, box.height)
        flags = 0x40 if box.forced else 0
        placed = struct.pack(">HBBHH", 0, 0, flags, box.x, box.y)
        rows = _row(box.width) * box.height
        picture = struct.pack(">HBB", 0, 0, 0xC0) + (len(rows) + 4).to_bytes(3, "big")
        parts = [
            (0x16, _composition(canvas, 2 * number, 0x80, 1) + placed),
            (0x17, window),
            (0x14, struct.pack(">BBBBBBB", 0, 0, 1, *box.colour, 255)),
            (0x15, picture + struct.pack(">HH", box.width, box.height) + rows),
            (0x80, b""),
        ]
        shown += b"".join(_segment(box.from_s, kind, payload) for kind, payload in parts)
        cleared = [(0x16, _composition(canvas, 2 * number + 1, 0, 0)), (0x17, window), (0x80, b"")]
        shown += b"".join(_segment(box.to_s, kind, payload) for kind, payload in cleared)
    return shown


def _composition(canvas: tuple[int, int], number: int, state: int, objects: int) -> bytes:
    return struct.pack(">HHBHBBBB", *canvas, 0x10, number, state, 0, 0, objects)


def _row(width: int) -> bytes:
    """A line in the colour 1, run-length encoded."""
    return struct.pack(">BHB", 0, 0xC000 | width, 1) + b"\0\0"


def _segment(at_s: float, kind: int, payload: bytes) -> bytes:
    return b"PG" + struct.pack(">IIBH", round(at_s * 90_000), 0, kind, len(payload)) + payload
