"""Splits packets of H.264 and HEVC into NAL units, with start codes or with lengths before them."""

from __future__ import annotations

from collections.abc import Iterator

_START = b"\0\0\1"
PARAMETER_SETS = {"h264": frozenset({7, 8, 13, 15}), "hevc": frozenset({32, 33, 34})}
"""Types of units that say how pictures are coded, by codec."""
DELIMITERS = {"h264": frozenset({9, 12}), "hevc": frozenset({35, 38})}
"""Types of units that only separate pictures, or fill up."""
PICTURES = {"h264": range(1, 6), "hevc": range(32)}
"""Types of units with coded pictures."""
IDR = {"h264": frozenset({5}), "hevc": frozenset({19, 20})}
"""Types of pictures at which decoders can begin, and which no earlier picture is shown after."""


def length_bytes(codec: str, extradata: bytes) -> int:
    """Bytes of the length before each unit of a stream; 0 for start codes, as in MPEG-TS."""
    if not extradata or extradata[0] != 1:
        return 0
    return (extradata[4 if codec == "h264" else 21] & 3) + 1


def units(packet: bytes, length: int) -> Iterator[bytes]:
    """Split a packet into its units; `length` is `length_bytes`. A damaged packet ends early."""
    if not length:
        for part in packet.split(_START)[1:]:
            # The last byte of a unit is never zero: what follows is padding, or of a longer start code.
            if unit := part.rstrip(b"\0"):
                yield unit
        return
    at = 0
    while at + length < len(packet):
        size = int.from_bytes(packet[at : at + length], "big")
        at += length
        if size:
            yield packet[at : at + size]
        at += size


def kind(codec: str, unit: bytes) -> int:
    """The type of a unit."""
    return unit[0] & 31 if codec == "h264" else unit[0] >> 1 & 63
