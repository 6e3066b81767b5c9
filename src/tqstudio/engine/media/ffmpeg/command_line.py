"""What all ffmpeg commands share: how they open the source, and how the compiler's result is arranged.

Output names are relative, because a `%` in a path breaks the hls muxer. The source is given as `file:` and an
absolute path, so that no name is read as an option or a URL. ffmpeg-python compiles the filter graph and the
options; it sorts the options of each file, which makes no difference to ffmpeg.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import ffmpeg as compiler

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.source import source_file
from tqstudio.engine.media.source.facts import SourceFacts, VideoTrack

# Placeholder for the source in the graph: the compiler cannot hash a name that is not UTF-8.
SOURCE = "file:source"
# Lost pictures at the end are replaced up to this length; more fails the verification.
MAX_REPAIRED_S = Fraction(1, 2)
# A source may be longer than it declares, but jumping timestamps must not turn a few seconds into millions of
# frames.
CAP_FACTOR = 2
CAP_MARGIN_S = 60
CAP_UNDECLARED_S = 24 * 3600
# Supplemental information before pictures of H.264, HEVC and VVC; user data of MPEG-2.
_WITHOUT_MESSAGES = {
    codec: f"filter_units=remove_types={kind}"
    for codec, kind in (("h264", 6), ("hevc", 39), ("vvc", 23), ("mpeg2video", 178))
}
_WITHOUT_ROTATION = "h264_metadata=display_orientation=remove"


def open_input(threads: int, facts: SourceFacts, seek_s: Fraction | int = 0, **more: str | None) -> Any:
    """Open the source in the graph.

    Args:
        threads: of the decoder; 0 lets ffmpeg choose.
        more: options of the input.
    """
    # Keep source times, so that a run with a later start writes the same timestamps as one from zero. This is
    # not possible if they jump: ffmpeg corrects jumps only in its own time.
    clock = {} if facts.unseekable else {"copyts": None}
    # The filters accept a change of size; if ffmpeg rebuilt them, they would lose their state.
    keep = {"reinit_filter:v": 0} if facts.video.varies else {}
    # What ffmpeg takes for a change of the clock.
    pauses = {"dts_delta_threshold": facts.pause_s} if facts.unseekable and facts.pause_s else {}
    return compiler.input(
        SOURCE,
        **{**clock, **keep, **pauses, **input_options(threads), **more},
        # An accurate seek starts at the wrong frame if the frame rate of the source varies.
        **({"noaccurate_seek": None} | at(seek_s) if seek_s else {}),
    )


def input_options(threads: int) -> dict[str, Any]:
    """Options of every input. With 0 `threads`, ffmpeg chooses the number for the decoder."""
    return {**source_file.OPTIONS, **({"threads": threads} if threads else {})}


def at(seconds: Fraction | float) -> dict[str, str]:
    """The option that seeks in an input; none for its start."""
    return {"ss": f"{float(seconds):.6f}"} if seconds else {}


def start_of(facts: SourceFacts) -> Fraction:
    """The smallest timestamp of the file, which ffmpeg without -copyts shifts to zero."""
    return Fraction(round(facts.start_time_s * 1_000_000), 1_000_000)


def without_repeats(ffmpeg: FFmpeg, video: VideoTrack) -> dict[str, str]:
    """The input option that removes from the pictures what the container states too.

    ffmpeg 8 and 9 do not begin to filter pictures that state it twice; versions without the option do.
    """
    if not video.stated_twice or not ffmpeg.has_loopback:
        return {}
    removed = _WITHOUT_MESSAGES.get(video.codec) if video.loses_messages else _WITHOUT_ROTATION
    return {f"bsf:{video.index}": removed} if removed else {}


def read_all_streams(facts: SourceFacts) -> list[str]:
    """A null output that reads all streams, so that ffmpeg corrects jumps alike in video and audio runs."""
    if not facts.unseekable:
        return []
    streams = [facts.leading, *(track.index for track in facts.audio if track.index != facts.leading)]
    maps = [word for index in streams for word in ("-map", f"0:{index}")]
    return [*maps, "-c", "copy", "-f", "null", "-"]


def compile_command(
    ffmpeg: FFmpeg,
    source: bytes | None,
    outputs: Sequence[Any],
    progress: bool,
    threads: int,
    before: Sequence[str] = (),
) -> list[str]:
    """Compile a graph, and put its global options first.

    Args:
        source: replaces `SOURCE`; None if no input has that name.
        before: more global options.
    """
    options = ["-hide_banner", "-nostdin", "-nostats", "-y", *before]
    if progress:
        options += ["-progress", "pipe:1", "-stats_period", "0.5"]
    if threads:
        options += ["-filter_complex_threads", str(threads)]
    compiled = compile_outputs(outputs)
    if source is not None:
        compiled[compiled.index(SOURCE)] = source_file.url(source)
    # Global options first, for readability; the compiler would put them last.
    return [ffmpeg.path, *options, *compiled]


def compile_outputs(outputs: Sequence[Any]) -> list[str]:
    """Compile a graph to inputs, filters and outputs."""
    compiled: list[str] = compiler.get_args(
        compiler.merge_outputs(*outputs) if len(outputs) > 1 else outputs[0]
    )
    return compiled
