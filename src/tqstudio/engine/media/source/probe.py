"""Probes a source with PyAV. A hostile file may crash the process: never call this in the supervisor."""

from __future__ import annotations

import errno
import io
import itertools
import re
import struct
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import av
import av.error
from av.container import InputContainer
from av.stream import Disposition, Stream
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from tqstudio.engine.files import errnos
from tqstudio.engine.media.source import chapters, colour, languages, source_file
from tqstudio.engine.media.source.facts import AudioTrack, SourceFacts, SubtitleTrack, VideoTrack, title_of
from tqstudio.engine.media.source.measure import channels_of, grid_rate, measure
from tqstudio.engine.media.source.picture_shapes import display_size
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display

# Packets read at most to find the first picture; normally it is among the first few.
_FIRST_PICTURE_PACKETS = 2000
# Captions are in all pictures or in none; some begin with the programme, after a few seconds.
_CAPTION_PACKETS = 250
_CAPTIONS = b"GA94\x03"
_TS_PACKET, _TS_SYNC = 188, 0x47
# Pictures decoded at most to find one with a timestamp.
_FIRST_TIME_PICTURES = 120
# Errors of the operating system; ffmpeg raises all others because of the content.
_SYSTEM_ERRORS = errnos.FAILING | errnos.LIMITS | {errno.ENOENT, errno.EACCES, errno.ENOTDIR}
# Containers in which each stream declares its duration.
_WITH_LENGTHS = ("mov,mp4,m4a,3gp,3g2,mj2", "avi")
# Demuxers of raw streams, used only to name the codec of such a file in the error message.
_RAW_FORMATS = "h264,hevc,vvc,mpegvideo,m4v,h263,h261,vc1,av1,obu,cavsvideo,avs2,avs3,dirac,dnxhd,mjpeg"
_WITH_DOLBY_VISION = {"strict": "unofficial", "movflags": "empty_moov"}

# Magic numbers of supported containers, to tell a damaged video from a file that is not a video.
_SIGNATURES = re.compile(
    rb"....(?:ftyp|moov|mdat|free|skip|wide|pnot)|\x1aE\xdf\xa3|RIFF....AVI |FLV\x01|OggS"
    rb"|0&\xb2u\x8ef\xcf\x11|\x00\x00\x01\xba|G.{187}G|.{4}G.{191}G|\x06\x0e+4|\.RMF|nut/multimedia",
    re.DOTALL,
)


class _Colours(NamedTuple):
    """Code points of ITU-T H.273."""

    primaries: int
    transfer: int
    matrix: int
    range: int


def open_source(path: bytes) -> InputContainer:
    """Open a source with the same whitelists as every ffmpeg command.

    Raises:
        TqError: as `source_file.check`; NO_MEDIA if it is not a video, SOURCE_UNREADABLE if it is damaged.
    """
    facts = source_file.check(path)
    try:
        return av.open(
            source_file.url(source_file.to_open(path)),
            options={"protocol_whitelist": source_file.PROTOCOLS, "format_whitelist": source_file.FORMATS},
            metadata_errors="replace",
        )
    except av.error.FFmpegError as error:
        raise _refusal(path, facts.st_size, error) from error


def probe(path: bytes, check: Callable[[], None] = lambda: None) -> SourceFacts:
    """Read the header and all packets of a source; 3 s for two hours of video in the page cache.

    Args:
        check: called often; its exceptions abort the probe.

    Raises:
        TqError: as `probe_head`, and as `require_readable` if the file cannot be read to its end.
    """
    facts = probe_head(path)
    with open_source(path) as container:
        return measure(path, container, facts, check)


def probe_head(path: bytes) -> SourceFacts:
    """Read the header of a source and decode one picture; normally takes some ms.

    Raises:
        TqError: SOURCE_MISSING, SOURCE_EMPTY, PERMISSION, UNSUPPORTED (a folder, a device, an unknown codec),
            NO_MEDIA (not a video, or no video stream), SOURCE_UNREADABLE (a damaged video).
    """
    size = source_file.check(path).st_size
    with open_source(path) as container:
        try:
            return _read(path, size, container)
        except av.error.FFmpegError as error:
            if isinstance(error, OSError) and error.errno in _SYSTEM_ERRORS:
                raise source_file.unreadable(path, error) from error
            raise TqError(
                ErrorCode.SOURCE_UNREADABLE, f"{display(path)} is damaged: {error.strerror}"
            ) from error


