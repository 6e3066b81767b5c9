"""Builds the ffmpeg commands for video, audio and poster, to be run in an empty scratch directory.

Output names are relative, because a `%` in a path breaks the hls muxer. The source is given as `file:` and an
absolute path, so that no name is read as an option or a URL. ffmpeg-python compiles the filter graph and the
options; it sorts the options of each file, which makes no difference to ffmpeg.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any

import ffmpeg as compiler

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.output_options import encoder_options, hls_options
from tqstudio.engine.media.plan.audio import DOWNMIX_PEAK, AudioRendition
from tqstudio.engine.media.plan.file_names import (
    CPU_ENCODER,
    FRAGMENT_PATTERN,
    PLAYLIST_NAME,
    POSTER_NAME,
    SEGMENT_PATTERN,
)
from tqstudio.engine.media.plan.grid import TIMELINE_START_S, UNEVEN_S, Grid
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.plan.subtitles import SubtitleRendition
from tqstudio.engine.media.source import colour
from tqstudio.engine.media.source import source_file as sources
from tqstudio.engine.media.source.facts import AudioTrack, SourceFacts

# Placeholder for the source in the graph: the compiler cannot hash a name that is not UTF-8.
_SOURCE = "file:source"

# A plain seek loses or repeats frames in some containers. So a run seeks to a point before its start, and
# `trim` cuts exactly. MP4 has an index of key frames: there a run starts with the last key frame decoded
# before the cut, without a margin. With open GOPs that key frame may be shown a few frames after the cut;
# then the check of the seam fails, and the run is repeated with the margin.
_SEEK_MARGIN_S = 10
_INDEXED = "mov,mp4,m4a,3gp,3g2,mj2"
# Most encoders set a key frame every 10 s at least; do not read a whole source to find the next one.
_KEY_FRAME_WITHIN_S = 12
# Audio timestamps may be off by this much before silence is inserted or samples are dropped.
_MAX_AUDIO_OFFSET_S = 0.03
# Lost pictures at the end are replaced up to this length; more fails the verification.
_MAX_REPAIRED_S = Fraction(1, 2)
# Recordings change their shape a few times per hour. ffmpeg's expressions nest at most 100 levels.
_MAX_ASPECTS = 60
# A source may be longer than it declares, but jumping timestamps must not turn a few seconds into millions of
# frames.
_CAP_FACTOR = 2
_CAP_MARGIN_S = 60
_CAP_UNDECLARED_S = 24 * 3600
SUBTITLE_OFFSET_S = 1000
"""WebVTT has no negative times: the muxer would shift all of them."""
_LAYOUTS = {1: "mono", 2: "stereo", 3: "2.1", 4: "4.0", 5: "5.0", 6: "5.1", 7: "6.1", 8: "7.1"}
"""ffmpeg's default layout by number of channels."""


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
) -> list[str]:
    """Build the command that decodes once and writes fragments `start` … `stop` − 1 of all given rungs.

    Its output directories, `<rung>/`, must exist. Progress is written to stdout. With `facts.linear` it
    decodes from the start of the source; frames and timestamps are the same.

    Args:
        encoder: `libx264` or `h264_nvenc`.
        stop: None encodes to the end of the source.
        device: index of the GPU for a GPU encoder.
        early: seek with a margin even if the source has an index.
    """
    first = start * grid.gop
    end = _end_frame(facts, grid, start, stop)
    in_head = first < grid.head
    seek = Fraction(0) if facts.linear or in_head else _seek(facts, grid, start, early)
    stream: Any = _input(0, facts, seek)[str(facts.video.index)]
    if facts.video.varies:
        stream = _one_size(stream, facts)
    if facts.video.interlaced:
        stream = stream.filter("bwdif", mode="send_frame", deint="interlaced")
    # Repeat the first picture from where the sound begins. With seeking, only in runs that start there.
    early_start = {"start_time": f"{float(grid.g0 / grid.fps):.6f}"} if in_head and not facts.linear else {}
    # Keep a last picture that is shown for less than half a frame; `trim` limits the number of frames.
    at_the_end = {"eof_action": "pass"} if grid.exact else {}
    stream = stream.filter("fps", fps=_rate(grid.fps), **early_start, **at_the_end)
    if facts.linear:
        # When ffmpeg corrects jumps, times start at zero: shift them to the grid.
        if grid.head:
            stream = stream.filter("setpts", "PTS-STARTPTS")
            stream = stream.filter("tpad", start=grid.head, start_mode="clone")
        stream = stream.filter("setpts", f"PTS-STARTPTS{grid.g0:+d}")
    # Repeat the last picture for a few lost ones, but no more: if the decoder stops early, the verification
    # has to detect it.
    repeated = grid.tail + (math.ceil(_MAX_REPAIRED_S * grid.fps) if grid.exact else 0)
    if repeated:
        stream = stream.filter("tpad", stop=repeated, stop_mode="clone")
    # Integers on the 1/fps clock of the fps filter: times in seconds are rounded and may be off by a frame.
    begins = {"start_pts": grid.g0 + first} if start else {}
    stream = stream.filter("trim", end_pts=grid.g0 + end, **begins)
    stream = _filtered(stream, colour.to_bt709(facts.video))
    branches = stream.filter_multi_output("split", len(rungs))
    outputs = [
        branches[number]
        .filter("scale", rung.width, rung.height)
        .filter("setsar", 1)
        .filter("format", profile.pixel_format)
        .output(
            str(PurePosixPath(rung.name, PLAYLIST_NAME)),
            **encoder_options(profile, rung, grid, encoder, device),
            # `trim` ends the run; this also limits the output if `trim` fails to.
            **{"frames:v": end - first},
            # ffmpeg's own constant-rate mode would shift or duplicate the first pictures.
            fps_mode="passthrough",
            **hls_options(rung.name, FRAGMENT_PATTERN, grid.hls_time, grid.output_offset, start),
        )
        for number, rung in enumerate(rungs)
    ]
    return _compile(ffmpeg, source, outputs, progress=True, threads=0) + _read_all_streams(facts)


