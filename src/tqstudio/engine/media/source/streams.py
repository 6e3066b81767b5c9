"""Lists the streams of a source and demuxes them: what belongs together or begins later, and what PyAV does
not say of them."""

from __future__ import annotations

import contextlib
import ctypes
import io
import itertools
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import av
import av.error
import av.logging
from av.audio.codeccontext import AudioCodecContext
from av.audio.frame import AudioFrame
from av.container import InputContainer
from av.packet import Packet
from av.stream import Disposition, Stream
from av.video.stream import VideoStream

from tqstudio.engine.media.source import source_file
from tqstudio.engine.media.source.facts import OmittedStream

_PRINTED = re.compile(
    r"^  (?:Program (\d+)|No Program"
    r"|Stream #0:(\d+)(?:\[0x\w+\])?(?:\(.*?\))?: (\w+)(?:: (?:bin_data|none) \(.* / 0x(\w+)\))?)",
    re.MULTILINE,
)
# Types of an MPEG-TS: private data, and video or sound of standards that ffmpeg may not know.
_MAY_BE_MEDIA = {6, *range(0x1C, 0x40), int.from_bytes(b"AV01", "little")}
_EDIT = re.compile(r"Processing st: (\d+), edit list \d+ - media time: (-?\d+), duration: (\d+)")
_LOST_IN_MIX = re.compile(r"\b(TFC|TC|TB[LCR]|TS[LR]|W[LR]|BF[LCR])\b")
_UNUSUAL = {f"{count} channels" for count in range(9, 65) if count not in (10, 12, 14, 16, 24)}
_PUBLISHED = ("video", "audio", "subtitle")
# How far before the end of a stream, and in how many packets, its last picture is looked for.
_BACK_S, _LAST_PACKETS = (0, 2, 10, 60), 4000
# Demuxers of raw streams, used only to name the codec of such a file in the error message.
_RAW_FORMATS = "h264,hevc,vvc,mpegvideo,m4v,h263,h261,vc1,av1,obu,cavsvideo,avs2,avs3,dirac,dnxhd,mjpeg"
_WITH_DOLBY_VISION = {"strict": "unofficial", "movflags": "empty_moov"}
# Elements of Matroska, of one or two bytes: PixelWidth and PixelHeight, what may follow them, and then
# PixelCropBottom, Top, Left and Right.
_NUMBER = rb"(?:\x81.|\x82..)"
_CROP = rb"\x54([\xaa\xbb\xcc\xdd])(" + _NUMBER + rb")"
_PICTURE = rb"\xb0%b\xba%b(?:(?:\x9a|\x9d|\x53.)%b)*((?:\x54[\xaa\xbb\xcc\xdd]%b)+)" % ((_NUMBER,) * 4)
_TS_PACKET, _TS_SYNC = 188, 0x47
# Objects of ASF that describe an encryption, of version 1 and of later ones, in the header.
_ASF_ENCRYPTION = (
    bytes.fromhex("fbb3112223bdd211b4b700a0c955fc6e"),
    bytes.fromhex("14e68a292226174cb935dae07ee9289c"),
)
_ASF_HEADER = 1 << 18


class _Printed(NamedTuple):
    kind: str
    unknown: bool
    """Whether a stream of an MPEG-TS has a codec unknown to ffmpeg, and may be video or sound."""
    programmes: frozenset[str]
    """Numbers of the programmes of an MPEG-TS that contain the stream; empty for a stream of none."""


_NONE = _Printed("", False, frozenset())


def videos(container: InputContainer) -> list[VideoStream]:
    """The video streams, the default one first; attached cover pictures do not count."""
    streams = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
    return sorted(streams, key=lambda stream: not stream.disposition & Disposition.default)


def is_scrambled(path: bytes) -> bool:
    """Whether any of the first packets of an MPEG-TS is marked as scrambled."""
    with open(source_file.to_open(path), "rb") as file:
        head = file.read(_TS_PACKET * 1000)
    return any(
        head[at] == _TS_SYNC and head[at + 3] & 0xC0 for at in range(0, len(head) - _TS_PACKET, _TS_PACKET)
    )


def is_protected(path: bytes) -> bool:
    """Whether the header of an ASF file says that its content is encrypted."""
    with source_file.reading(path) as file:
        head = file.read(_ASF_HEADER)
    return any(guid in head for guid in _ASF_ENCRYPTION)


