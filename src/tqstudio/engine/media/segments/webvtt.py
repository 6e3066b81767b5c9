"""Cuts WebVTT into the segments of a ladder, and checks such segments."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from tqstudio.engine.media.plan.file_names import SUBTITLE_PATTERN
from tqstudio.engine.media.plan.grid import TIMELINE_START_S, Grid
from tqstudio.engine.media.segments.checked import SUBTITLE_CODEC, CheckedSegment, RenditionCheck
from tqstudio.engine.media.segments.playlists import bit_rates
from tqstudio.errors import ErrorCode, TqError

_TIME = r"(?:(\d+):)?(\d\d):(\d\d)\.(\d\d\d)"
_TIMING = re.compile(rf"{_TIME}[ \t]+-->[ \t]+{_TIME}(.*)")
_CLOCK = 90_000
# ffmpeg writes the text of other formats as it is; only these entities and tags have a meaning here.
_AMPERSAND = re.compile(r"&(?!(?:amp|lt|gt|nbsp|lrm|rlm|#\d+|#x[0-9a-fA-F]+);)")
_LESS = re.compile(r"<(?!/?(?:[bciuv]|lang|ruby|rt)\b|\d\d:\d\d)")
HEADER = f"WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:{TIMELINE_START_S * _CLOCK},LOCAL:00:00:00.000\n"
"""Cue times are seconds from the start of the timeline, which is that of the video."""


@dataclass(frozen=True, slots=True)
class Cue:
    """A text and when it is shown, in milliseconds."""

    begin: int
    end: int
    text: str
    """Its lines, without an empty one."""
    settings: str = ""
    """Position and alignment, as in the file."""


def parse(text: str) -> list[Cue]:
    """Read the cues of a WebVTT file, in their order; identifiers, notes and styles are left out."""
    cues = []
    for block in re.split(r"\n{2,}", text.replace("\r\n", "\n").replace("\r", "\n")):
        lines = block.strip("\n").split("\n")
        for number, line in enumerate(lines[:2]):
            if found := _TIMING.fullmatch(line.strip()):
                content = "\n".join(each for each in lines[number + 1 :] if each.strip())
                if content:
                    cues.append(
                        Cue(_ms(*found.group(1, 2, 3, 4)), _ms(*found.group(5, 6, 7, 8)), content, found[9])
                    )
                break
    return cues


def write(cues: Sequence[Cue], shift_s: Fraction, grid: Grid, folder: Path) -> RenditionCheck:
    """Write one file for each segment of the video. A cue is in every segment during which it is shown.

    Args:
        shift_s: added to all times; then 0 is the start of the grid. What lies outside is left out.

    Raises:
        TqError: OUTPUT_EMPTY if no cue is left.
        OSError: from the file system.
    """
    shift, total = round(shift_s * 1000), round(grid.total_frames / grid.fps * 1000)
    shown = [
        Cue(max(0, cue.begin + shift), min(total, cue.end + shift), cue.text, cue.settings) for cue in cues
    ]
    shown = [cue for cue in shown if cue.begin < cue.end]
    if not shown:
        raise TqError(ErrorCode.OUTPUT_EMPTY, "it has no text within the length of the video")
    edges = [
        min(grid.total_frames, number * grid.seg_frames) / grid.fps
        for number in range(grid.segment_count + 1)
    ]
    segments = []
    for number, (begin, end) in enumerate(itertools.pairwise(edges)):
        within = [cue for cue in shown if cue.begin < end * 1000 and cue.end > begin * 1000]
        content = "\n".join([HEADER, *map(_block, within)]).encode()
        name = SUBTITLE_PATTERN % number
        (folder / name).write_bytes(content)
        segments.append(CheckedSegment(name, len(content), float(end - begin), len(within)))
    return _check(segments, len(shown))


def inspect(folder: Path, names: Sequence[str], durations: Sequence[float]) -> RenditionCheck:
    """Check the files of a subtitle rendition.

    Args:
        durations: of the segments in seconds, as the playlist states them.

    Raises:
        TqError: OUTPUT_INVALID, with the segment; a cue lies outside its segment, or the header is wrong.
        OSError: from the file system.
    """
    at, segments, cues = 0.0, [], set()
    for name, duration in zip(names, durations, strict=True):
        content = (folder / name).read_bytes()
        text = content.decode("utf-8", "replace")
        within = parse(text)
        outside = [cue for cue in within if not (cue.begin / 1000 < at + duration and cue.end / 1000 > at)]
        if not text.startswith(HEADER) or "\ufffd" in text or outside:
            raise TqError(ErrorCode.OUTPUT_INVALID, f"{folder.name}: {name} is damaged")
        cues |= {(cue.begin, cue.end, cue.text) for cue in within}
        segments.append(CheckedSegment(name, len(content), duration, len(within)))
        at += duration
    return _check(segments, len(cues))


def is_segment(path: Path) -> bool:
    """Whether a file begins as `write` begins it."""
    with path.open("rb") as file:
        return file.read(len(HEADER)) == HEADER.encode()


def _check(segments: Sequence[CheckedSegment], cues: int) -> RenditionCheck:
    durations = [segment.duration_s for segment in segments]
    peak, average = bit_rates([segment.size for segment in segments], durations)
    return RenditionCheck(
        frames=cues,
        start_s=TIMELINE_START_S,
        duration_s=sum(durations),
        width=0,
        height=0,
        codecs=SUBTITLE_CODEC,
        segments=tuple(segments),
        peak_bps=peak,
        avg_bps=average,
    )


def _block(cue: Cue) -> str:
    text = _LESS.sub("&lt;", _AMPERSAND.sub("&amp;", cue.text)).replace("-->", "--&gt;")
    return f"{_clock(cue.begin)} --> {_clock(cue.end)}{cue.settings}\n{text}\n"


def _ms(hours: str | None, minutes: str, seconds: str, thousandths: str) -> int:
    return ((int(hours or 0) * 60 + int(minutes)) * 60 + int(seconds)) * 1000 + int(thousandths)


def _clock(ms: int) -> str:
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}.{ms % 1000:03}"