def audio_command(
    ffmpeg: FFmpeg,
    source: bytes,
    facts: SourceFacts,
    grid: Grid,
    profile: Profile,
    renditions: Sequence[AudioRendition],
) -> list[str]:
    """Build the command that reads once and writes all given audio renditions on the timeline of the video.

    It always starts at the beginning, because a joined AAC stream clicks at the seam. Its output directories
    must exist.
    """
    # Without -copyts, times start at zero.
    zero = _start(facts) if facts.linear else Fraction(0)
    rate = profile.audio_sample_rate
    decoded = _decoded(_input(1, facts), renditions, rate)
    limit = {}
    if not grid.exact or any(each.track.end_s is None for each in renditions):
        limit_s = facts.duration_s * _CAP_FACTOR + _CAP_MARGIN_S if facts.duration_s else _CAP_UNDECLARED_S
        limit = {"t": f"{limit_s:.3f}"}
    outputs = [
        _fitted(stream, rendition, grid, zero, rate).output(
            str(PurePosixPath(rendition.name, PLAYLIST_NAME)),
            **{
                "c:a": rendition.codec,
                "b:a": f"{rendition.bitrate_kbps}k",
                "ac": rendition.channels,
                "ar": rate,
                **limit,
            },
            **hls_options(
                rendition.name,
                SEGMENT_PATTERN,
                str(profile.segment_s),
                TIMELINE_START_S - grid.zero + zero,
                0,
            ),
        )
        for stream, rendition in zip(decoded, renditions, strict=True)
    ]
    return _compile(ffmpeg, source, outputs, progress=True, threads=1) + _read_all_streams(facts)


def _decoded(opened: Any, renditions: Sequence[AudioRendition], rate: int) -> list[Any]:
    """Decode the tracks of an input, each once, and return the stream of each rendition."""
    uses = Counter(track for rendition in renditions for track in rendition.tracks)
    branches: dict[AudioTrack, list[Any]] = {}
    for track, count in uses.items():
        stream = opened[str(track.index)]
        # Before the resampler, which would give all of them the channels that one asks for.
        split = stream.filter_multi_output("asplit", count) if count > 1 else [stream]
        # Gaps in a recording are filled with silence, so that audio and video stay in sync.
        branches[track] = [
            split[number].filter("aresample", rate, min_hard_comp=_MAX_AUDIO_OFFSET_S, **{"async": 1})
            for number in range(count)
        ]
    streams = []
    for rendition in renditions:
        parts = [branches[track].pop() for track in rendition.tracks]
        joined = {"channel_layout": "stereo", "map": "0.0-FL|1.0-FR"}
        streams.append(parts[0] if len(parts) == 1 else compiler.filter(parts, "join", **joined))
    return streams