def scheme_of(packet: Packet[Stream]) -> str:
    """The scheme by which a packet is encrypted, such as `cenc`; decoding would at best give noise."""
    if not packet.has_sidedata("encryption_info"):
        return ""
    return bytes(packet.get_sidedata("encryption_info"))[:4].decode("ascii", "replace")


def channels_of(described: AudioCodecContext | AudioFrame) -> int:
    """Count the channels of an audio codec or frame.

    PyAV 18.1 frees the map of a custom channel order twice, with the layout object and with the object that
    it describes, which aborts the process. So the layout object is leaked on purpose: 100 bytes per track.
    """
    layout = described.layout
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(layout))
    return int(layout.nb_channels)


def placing_of(described: AudioCodecContext) -> dict[str, Any]:
    """The fields of `AudioTrack` that say where its channels belong, if that is unusual."""
    layout = described.layout
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(layout))
    name = str(layout.name)
    if named := re.fullmatch(r"1 channels \((\w+)\)", name):
        return {"side": named[1]}
    if name.startswith("ambisonic"):
        return {"unplaced": "ambisonic"}
    # For other counts ffmpeg assumes a usual layout.
    if name in _UNUSUAL:
        return {"unplaced": "discrete"}
    places = " ".join(channel.name for channel in layout.channels)
    return {"places": places} if _LOST_IN_MIX.search(places) else {}


def beside(container: InputContainer, found: Sequence[VideoStream]) -> tuple[OmittedStream, ...]:
    """The videos but the first one, what belongs to other programmes than that, and unknown codecs."""
    omitted = [OmittedStream(video.index, "video", "other") for video in found[1:]]
    streams = _printed(container)
    if found and (own := streams.get(found[0].index, _NONE).programmes):
        omitted += [
            OmittedStream(index, stream.kind, "programme")
            for index, stream in streams.items()
            if stream.kind in _PUBLISHED[1:] and stream.programmes and not stream.programmes & own
        ]
    omitted += [
        OmittedStream(index, stream.kind, "unknown") for index, stream in streams.items() if stream.unknown
    ]
    return tuple(omitted)


def late(container: InputContainer) -> tuple[OmittedStream, ...]:
    """The streams that were found after the container was opened; call after the last packet."""
    known = {stream.index for stream in container.streams}
    return tuple(
        OmittedStream(index, stream.kind, "late")
        for index, stream in _printed(container).items()
        if index not in known and stream.kind in _PUBLISHED
    )


def packets(container: InputContainer, streams: Any = None) -> Iterator[Packet[Stream]]:
    """Demux the given streams, by default all that were found when the container was opened.

    PyAV 18.1 reads beyond its own array at the end if more have been found, and may raise IndexError.
    """
    demuxed = container.demux(streams)
    while True:
        try:
            packet = next(demuxed)
        except (StopIteration, IndexError):
            return
        yield packet


def last_picture_s(
    path: bytes, index: int, last: Fraction, check: Callable[[], None] = lambda: None
) -> Fraction | None:
    """The time of the last picture in seconds, decoded from key frames before the packet at `last`.

    None if there is none among the last packets, or the source cannot be opened again. `check` is called
    often; its exceptions abort the search.
    """
    # By a decoder of its own: one that has left out pictures since it was opened may not decode them later.
    with contextlib.suppress(av.error.FFmpegError):
        name = source_file.url(source_file.to_open(path))
        with av.open(name, options=source_file.OPTIONS, metadata_errors="replace") as container:
            for back_s in _BACK_S:
                found, count = _last_s(container, container.streams[index], last - back_s, check)
                if found is not None or count == _LAST_PACKETS:
                    return found
    return None


def _last_s(
    container: InputContainer, stream: Any, since: Fraction, check: Callable[[], None]
) -> tuple[Fraction | None, int]:
    """The last picture from a key frame on, if the end was reached, and the number of packets."""
    found: list[Fraction] = []
    at_end, count = False, 0
    # The index may call a packet without a picture a key frame.
    with contextlib.suppress(av.error.FFmpegError):
        container.seek(int(max(Fraction(0), since) / (stream.time_base or 1)), stream=stream)
        for packet in itertools.islice(packets(container, stream), _LAST_PACKETS):
            check()
            for picture in stream.decode(packet):
                if picture.pts is not None and picture.time_base is not None:
                    found.append(picture.pts * picture.time_base)
            at_end, count = not packet.size, count + 1
    return (max(found) if found and at_end else None), count


@contextlib.contextmanager
def watched(demuxer: str) -> Iterator[Callable[[], bool]]:
    """Watch a demuxer, from before it opens a file; yields whether it has skipped data."""
    with av.logging.Capture() as log, _logging(av.logging.ERROR):
        yield lambda: any(level <= av.logging.ERROR and name == demuxer for level, name, _ in log)


