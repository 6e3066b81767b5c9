"""Finds the sizes, shapes and interlacing of the pictures of a source from key frames; Dolby Vision; the
canvas of bitmap subtitles."""

from __future__ import annotations

import contextlib
import re
import struct
import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal, cast

import av
import av.error
from av.bitstream import BitStreamFilterContext
from av.packet import Packet
from av.sidedata.sidedata import Type as SideDataType
from av.stream import Stream
from av.subtitles.codeccontext import SubtitleCodecContext
from av.subtitles.stream import SubtitleStream
from av.subtitles.subtitle import BitmapSubtitle
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from tqstudio.engine.media.source import colour, streams
from tqstudio.engine.media.source.facts import SubtitleTrack, VideoTrack

# Seconds between decoded key frames: costs at most 1 % of the time of a ladder.
_SAMPLE_EVERY_S = 2
# Size of the pictures of IMX (D-10) and their rows above what is to be seen (SMPTE 356M, SMPTE 386M).
_VBI_ROWS = {(720, 608): 32, (720, 512): 26}
_WITH_HEADERS = frozenset({"mpegts", "mpeg"})
_HEADER_BYTES = 32
"""Number of bytes at the start of a key frame in which broadcast streams repeat their headers."""
_SIZES = {"vp8": slice(3, 10), "libvpx": slice(3, 10), "vp9": slice(0, 9), "libvpx-vp9": slice(0, 9)}
"""Where a key frame states its size, by decoder: video calls change it with the bandwidth."""
_PGS, _DVD, _DVB = "pgssub", "dvdsub", "dvbsub"
_DVB_CANVAS = 720, 576
_LONGEST_CANVAS = 4096
# Segments of PGS (composition) and DVB (display definition), flag of a forced bitmap of PGS.
_COMPOSITION, _DISPLAY, _FORCED = 0x16, 0x14, 0x40


def _unknown_type(kind: type[SideDataType], value: object) -> SideDataType:
    found = cast("Any", object.__new__(kind))
    found._name_, found._value_ = f"TYPE_{value}", value
    return cast("SideDataType", found)


# PyAV 18.1 raises ValueError for a frame with side data of a type of ffmpeg 8 that it does not list, as EXIF.
SideDataType._missing_ = classmethod(_unknown_type)  # type: ignore[method-assign, assignment]
_STATED: dict[SideDataType, Literal["rotation", "stereo"]] = {
    SideDataType.DISPLAYMATRIX: "rotation",
    SideDataType.STEREO3D: "stereo",
}
# By the numbers of AVStereo3DType and AVSphericalProjection; of neither those that are flat.
_ANY_STEREO = "3D"
_STEREO = {
    1: "3D (side by side)",
    2: "3D (top and bottom)",
    3: "3D (picture by picture)",
    4: "3D (checkerboard)",
    5: "3D (side by side)",
    6: "3D (line by line)",
    7: "3D (column by column)",
    8: _ANY_STEREO,
}
_SPHERICAL = {
    0: "360°",
    1: "360° (cube)",
    2: "360° (a part)",
    3: "180°",
    5: "fisheye",
    6: "Apple Immersive Video",
}
# A video parameter set (ITU-T H.265, 7.3.2.1): number, two flags, layers (6 bits), others, 16 set bits.
_HEVC_LAYERS = re.compile(rb"\x40\x01(..)\xff\xff", re.DOTALL)
_HEVC_ALPHA = b"\x4e\x01\xa5"
"""Begin of the message that describes a layer of transparency."""
# Options of ffmpeg's filters of headers: what they cut off remains on two sides, or on none.
_TWO_SIDES = "crop_right=0:crop_bottom=0"
_NO_SIDE = f"crop_left=0:crop_top=0:{_TWO_SIDES}"
# They come before the slices of a picture: registered by ITU-T T.35, or in user data.
_CAPTION_BYTES = 4096
_CAPTION_MARK = b"GA94\x03"
_CAPTIONS = re.compile(rb"(?:\xb5\x00\x31|\x00\x00\x01\xb2)" + _CAPTION_MARK, re.DOTALL)