def _fitted(stream: Any, rendition: AudioRendition, grid: Grid, zero: Fraction, rate: int) -> Any:
    """Mix decoded sound down to the channels of a rendition, and cut or fill it up to the grid.

    Args:
        zero: the source time at which its timestamps start.
    """
    if rendition.downmixed:
        # The sum of several channels may exceed full scale: 5.1 mixed to stereo by 7.7 dB.
        stream = stream.filter("aformat", channel_layouts=_LAYOUTS[rendition.channels])
        stream = stream.filter("alimiter", limit=DOWNMIX_PEAK, level="disabled", latency=1)
    first_s, end_s, begins = rendition.track.first_s, rendition.track.end_s, grid.zero
    if first_s is None or first_s > begins:
        # The only remaining gap is at the start; the second filter fills it to the sample.
        first = _samples(begins - zero, rate)
        stream = stream.filter("aresample", rate, first_pts=first, min_hard_comp=1e-4, **{"async": 1})
    elif first_s < begins - UNEVEN_S:
        stream = stream.filter("atrim", start_pts=_samples(begins - zero, rate))
    if end_s is None:
        return stream
    ends = begins + grid.total_frames / grid.fps
    missing = max(Fraction(0), ends - Fraction(end_s))
    if grid.exact:
        missing += _MAX_REPAIRED_S
    if samples := _samples(missing, rate):
        stream = stream.filter("apad", pad_len=samples)
    if not grid.exact:
        return stream
    if ends < end_s <= ends + UNEVEN_S:
        ends = Fraction(end_s)
    return stream.filter("atrim", end_pts=_samples(ends - zero, rate))


def subtitle_command(
    ffmpeg: FFmpeg, source: bytes, facts: SourceFacts, renditions: Sequence[SubtitleRendition]
) -> list[str]:
    """Build the command that writes each subtitle rendition as one file, `NAME.vtt`.

    Its times are those of the source, `SUBTITLE_OFFSET_S` later.
    """
    # One byte that is no UTF-8 must not drop a line.
    opened = _input(1, facts, sub_charenc_mode="ignore")
    options = {"c:s": "webvtt", "f": "webvtt", "output_ts_offset": SUBTITLE_OFFSET_S}
    outputs = [
        opened[str(rendition.track.index)].output(f"{rendition.name}.vtt", **options)
        for rendition in renditions
    ]
    return _compile(ffmpeg, source, outputs, progress=True, threads=0) + _read_all_streams(facts)


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
    share = 0.0 if picture is PosterPicture.FIRST else profile.poster_position
    width, height = _poster_size(facts, profile)
    only = {"skip_frame": "nokey", "t": _KEY_FRAME_WITHIN_S} if picture is PosterPicture.KEY_FRAME else {}
    # Seconds from the start of the file: without -copyts, ffmpeg adds the start time.
    opened = compiler.input(_SOURCE, **_input_options(1), **_at(_poster_s(facts, share)), **only)
    shown = (*colour.to_bt709(facts.video), *colour.to_jpeg(width, height))
    output = _filtered(opened[str(facts.video.index)], shown).output(
        POSTER_NAME, **{"c:v": "mjpeg", "frames:v": 1, "q:v": 3, "f": "image2", "update": 1}
    )
    return _compile(ffmpeg, source, [output], progress=False, threads=1)


def _poster_size(facts: SourceFacts, profile: Profile) -> tuple[int, int]:
    """Width and height of the poster, both even, in the display aspect ratio."""
    height = min(profile.poster_height, facts.video.height)
    width = facts.video.width * height // facts.video.height
    return max(2, width - width % 2), max(2, height - height % 2)


def _filtered(stream: Any, filters: colour.Filters) -> Any:
    for name, options in filters:
        stream = stream.filter(name, **options)
    return stream


def _poster_s(facts: SourceFacts, share: float) -> float:
    """Position of the poster in seconds from the start of the file, at most that of the last picture."""
    last_s = facts.video.last_s
    at_s = facts.duration_s * share
    return at_s if last_s is None or facts.linear else max(0.0, min(at_s, last_s - facts.start_time_s))


def _one_size(stream: Any, facts: SourceFacts) -> Any:
    """Scale pictures of varying size and shape to fit the largest one, and add bars."""
    video = facts.video
    width, height = video.width - video.width % 2, video.height - video.height % 2
    # ffmpeg uses the first sample aspect for all pictures.
    aspect = "dar"
    if video.aspects:
        zero = facts.start_time_s if facts.linear else 0.0
        first, *later = video.aspects
        aspect = f"(iw/ih*{first[1]:.6f})"
        for at, sample_aspect in later[:_MAX_ASPECTS]:
            aspect = f"if(lt(t,{at - zero - 0.001:.3f}),{aspect},iw/ih*{sample_aspect:.6f})"
    return (
        stream.filter(
            "scale",
            f"max(2,2*round(min({width},{height}*{aspect})/2))",
            f"max(2,2*round(min({height},{width}/({aspect}))/2))",
            eval="frame",
            interl=-1,
        )
        .filter("pad", width, height, "(ow-iw)/2", "(oh-ih)/2", eval="frame")
        .filter("setsar", 1)
    )


