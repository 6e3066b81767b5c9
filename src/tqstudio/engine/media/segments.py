"""Tells whole segments from torn ones, and finds what of a stream is finished on disk.

A segment that a killed ffmpeg left behind may be under its final name: on a full disk the hls muxer goes on,
renames what it could write and exits 0, and a run ended by SIGTERM leaves a short one. Sizes and the frame
count tell.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from tqstudio.engine.media import boxes
from tqstudio.engine.media.grid import Grid
from tqstudio.engine.media.layout import INIT_NAME, segment_name


@dataclass(frozen=True, slots=True)
class Segment:
    """A whole media segment: one `moof`, one `mdat`, and every byte they declare.

    Times are in units of the track's timescale.
    """

    frames: int
    """Samples in it: pictures, or audio frames."""
    tfdt: int
    """Decode time of the first sample."""
    duration: int
    """Sum of its sample durations."""
    size: int
    """Bytes of the file."""
    keyframe: bool
    """It begins with a sync sample."""
    first_pts: int
    """Presentation time of the first picture shown."""
    end_pts: int
    """Where the last picture shown ends."""

    def follows(self, earlier: Segment) -> bool:
        """Whether its first frame is the one after the last frame of `earlier`, decoded and shown."""
        return self.tfdt == earlier.tfdt + earlier.duration and self.first_pts == earlier.end_pts


@dataclass(frozen=True, slots=True)
class Init:
    """A whole initialisation segment of one track."""

    timescale: int
    """Units per second of the track."""
    codec: str
    """As CODECS of a playlist wants it, such as `avc1.640028` or `mp4a.40.2`."""
    width: int
    """Pixels; 0 for audio."""
    height: int


@dataclass(frozen=True, slots=True)
class Torn:
    """A file that is not whole."""

    reason: str
    empty: bool = False
    """Its boxes are whole, and there is no media among them: what a run without a frame writes."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """The finished beginning of a stream."""

    full: int = 0
    """Full segments from 0 on."""
    ended: bool = False
    """Behind them lies the shorter segment that ends the stream. It is stored only after ffmpeg ended with 0,
    so it proves the end."""

    @property
    def segments(self) -> int:
        """All segments that need not be made again."""
        return self.full + self.ended


def inspect_segment(path: Path) -> Segment | Torn:
    """Read a media segment's boxes: its metadata only, some 0.05 ms.

    Raises:
        FileNotFoundError: when there is no such file.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            found = boxes.top_level(file, size)
            fragments = [box for box in found if box[0] == b"moof"]
            media = [box for box in found if box[0] == b"mdat"]
            if len(fragments) != 1 or len(media) != 1:
                return Torn(
                    f"{len(fragments)} moof and {len(media)} mdat boxes",
                    empty=bool(found) and not fragments and not media,
                )
            samples = boxes.fragment(boxes.load(file, *fragments[0][1:]))
            if samples.bytes != media[0][2]:
                return Torn(f"its samples declare {samples.bytes} bytes, its mdat has {media[0][2]}")
    except (boxes.Damage, struct.error, IndexError) as damage:
        return Torn(str(damage) or "a box is cut short")
    return Segment(
        samples.count,
        samples.tfdt,
        samples.duration,
        size,
        samples.keyframe,
        samples.first_pts,
        samples.end_pts,
    )


def inspect_init(path: Path) -> Init | Torn:
    """Read an initialisation segment.

    Raises:
        FileNotFoundError: when there is no such file.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            moov = next((box for box in boxes.top_level(file, size) if box[0] == b"moov"), None)
            if moov is None:
                return Torn("no moov box")
            track = boxes.track(boxes.load(file, *moov[1:]))
    except (boxes.Damage, struct.error, IndexError) as damage:
        return Torn(str(damage) or "a box is cut short")
    return Init(track.timescale, track.codec, track.width, track.height)


def is_placed(segment: Segment, k: int, grid: Grid, timescale: int) -> bool:
    """Whether a segment begins with a keyframe, where the grid has segment k."""
    return segment.keyframe and grid.on_grid(k, segment.tfdt, timescale)


def verified_prefix(directory: Path, grid: Grid) -> Prefix:
    """Find the segments of a video stream, from 0 on, that are whole, on the grid, full, and joined.

    Args:
        directory: holds `init.mp4` and segments that were stored by `StreamOutput`.
    """
    try:
        init = inspect_init(directory / INIT_NAME)
    except (FileNotFoundError, NotADirectoryError):
        return Prefix()
    if isinstance(init, Torn):
        return Prefix()
    k, before = 0, None
    while True:
        try:
            segment = inspect_segment(directory / segment_name(k))
        except (FileNotFoundError, NotADirectoryError):
            return Prefix(k)
        if (
            isinstance(segment, Torn)
            or not is_placed(segment, k, grid, init.timescale)
            or (before is not None and not segment.follows(before))
        ):
            return Prefix(k)
        if segment.frames != grid.seg_frames:
            ended = 0 < segment.frames < grid.seg_frames and not (directory / segment_name(k + 1)).exists()
            return Prefix(k, ended)
        before, k = segment, k + 1
