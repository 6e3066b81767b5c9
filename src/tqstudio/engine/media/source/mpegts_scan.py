"""Finds where a transport stream changes the codec of a stream, by its tables, and where it is encrypted.

ffmpeg decodes each stream with one codec, usually that of the last table in the first seconds, and skips what
is encrypted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Literal

from tqstudio.engine.media.source.source_file import reading

_SYNC = b"G"
_PACKET = 188
_SIZES = (_PACKET, 192, 204)
"""Bytes from packet to packet: as broadcast, with times between them (M2TS), with error correction."""
_READ = 16_384 * _PACKET
_BEGINS = re.compile(rb"[\x40-\x7f]")
"""The second byte of packets in which a table or a frame begins."""
_SCRAMBLED = re.compile(rb"[\x80-\xff]")
"""Their fourth byte."""
_FEW = 10
"""Packets that may be marked so by an error."""
_PAT, _PMT = 0, 2
_PID, _LENGTH = 0x1FFF, 0xFFF
_POLYNOMIAL = 0x04C11DB7
_PRIVATE = 6
_TYPES = {
    "mpeg2video": (0x01, 0x02),
    "mp2": (0x03, 0x04),
    "aac": (0x0F,),
    "mpeg4": (0x10,),
    "aac_latm": (0x11,),
    "h264": (0x1B,),
    "hevc": (0x24,),
    "vvc": (0x33,),
    "ac3": (0x81, 0x84, 0x87),
    "truehd": (0x83,),
    "vc1": (0xEA,),
}
_CODECS = {kind: codec for codec, kinds in _TYPES.items() for kind in kinds}
"""Codec by type of stream, the same for those with one decoder; others are not compared."""
_DESCRIBED = {0x6A: "ac3", 0x7A: "ac3", 0x7B: "dts", 0x7C: "aac"}
"""Codec of a private stream by its descriptor (DVB)."""


Finding = Literal["codec", "encrypted"]


class TransportScan:
    """Reads some megabytes ahead of the packets, up to the first change of a codec.

    Args:
        path: of an MPEG-TS.
        pids: of the streams that are looked at.
    """

    def __init__(self, path: bytes, pids: Collection[int]) -> None:
        self._path, self._pids = path, pids
        self._at: int | None = 0
        """From where to read on; None at the end or after a change."""
        self._found: dict[Finding, int] = {}
        self._reported: set[Finding] = set()
        self._tables = {0: b""}
        """PID → the last table."""
        self._codecs: dict[int, str] = {}

    def before(self, position: float) -> set[Finding]:
        """What begins before this byte of the file, and was not returned yet.

        Raises TqError as `source_file.reading`.
        """
        while self._at is not None and self._at <= position:
            self._read(self._at)
        new = {what for what, at in self._found.items() if at <= position} - self._reported
        self._reported |= new
        return new

    def _read(self, at: int) -> None:
        with reading(self._path) as file:
            file.seek(at)
            content = file.read(_READ)
        begin, size = _first_packet(content)
        synced = content[begin::size]
        count = min(len(synced) - len(synced.lstrip(_SYNC)), (len(content) - begin) // size)
        self._at = at + begin + count * size if len(content) > 3 * size else None
        packets = content[begin : begin + count * size]
        if scrambled := self._scrambled(packets, size):
            self._found.setdefault("encrypted", at + begin + scrambled[0] * size)
        for number, pid, table in self._new_tables(packets, size):
            self._tables[pid] = table
            if pid == 0:
                pids = (_word(table, entry + 2) & _PID for entry in range(8, len(table) - 4, 4))
                self._tables |= {each: b"" for each in pids if each not in self._tables}
            elif self._differs(table):
                self._at, self._found["codec"] = None, at + begin + number * size
                return

    def _scrambled(self, packets: bytes, size: int) -> list[int]:
        """The numbers of the encrypted packets, unless they are few."""
        marked = (found.start() for found in _SCRAMBLED.finditer(packets[3::size]))
        numbers = [number for number in marked if _word(packets, number * size + 1) & _PID in self._pids]
        return numbers if len(numbers) > _FEW else []

    def _new_tables(self, packets: bytes, size: int) -> Iterator[tuple[int, int, bytes]]:
        """The valid tables in these packets that differ from the last one: number of packet, PID, table."""
        for found in _BEGINS.finditer(packets[1::size]):
            begin = found.start() * size
            pid = _word(packets, begin + 1) & _PID
            if pid not in self._tables:
                continue
            # The first byte is the distance to the table.
            content = _payload(packets, begin)
            table = content[1 + content[0] :] if content else b""
            for at in range(begin + size, len(packets), size):
                if len(table) >= _length(table):
                    break
                if _word(packets, at + 1) & _PID == pid:
                    table += _payload(packets, at)
            table = table[: _length(table)]
            is_whole = len(table) == _length(table)
            is_new = is_whole and table[0] == (_PMT if pid else _PAT) and table != self._tables[pid]
            if is_new and not _checksum(table):
                yield found.start(), pid, table

    def _differs(self, table: bytes) -> bool:
        """Whether a table of streams gives one of them another codec than the tables before."""
        at = 12 + (_word(table, 10) & _LENGTH)
        is_current = table[5] & 1
        while is_current and at < len(table) - 4:
            pid, length = _word(table, at + 1) & _PID, _word(table, at + 3) & _LENGTH
            codec = _codec(table[at], table[at + 5 : at + 5 + length])
            if codec and pid in self._pids and self._codecs.setdefault(pid, codec) != codec:
                return True
            at += 5 + length
        return False


def _first_packet(content: bytes) -> tuple[int, int]:
    """The first byte from which there are packets, and their distance."""
    at = content.find(_SYNC)
    while at >= 0:
        for size in _SIZES:
            if content[at : at + 2 * size + 1 : size] == 3 * _SYNC:
                return at, size
        at = content.find(_SYNC, at + 1)
    return len(content), _PACKET


def _payload(packets: bytes, at: int) -> bytes:
    control = packets[at + 3] >> 4
    begin = 5 + packets[at + 4] if control & 2 else 4
    return packets[at + begin : at + _PACKET] if control & 1 else b""


def _length(table: bytes) -> int:
    """Bytes of a table of which the first ones are known; at least those that are read of it."""
    return max(16, 3 + (_word(table, 1) & _LENGTH))


def _codec(kind: int, descriptors: bytes) -> str:
    """The codec of a stream; empty if it is not known."""
    while kind == _PRIVATE and len(descriptors) > 1:
        if descriptors[0] in _DESCRIBED:
            return _DESCRIBED[descriptors[0]]
        descriptors = descriptors[2 + descriptors[1] :]
    return _CODECS.get(kind, "")


def _word(content: bytes, at: int) -> int:
    return int.from_bytes(content[at : at + 2])


def _checksum(table: bytes) -> int:
    """CRC-32 of MPEG-2; 0 for a table with its own."""
    value = 0xFFFFFFFF
    for byte in table:
        value ^= byte << 24
        for _ in range(8):
            value = (value << 1 ^ (_POLYNOMIAL if value >> 31 else 0)) & 0xFFFFFFFF
    return value
