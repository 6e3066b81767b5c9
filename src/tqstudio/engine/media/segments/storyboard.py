"""Lays out storyboards: small pictures on sprites, and WebVTT that states when each is shown.

A generation has it as `storyboard.vtt` and `storyboard-000.jpg` …; a cue is `storyboard-000.jpg#xywh=…`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tqstudio.engine.files import durable
from tqstudio.engine.media.plan.file_names import KEY_FRAMES_NAME, SPRITE_PATTERN
from tqstudio.engine.media.plan.grid import SHORT_S
from tqstudio.engine.media.segments import webvtt
from tqstudio.engine.media.segments.checked import RenditionCheck
from tqstudio.engine.media.segments.store import SegmentStore
from tqstudio.errors import ErrorCode, TqError

WEBVTT_NAME = "storyboard.vtt"
_SPRITE_NAMES = "storyboard-*.jpg"
_CUE = re.compile(r"(storyboard-\d{3,}\.jpg)#xywh=(\d+),(\d+),(\d+),(\d+)")
_JPEG_START, _JPEG_END = b"\xff\xd8", b"\xff\xd9"

_LONG_SIDE = 160
_PER_SIDE = 10
_INTERVAL_S = 10
_EVEN_MS = 2
"""By how much times in WebVTT may differ from those of one interval, because they are rounded."""
_MIN_TILES, _MAX_TILES = 100, 1000
"""Pictures below which the interval gets shorter, and above which it gets longer."""


class _KeyFrame(NamedTuple):
    """A fragment, which begins with a key frame."""

    segment: str
    begin: int
    """Offset in its segment."""
    end: int
    at_s: float


@dataclass(frozen=True, slots=True)
class Storyboard:
    """The pictures of a storyboard and their places."""

    segments: Path
    """The folder of the rendition that has the pictures."""
    folder: Path
    """Where it is stored."""
    key_frames: tuple[_KeyFrame, ...]
    length_s: float
    width: int
    """Width of one picture in pixels; even, like the height."""
    height: int

    @property
    def tiles(self) -> tuple[int, int]:
        """Columns and rows of a sprite; the last one may be partly empty."""
        count = len(self.key_frames)
        return min(_PER_SIDE, count), min(_PER_SIDE, -(-count // _PER_SIDE))

    @property
    def is_stored(self) -> bool:
        """Whether it is complete in its folder, from this or an earlier attempt."""
        stored = files(self.folder)
        return bool(stored) and durable.read(stored[0]) == self._webvtt().encode()

    def copy_key_frames(self, directory: Path) -> None:
        """Write a video of only the fragments whose key frames are shown."""
        with (directory / KEY_FRAMES_NAME).open("wb") as written:
            written.write(SegmentStore(self.segments).init_path.read_bytes())
            for frame in self.key_frames:
                with (self.segments / frame.segment).open("rb") as segment:
                    segment.seek(frame.begin)
                    written.write(segment.read(frame.end - frame.begin))

    def store(self, directory: Path) -> None:
        """Complete the directory of the run that made the sprites, and move it durably to its folder.

        Raises OUTPUT_INVALID if the run made too few.
        """
        (directory / KEY_FRAMES_NAME).unlink()
        durable.write(directory / WEBVTT_NAME, self._webvtt().encode())
        if wrong := damage(directory, self.length_s):
            raise TqError(ErrorCode.OUTPUT_INVALID, wrong)
        for path in files(directory):
            durable.sync(path)
        durable.sync_folder(directory)
        durable.discard(self.folder)
        directory.rename(self.folder)
        durable.sync_folder(self.folder.parent)

    def _webvtt(self) -> str:
        """The text on the timeline of the video."""
        edges = [round(at_s * 1000) for at_s in (*(frame.at_s for frame in self.key_frames), self.length_s)]
        cues = ["WEBVTT\n"]
        for number, (begin, end) in enumerate(pairwise(edges)):
            sprite, place = divmod(number, _PER_SIDE**2)
            x, y = place % _PER_SIDE * self.width, place // _PER_SIDE * self.height
            shown = f"{SPRITE_PATTERN % sprite}#xywh={x},{y},{self.width},{self.height}"
            cues.append(f"{webvtt.clock(begin)} --> {webvtt.clock(end)}\n{shown}\n")
        return "\n".join(cues)


class Tiles(NamedTuple):
    """The pictures of a storyboard as a grid of one interval, as players of DASH take them."""

    columns: int
    rows: int
    width: int
    """Width of one picture in pixels."""
    height: int
    sprite_ms: int
    """For how long a whole sprite is shown."""
    largest: int
    """Bytes of the largest sprite."""


def tiles(folder: Path) -> Tiles | None:
    """The grid of the storyboard in a folder; None without one, or if its pictures are not evenly spaced."""
    _, *sprites = files(folder) or [folder]
    if not sprites:
        return None
    cues = webvtt.parse(durable.read(folder / WEBVTT_NAME).decode("utf-8", "replace"))
    places = [tuple(map(int, found.groups()[1:])) for cue in cues if (found := _CUE.fullmatch(cue.text))]
    # The last picture may be shown for less, or longer by a short rest.
    every_ms = cues[-1].begin / (len(cues) - 1) if cues[1:] else float(cues[0].end)
    if any(abs(cue.begin - number * every_ms) > _EVEN_MS for number, cue in enumerate(cues)):
        return None
    width, height = places[0][2:]
    columns, rows = (max(place[axis] for place in places) // places[0][axis + 2] + 1 for axis in (0, 1))
    largest = max(path.stat().st_size for path in sprites)
    # Players of DASH give each the same time: none may be left after the last one.
    every_ms = max(every_ms, cues[-1].end / len(cues))
    return Tiles(columns, rows, width, height, round(every_ms * columns * rows), largest)


class Tile(NamedTuple):
    """A picture of a storyboard: since when it is shown, and its place on a sprite in pixels."""

    at_s: float
    sprite: str
    x: int
    y: int
    width: int
    height: int


def shown(folder: Path) -> list[Tile]:
    """The pictures of the storyboard in a folder, all of one size, in their order.

    Raises OSError if it cannot be read, ValueError if it names none or of more than one size.
    """
    cues = webvtt.parse(durable.read(folder / WEBVTT_NAME).decode("utf-8", "replace"))
    places = [(cue, found) for cue in cues if (found := _CUE.fullmatch(cue.text))]
    tiles = [Tile(cue.begin / 1000, at[1], *map(int, at.groups()[1:])) for cue, at in places]
    sizes = {tile[4:] for tile in tiles}
    if len(sizes) != 1 or 0 in sizes.pop():
        raise ValueError(f"{WEBVTT_NAME} names no pictures of one size")
    return tiles


def lay_out(segments: Path, check: RenditionCheck, store_root: Path) -> Storyboard:
    """Choose the pictures of a verified rendition: one every 10 s, of short videos more, of long ones fewer.

    Without any, since an earlier version verified it, the run that makes the sprites fails.

    Args:
        segments: its folder in the segment store of the video, named after its stream key.
        store_root: that segment store.
    """
    every_s = max(min(_INTERVAL_S, check.duration_s / _MIN_TILES), check.duration_s / _MAX_TILES)
    chosen: list[_KeyFrame] = []
    for frame in _key_frames(check):
        is_due = chosen and frame.at_s > chosen[-1].at_s + every_s - 0.001
        if not chosen or (is_due and check.duration_s - frame.at_s >= SHORT_S):
            chosen.append(frame)
    scale = min(1.0, _LONG_SIDE / max(check.width, check.height))
    width, height = (max(2, round(side * scale / 2) * 2) for side in (check.width, check.height))
    folder = store_root / f"storyboard-{segments.name}"
    return Storyboard(segments, folder, tuple(chosen), check.duration_s, width, height)


def _key_frames(check: RenditionCheck) -> Iterator[_KeyFrame]:
    at_s = 0.0
    for segment in check.segments:
        ends = (*(frame.offset for frame in segment.iframes[1:]), segment.size)
        for frame, end in zip(segment.iframes, ends, strict=False):
            yield _KeyFrame(segment.name, frame.offset, end, at_s)
            at_s += frame.duration_s


def files(folder: Path) -> list[Path]:
    """The files of the storyboard in a folder; none without one, or if it is damaged."""
    try:
        whole = not damage(folder)
    except OSError:
        whole = False
    return [folder / WEBVTT_NAME, *sorted(folder.glob(_SPRITE_NAMES))] if whole else []


def damage(folder: Path, length_s: float | None = None) -> str:
    """What is wrong with the storyboard in a folder, for a video of this length if known; else empty."""
    at, named = 0, set()
    for cue in webvtt.parse(durable.read(folder / WEBVTT_NAME).decode("utf-8", "replace")):
        place = _CUE.fullmatch(cue.text)
        if place is None or cue.begin != at or cue.end <= at:
            return f"{WEBVTT_NAME} has a gap or an unknown picture at {webvtt.clock(at)}"
        named.add(place[1])
        at = cue.end
    if not at or (length_s is not None and abs(at - length_s * 1000) > 1):
        return f"{WEBVTT_NAME} ends at {webvtt.clock(at)}, not with the video"
    for name in sorted(named):
        content = durable.read(folder / name)
        if not content.startswith(_JPEG_START) or not content.endswith(_JPEG_END):
            return f"{name} is damaged"
    return ""
