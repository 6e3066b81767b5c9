"""Detects truncated files of formats that declare no duration (MPEG-TS), or none to rely on (others here).

Where a container declares its duration, `measure` detects truncation.
"""

from __future__ import annotations

import os
import re
from uuid import UUID

from tqstudio.engine.media.source.source_file import to_open

_TS_PACKET, _TS_SYNC, _TS_TAIL = 188, b"\x47", 512 * 1024
_HEAD = 64 * 1024
_FILE_PROPERTIES = UUID("8cabdca1-a947-11cf-8ee4-00c00c205365").bytes_le
"""GUID of the ASF object with the size of the file, at offset 40 of the object."""


def is_cut(path: bytes, container: str) -> bool:
    """Whether a file ends within a packet (MPEG-TS) or before the size in its header (AVI, ASF, WAV)."""
    match container:
        case "mpegts":
            return _ends_within_a_packet(path)
        case "avi" | "asf" | "wav":
            with open(to_open(path), "rb") as file:
                head = file.read(_HEAD)
                return file.seek(0, os.SEEK_END) < _declared_size(head)
        case _:
            return False


def _declared_size(head: bytes) -> int:
    """Size of an AVI, WAV or ASF file by its header; 0 if undeclared, as in live recordings."""
    if head.startswith(b"RIFF"):
        # In files above 1 GiB (OpenDML) this is the end of the first RIFF. An interrupted recorder leaves 0.
        size = int.from_bytes(head[4:8], "little")
        return size + 8 if 0 < size < 0xFFFFFFFF else 0
    at = head.find(_FILE_PROPERTIES)
    return int.from_bytes(head[at + 40 : at + 48], "little") if at >= 0 else 0


def mp3_length_s(path: bytes) -> float:
    """Read the seconds that an MP3 file declares; 0.0 if it has no Xing or Info header with them."""
    with open(to_open(path), "rb") as file:
        head = file.read(10)
        tag = sum((byte & 0x7F) << shift for byte, shift in zip(head[6:], (21, 14, 7, 0), strict=False))
        file.seek(10 + tag if head.startswith(b"ID3") else 0)
        frame = file.read(64)
    found = re.search(rb"(?:Xing|Info)...[\x01\x03\x05\x07\x09\x0b\x0d\x0f](.{4})", frame, re.DOTALL)
    if found is None or not frame.startswith(b"\xff"):
        return 0.0
    # MPEG-1 has twice the rate of MPEG-2, and frames twice as long; MPEG-2.5 half the rate.
    version, rate = frame[1] >> 3 & 3, (44_100, 48_000, 32_000, 0)[frame[2] >> 2 & 3]
    if not rate:
        return 0.0
    samples = int.from_bytes(found[1]) * 1152
    return samples / rate if version != 0 else 2 * samples / rate


def _ends_within_a_packet(path: bytes) -> bool:
    """Whether an MPEG-TS ends within a TS packet, or within a PES packet that declares its length."""
    with open(to_open(path), "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TS_TAIL))
        tail = file.read()
    at = next((n for n in range(_TS_PACKET) if tail[n::_TS_PACKET][:-1].strip(_TS_SYNC) == b""), None)
    if at is None:
        return False  # packets of 192 bytes (M2TS), or damaged
    missing: dict[int, int] = {}
    for start in range(at, len(tail) - _TS_PACKET + 1, _TS_PACKET):
        packet = tail[start : start + _TS_PACKET]
        pid, field = int.from_bytes(packet[1:3]) & 0x1FFF, packet[3] & 0x30
        payload = b"" if not field & 0x10 else packet[4:] if field == 0x10 else packet[5 + packet[4] :]
        if packet[1] & 0x40 and payload.startswith(b"\0\0\1"):
            length = int.from_bytes(payload[4:6])
            # Video may declare no length (0).
            missing[pid] = length + 6 if length else 0
        missing[pid] = missing.get(pid, 0) - len(payload)
    return (len(tail) - at) % _TS_PACKET != 0 or any(length > 0 for length in missing.values())
