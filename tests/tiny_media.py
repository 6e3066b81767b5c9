"""Files of fragmented MP4 of a hundred bytes: whole boxes around any payload, that no decoder can decode."""

from __future__ import annotations

import struct

TIMESCALE = 1000
VIDEO_CODEC = "avc1.64001F"
AUDIO_CODEC = "mp4a.40.2"


def init(*, width: int = 640, height: int = 360, audio: bool = False) -> bytes:
    """An initialisation segment with one track of H.264 or AAC."""
    mdhd = _box(b"mdhd", bytes(12), struct.pack(">I", TIMESCALE), bytes(8))
    if audio:
        config = b"\x03\x16" + bytes(3) + b"\x04\x11\x40" + bytes(12) + b"\x05\x02\x10\x00"
        entry = _box(b"mp4a", bytes(28), _box(b"esds", bytes(4), config))
    else:
        size = bytes(24) + struct.pack(">HH", width, height) + bytes(50)
        entry = _box(b"avc1", size, _box(b"avcC", b"\x01\x64\x00\x1f"))
    stsd = _box(b"stsd", bytes(8), entry)
    minf = _box(b"minf", _box(b"stbl", stsd))
    return _box(b"moov", _box(b"trak", _box(b"mdia", mdhd, minf)))


def segment(number: int, payload: bytes = b"", *, seconds: float = 6.0) -> bytes:
    """A media segment with one sample; those before it are as long."""
    length = round(seconds * TIMESCALE)
    tfhd = _box(b"tfhd", struct.pack(">II", 0, 1))
    tfdt = _box(b"tfdt", struct.pack(">IQ", 1 << 24, number * length))
    trun = _box(b"trun", struct.pack(">IIII", 0x300, 1, length, len(payload)))
    return _box(b"moof", _box(b"traf", tfhd, tfdt, trun)) + _box(b"mdat", payload)


def _box(kind: bytes, *parts: bytes) -> bytes:
    payload = b"".join(parts)
    return struct.pack(">I4s", 8 + len(payload), kind) + payload
