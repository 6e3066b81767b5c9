"""Parses the boxes of fragmented MP4 (ISO/IEC 14496-12) that segments contain.

All functions raise `BoxError`, `struct.error` or `IndexError` for malformed data.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import BinaryIO, NamedTuple

HEADER_BYTES = 8
"""Size of the header of a box smaller than 4 GiB."""
# Metadata boxes have a few kB; a larger size than this is damage.
_LARGEST_META = 64 * 1024 * 1024
_NON_SYNC = 0x00010000
_AAC_OBJECT_TYPE = 0x40
# Per-sample fields of a trun, in the order of the specification.
_DURATION, _SIZE, _FLAGS, _COMPOSITION = 0x100, 0x200, 0x400, 0x800


class BoxError(Exception):
    """A box is malformed or missing."""

    def __init__(self, reason: str, *, empty: bool = False) -> None:
        super().__init__(reason)
        self.empty = empty
        """The boxes are complete but contain no media, as when ffmpeg has written no frame."""


class KeyFrame(NamedTuple):
    """A key frame that begins a fragment, and the bytes of the file that suffice to decode it."""

    offset: int
    """Offset of its `moof` in the file."""
    size: int
    """From there to the end of the picture."""
    duration: int
    """Until the next fragment."""


@dataclass(frozen=True, slots=True)
class Segment:
    """An intact media segment or fragment: complete boxes, contiguous fragments.

    A fragment is one `moof` and one `mdat`. Times are in units of the track's timescale.
    """

    frames: int
    """Number of samples: pictures, or audio frames."""
    tfdt: int
    """Decode time of the first sample."""
    duration: int
    """Sum of its sample durations."""
    size: int
    """Bytes of the file; of its samples, if it is read from a `moof` alone."""
    keyframe: bool
    """Whether it begins with a sync sample."""
    first_pts: int
    """Smallest presentation time."""
    end_pts: int
    """End of the last picture in presentation order."""
    key_frames: tuple[KeyFrame, ...] = ()
    """Key frames of the fragments that begin with one."""

    def follows(self, earlier: Segment) -> bool:
        """Whether it continues `earlier` without a gap, in decode and presentation times."""
        return self.tfdt == earlier.tfdt + earlier.duration and self.first_pts == earlier.end_pts

    def is_like(self, other: Segment) -> bool:
        """Whether it has the same frame count and times as another one."""
        mine, its = ((s.frames, s.tfdt, s.duration, s.end_pts) for s in (self, other))
        return mine == its

    def with_next(self, later: Segment) -> Segment:
        """Combine it with the segment that follows it; raise BoxError if they are not contiguous."""
        if not later.follows(self):
            raise BoxError("its fragments are not contiguous")
        return replace(
            self,
            frames=self.frames + later.frames,
            duration=self.duration + later.duration,
            size=self.size + later.size,
            end_pts=later.end_pts,
            key_frames=self.key_frames + later.key_frames,
        )


@dataclass(frozen=True, slots=True)
class Init:
    """An intact initialisation segment of one track."""

    timescale: int
    """Units per second of the track."""
    codec: str
    """For CODECS in playlists, such as `avc1.640028` or `mp4a.40.2`."""
    width: int
    """Pixels; 0 for audio."""
    height: int


def top_level(file: BinaryIO, size: int) -> list[tuple[bytes, int, int]]:
    """List (type, payload offset, payload length) of all boxes, which must fill the file exactly."""
    return _inside(file, 0, size)


def _inside(file: BinaryIO, start: int, length: int) -> list[tuple[bytes, int, int]]:
    """As `top_level`, of the boxes in a part of a file."""
    boxes = []
    offset, end = start, start + length
    while offset < end:
        file.seek(offset)
        length, kind = struct.unpack(">I4s", file.read(8))
        header = 8
        if length == 1:
            (length,) = struct.unpack(">Q", file.read(8))
            header = 16
        if length < header or offset + length > end:
            raise BoxError(f"box {kind!r} at {offset} declares {length} of {end - offset} bytes")
        boxes.append((kind, offset + header, length - header))
        offset += length
    return boxes


def load(file: BinaryIO, offset: int, length: int) -> bytes:
    """Read the payload of a metadata box."""
    if length > _LARGEST_META:
        raise BoxError(f"{length} bytes of metadata")
    file.seek(offset)
    return file.read(length)


def decode_time(moof: bytes) -> int:
    """Decode time of the first sample of a `moof`, in units of the track's timescale."""
    return _decode_time(_children(_child(_children(moof), b"traf")))