class PictureShapes:
    """Sizes, sample aspects, formats, colours and interlacing of the pictures, sampled from key frames."""

    def __init__(self, stream: VideoStream, video: VideoTrack, container: str) -> None:
        self._context = stream.codec_context
        self._context.skip_frame = "NONKEY"
        self._context.thread_count = 1
        self._stream = stream
        self._video = video
        self._base = stream.time_base or Fraction(1, 90_000)
        self._own_aspect = shown_aspect(stream.sample_aspect_ratio, video.coded_height, video.vbi_rows)
        across, down = streams.container_crop(stream)
        self._hidden = across, down + video.vbi_rows
        whole = slice(0, _HEADER_BYTES if container in _WITH_HEADERS else 0)
        self._header = _SIZES.get(self._context.name, whole)
        self._head = b""
        self._next: Fraction | None = None
        self._aspects: list[tuple[Fraction, Fraction]] = []
        self._seen: Counter[tuple[int, int, Fraction | None]] = Counter()
        self._interlaced = video.interlaced
        self._looks: dict[tuple[str, int, int, colour.Colour], float] = {}
        self._inset = False
        self._twice: set[Literal["rotation", "stereo"]] = set()
        self._projections: dict[str, None] = {}

    def add(self, packet: Packet[Stream]) -> None:
        """Decode a key frame if the last sample is `_SAMPLE_EVERY_S` old or the stream headers changed."""
        at = None if packet.pts is None else packet.pts * self._base
        if not packet.is_keyframe:
            return
        head = bytes(memoryview(packet)[self._header]) or _parameter_sets(packet, self._context.name)
        # FLV, for instance, announces headers; not all are in its key frames.
        changed = head != self._head or packet.has_sidedata("new_extradata")
        if not changed and at is not None and self._next is not None and at < self._next:
            return
        self._head = head
        self._next = None if at is None else at + _SAMPLE_EVERY_S
        self._inset = self._inset or is_inset(self._stream, packet)
        self._decode(packet)

    def apply(self, video: VideoTrack) -> VideoTrack:
        """The track corrected for the whole source; call after the last packet."""
        # What removes the marks of 3D removes the rotation too.
        twice: Literal["", "rotation", "stereo"] = max(self._twice, default="")
        more_views = _views(self._context.extradata or b"") > 1
        if more_views or any(name.startswith(f"{_ANY_STEREO} (") for name in self._projections):
            self._projections.pop(_ANY_STEREO, None)
        video = self._coloured(
            replace(
                video,
                interlaced=self._interlaced,
                inset=self._inset,
                projection=", ".join(sorted(self._projections)),
                more_views=more_views,
                stated_twice=twice,
            )
        )
        if len(self._seen) < 2:
            return video
        sizes = {
            (width, height, aspect): display_size(
                max(1, width - self._hidden[0]),
                max(1, height - self._hidden[1]),
                aspect or self._own_aspect,
                self._video.rotation,
            )
            for width, height, aspect in self._seen
        }
        # The most frequent shape wins; all other pictures are fitted into the largest one of that shape.
        ratios: Counter[Fraction] = Counter()
        for shape, (width, height) in sizes.items():
            ratios[Fraction(round(width / height * 20), 20)] += self._seen[shape]
        usual = max(ratios, key=lambda r: (ratios[r], r))
        width, height = max(
            size for size in sizes.values() if Fraction(round(size[0] / size[1] * 20), 20) == usual
        )
        aspects = tuple((float(at), float(aspect)) for at, aspect in self._aspects)
        return replace(
            video, width=width, height=height, varies=True, aspects=aspects if len(aspects) > 1 else ()
        )

    def _coloured(self, video: VideoTrack) -> VideoTrack:
        """The track with how its formats and colours change, if they do."""
        if len(self._looks) < 2:
            return video
        (*_, first), *_ = self._looks
        changes = {at_s: look for (*_, look), at_s in self._looks.items() if look != first}
        # ffmpeg reads untagged pictures as BT.601, and only converts between matrices and ranges.
        as_601 = {*colour.BT601, colour.RGB}
        untagged = any(
            tag == colour.UNSPECIFIED and look.matrix not in as_601 for _, tag, _, look in self._looks
        )
        matrices = {look.matrix for *_, look in self._looks}
        lost = len(matrices) > 1 and (untagged or not matrices <= colour.SCALABLE)
        other = [at_s for at_s, look in changes.items() if look.light != first.light or lost]
        return replace(
            video,
            varies=True,
            follows_tags=bool(changes) and not other,
            retagged_s=min(other, default=None),
        )

    def _decode(self, packet: Packet[Stream]) -> None:
        # Ignore damaged pictures here: the transcode reports them.
        with contextlib.suppress(av.error.FFmpegError):
            # Drain at once: the decoder's aspect is valid only until the next header.
            frames = [*self._context.decode(packet), *self._context.decode(None)]
            for frame in frames[:1]:
                if isinstance(frame, VideoFrame):
                    stated = self._context.sample_aspect_ratio or None
                    aspect = shown_aspect(stated, self._video.coded_height, self._video.vbi_rows)
                    self._seen[frame.width, frame.height, aspect] += 1
                    aspect = aspect or self._own_aspect or Fraction(1)
                    if frame.pts is not None and (not self._aspects or self._aspects[-1][1] != aspect):
                        self._aspects.append((frame.pts * self._base, aspect))
                    self._interlaced = self._interlaced or bool(frame.interlaced_frame)
                    self._add_look(frame)
                    kinds = [each.type for each in _side_data(frame)]
                    self._twice |= {name for kind, name in _STATED.items() if kinds.count(kind) > 1}
                    self._projections |= dict.fromkeys(_projections(frame))
        self._context.flush_buffers()

    def _add_look(self, frame: VideoFrame) -> None:
        """Note the format of a picture and its colours, with missing tags completed."""
        described = replace(
            self._video,
            pix_fmt=colour.decoded_format(frame.format.name, {}),
            color_primaries=int(frame.color_primaries),
            color_transfer=int(frame.color_trc),
            color_space=int(frame.colorspace),
            color_range=int(frame.color_range),
        )
        tags = described.color_space, described.color_range
        look = described.pix_fmt, *tags, colour.colour_of(described)
        self._looks.setdefault(look, float((frame.pts or 0) * self._base))