def _read_all_streams(facts: SourceFacts) -> list[str]:
    """A null output that reads all streams, so that ffmpeg corrects jumps alike in video and audio runs."""
    if not facts.linear:
        return []
    streams = [facts.video.index, *(track.index for track in facts.audio)]
    maps = [word for index in streams for word in ("-map", f"0:{index}")]
    return [*maps, "-c", "copy", "-f", "null", "-"]


def _samples(seconds: Fraction, rate: int) -> int:
    return round(seconds * rate)


def _input(threads: int, facts: SourceFacts, seek_s: Fraction | int = 0, **more: str) -> Any:
    # Keep source times, so that a run with a later start writes the same timestamps as one from zero. This is
    # not possible if they jump: ffmpeg corrects jumps only in its own time.
    clock = {} if facts.linear else {"copyts": None}
    # The filters accept a change of size; if ffmpeg rebuilt them, they would lose their state.
    keep = {"reinit_filter": 0} if facts.video.varies else {}
    return compiler.input(
        _SOURCE,
        **clock,
        **keep,
        **_input_options(threads),
        **more,
        # An accurate seek starts at the wrong frame if the frame rate of the source varies.
        **({"noaccurate_seek": None} | _at(seek_s) if seek_s else {}),
    )


def _input_options(threads: int) -> dict[str, Any]:
    """Options of every input. With 0 `threads`, ffmpeg chooses the number for the decoder."""
    return {
        "protocol_whitelist": sources.PROTOCOLS,
        "format_whitelist": sources.FORMATS,
        **({"threads": threads} if threads else {}),
    }


def _at(seconds: Fraction | float) -> dict[str, str]:
    return {"ss": f"{float(seconds):.6f}"} if seconds else {}


def is_indexed(facts: SourceFacts) -> bool:
    """Whether the source has an index of its key frames, so that a seek needs no margin."""
    return facts.container == _INDEXED


def _seek(facts: SourceFacts, grid: Grid, start: int, early: bool) -> Fraction:
    """Value of `-ss` in seconds from the smallest timestamp of the file."""
    margin_s = 0 if is_indexed(facts) and not early else _SEEK_MARGIN_S
    at_s = (grid.g0 + start * grid.gop) / grid.fps - _start(facts)
    return max(Fraction(0), at_s - margin_s) if start else Fraction(0)


def _start(facts: SourceFacts) -> Fraction:
    """The smallest timestamp of the file, which ffmpeg without -copyts shifts to zero."""
    return Fraction(round(facts.start_time_s * 1_000_000), 1_000_000)


def _end_frame(facts: SourceFacts, grid: Grid, start: int, stop: int | None) -> int:
    """The frame at which a run ends, exclusive, counted from the first frame of the grid."""
    if stop is not None or grid.exact:
        end = grid.total_frames if stop is None else stop * grid.gop
        return min(end, grid.total_frames) if grid.exact else end
    declared = facts.video.duration_s or facts.duration_s
    cap = (
        int(grid.total_frames * _CAP_FACTOR + _CAP_MARGIN_S * grid.fps)
        if declared
        else int(_CAP_UNDECLARED_S * grid.fps)
    )
    return max(cap, (start + 1) * grid.gop)


def _compile(
    ffmpeg: FFmpeg, source: bytes, outputs: Sequence[Any], progress: bool, threads: int
) -> list[str]:
    before = ["-hide_banner", "-nostdin", "-nostats", "-y"]
    if progress:
        before += ["-progress", "pipe:1", "-stats_period", "0.5"]
    if threads:
        before += ["-filter_complex_threads", str(threads)]
    merged = compiler.merge_outputs(*outputs) if len(outputs) > 1 else outputs[0]
    compiled: list[str] = compiler.compile(merged, cmd=ffmpeg.path)
    compiled[compiled.index("-i") + 1] = sources.url(source)
    # Global options first, for readability; the compiler would put them last.
    return [compiled[0], *before, *compiled[1:]]


def _rate(fps: Fraction) -> str:
    return f"{fps.numerator}/{fps.denominator}"