def _read(path: bytes, size: int, container: InputContainer) -> SourceFacts:
    stream = _main_video(path, container)
    if stream.codec_context is None or not stream.codec_context.codec.is_decoder:
        raise TqError(
            ErrorCode.UNSUPPORTED,
            f"the video codec of {display(path)} cannot be decoded by this build",
        )
    # The decoder overwrites the colour tags of the container.
    stated = _colours(stream)
    frame, first_pts = _first_picture(path, container, stream)
    # AVI has no presentation times: ffmpeg invents some, late by the reorder delay of the codec.
    reordered = container.format.name == "avi" and bool(stream.codec_context.has_b_frames)
    if reordered and stream.start_time is not None and stream.time_base is not None:
        first_pts = stream.start_time * stream.time_base
    start_s = (container.start_time or 0) / 1_000_000
    duration_s = (container.duration or 0) / 1_000_000
    video = _video_track(stream, frame, first_pts, start_s, duration_s, stated)
    colour.require_mappable(video, display(path))
    return SourceFacts(
        container=container.format.name,
        duration_s=duration_s,
        start_time_s=start_s,
        bitrate=container.bit_rate or (int(size * 8 / duration_s) if duration_s else 0),
        size=size,
        video=video,
        audio=tuple(_audio_track(audio) for audio in container.streams.audio),
        subtitles=tuple(_subtitle_track(sub) for sub in container.streams.subtitles),
        linear=reordered,
        chapters=chapters.read(container),
        captions=_has_captions(path, stream.index),
    )


def _main_video(path: bytes, container: InputContainer) -> VideoStream:
    """The default video stream, else the first one; attached cover pictures do not count."""
    streams = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
    if not streams:
        raise TqError(ErrorCode.NO_MEDIA, f"{display(path)} has no video stream")
    return next((s for s in streams if _default(s)), streams[0])


def _first_picture(
    path: bytes, container: InputContainer, stream: VideoStream
) -> tuple[VideoFrame, Fraction | None]:
    """The first picture that can be decoded, and its presentation time; None if no early picture has one."""
    pictures = _pictures(path, container, stream)
    first = next(pictures, None)
    if first is None:
        if container.format.name == "mpegts" and _is_scrambled(path):
            raise _encrypted(path, "a transport stream with conditional access")
        raise TqError(ErrorCode.SOURCE_UNREADABLE, f"no picture of {display(path)} can be decoded")
    rate, _ = grid_rate(stream.guessed_rate, stream.base_rate, stream.average_rate)
    # Some containers drop negative timestamps: count back from the first picture that has one.
    later = itertools.islice(pictures, _FIRST_TIME_PICTURES)
    for number, picture in enumerate(itertools.chain([first], later)):
        if picture.pts is not None and picture.time_base is not None:
            return first, picture.pts * picture.time_base - number / rate
    return first, None


def _has_captions(path: bytes, index: int) -> bool:
    """Whether the first packets of a video stream carry closed captions (ATSC A/53 part 4)."""
    with open_source(path) as container:
        packets = itertools.islice(container.demux(container.streams[index]), _CAPTION_PACKETS)
        return any(_CAPTIONS in bytes(packet) for packet in packets)


def _is_scrambled(path: bytes) -> bool:
    """Whether any of the first packets of an MPEG-TS is marked as scrambled."""
    with open(source_file.to_open(path), "rb") as file:
        head = file.read(_TS_PACKET * 1000)
    return any(
        head[at] == _TS_SYNC and head[at + 3] & 0xC0 for at in range(0, len(head) - _TS_PACKET, _TS_PACKET)
    )


def _encrypted(path: bytes, scheme: str) -> TqError:
    return TqError(
        ErrorCode.UNSUPPORTED,
        f"{display(path)} is encrypted ({scheme}): its pictures cannot be decoded without a key",
        "add a copy that is not encrypted",
    )