def pixel_format(stream: VideoStream, frame: VideoFrame) -> str:
    """The pixel format of a source by its first picture: ffmpeg decodes opaque GIFs with alpha too."""
    if stream.codec_context.name == "gif" and frame.format.name == "bgra":
        line = frame.planes[0].line_size
        content = bytes(frame.planes[0])
        rows = (content[at + 3 : at + 4 * frame.width : 4] for at in range(0, line * frame.height, line))
        if all(row.count(255) == frame.width for row in rows):
            return "bgr0"
    return colour.decoded_format(frame.format.name, stream.metadata)


def _side_data(frame: VideoFrame) -> list[Any]:
    """All side data of a picture, of which PyAV declares that they were names."""
    return list(cast("Any", frame.side_data))


def _projections(frame: VideoFrame) -> list[str]:
    """What a picture says about how it is to be shown, if not flat.

    Such side data begins with the number of its kind (AVStereo3DType, AVSphericalProjection).
    """
    found = []
    for each in _side_data(frame):
        names = {SideDataType.STEREO3D: _STEREO, SideDataType.SPHERICAL: _SPHERICAL}.get(each.type, {})
        found.append(names.get(int.from_bytes(bytes(each)[:4], sys.byteorder), ""))
    return [name for name in found if name]


def _views(parameter_sets: bytes) -> int:
    """The layers of pictures that HEVC announces; 1 for any other codec, or if they are transparency."""
    found = _HEVC_LAYERS.search(parameter_sets)
    is_alpha = _HEVC_ALPHA in parameter_sets
    return (int.from_bytes(found[1]) >> 4 & 63) + 1 if found and not is_alpha else 1


def _parameter_sets(packet: Packet[Stream], codec: str) -> bytes:
    """The sets in a key frame of MP4 or Matroska that state a size: of H.264 or HEVC, before the slices."""
    content, at, found = memoryview(packet), 0, b""
    while codec in ("h264", "hevc") and at + 4 < len(content):
        end = at + 4 + int.from_bytes(content[at : at + 4])
        kind = content[at + 4] & 31 if codec == "h264" else content[at + 4] >> 1
        if kind <= (5 if codec == "h264" else 31):
            break
        if kind == (7 if codec == "h264" else 33):
            found += bytes(content[at + 4 : end])
        at = end
    return found


