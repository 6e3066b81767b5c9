"""Builds the ffmpeg commands for video and poster, to be run in an empty scratch directory."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any

import ffmpeg as compiler

from tqstudio.engine.media.ffmpeg import gpu_decode
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.burn import TOLERANT, with_bitmaps
from tqstudio.engine.media.ffmpeg.clock_filters import filtered, on_clock
from tqstudio.engine.media.ffmpeg.command_line import (
    CAP_FACTOR,
    CAP_MARGIN_S,
    CAP_UNDECLARED_S,
    SOURCE,
    at,
    compile_command,
    input_options,
    open_input,
    read_all_streams,
    start_of,
    without_repeats,
)
from tqstudio.engine.media.ffmpeg.output_options import (
    encoder_options,
    hls_options,
    input_filters,
    open_gpu,
    open_vulkan,
)
from tqstudio.engine.media.plan.copying import is_tagged
from tqstudio.engine.media.plan.file_names import (
    FRAGMENT_PATTERN,
    KEY_FRAMES_NAME,
    KEY_TIMES_NAME,
    PLAYLIST_NAME,
    POSTER_NAME,
    SPRITE_PATTERN,
)
from tqstudio.engine.media.plan.grid import Grid, fields_of
from tqstudio.engine.media.plan.keys import conversion, pixel_format
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.plan.subtitles import burnt_subtitles
from tqstudio.engine.media.plan.video_codecs import CPU_ENCODER
from tqstudio.engine.media.source import colour
from tqstudio.engine.media.source.facts import SourceFacts, VideoTrack

# A plain seek loses or repeats frames in some containers. So a run seeks to a point before its start, and
# `trim` cuts exactly. MP4 has an index of key frames: there a run starts with the last key frame decoded
# before the cut, without a margin. With open GOPs that key frame may be shown a few frames after the cut;
# then the check of the seam fails, and the run is repeated with the margin.
_SEEK_MARGIN_S = 10
_INDEXED = "mov,mp4,m4a,3gp,3g2,mj2"
# Most encoders set a key frame every 10 s at least; do not read a whole source to find the next one.
_KEY_FRAME_WITHIN_S = 12
# A frame of a rate, in the time base of packets.
_FRAME_S = "1/({})/TB"
# What players assume of pictures that do not say what their colours are, where they are copied.
_STATED = "colour_primaries=1:transfer_characteristics=1:matrix_coefficients=1"
# Codecs whose encoders make pictures smaller without a key frame when the bandwidth drops.
_RESIZED = ("av1", "vp9")


def video_command(
    ffmpeg: FFmpeg,
    source: bytes,
    facts: SourceFacts,
    grid: Grid,
    profile: Profile,
    rungs: Sequence[Rung],
    encoder: str = CPU_ENCODER,
    start: int = 0,
    stop: int | None = None,
    device: str | None = None,
    early: bool = False,
    on_device: bool = False,
) -> list[str]:
    """Build the command that decodes once and writes fragments `start` … `stop` − 1 of all given rungs.

    Its output directories, `<rung>/`, must exist, and `BITMAPS_NAME` if subtitles are burnt in. Progress is
    written to stdout. With `facts.unseekable` it decodes from the start of the source; frames and times are
    the same.

    Args:
        rungs: all of SDR, or all of HDR.
        encoder: of the codec of the rungs.
        stop: None encodes to the end of the source.
        device: of a GPU encoder or of `on_device`, see `hardware.Device`.
        early: seek with a margin even if the source has an index.
        on_device: decode and scale on the device too, which `gpu_decode` permits.
    """
    first, end = grid.fragment_start(start), _end_frame(facts, grid, start, stop)
    decoder = (device or "") if on_device else ""
    stream = pictures(ffmpeg, facts, grid, profile, rungs[0], start, stop, early=early, decoder=decoder)
    branches = stream.filter_multi_output("split", len(rungs))
    outputs = [
        _of_rung(branches[number], facts, rung, encoder, pixel_format(profile, rung), decoder).output(
            str(PurePosixPath(rung.name, PLAYLIST_NAME)),
            **encoder_options(profile, rung, grid.gop, encoder, device),
            **_joins_copy(ffmpeg, grid, start, stop, encoder),
            # `trim` ends the run; this also limits the output if `trim` fails to.
            **{"frames:v": end - first},
            # ffmpeg's own constant-rate mode would shift or duplicate the first pictures.
            fps_mode="passthrough",
            **hls_options(rung.name, FRAGMENT_PATTERN, grid.hls_time, grid.output_offset, start),
        )
        for number, rung in enumerate(rungs)
    ]
    opens = [] if decoder and gpu_decode.feeds(encoder, decoder) else open_gpu(encoder, device)
    if decoder:
        opens += gpu_decode.open_decoder(decoder)
    argv = compile_command(
        ffmpeg, source, outputs, progress=True, threads=0, before=(*opens, *picture_options(facts, profile))
    )
    return argv + read_all_streams(facts)


def pictures(
    ffmpeg: FFmpeg,
    facts: SourceFacts,
    grid: Grid,
    profile: Profile,
    rung: Rung,
    start: int = 0,
    stop: int | None = None,
    *,
    early: bool = False,
    decoder: str = "",
) -> Any:
    """The pictures of the source as all rungs like this one show them, before they are scaled.

    Arguments are those of `video_command`; `decoder` is the device that decodes, if any. Commands with them
    need `picture_options`.
    """
    first, end = grid.fragment_start(start), _end_frame(facts, grid, start, stop)
    in_head = first < grid.head
    fields = fields_of(facts.video, profile)
    # What becomes of fields depends on the pictures around them.
    early = early or facts.video.interlaced or fields == "film"
    seek = Fraction(0) if facts.unseekable or in_head else _seek(facts, grid, start, early)
    stream = _decoded(ffmpeg, facts, seek, decoder)
    # Repeat the first picture from where the sound begins. With seeking, only in runs that start there.
    begins = in_head or (start == 0 and bool(facts.video.edits))
    stream = on_clock(stream, facts, grid, fields, first, begins=begins, seeks=bool(seek))
    # Integers on the 1/fps clock of the fps filter: times in seconds are rounded and may be off by a frame.
    from_first = {"start_pts": grid.g0 + first} if start else {}
    stream = stream.filter("trim", end_pts=grid.g0 + end, **from_first)
    stream = filtered(stream, conversion(facts.video, profile, rung))
    if burnt := burnt_subtitles(facts, profile):
        published = pixel_format(profile, rung)
        stream = with_bitmaps(stream, facts, grid, burnt, end, published, hdr=rung.hdr)
    return stream


def picture_options(facts: SourceFacts, profile: Profile) -> list[str]:
    """The global options of commands with `pictures`."""
    return [*open_vulkan(facts.video), *(TOLERANT if burnt_subtitles(facts, profile) else ())]


def key_times(grid: Grid, start: int, stop: int | None) -> str:
    """The times of the key frames after the first one of a run, for a grid whose fragments differ in length.

    A quarter of a frame early: ffmpeg 9 misses exact ones, and version 5 some that are half a frame early.
    """
    numbers = range(start + 1, grid.fragment_count if stop is None else stop)
    frames = (grid.g0 + grid.fragment_start(each) - Fraction(1, 4) for each in numbers)
    return ",".join(f"{float(frame / grid.fps):.6f}" for frame in frames)


def _joins_copy(ffmpeg: FFmpeg, grid: Grid, start: int, stop: int | None, encoder: str) -> dict[str, Any]:
    """The options of a quality beside a copy: key frames where fragments begin, and its decode times."""
    if grid.copied is None:
        return {}
    first, options = grid.fragment_start(start), {}
    if times := key_times(grid, start, stop):
        # The list of a film has 40 kB, and would be in every record of the command.
        from_file = ffmpeg.is_at_least(7)
        options = {"/force_key_frames": KEY_TIMES_NAME} if from_file else {"force_key_frames": times}
    if encoder == "libx265":
        options["forced-idr"] = "1"
    return {**options, "bsf:v": f"setts=pts=PTS:dts={_decoded_at(grid, first)}"}


def _decoded_at(grid: Grid, first: int) -> str:
    """When ffmpeg's packet N is decoded, for `setts`; the first one is shown as frame `first` of the grid.

    Equally long before it is shown in all qualities: where players that ignore edit lists change from one to
    another, they would find a gap.
    """
    return f"({grid.g0 + first - grid.reordered}+N)*{_FRAME_S.format(grid.fps)}"


def copy_command(ffmpeg: FFmpeg, source: bytes, facts: SourceFacts, grid: Grid, rung: Rung) -> list[str]:
    """Build the command that copies the pictures of the source, one fragment for each of its key frames.

    Its output directory, `<rung>/`, must exist. Each packet gets its place on the clock of the grid, from
    which containers that round times to milliseconds deviate.
    """
    video, frame_s = facts.video, _FRAME_S.format(grid.fps)
    clock = (
        f"setts=pts=PTS-{float(video.first_pts_s):.9f}/TB+{grid.g0}*{frame_s}:dts={_decoded_at(grid, 0)}"
        f":duration={frame_s}:time_base={1 / grid.fps}"
    )
    sets = {"h264": "7-9", "hevc": "32-35"}[video.codec]
    filters = [
        # They are in the initialisation segment, where players look for them.
        *([f"filter_units=remove_types={sets}"] if video.sets_inside else []),
        *([f"{video.codec}_metadata={_STATED}"] if not is_tagged(video) else []),
        clock,
    ]
    output = open_input(1, facts)[str(video.index)].output(
        str(PurePosixPath(rung.name, PLAYLIST_NAME)),
        **{"c:v": "copy", "bsf:v": ",".join(filters)},
        **({"tag:v": "hvc1"} if video.codec == "hevc" else {}),
        **hls_options(rung.name, FRAGMENT_PATTERN, grid.hls_time, grid.output_offset, 0),
    )
    return compile_command(ffmpeg, source, [output], progress=True, threads=0)


def _decoded(ffmpeg: FFmpeg, facts: SourceFacts, seek: Fraction, decoder: str) -> Any:
    """The pictures from a seek on, all of one size, unless that varies as the facts say."""
    resized = () if decoder or facts.video.varies else _first_size(facts.video)
    # A GPU needs no threads, but some frames for each of them.
    opened = open_input(
        1 if decoder else 0,
        facts,
        seek,
        **colour.decoder_of(facts.video),
        **without_repeats(ffmpeg, facts.video),
        **(gpu_decode.decoder_options(decoder) if decoder else {}),
        **({"copyts": None, "advanced_editlist": "0"} if facts.video.edits else {}),
        **({"reinit_filter:v": "0"} if resized else {}),
    )
    stream = _pictures(opened, facts)
    return stream.filter("scale", *resized) if resized else stream


def _of_rung(
    stream: Any, facts: SourceFacts, rung: Rung, encoder: str, pixel_format: str, decoder: str
) -> Any:
    if decoder:
        stream = filtered(stream, gpu_decode.scaling(facts.video, rung, decoder))
        filters = gpu_decode.output_filters(encoder, pixel_format, decoder)
    else:
        stream = stream.filter("scale", rung.width, rung.height)
        filters = input_filters(encoder, pixel_format)
    stream = stream.filter("setsar", 1)
    for name, *arguments in filters:
        stream = stream.filter(name, *arguments)
    return stream


class PosterPicture(Enum):
    """Which picture becomes the poster, in the order in which they are tried."""

    KEY_FRAME = "the first key frame from the profile's position on"
    """Often the start of a scene, and no other picture is decoded: 0.1 s instead of 1.5 s for 1080p."""
    AT_POSITION = "the one at the profile's position"
    FIRST = "the first of all"


def poster_command(
    ffmpeg: FFmpeg,
    source: bytes,
    facts: SourceFacts,
    profile: Profile,
    picture: PosterPicture = PosterPicture.KEY_FRAME,
) -> list[str]:
    """Build the command that writes `poster.jpg`. Without such a picture it exits with 0 and writes
    nothing."""
    is_first = picture is PosterPicture.FIRST or facts.video.still
    share = 0.0 if is_first else profile.poster_position
    width, height = _poster_size(facts, profile)
    only = {"skip_frame": "nokey", "t": _KEY_FRAME_WITHIN_S} if picture is PosterPicture.KEY_FRAME else {}
    # Seconds from the start of the file: without -copyts, ffmpeg adds the start time.
    where = at(_poster_s(facts, share))
    read = {**colour.decoder_of(facts.video), **without_repeats(ffmpeg, facts.video)}
    opened = compiler.input(SOURCE, **input_options(1), **where, **only, **read)
    # From one picture alone: the next key frame shows something else.
    joined = (("estdif", {"mode": "frame", "deint": "interlaced"}),) if facts.video.interlaced else ()
    flat, video = colour.flattened(facts.video, profile.background)
    shown = (*joined, *flat, *colour.to_bt709(video), *colour.to_jpeg(width, height))
    output = filtered(_pictures(opened, facts), shown).output(
        POSTER_NAME, **{"c:v": "mjpeg", "frames:v": 1, "q:v": 3, "f": "image2", "update": 1}
    )
    options = open_vulkan(facts.video)
    return compile_command(ffmpeg, source, [output], progress=False, threads=1, before=options)


def storyboard_command(ffmpeg: FFmpeg, size: tuple[int, int], tiles: tuple[int, int]) -> list[str]:
    """Build the command that writes the key frames of `KEY_FRAMES_NAME`, in its directory, on sprites.

    A picture has `size` pixels, a sprite `tiles` columns and rows.
    """
    opened = compiler.input(f"file:{KEY_FRAMES_NAME}", **input_options(1), skip_frame="nokey")
    # Not every decoder can skip the other frames.
    shown = filtered(opened["v:0"].filter("select", "key"), colour.to_jpeg(*size))
    output = shown.filter("tile", f"{tiles[0]}x{tiles[1]}").output(
        SPRITE_PATTERN, **{"c:v": "mjpeg", "q:v": 4, "f": "image2", "start_number": 0}, fps_mode="passthrough"
    )
    return compile_command(ffmpeg, None, [output], progress=True, threads=1)


def _poster_size(facts: SourceFacts, profile: Profile) -> tuple[int, int]:
    """Width and height of the poster, both even, in the display aspect ratio."""
    height = min(profile.poster_height, facts.video.height)
    width = facts.video.width * height // facts.video.height
    return max(2, width - width % 2), max(2, height - height % 2)


def _pictures(opened: Any, facts: SourceFacts) -> Any:
    """The decoded pictures of an input, without what is above them, marked as their container declares."""
    stream, rows = opened[str(facts.video.index)], facts.video.vbi_rows
    if facts.video.fields:
        stream = stream.filter("setfield", facts.video.fields)
    if facts.video.pix_fmt.startswith("xyz"):
        # Of digital cinema. zscale knows no such pictures.
        stream = stream.filter("format", "gbrp12")
    return stream.filter("crop", "iw", f"ih-{rows}", 0, rows) if rows else stream


def _poster_s(facts: SourceFacts, share: float) -> float:
    """Position of the poster in seconds from the start of the file, at most that of the last picture."""
    last_s = facts.video.last_s
    at_s = facts.duration_s * share
    return at_s if last_s is None or facts.unseekable else max(0.0, min(at_s, last_s - facts.start_time_s))


def _first_size(video: VideoTrack) -> tuple[int, int] | tuple[()]:
    """The decoded width and height, where the size may change between key frames, which no sample shows."""
    if video.codec not in _RESIZED or video.rotation % 90:
        return ()
    width, height = video.coded_width, video.coded_height
    return (height, width) if video.rotation % 180 else (width, height)


def is_indexed(facts: SourceFacts) -> bool:
    """Whether the source has an index of its key frames, so that a seek needs no margin."""
    return facts.container == _INDEXED


def _seek(facts: SourceFacts, grid: Grid, start: int, early: bool) -> Fraction:
    """Value of `-ss` in seconds from the smallest timestamp of the file."""
    margin_s = 0 if is_indexed(facts) and not early else _SEEK_MARGIN_S
    at_s = (grid.g0 + grid.fragment_start(start)) / grid.fps
    # In the file it comes later by what the edits before it leave out.
    at_s += Fraction(
        max((media - begins for begins, media, _ in facts.video.edits if begins <= at_s), default=0)
    )
    return max(Fraction(0), at_s - start_of(facts) - margin_s) if start else Fraction(0)


def _end_frame(facts: SourceFacts, grid: Grid, start: int, stop: int | None) -> int:
    """The frame at which a run ends, exclusive, counted from the first frame of the grid."""
    if stop is not None or grid.exact:
        end = grid.total_frames if stop is None else grid.fragment_start(stop)
        return min(end, grid.total_frames) if grid.exact else end
    declared = facts.video.duration_s or facts.duration_s
    cap = (
        int(grid.total_frames * CAP_FACTOR + CAP_MARGIN_S * grid.fps)
        if declared
        else int(CAP_UNDECLARED_S * grid.fps)
    )
    return max(cap, grid.fragment_start(start + 1))