def fragment(moof: bytes, header: int, media: int) -> Segment:
    """Read a `moof` with one track and one run of samples, as the hls muxer writes it.

    Args:
        moof: its payload.
        header: offset of the box in the file.
        media: offset of the first sample in the file.
    """
    traf = _children(_child(_children(moof), b"traf"))
    own_duration, own_size, first_flags = _fragment_defaults(_child(traf, b"tfhd"))
    begin = _decode_time(traf)
    trun = _child(traf, b"trun")
    flags = int.from_bytes(trun[1:4], "big")
    (count,) = struct.unpack_from(">I", trun, 4)
    offset = 8 + (4 if flags & 0x001 else 0)
    if flags & 0x004:
        (first_flags,) = struct.unpack_from(">I", trun, offset)
        offset += 4
    fields = [bit for bit in (_DURATION, _SIZE, _FLAGS, _COMPOSITION) if flags & bit]
    entries = struct.unpack_from(f">{len(fields) * count}I", trun, offset)
    columns = {bit: entries[number :: len(fields)] for number, bit in enumerate(fields)}
    durations = columns.get(_DURATION, (own_duration,) * count)
    if _FLAGS in columns and count and not flags & 0x004:
        first_flags = columns[_FLAGS][0]
    # Decode times, then presentation times of the samples.
    starts = list(accumulate(durations, initial=begin))
    shifts = columns.get(_COMPOSITION, (0,) * count)
    shown = [at + _signed(shift) for at, shift in zip(starts, shifts, strict=False)]
    sizes = columns.get(_SIZE, (own_size,) * count)
    duration, is_sync = starts[-1] - begin, not first_flags & _NON_SYNC
    return Segment(
        count,
        begin,
        duration,
        sum(sizes),
        is_sync,
        first_pts=min(shown, default=begin),
        end_pts=max(map(sum, zip(shown, durations, strict=True)), default=begin),
        key_frames=(KeyFrame(header, media + sizes[0] - header, duration),) if is_sync and count else (),
    )


def track(moov: bytes) -> Init:
    """Read the first track of a `moov`: H.264, HEVC or AV1 video, AAC or E-AC-3 audio."""
    mdia = _children(_child(_children(_child(_children(moov), b"trak")), b"mdia"))
    mdhd = _child(mdia, b"mdhd")
    (timescale,) = struct.unpack_from(">I", mdhd, 20 if mdhd[0] == 1 else 12)
    stsd = _child(_children(_child(_children(_child(mdia, b"minf")), b"stbl")), b"stsd")
    entry_kind, entry = next(iter(_children(stsd, 8).items()), (b"", b""))
    if entry_kind in _VIDEO:
        width, height = struct.unpack_from(">HH", entry, 24)
        return Init(timescale, _VIDEO[entry_kind](_children(entry, 78)), width, height)
    if entry_kind == b"mp4a":
        return Init(timescale, _aac_codec(_child(_children(entry, 28), b"esds")), 0, 0)
    if entry_kind == b"ec-3":
        return Init(timescale, "ec-3", 0, 0)
    raise BoxError(f"a track of type {entry_kind!r}")


def _decode_time(traf: dict[bytes, bytes]) -> int:
    tfdt = _child(traf, b"tfdt")
    (begin,) = struct.unpack_from(">Q" if tfdt[0] == 1 else ">I", tfdt, 4)
    return int(begin)


def _signed(value: int) -> int:
    """Read a composition offset as signed, in version 0 too: no valid offset is that large."""
    return value - (1 << 32) if value & 0x80000000 else value


class WholeTrack(NamedTuple):
    """A track of a file without fragments."""

    kind: str
    """`vide`, `soun`, `sbtl` for subtitles, `text` for chapters."""
    samples: int
    flags_at: int
    """Offset of the byte whose lowest bit says that it is played unless a person chooses."""


