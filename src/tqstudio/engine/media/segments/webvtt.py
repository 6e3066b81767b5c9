"""Cuts WebVTT into the segments of a ladder, and checks such segments."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from tqstudio.engine.files import durable
from tqstudio.engine.media.plan.file_names import SUBTITLE_PATTERN
from tqstudio.engine.media.plan.grid import TIMELINE_START_S, Grid
from tqstudio.engine.media.segments.checked import SUBTITLE_CODEC, CheckedSegment, RenditionCheck
from tqstudio.engine.media.segments.playlists import bit_rates
from tqstudio.errors import ErrorCode, TqError

_TIME = r"(?:(\d+):)?(\d\d):(\d\d)[.,](\d\d\d)"
_TIMING = re.compile(rf"{_TIME}[ \t]+-->[ \t]+{_TIME}(.*)")
_CLOCK = 90_000
_LARGEST = 64 * 1024 * 1024
"""Bytes of all segments; a film has some hundred kB."""
_ROUNDING_MS = 2
# ffmpeg writes the text of other formats as it is; only these entities and tags have a meaning here.
_AMPERSAND = re.compile(r"&(?!(?:amp|lt|gt|nbsp|lrm|rlm|#\d+|#x[0-9a-fA-F]+);)")
_LESS = re.compile(r"<(?!/?(?:[bciuv]|lang|ruby|rt)\b[^<>]*>|\d\d:[\d:.]+>)")
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
    """Read the cues of WebVTT or SRT, in their order; identifiers and what precedes the first are left out.

    ffmpeg writes empty lines within a cue as they are; what follows one still belongs to the cue.
    """
    cues: list[Cue] = []
    for block in re.split(r"\n{2,}", text.replace("\r\n", "\n").replace("\r", "\n")):
        lines = [line for line in block.split("\n") if line.strip()]
        at = next((n for n, line in enumerate(lines[:2]) if _TIMING.fullmatch(line.strip())), None)
        found = None if at is None else _TIMING.fullmatch(lines[at].strip())
        if at is not None and found is not None:
            begin, end = _ms(*found.group(1, 2, 3, 4)), _ms(*found.group(5, 6, 7, 8))
            cues.append(Cue(begin, end, "\n".join(lines[at + 1 :]), found[9]))
        elif cues and lines:
            cues[-1] = replace(cues[-1], text="\n".join(filter(None, (cues[-1].text, *lines))))
    return [cue for cue in cues if cue.text]


def write(cues: Sequence[Cue], shift_ms: int, grid: Grid, folder: Path) -> RenditionCheck:
    """Write one file for each segment of the video. A cue is in every segment during which it is shown.

    `shift_ms` is added to all times; then 0 is the start of the grid. What lies outside is left out. Raises
    OUTPUT_EMPTY if no cue is left, OUTPUT_INVALID if the files are too large.
    """
    edges = [round(frame / grid.fps * 1000) for frame in grid.edges]
    within: list[list[str]] = [[] for _ in edges[1:]]
    count = size = 0
    for cue in cues:
        begin, end = max(0, cue.begin + shift_ms), min(edges[-1], cue.end + shift_ms)
        if begin < end:
            block = _block(replace(cue, begin=begin, end=end))
            shown = range(bisect_right(edges, begin) - 1, bisect_left(edges, end))
            count, size = count + 1, size + len(block) * len(shown)
            if size > _LARGEST:
                raise TqError(ErrorCode.OUTPUT_INVALID, f"its segments have more than {_LARGEST} bytes")
            for number in shown:
                within[number].append(block)
    if not count:
        raise TqError(ErrorCode.OUTPUT_EMPTY, "it has no text within the length of the video")
    segments = []
    for number, (blocks, length) in enumerate(zip(within, durations(grid), strict=True)):
        content = "\n".join([HEADER, *blocks]).encode()
        name = SUBTITLE_PATTERN % number
        durable.write(folder / name, content)
        segments.append(CheckedSegment(name, len(content), length, len(blocks)))
    return _check(segments, count)


def durations(grid: Grid) -> list[float]:
    """The lengths of the segments of the video, in seconds."""
    return [float((end - begin) / grid.fps) for begin, end in pairwise(grid.edges)]


def inspect(folder: Path, names: Sequence[str], lengths: Sequence[float]) -> RenditionCheck:
    """Check the files of a subtitle rendition against the durations in seconds that its playlist states.

    Raises OUTPUT_INVALID with the segment: the header is wrong, it is no UTF-8, or a cue lies outside.
    """
    at, segments, cues = 0.0, [], set()
    for name, duration in zip(names, lengths, strict=True):
        content = (folder / name).read_bytes()
        text = content.decode("utf-8", "ignore")
        within = parse(text)
        begin, end = at * 1000 - _ROUNDING_MS, (at + duration) * 1000 + _ROUNDING_MS
        outside = any(cue.begin >= end or cue.end <= begin for cue in within)
        if not text.startswith(HEADER) or text.encode() != content or outside:
            raise TqError(ErrorCode.OUTPUT_INVALID, f"{folder.name}: {name} is damaged")
        cues |= {(cue.begin, cue.end, cue.text) for cue in within}
        segments.append(CheckedSegment(name, len(content), duration, len(within)))
        at += duration
    return _check(segments, len(cues))


def whole(segments: Iterable[str]) -> str:
    """Join the files of a rendition into one of its own; a cue that is in several is in it once."""
    cues = dict.fromkeys(
        cue for text in segments for cue in text.removeprefix(HEADER).strip("\n").split("\n\n") if cue
    )
    return "\n\n".join(["WEBVTT", *cues, ""])


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
    return f"{clock(cue.begin)} --> {clock(cue.end)}{cue.settings}\n{text}\n"


def _ms(hours: str | None, minutes: str, seconds: str, thousandths: str) -> int:
    return ((int(hours or 0) * 60 + int(minutes)) * 60 + int(seconds)) * 1000 + int(thousandths)


def clock(ms: int) -> str:
    """A time in milliseconds as WebVTT writes it."""
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}.{ms % 1000:03}"
