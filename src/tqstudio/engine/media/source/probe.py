"""Probes a source with PyAV. A hostile file may crash the process: never call this in the supervisor."""

from __future__ import annotations

import contextlib
import errno
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import av
import av.error
from av.codec.context import Flags
from av.container import InputContainer
from av.stream import Disposition, Stream
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from tqstudio import path_checks
from tqstudio.engine.media import languages
from tqstudio.engine.media.source import chapters, colour, picture_shapes, source_file, streams
from tqstudio.engine.media.source.cut import mp3_length_s
from tqstudio.engine.media.source.facts import (
    NO_PICTURE,
    AudioTrack,
    SourceFacts,
    SubtitleTrack,
    VideoTrack,
    title_of,
)
from tqstudio.engine.media.source.measure import measure
from tqstudio.engine.media.source.packet_times import grid_rate
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display

# Packets read at most to find the first picture, normally one of the first few.
_FIRST_PICTURE_PACKETS = 2000
# Codecs of whole pictures, whose decoders mark none as interlaced: of tapes, and of editing programs.
_WITHOUT_FIELDS = ("cfhd", "ffvhuff", "huffyuv", "jpeg2000", "magicyuv", "mjpeg", "png", "utvideo")
# Pictures decoded at most to find one with a timestamp.
_FIRST_TIME_PICTURES = 120
# Errors of the operating system; ffmpeg raises all others because of the content.
_SYSTEM_ERRORS = path_checks.FAILING | path_checks.LIMITS | {errno.ENOENT, errno.EACCES, errno.ENOTDIR}
# Containers in which each stream declares its duration.
_WITH_LENGTHS = ("mov,mp4,m4a,3gp,3g2,mj2", "avi")