def whole_tracks(file: BinaryIO, size: int) -> list[WholeTrack]:
    """Read the tracks of a file without fragments, whose `moov` must precede its media.

    It may be larger than memory: only box headers and a few bytes are read.
    """
    found = top_level(file, size)
    if [kind for kind, *_ in found if kind in (b"moov", b"mdat")] != [b"moov", b"mdat"]:
        raise BoxError("it does not begin with what players need first")
    moov = next((at, length) for kind, at, length in found if kind == b"moov")
    tracks = []
    for kind, at, length in _inside(file, *moov):
        if kind == b"trak":
            file.seek(_find(file, at, length, b"mdia", b"hdlr") + 8)
            handler = file.read(4).decode("latin-1")
            file.seek(_find(file, at, length, b"mdia", b"minf", b"stbl", b"stsz") + 8)
            (samples,) = struct.unpack(">I", file.read(4))
            tracks.append(WholeTrack(handler, samples, _find(file, at, length, b"tkhd") + 3))
    return tracks


def _find(file: BinaryIO, at: int, length: int, *kinds: bytes) -> int:
    """The offset of the payload of a box, by the types of those that contain it and its own."""
    for wanted in kinds:
        places = [place for kind, *place in _inside(file, at, length) if kind == wanted]
        if not places:
            raise BoxError(f"no {wanted.decode()} box")
        at, length = places[0]
    return at


def _children(data: bytes, start: int = 0) -> dict[bytes, bytes]:
    """Payloads of the boxes in a container box by type; of equal types, the first."""
    found: dict[bytes, bytes] = {}
    offset = start
    while offset + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, offset)
        if length < 8 or offset + length > len(data):
            raise BoxError(f"box {kind!r} does not fit its container")
        found.setdefault(kind, data[offset + 8 : offset + length])
        offset += length
    return found


def _child(boxes: dict[bytes, bytes], kind: bytes) -> bytes:
    if kind not in boxes:
        raise BoxError(f"no {kind.decode()} box")
    return boxes[kind]


def _fragment_defaults(tfhd: bytes) -> list[int]:
    """Duration, size and flags of samples for which a `trun` has none."""
    present = int.from_bytes(tfhd[1:4], "big")
    offset = 8 + (8 if present & 0x01 else 0) + (4 if present & 0x02 else 0)
    values = []
    for bit in (0x08, 0x10, 0x20):
        value = 0
        if present & bit:
            (value,) = struct.unpack_from(">I", tfhd, offset)
            offset += 4
        values.append(value)
    return values


def _aac_codec(esds: bytes) -> str:
    """The RFC 6381 codec string: object type of the decoder configuration, then the audio object type."""
    offset = 4
    while offset < len(esds):
        tag = esds[offset]
        offset += 1
        length = 0
        while True:  # 7 bits per byte; the top bit marks that another byte follows
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
    raise BoxError("no decoder configuration in esds")


def _avc_codec(entry: dict[bytes, bytes]) -> str:
    avcc = _child(entry, b"avcC")
    return f"avc1.{avcc[1]:02X}{avcc[2]:02X}{avcc[3]:02X}"


def _hevc_codec(entry: dict[bytes, bytes]) -> str:
    """The codec string of ISO/IEC 14496-15 annex E: profile, compatibility, tier and level, constraints."""
    hvcc = _child(entry, b"hvcC")
    space = ("", "A", "B", "C")[hvcc[1] >> 6]
    compatible = int(f"{int.from_bytes(hvcc[2:6], 'big'):032b}"[::-1], 2)
    tier = "H" if hvcc[1] & 0x20 else "L"
    constraints = "".join(f".{byte:X}" for byte in hvcc[6:12].rstrip(b"\0"))
    return f"hvc1.{space}{hvcc[1] & 0x1F}.{compatible:X}.{tier}{hvcc[12]}{constraints}"


def _av1_codec(entry: dict[bytes, bytes]) -> str:
    """The codec string of the AV1 ISOBMFF binding: profile, level and tier, bit depth."""
    av1c = _child(entry, b"av1C")
    tier = "H" if av1c[2] & 0x80 else "M"
    depth = 8 if not av1c[2] & 0x40 else 12 if av1c[2] & 0x20 else 10
    return f"av01.{av1c[1] >> 5}.{av1c[1] & 0x1F:02d}{tier}.{depth:02d}"


_VIDEO = {b"avc1": _avc_codec, b"hvc1": _hevc_codec, b"av01": _av1_codec}