def _pictures(path: bytes, container: InputContainer, stream: VideoStream) -> Iterator[VideoFrame]:
    """Decode pictures of a stream, from at most `_FIRST_PICTURE_PACKETS` packets."""
    for number, packet in enumerate(container.demux(stream)):
        if packet.has_sidedata("encryption_info"):
            # Decoding would at best give noise. The data begin with the scheme, such as `cenc`.
            raise _encrypted(
                path, bytes(packet.get_sidedata("encryption_info"))[:4].decode("ascii", "replace")
            )
        try:
            frames: list[Any] = stream.decode(packet)
        except av.error.InvalidDataError:
            frames = []  # a recording that starts within a GOP: the first whole picture comes later
        yield from (frame for frame in frames if isinstance(frame, VideoFrame))
        if number > _FIRST_PICTURE_PACKETS:
            return


def _video_track(
    stream: VideoStream,
    frame: VideoFrame,
    first_pts: Fraction | None,
    start_s: float,
    duration_s: float,
    stated: _Colours,
) -> VideoTrack:
    context = stream.codec_context
    rotation = round(frame.rotation) % 360
    width, height = display_size(frame.width, frame.height, stream.sample_aspect_ratio, rotation)
    fps, vfr = grid_rate(stream.guessed_rate, stream.base_rate, stream.average_rate)
    time_base = stream.time_base or Fraction(1, 1_000_000)
    if first_pts is None and stream.start_time is not None:
        first_pts = stream.start_time * time_base
    elif first_pts is None:
        first_pts = Fraction(start_s).limit_denominator(1_000_000)
    # In other containers ffmpeg sets an undeclared stream duration to that of the file.
    own = (
        stream.container.format.name in _WITH_LENGTHS and stream.duration is not None and stream.duration > 0
    )
    length = (
        float(stream.duration * time_base)
        if own and stream.duration is not None
        else max(0.0, start_s + duration_s - float(first_pts))
        if duration_s
        else 0.0
    )
    colours = _colours(stream)
    if context.name == "vp8":
        # VP8 does not carry them; ffmpeg's decoder always sets limited range and BT.601.
        matrix = colours.matrix if stated.matrix == colour.UNSPECIFIED else stated.matrix
        colours = colours._replace(range=stated.range or colours.range, matrix=matrix)
    dv_profile, dv_compatibility = _dolby_vision(stream) or _dolby_vision_of(frame) or (0, 0)
    return VideoTrack(
        index=stream.index,
        codec=_codec(stream),
        profile=str(stream.profile or ""),
        width=width,
        height=height,
        coded_width=frame.width,
        coded_height=frame.height,
        rotation=rotation,
        pix_fmt=frame.format.name,
        bit_depth=max((c.bits for c in frame.format.components), default=8),
        fps=fps,
        vfr=vfr,
        color_primaries=colours.primaries,
        color_transfer=colours.transfer,
        color_space=colours.matrix,
        color_range=colours.range,
        first_pts_s=first_pts,
        duration_s=length,
        own_duration=own,
        interlaced=bool(frame.interlaced_frame),
        bitrate=context.bit_rate or 0,
        dv_profile=dv_profile,
        dv_compatibility=dv_compatibility,
    )


def _colours(stream: VideoStream) -> _Colours:
    context = stream.codec_context
    return _Colours(
        int(context.color_primaries),
        int(context.color_trc),
        int(context.colorspace),
        int(context.color_range),
    )


def _dolby_vision(stream: VideoStream) -> tuple[int, int] | None:
    """Profile and compatibility id of the Dolby Vision configuration record, or None.

    PyAV does not expose the record, but ffmpeg's MP4 muxer writes it, so it is read from a muxed header.
    """
    header = io.BytesIO()
    try:
        with av.open(header, "w", format="mp4", options=_WITH_DOLBY_VISION) as copy:
            copy.add_stream_from_template(stream, opaque=True)
            copy.start_encoding()
    except (ValueError, av.error.FFmpegError):
        return None  # a codec that MP4 does not support
    record = re.search(rb"dv[cvw]C(.{5})", header.getvalue(), re.DOTALL)
    if record is None:
        return None
    _, _, profile_and_level, compatibility = struct.unpack(">BBHB", record[1])
    return profile_and_level >> 9, compatibility >> 4