def edits(
    opened: Callable[[], InputContainer], stream: VideoStream
) -> tuple[tuple[float, float, float], ...]:
    """The `VideoTrack.edits` of a stream, if they are in the order of the file.

    PyAV does not expose them: ffmpeg's log has them when the file is opened again.
    """
    if not (stream.codec_context.has_b_frames and stream.container.format.name.startswith("mov")):
        return ()
    with av.logging.Capture() as log, _logging(av.logging.DEBUG), opened():
        printed = "".join(text for *_, text in log)
    base, at, first = stream.time_base or Fraction(1, 90_000), 0, None
    found: list[tuple[int, int, int]] = []
    for index, media, length in _EDIT.findall(printed):
        if int(index) == stream.index:
            if int(media) >= 0:
                first = int(media) - at if first is None else first
                found.append((at, int(media) - first, int(length)))
            at += int(length)
    in_order = all(one[1] + one[2] <= other[1] for one, other in pairwise(found))
    if len(found) < 2 or not in_order or not all(length for *_, length in found):
        return ()
    return tuple((float(at * base), float(media * base), float(length * base)) for at, media, length in found)


@contextlib.contextmanager
def _logging(level: int) -> Iterator[None]:
    av.logging.set_level(level)
    try:
        yield
    finally:
        av.logging.set_level(None)


def _printed(container: InputContainer) -> dict[int, _Printed]:
    """The streams by their index as ffmpeg prints them: PyAV exposes neither programmes nor late streams."""
    with _logging(av.logging.INFO):
        text = container.dumps_format()  # type: ignore[attr-defined]
    found: dict[int, _Printed] = {}
    programme = frozenset[str]()
    for number, index, kind, codec in _PRINTED.findall(text):
        if not index:
            programme = frozenset((number,)) if number else frozenset()
        elif int(index) in found:
            known = found[int(index)]
            found[int(index)] = known._replace(programmes=programme | known.programmes)
        else:
            unknown = bool(codec) and int(codec, 16) in _MAY_BE_MEDIA
            found[int(index)] = _Printed(kind.lower(), unknown, programme)
    return found


def dolby_vision(stream: VideoStream) -> tuple[int, int] | None:
    """Profile and compatibility id of the Dolby Vision configuration record, or None.

    PyAV does not expose the record, but ffmpeg's MP4 muxer writes it, so it is read from a muxed header.
    """
    record = re.search(rb"dv[cvw]C(.{5})", _header(stream, "mp4", _WITH_DOLBY_VISION), re.DOTALL)
    if record is None:
        return None
    _, _, profile_and_level, compatibility = struct.unpack(">BBHB", record[1])
    return profile_and_level >> 9, compatibility >> 4


def container_crop(stream: VideoStream) -> tuple[int, int]:
    """Columns and rows that the container hides (`clap` of MP4, PixelCrop of Matroska), as ffmpeg does.

    PyAV does not expose them, but ffmpeg's Matroska muxer writes them into its header.
    """
    picture = re.search(_PICTURE, _header(stream, "matroska", {}), re.DOTALL)
    hidden = dict(re.findall(_CROP, picture[1], re.DOTALL)) if picture else {}
    sides = {side: int.from_bytes(value[1:]) for side, value in hidden.items()}
    return sides.get(b"\xcc", 0) + sides.get(b"\xdd", 0), sides.get(b"\xaa", 0) + sides.get(b"\xbb", 0)


def _header(stream: VideoStream, muxer: str, options: dict[str, str]) -> bytes:
    """The header that a muxer writes for a stream; empty if it does not support the codec."""
    header = io.BytesIO()
    try:
        with av.open(header, "w", format=muxer, options=options) as copy:
            copy.add_stream_from_template(stream, opaque=True)
            copy.start_encoding()
    except (ValueError, av.error.FFmpegError):
        return b""
    return header.getvalue()


def raw_codec(path: bytes) -> str:
    """The codec name of a raw video stream; empty for any other file."""
    options = {"protocol_whitelist": source_file.PROTOCOLS, "format_whitelist": _RAW_FORMATS}
    try:
        with av.open(source_file.url(source_file.to_open(path)), options=options) as container:
            found = [s for s in container.streams.video if s.codec_context and s.codec_context.width]
            return str(found[0].codec_context.codec.canonical_name) if found else ""
    except (av.error.FFmpegError, ValueError):
        return ""
