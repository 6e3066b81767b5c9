"""Makes bitmap subtitles part of the pictures.

They are copied to a file of their own first, which every run reads from its start. So a run that begins in
the middle of the source shows what has been there for long, and no picture waits for subtitles that are far
away in the source.
"""

from __future__ import annotations

from typing import Any

import ffmpeg as compiler

from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.command_line import SOURCE, compile_command, input_options
from tqstudio.engine.media.plan.file_names import BITMAPS_NAME
from tqstudio.engine.media.plan.grid import Grid
from tqstudio.engine.media.plan.subtitles import Burnt
from tqstudio.engine.media.source import colour
from tqstudio.engine.media.source.facts import SourceFacts, VideoTrack

# Errors of bitmaps must not fail a run at its end. Those of pictures are found in its log and its output.
TOLERANT = ("-max_error_rate", "1")
# The pixels of larger canvases are square; those of smaller ones are shaped as the picture's.
_SD_MOST_HEIGHT = 576
# The reference white of BT.2408, 203 nits, as a share of the signal.
_WHITE_OF_HDR = {"PQ": 0.58, "HLG": 0.75}


def bitmaps_command(ffmpeg: FFmpeg, source: bytes, burnt: Burnt) -> list[str]:
    """Build the command that copies the track to `BITMAPS_NAME`, with its times in the source."""
    opened = compiler.input(SOURCE, copyts=None, **input_options(1))
    output = opened[str(burnt.track.index)].output(BITMAPS_NAME, **{"c:s": "copy", "f": "matroska"})
    return compile_command(ffmpeg, source, [output], progress=True, threads=0)


def with_bitmaps(
    pictures: Any, facts: SourceFacts, grid: Grid, burnt: Burnt, end: int, pixel_format: str, *, hdr: bool
) -> Any:
    """Lay the bitmaps of `BITMAPS_NAME` over pictures in published colours, up to frame `end` of the grid."""
    # Without -copyts, ffmpeg shifts the first one to zero.
    clock = {"itsoffset": f"{burnt.track.first_s:.6f}"} if facts.unseekable else {}
    canvas = "{}x{}".format(*burnt.track.canvas)
    opened = compiler.input(
        f"file:{BITMAPS_NAME}",
        **input_options(0),
        **clock,
        **({"forced_subs_only": 1} if burnt.forced_only else {}),
        canvas_size=canvas,
    )
    width, height, x, y = placed(burnt.track.canvas, facts.video)
    # ffmpeg begins with an empty picture at the time of the first bitmap, which then is a picture late.
    bitmaps = opened["0"].filter("setpts", "PTS-not(N)").filter("format", "gbrap")
    if hdr:
        white = _WHITE_OF_HDR[colour.range_of(facts.video)]
        bitmaps = bitmaps.filter("colorchannelmixer", rr=white, gg=white, bb=white)
    # Not zscale: with two threads it loses the alpha of some pictures.
    matrix = "bt2020" if hdr else "bt709"
    bitmaps = bitmaps.filter("scale", width, height, out_color_matrix=matrix, out_range="tv")
    bitmaps = bitmaps.filter("format", pixel_format.replace("yuv", "yuva"))
    pictures = pictures.filter("format", pixel_format)
    shown = compiler.filter([pictures, bitmaps], "overlay", x=x, y=y, format="auto")
    # Its clock may be a finer one, and bitmaps may last longer than the pictures.
    shown = shown.filter("settb", f"{grid.fps.denominator}/{grid.fps.numerator}")
    return shown.filter("trim", end_pts=grid.g0 + end)


def placed(canvas: tuple[int, int], video: VideoTrack) -> tuple[int, int, int, int]:
    """Width, height, x and y of a canvas over the decoded picture: whole, in its shape, in the middle.

    A cropped picture has a larger canvas, of which players show the parts outside of the picture too.
    """
    across, down = video.coded_width, video.coded_height
    if video.rotation % 180 == 90:
        across, down = down, across
    if video.varies:
        across, down = video.width - video.width % 2, video.height - video.height % 2
    if canvas[1] > _SD_MOST_HEIGHT:
        shape = video.width, video.height
    else:
        shape = (across, down) if canvas[0] == across else canvas
    scale = min(shape[0] / canvas[0], shape[1] / canvas[1])
    width = max(2, round(canvas[0] * scale * across / shape[0]))
    height = max(2, round(canvas[1] * scale * down / shape[1]))
    # Chroma has half the positions.
    return width, height, (across - width) // 4 * 2, (down - height) // 4 * 2