def _dolby_vision_of(frame: VideoFrame) -> tuple[int, int] | None:
    """Detect Dolby Vision profile 5 from the metadata of a picture, for containers that lost the record.

    The RPU has 8 bits of prefix, 6 of type, 11 of format, then 4 of profile; 0 is profile 5, which has no
    base layer. None for all others.
    """
    rpu: Any = frame.side_data.get("DOVI_RPU_BUFFER")
    return (5, 0) if rpu is not None and int.from_bytes(bytes(rpu)[1:4]) >> 3 & 0xF == 0 else None


def _audio_track(stream: Any) -> AudioTrack:
    context = stream.codec_context
    return AudioTrack(
        index=stream.index,
        codec=_codec(stream),
        channels=channels_of(context) if context else 0,
        sample_rate=(context.sample_rate or 0) if context else 0,
        language=_language(stream),
        title=_title(stream),
        default=_default(stream),
        role=_role(stream),
    )


def _subtitle_track(stream: Stream) -> SubtitleTrack:
    context = getattr(stream, "codec_context", None)
    role: Literal["", "forced", "captions"] = ""
    if stream.disposition & Disposition.forced:
        role = "forced"
    elif stream.disposition & (Disposition.hearing_impaired | Disposition.captions):
        role = "captions"
    return SubtitleTrack(
        index=stream.index,
        codec=_codec(stream),
        language=_language(stream),
        title=_title(stream),
        default=_default(stream),
        text=context is not None and context.codec.is_decoder and bool(context.codec.text_sub),
        role=role,
    )


def _role(stream: Stream) -> Literal["", "commentary", "description"]:
    if stream.disposition & (Disposition.visual_impaired | Disposition.descriptions):
        return "description"
    return "commentary" if stream.disposition & Disposition.comment else ""


def _codec(stream: Stream) -> str:
    context = getattr(stream, "codec_context", None)
    return str(context.name) if context is not None else ""


def _language(stream: Stream) -> str:
    return languages.standard(stream.language or "")


def _title(stream: Stream) -> str:
    return title_of(str(stream.metadata.get("title", "")))


def _default(stream: Stream) -> bool:
    return bool(stream.disposition & Disposition.default)


def _refusal(path: bytes, size: int, error: av.error.FFmpegError) -> TqError:
    name = display(path)
    if isinstance(error, OSError) and error.errno == errno.EPERM:
        # ffmpeg refuses playlists that reference other protocols or files.
        return TqError(ErrorCode.NO_MEDIA, f"{name} is not a video: it refers to other files")
    if isinstance(error, OSError) and error.errno in _SYSTEM_ERRORS:
        return source_file.unreadable(path, error)
    if raw := _raw_stream(path):
        return TqError(
            ErrorCode.UNSUPPORTED,
            f"{name} is a raw {raw} stream without a container, so its pictures have no timestamps",
            "put it into a container with its rate: ffmpeg -r RATE -i FILE -c copy FILE.mkv",
        )
    with open(source_file.to_open(path), "rb") as file:
        head = file.read(512)
    if _SIGNATURES.match(head):
        return TqError(
            ErrorCode.SOURCE_UNREADABLE,
            f"{name} starts like a video but cannot be read ({size} bytes): it is damaged or incomplete",
        )
    return TqError(ErrorCode.NO_MEDIA, f"{name} is not a video, or of a format that is not supported")


def _raw_stream(path: bytes) -> str:
    """The codec name of a raw video stream; empty for any other file."""
    options = {"protocol_whitelist": source_file.PROTOCOLS, "format_whitelist": _RAW_FORMATS}
    try:
        with av.open(source_file.url(source_file.to_open(path)), options=options) as container:
            streams = [s for s in container.streams.video if s.codec_context and s.codec_context.width]
            return str(streams[0].codec_context.codec.canonical_name) if streams else ""
    except (av.error.FFmpegError, ValueError):
        return ""
