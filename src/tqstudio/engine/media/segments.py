"""Reads the boxes of fragmented MP4, to tell whole segments from torn ones.

A segment that a killed ffmpeg left behind may be under its final name: on a full disk the hls muxer goes on,
renames what it could write and exits 0, and a run ended by SIGTERM leaves a short one. Sizes and the frame
count tell.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tqstudio.engine.media.grid import Grid
from tqstudio.engine.media.layout import INIT_NAME, segment_name

# Metadata boxes are a few kB; a size beyond this is damage, not a box to load.
_LARGEST_META = 64 * 1024 * 1024
_NON_SYNC = 0x00010000
_AAC_OBJECT_TYPE = 0x40


@dataclass(frozen=True, slots=True)
class Segment:
    """A whole media segment: one `moof`, one `mdat`, and every byte they declare."""

    frames: int
    """Samples in it: pictures, or audio frames."""
    tfdt: int
    """Decode time of the first sample, in units of the track's timescale."""
    duration: int
    """Sum of its sample durations, in the same units."""
    size: int
    """Bytes of the file."""
    keyframe: bool
    """It begins with a sync sample."""


@dataclass(frozen=True, slots=True)
class Init:
    """A whole initialisation segment of one track."""

    timescale: int
    """Units per second of the track."""
    codec: str
    """As CODECS of a playlist wants it, such as `avc1.640028` or `mp4a.40.2`."""
    width: int
    """Pixels; 0 for audio."""
    height: int


@dataclass(frozen=True, slots=True)
class Torn:
    """A file that is not whole."""

    reason: str


class _Damage(Exception):
    """A box does not add up."""


def inspect_segment(path: Path) -> Segment | Torn:
    """Read a media segment's boxes: its metadata only, some 0.1 ms.

    Raises:
        FileNotFoundError: when there is no such file.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            boxes = _top_level(file, size)
            fragments = [box for box in boxes if box[0] == b"moof"]
            media = [box for box in boxes if box[0] == b"mdat"]
            if len(fragments) != 1 or len(media) != 1:
                return Torn(f"{len(fragments)} moof and {len(media)} mdat boxes")
            samples = _fragment(_load(file, *fragments[0][1:]))
            if samples.bytes != media[0][2]:
                return Torn(f"its samples declare {samples.bytes} bytes, its mdat has {media[0][2]}")
    except (_Damage, struct.error, IndexError) as damage:
        return Torn(str(damage) or "a box is cut short")
    return Segment(samples.count, samples.tfdt, samples.duration, size, samples.keyframe)


def inspect_init(path: Path) -> Init | Torn:
    """Read an initialisation segment.

    Raises:
        FileNotFoundError: when there is no such file.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            moov = next((box for box in _top_level(file, size) if box[0] == b"moov"), None)
            if moov is None:
                return Torn("no moov box")
            return _track(_load(file, *moov[1:]))
    except (_Damage, struct.error, IndexError) as damage:
        return Torn(str(damage) or "a box is cut short")


def verified_prefix(directory: Path, grid: Grid, total_frames: int | None = None) -> int:
    """Count the segments from 0 on that are whole, on the grid, full, and joined without a gap.

    Args:
        directory: holds `init.mp4` and segments of one video stream.
        total_frames: the real count, when known; then the last, shorter segment counts too.
    """
    try:
        init = inspect_init(directory / INIT_NAME)
    except FileNotFoundError:
        return 0
    if isinstance(init, Torn):
        return 0
    k, ends_at = 0, None
    while total_frames is None or k < grid.segments_of(total_frames):
        try:
            segment = inspect_segment(directory / segment_name(k))
        except FileNotFoundError:
            break
        expected = grid.seg_frames if total_frames is None else grid.frames_in(k, total_frames)
        if (
            isinstance(segment, Torn)
            or segment.frames != expected
            or not segment.keyframe
            or not grid.on_grid(k, segment.tfdt, init.timescale)
            or (ends_at is not None and segment.tfdt != ends_at)
        ):
            break
        ends_at = segment.tfdt + segment.duration
        k += 1
    return k


@dataclass(frozen=True, slots=True)
class _Samples:
    count: int
    tfdt: int
    duration: int
    bytes: int
    keyframe: bool


def _top_level(file: BinaryIO, size: int) -> list[tuple[bytes, int, int]]:
    """(type, offset of the payload, bytes of the payload) of every box; they must fill the file exactly."""
    boxes = []
    offset = 0
    while offset < size:
        file.seek(offset)
        length, kind = struct.unpack(">I4s", file.read(8))
        header = 8
        if length == 1:
            (length,) = struct.unpack(">Q", file.read(8))
            header = 16
        if length < header or offset + length > size:
            raise _Damage(f"box {kind!r} at {offset} declares {length} of {size - offset} bytes")
        boxes.append((kind, offset + header, length - header))
        offset += length
    return boxes