# Magic numbers of supported containers, to distinguish a damaged video from a file that is not a video.
_SIGNATURES = re.compile(
    rb"....(?:ftyp|moov|mdat|free|skip|wide|pnot)|\x1aE\xdf\xa3|RIFF....AVI |FLV\x01|OggS"
    rb"|0&\xb2u\x8ef\xcf\x11|\x00\x00\x01\xba|G.{187}G|.{4}G.{191}G|\x06\x0e+4|\.RMF|nut/multimedia"
    rb"|ID3|fLaC|RIFF....WAVE|FORM....AIF",
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
        container = av.open(
            source_file.url(source_file.to_open(path)),
            options=source_file.OPTIONS,
            metadata_errors="replace",
        )
    except av.error.FFmpegError as error:
        raise _refusal(path, facts.st_size, error) from error
    for stream in filter(_codec, container.streams.video):
        # As the program ffmpeg crops; else columns on the left are kept for the alignment in memory.
        stream.codec_context.flags |= Flags.unaligned
    return container


def probe(path: bytes, check: Callable[[], None] = lambda: None) -> SourceFacts:
    """Read the header and all packets of a source; 3 s for two hours of video in the page cache.

    `check` is called often; its exceptions abort the probe. Raises as `probe_head`, and as `require_readable`
    if the file cannot be read to its end.
    """
    facts = probe_head(path)
    with streams.watched(facts.container) as skips, open_source(path) as container:
        return measure(path, container, facts, check, skips)


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
    if container.format.name == "asf" and streams.is_protected(path):
        raise source_file.encrypted(path, "Windows Media DRM")
    videos = streams.videos(container)
    omitted = streams.beside(container, videos)
    left_out = {stream.index for stream in omitted}
    duration_s = (container.duration or 0) / 1_000_000
    facts = SourceFacts(
        container=container.format.name,
        duration_s=duration_s,
        start_time_s=(container.start_time or 0) / 1_000_000,
        bitrate=container.bit_rate or (int(size * 8 / duration_s) if duration_s else 0),
        size=size,
        video=NO_PICTURE,
        audio=tuple(_audio_track(s) for s in container.streams.audio if s.index not in left_out),
        subtitles=tuple(_subtitle_track(s) for s in container.streams.subtitles if s.index not in left_out),
        omitted=omitted,
        chapters=chapters.read(container),
    )
    if not videos:
        return replace(facts, video=_cover(path, container, facts))
    stream = videos[0]
    if stream.codec_context is None or not stream.codec_context.codec.is_decoder:
        text = f"the video codec of {display(path)} cannot be decoded by this build"
        raise TqError(ErrorCode.UNSUPPORTED, text)
    # The decoder overwrites the colour tags of the container.
    stated = _colours(stream)
    frame, first_pts, turns = _first_picture(path, container, stream)
    # AVI has no presentation times: ffmpeg invents some, late by a delay that it assumes for the codec.
    reordered = facts.container == "avi" and bool(stream.codec_context.has_b_frames)
    if facts.container == "avi" and stream.start_time is not None and stream.time_base is not None:
        first_pts = stream.start_time * stream.time_base
    video = _video_track(stream, frame, first_pts, facts, stated)
    edits = streams.edits(lambda: open_source(path), stream)
    video = replace(video, varies=video.varies or turns, edits=edits)
    colour.require_mappable(video, frame.side_data, display(path))
    return replace(facts, video=video, unseekable=reordered)


def _cover(path: bytes, container: InputContainer, facts: SourceFacts) -> VideoTrack:
    """The cover of a source of sound alone, with the times of that sound."""
    if not facts.audio:
        raise TqError(ErrorCode.NO_MEDIA, f"{display(path)} has neither video nor sound")
    stream = container.streams[facts.leading]
    if not _codec(stream):
        raise TqError(ErrorCode.UNSUPPORTED, f"the sound of {display(path)} cannot be decoded by this build")
    if next(_frames(path, container, stream), None) is None:
        raise TqError(ErrorCode.SOURCE_UNREADABLE, f"no sound of {display(path)} can be decoded")
    cover = NO_PICTURE
    with open_source(path) as opened, contextlib.suppress(av.error.FFmpegError, TqError):
        for picture in filter(_codec, opened.streams.video[:1]):
            for frame in itertools.islice(_frames(path, opened, picture), 1):
                found = _video_track(picture, frame, None, facts, _colours(picture))
                colour.require_mappable(found, frame.side_data, display(path))
                cover = replace(found, still=True, fps=NO_PICTURE.fps, vfr=False)
    first_s, length_s, own = _times(stream, None, facts)
    if facts.container == "mp3":
        length_s, own = mp3_length_s(path), True
    elif facts.container == "aac":
        length_s = 0.0  # ffmpeg estimates it from the first frames
    return replace(cover, first_pts_s=first_s, duration_s=length_s, own_duration=own)


def _first_picture(
    path: bytes, container: InputContainer, stream: VideoStream
) -> tuple[VideoFrame, Fraction | None, bool]:
    """The first picture that can be decoded, and its presentation time; None if no early picture has one.

    Also whether only some pictures state a rotation, as by SEI messages of key frames; it holds for all.
    """
    pictures = _frames(path, container, stream)
    first = next(pictures, None)
    if first is None:
        if container.format.name == "mpegts" and streams.is_scrambled(path):
            raise source_file.encrypted(path, "a transport stream with conditional access")
        raise TqError(ErrorCode.SOURCE_UNREADABLE, f"no picture of {display(path)} can be decoded")
    seen = [first]
    with contextlib.suppress(av.error.FFmpegError):  # damage after the first picture is measured later
        seen += itertools.islice(pictures, 1)
    if container.format.name == "gif" and len(seen) == 1:
        raise TqError(ErrorCode.NO_MEDIA, f"{display(path)} is a single picture, not a moving one")
    turns = seen[-1].rotation != first.rotation
    rate, _ = grid_rate(stream.guessed_rate, stream.base_rate, stream.average_rate)
    # Some containers drop negative timestamps: count back from the first picture that has one.
    later = itertools.islice(pictures, _FIRST_TIME_PICTURES)
    for number, picture in enumerate(itertools.chain(seen, later)):
        if picture.pts is not None and picture.time_base is not None:
            return first, picture.pts * picture.time_base - number / rate, turns
    return first, None, turns


def _frames(path: bytes, container: InputContainer, stream: Any) -> Iterator[Any]:
    """Decode a stream, from at most `_FIRST_PICTURE_PACKETS` packets."""
    for number, packet in enumerate(streams.packets(container, stream)):
        if scheme := streams.scheme_of(packet):
            raise source_file.encrypted(path, scheme)
        try:
            frames: list[Any] = stream.decode(packet)
        except av.error.InvalidDataError:
            frames = []  # a recording that starts within a GOP: the first whole picture comes later
        yield from frames
        if number > _FIRST_PICTURE_PACKETS:
            return


def _video_track(
    stream: VideoStream, frame: VideoFrame, first_pts: Fraction | None, facts: SourceFacts, stated: _Colours
) -> VideoTrack:
    context = stream.codec_context
    rotation = round(frame.rotation) % 360
    hidden = streams.container_crop(stream)
    across, down = max(1, frame.width - hidden[0]), max(1, frame.height - hidden[1])
    rows = picture_shapes.vbi_rows(facts.container, _codec(stream), frame.width, frame.height)
    down -= rows
    aspect = picture_shapes.shown_aspect(stream.sample_aspect_ratio, down, rows)
    width, height = picture_shapes.display_size(across, down, aspect, rotation)
    fps, vfr = grid_rate(stream.guessed_rate, stream.base_rate, stream.average_rate)
    first_pts, length, own = _times(stream, first_pts, facts)
    colours = _colours(stream)
    # Decoders forget what the container says where the pictures do not.
    if colour.UNSPECIFIED in colours[:3]:
        both = zip(colours[:3], stated[:3], strict=True)
        primaries, transfer, matrix = (said if own == colour.UNSPECIFIED else own for own, said in both)
        colours = _Colours(primaries, transfer, matrix, colours.range)
    if context.name == "vp8":
        # VP8 does not carry them; ffmpeg's decoder always sets limited range and BT.601.
        matrix = colours.matrix if stated.matrix == colour.UNSPECIFIED else stated.matrix
        colours = colours._replace(range=stated.range or colours.range, matrix=matrix)
    # FFmpeg has two values for each: the fields may be stored apart or woven.
    declared: dict[int, Literal["tff", "bff"]] = {2: "tff", 4: "tff", 3: "bff", 5: "bff"}
    fields: Literal["", "tff", "bff"] = ""
    if context.name in _WITHOUT_FIELDS:
        fields = declared.get(context.field_order, "")
    dv_profile, dv_compatibility = (
        streams.dolby_vision(stream) or picture_shapes.dolby_vision_of(frame) or (0, 0)
    )
    return VideoTrack(
        index=stream.index,
        codec=str(context.codec.canonical_name),
        profile=str(stream.profile or ""),
        width=width,
        height=height,
        coded_width=across,
        coded_height=down,
        # An older ffmpeg does not crop; the picture is fitted then.
        varies=hidden != (0, 0),
        rotation=rotation,
        pix_fmt=picture_shapes.pixel_format(stream, frame),
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
        interlaced=bool(frame.interlaced_frame or fields),
        bitrate=context.bit_rate or 0,
        dv_profile=dv_profile,
        dv_compatibility=dv_compatibility,
        peak_nits=colour.peak_of(frame.side_data),
        vbi_rows=rows,
        fields=fields,
    )


def _times(stream: Stream, first: Fraction | None, facts: SourceFacts) -> tuple[Fraction, float, bool]:
    """Start and length of a stream in seconds, and whether it declares the length itself."""
    time_base = stream.time_base or Fraction(1, 1_000_000)
    if first is None and stream.start_time is not None:
        first = stream.start_time * time_base
    elif first is None:
        first = Fraction(facts.start_time_s).limit_denominator(1_000_000)
    # In other containers ffmpeg sets an undeclared stream duration to that of the file.
    if facts.container in _WITH_LENGTHS and stream.duration is not None and stream.duration > 0:
        return first, float(stream.duration * time_base), True
    until_s = facts.start_time_s + facts.duration_s - float(first)
    return first, max(0.0, until_s) if facts.duration_s else 0.0, False


def _colours(stream: VideoStream) -> _Colours:
    context = stream.codec_context
    tags = context.color_primaries, context.color_trc, context.colorspace, context.color_range
    return _Colours(*map(int, tags))


def _audio_track(stream: Any) -> AudioTrack:
    context = stream.codec_context
    role: Literal["", "commentary", "description"] = ""
    if stream.disposition & (Disposition.visual_impaired | Disposition.descriptions):
        role = "description"
    elif stream.disposition & Disposition.comment:
        role = "commentary"
    return AudioTrack(
        **_described(stream),
        channels=streams.channels_of(context) if context else 0,
        sample_rate=(context.sample_rate or 0) if context else 0,
        role=role,
        **(streams.placing_of(context) if context else {}),
    )


def _subtitle_track(stream: Stream) -> SubtitleTrack:
    context = getattr(stream, "codec_context", None)
    role: Literal["", "forced", "captions"] = ""
    closed_captions = Disposition.hearing_impaired | Disposition.captions
    if stream.disposition & Disposition.forced:
        role = "forced"
    elif stream.disposition & closed_captions or _codec(stream) == "eia_608":
        role = "captions"
    text = context is not None and context.codec.is_decoder and bool(context.codec.text_sub)
    return SubtitleTrack(**_described(stream), text=text, role=role)


def _described(stream: Stream) -> dict[str, Any]:
    """The fields that tracks of audio and of subtitles share."""
    return {
        "index": stream.index,
        "codec": _codec(stream),
        "language": languages.standard(stream.language or ""),
        "title": title_of(str(stream.metadata.get("title") or stream.metadata.get("name", ""))),
        "default": _default(stream),
    }


def _codec(stream: Stream) -> str:
    context = getattr(stream, "codec_context", None)
    name = str(context.name) if context is not None else ""
    # Not the name of the decoder, which stands for captions in pictures.
    return "eia_608" if name == "cc_dec" else name


def _default(stream: Stream) -> bool:
    return bool(stream.disposition & Disposition.default)


def _refusal(path: bytes, size: int, error: av.error.FFmpegError) -> TqError:
    name = display(path)
    if isinstance(error, OSError) and error.errno == errno.EPERM:
        # ffmpeg refuses playlists that reference other protocols or files.
        return TqError(ErrorCode.NO_MEDIA, f"{name} is neither video nor sound: it refers to other files")
    if isinstance(error, OSError) and error.errno in _SYSTEM_ERRORS:
        return source_file.unreadable(path, error)
    if raw := streams.raw_codec(path):
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
    return TqError(
        ErrorCode.NO_MEDIA, f"{name} is neither video nor sound, or of a format that is not supported"
    )