class Bitmaps:
    """What the packets of a track of bitmap subtitles show, until one can be decoded."""

    @staticmethod
    def are_in(stream: SubtitleStream) -> bool:
        """Whether a stream has bitmaps that this build decodes."""
        return stream.codec_context is not None and stream.codec_context.name in (_PGS, _DVD, _DVB)

    def __init__(self, stream: SubtitleStream, video: VideoTrack) -> None:
        context = stream.codec_context
        assert isinstance(context, SubtitleCodecContext)
        self._context = context
        self._kind = context.name
        self._canvas = _DVB_CANVAS if self._kind == _DVB else (video.coded_width, video.coded_height)
        stated = re.search(rb"size:\s*(\d+)x(\d+)", context.extradata or b"") if self._kind == _DVD else None
        if stated:
            self._canvas = int(stated[1]), int(stated[2])
        self._decoded = self._forced = False
        self._first: Fraction | None = None

    def add(self, packet: Packet[Stream]) -> None:
        """Look at the next packet."""
        if self._first is None and packet.pts is not None and packet.time_base is not None:
            self._first = packet.pts * packet.time_base
        if self._kind == _PGS:
            self._find_compositions(bytes(packet))
        if self._decoded:
            return
        if self._kind == _DVB and (
            found := re.search(rb"\x0f\x14..\0[\x05-\xff].(....)", bytes(packet), re.DOTALL)
        ):
            width, height = struct.unpack(">HH", found[1])
            self._canvas = width + 1, height + 1
        with contextlib.suppress(av.error.FFmpegError):
            shown = self._context.decode2(packet)
            self._decoded = shown is not None and any(
                isinstance(each, BitmapSubtitle) for each in shown.rects
            )

    def apply(self, track: SubtitleTrack) -> SubtitleTrack:
        """The track with what was found; call after the last packet."""
        plausible = all(0 < side <= _LONGEST_CANVAS for side in self._canvas)
        if not self._decoded or self._first is None or not plausible:
            return track
        return replace(track, canvas=self._canvas, first_s=float(self._first), has_forced=self._forced)

    def _find_compositions(self, content: bytes) -> None:
        at = 0
        while at + 3 <= len(content):
            kind, length = struct.unpack_from(">BH", content, at)
            segment = content[at + 3 : at + 3 + length]
            if kind == _COMPOSITION and len(segment) >= 11:
                if not self._decoded:
                    self._canvas = struct.unpack_from(">HH", segment)
                # Cropped bitmaps have eight more bytes; the first one decides.
                self._forced = self._forced or (len(segment) > 14 and bool(segment[14] & _FORCED))
            at += 3 + length


def display_size(width: int, height: int, aspect: Fraction | None, rotation: int) -> tuple[int, int]:
    """Compute the display size in square pixels: scale the width by the sample aspect, then rotate."""
    if aspect and aspect > 0:
        width = max(1, round(width * aspect))
    # ffmpeg swaps the sides for quarter turns only; at other angles it keeps the size.
    return (height, width) if rotation % 180 == 90 else (width, height)


def is_inset(stream: VideoStream, packet: Packet[Stream]) -> bool:
    """Whether H.264 or HEVC cuts off columns on the left or rows above; also if its headers are damaged.

    Decoders do not report it. So a key frame is decoded twice, without any crop on the right and below: once
    with the crop on the left and above, once without it. Equal pictures mean that there is none.
    """
    codec = stream.codec_context.codec.canonical_name
    if codec not in ("h264", "hevc"):
        return False
    written = []
    try:
        for options in (_TWO_SIDES, _NO_SIDE):
            rewrite = BitStreamFilterContext(f"{codec}_mp4toannexb,{codec}_metadata={options}", stream)
            # A filter empties the packet that it is given.
            packets = [*rewrite.filter(Packet(bytes(packet))), *rewrite.filter(None)]
            written.append(b"".join(map(bytes, packets)))
    except av.error.FFmpegError:
        return True
    return written[0] != written[1]


def vbi_rows(container: str, codec: str, width: int, height: int) -> int:
    """Rows above the picture that players do not show: those of IMX (D-10) in MXF."""
    return _VBI_ROWS.get((width, height), 0) if (container, codec) == ("mxf", "mpeg2video") else 0


def shown_aspect(aspect: Fraction | None, height: int, rows: int) -> Fraction | None:
    """The sample aspect of pictures of this height, if the stated one counts `rows` above them as well.

    The shape that such files state is that of the picture.
    """
    return aspect * Fraction(height, height + rows) if aspect else aspect


def dolby_vision_of(frame: VideoFrame) -> tuple[int, int] | None:
    """Detect Dolby Vision profile 5 from the metadata of a picture, for containers that lost the record.

    The RPU has 8 bits of prefix, 6 of type, 11 of format, then 4 of profile; 0 is profile 5, which has no
    base layer. None for all others.
    """
    rpu: Any = frame.side_data.get("DOVI_RPU_BUFFER")
    return (5, 0) if rpu is not None and int.from_bytes(bytes(rpu)[1:4]) >> 3 & 0xF == 0 else None


def carries_captions(packet: Packet[Stream]) -> bool:
    """Whether a packet of pictures carries closed captions (ATSC A/53 part 4), in SEI or MPEG-2 user data."""
    head = bytes(memoryview(packet)[:_CAPTION_BYTES])
    # Every packet of a source is looked at: the search for a constant takes a fifth of the time.
    return _CAPTION_MARK in head and _CAPTIONS.search(head) is not None