def _load(file: BinaryIO, offset: int, length: int) -> bytes:
    if length > _LARGEST_META:
        raise _Damage(f"{length} bytes of metadata")
    file.seek(offset)
    return file.read(length)


def _children(data: bytes, start: int = 0) -> dict[bytes, bytes]:
    """Payloads of the boxes in a container box by type; of several alike, the first."""
    found: dict[bytes, bytes] = {}
    offset = start
    while offset + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, offset)
        if length < 8 or offset + length > len(data):
            raise _Damage(f"box {kind!r} does not fit its container")
        found.setdefault(kind, data[offset + 8 : offset + length])
        offset += length
    return found


def _child(boxes: dict[bytes, bytes], kind: bytes) -> bytes:
    if kind not in boxes:
        raise _Damage(f"no {kind.decode()} box")
    return boxes[kind]


def _fragment(moof: bytes) -> _Samples:
    traf = _children(_child(_children(moof), b"traf"))
    defaults = _fragment_defaults(_child(traf, b"tfhd"))
    tfdt = _child(traf, b"tfdt")
    (decode_time,) = struct.unpack_from(">Q" if tfdt[0] == 1 else ">I", tfdt, 4)
    trun = _child(traf, b"trun")
    flags = int.from_bytes(trun[1:4], "big")
    (count,) = struct.unpack_from(">I", trun, 4)
    offset = 8 + (4 if flags & 0x001 else 0)
    first_flags = defaults.flags
    if flags & 0x004:
        (first_flags,) = struct.unpack_from(">I", trun, offset)
        offset += 4
    # Which of the four per-sample fields are there, in the order of the specification.
    fields = [bit for bit in (0x100, 0x200, 0x400, 0x800) if flags & bit]
    duration = defaults.duration * count
    total_bytes = defaults.size * count
    if fields:
        entries = struct.unpack_from(f">{len(fields) * count}I", trun, offset)
        if 0x100 in fields:
            duration = sum(entries[fields.index(0x100) :: len(fields)])
        if 0x200 in fields:
            total_bytes = sum(entries[fields.index(0x200) :: len(fields)])
        if 0x400 in fields and count and not flags & 0x004:
            first_flags = entries[fields.index(0x400)]
    return _Samples(count, decode_time, duration, total_bytes, not first_flags & _NON_SYNC)


@dataclass(frozen=True, slots=True)
class _Defaults:
    duration: int
    size: int
    flags: int


def _fragment_defaults(tfhd: bytes) -> _Defaults:
    present = int.from_bytes(tfhd[1:4], "big")
    offset = 8 + (8 if present & 0x01 else 0) + (4 if present & 0x02 else 0)
    values = []
    for bit in (0x08, 0x10, 0x20):
        value = 0
        if present & bit:
            (value,) = struct.unpack_from(">I", tfhd, offset)
            offset += 4
        values.append(value)
    return _Defaults(*values)


def _track(moov: bytes) -> Init:
    mdia = _children(_child(_children(_child(_children(moov), b"trak")), b"mdia"))
    mdhd = _child(mdia, b"mdhd")
    (timescale,) = struct.unpack_from(">I", mdhd, 20 if mdhd[0] == 1 else 12)
    stsd = _child(_children(_child(_children(_child(mdia, b"minf")), b"stbl")), b"stsd")
    entry_kind, entry = next(iter(_children(stsd, 8).items()), (b"", b""))
    if entry_kind == b"avc1":
        width, height = struct.unpack_from(">HH", entry, 24)
        avcc = _child(_children(entry, 78), b"avcC")
        return Init(timescale, f"avc1.{avcc[1]:02X}{avcc[2]:02X}{avcc[3]:02X}", width, height)
    if entry_kind == b"mp4a":
        return Init(timescale, _aac_codec(_child(_children(entry, 28), b"esds")), 0, 0)
    raise _Damage(f"a track of type {entry_kind!r}")


def _aac_codec(esds: bytes) -> str:
    """RFC 6381: object type of the decoder configuration, then AAC's own, from the nested descriptors."""
    offset = 4
    while offset < len(esds):
        tag = esds[offset]
        offset += 1
        length = 0
        while True:  # seven bits a byte, the top bit says that another follows
            byte = esds[offset]
            offset += 1
            length = length << 7 | byte & 0x7F
            if not byte & 0x80:
                break
        if tag == 0x03:
            offset += 3
        elif tag == 0x04:
            if esds[offset] != _AAC_OBJECT_TYPE:
                return f"mp4a.{esds[offset]:02x}"
            offset += 13
        elif tag == 0x05:
            return f"mp4a.{_AAC_OBJECT_TYPE:x}.{esds[offset] >> 3}"
        else:
            offset += length
    raise _Damage("no decoder configuration in esds")
