"""Filters that put decoded pictures on the clock of the grid: edit lists, sizes, fields, rate, head, tail."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tqstudio.engine.media.ffmpeg.command_line import MAX_REPAIRED_S
from tqstudio.engine.media.plan.grid import NTSC, Grid, nearest
from tqstudio.engine.media.source import colour
from tqstudio.engine.media.source.facts import SourceFacts

# Of five pictures of telecined film one repeats what the others show.
_FILM_CYCLE = (5, 4)
# Of 256, in any square, in pictures whose fields do not belong together. The default, 80, misses slow motion.
_COMBED_PIXELS = 40
# Times of pictures may be rounded by this much.
_SLACK_S = 0.001
# Recordings change their shape a few times per hour. ffmpeg's expressions nest at most 100 levels.
_MAX_ASPECTS = 60


def on_clock(
    stream: Any, facts: SourceFacts, grid: Grid, fields: str, first: int, *, begins: bool, seeks: bool
) -> Any:
    """Put pictures on the clock of the grid: parts of edit lists, fields, frame rate, head and tail.

    Args:
        fields: what becomes of them, see `fields_of`.
        first: frame at which the run begins.
        begins: repeat the first picture from where the sound begins.
        seeks: whether the input does not begin at the start of the source.
    """
    if facts.video.edits:
        stream = _edited(stream, facts.video.edits)
    if facts.video.varies:
        stream = _one_size(stream, facts)
    if not facts.unseekable:
        stream = _on_grid(stream, facts, NTSC if fields == "film" else grid.fps)
    # Keep a last picture that is shown for less than half a frame; `trim` limits the number of frames.
    at_the_end = {"eof_action": "pass"} if grid.exact else {}
    # Repeat the last picture for a few lost ones, but no more: if the decoder stops early, the verification
    # has to detect it.
    repeated = grid.tail + (math.ceil(MAX_REPAIRED_S * grid.fps) if grid.exact else 0)
    if fields == "film":
        cycle = max(0, (first - grid.head) // _FILM_CYCLE[1] - 1) if seeks else 0
        stream = stream.filter("fps", fps=rate(NTSC), **at_the_end)
        stream = _film(stream, facts, grid, cycle, repeated)
    elif facts.video.interlaced:
        mode = "send_field" if fields == "double" else "send_frame"
        stream = stream.filter("bwdif", mode=mode, deint="interlaced")
    early_start = (
        {"start_time": f"{float(grid.g0 / grid.fps):.6f}"} if begins and not facts.unseekable else {}
    )
    stream = stream.filter("fps", fps=rate(grid.fps), **early_start, **at_the_end)
    if facts.unseekable:
        # When ffmpeg corrects jumps, times start at zero: shift them to the grid.
        if grid.head:
            stream = stream.filter("setpts", "PTS-STARTPTS")
            stream = stream.filter("tpad", start=grid.head, start_mode="clone")
        stream = stream.filter("setpts", f"PTS-STARTPTS{grid.g0:+d}")
    if repeated and fields != "film":
        stream = stream.filter("tpad", stop=repeated, stop_mode="clone")
    return stream


def _film(stream: Any, facts: SourceFacts, grid: Grid, cycle: int, repeated: int) -> Any:
    """Join the fields of telecined film and drop one picture of each cycle: the one that repeats another.

    Cycles are counted from the first picture of the source. Which one is dropped depends on the cycle and the
    picture before it, so that a run has to begin one cycle before its first frame.
    """
    taken, left = _FILM_CYCLE
    # `decimate` does not pass on when the last picture ends, and keeps all of an incomplete cycle.
    stream = stream.filter("tpad", stop=repeated * taken // left + taken, stop_mode="clone")
    stream = stream.filter("fieldmatch", combmatch="full", combpel=_COMBED_PIXELS)
    if not facts.unseekable:
        stream = stream.filter("trim", start_pts=nearest(facts.video.first_pts_s * NTSC) + cycle * taken)
    # Fields that match no others remain: video between the film.
    stream = stream.filter("bwdif", mode="send_frame", deint="interlaced").filter("decimate", cycle=taken)
    # It counts its pictures from zero.
    return stream.filter("setpts", f"PTS-STARTPTS{grid.g0 + grid.head + cycle * left:+d}")


def _on_grid(stream: Any, facts: SourceFacts, fps: Fraction) -> Any:
    """Shift all pictures so that the first is on the grid.

    If it were halfway between two frames, the next ones would be rounded up or down at random: Matroska has
    times in milliseconds. So would every second one of twice the rate.
    """
    first_s = facts.video.first_pts_s
    shift = nearest(first_s * fps) / fps - first_s
    if facts.video.one_of % 2 == 0:
        shift += 1 / (2 * facts.video.one_of * fps)
    return stream.filter("setpts", f"PTS+round({float(shift):.6f}/TB)") if shift else stream


def _edited(stream: Any, edits: Sequence[tuple[float, float, float]]) -> Any:
    """Put the parts of an edit list together by when their pictures are shown, not decoded as ffmpeg does."""
    shown = [
        f"gte(t,{media - _SLACK_S:.6f})*lt(t,{media + length - _SLACK_S:.6f})" for _, media, length in edits
    ]
    moves = [media - at for at, media, _ in edits]
    steps = [
        f"gte(T,{media - _SLACK_S:.6f})*{move - before:.6f}"
        for (_, media, _), before, move in zip(edits, [0.0, *moves], moves, strict=False)
    ]
    return stream.filter("select", "+".join(shown)).filter("setpts", f"PTS-round(({'+'.join(steps)})/TB)")


def _one_size(stream: Any, facts: SourceFacts) -> Any:
    """Scale pictures of varying size and shape to fit the largest one, and add bars."""
    video = facts.video
    width, height = video.width - video.width % 2, video.height - video.height % 2
    # ffmpeg uses the first sample aspect for all pictures.
    aspect = "dar"
    if video.aspects:
        zero = facts.start_time_s if facts.unseekable else 0.0
        first, *later = video.aspects
        aspect = f"(iw/ih*{first[1]:.6f})"
        for at, sample_aspect in later[:_MAX_ASPECTS]:
            aspect = f"if(lt(t,{at - zero - 0.001:.3f}),{aspect},iw/ih*{sample_aspect:.6f})"
    return (
        filtered(stream, colour.scalable(video))
        .filter(
            "scale",
            f"max(2,2*round(min({width},{height}*{aspect})/2))",
            f"max(2,2*round(min({height},{width}/({aspect}))/2))",
            eval="frame",
            interl=-1,
            **colour.first_tags(video),
        )
        .filter("pad", width, height, "(ow-iw)/2", "(oh-ih)/2", eval="frame")
        .filter("setsar", 1)
    )


def filtered(stream: Any, filters: colour.Filters) -> Any:
    for name, options in filters:
        stream = stream.filter(name, **options)
    return stream


def rate(fps: Fraction) -> str:
    return f"{fps.numerator}/{fps.denominator}"
