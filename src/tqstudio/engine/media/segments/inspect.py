"""Tells whole segments from torn ones, and finds what of a stream is finished on disk.

A segment that a killed ffmpeg left behind may be under its final name: on a full disk the hls muxer goes on,
renames what it could write and exits 0, and a run ended by SIGTERM leaves a short one. Sizes and the frame
count tell.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import BinaryIO

from tqstudio.engine.media.plan.file_names import FRAGMENTS_NAME, INIT_NAME, fragment_name, segment_name
from tqstudio.engine.media.plan.grid import Grid
from tqstudio.engine.media.segments import boxes


@dataclass(frozen=True, slots=True)
class Segment:
    """A whole media segment, or a part of one: its fragments join, and every byte they declare is there.

    A fragment is one `moof` and one `mdat`. Times are in units of the track's timescale.
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

    def is_like(self, other: Segment) -> bool:
        """Whether it has as many frames as another one, at the same time."""
        return (self.frames, self.tfdt, self.duration, self.end_pts) == (
            other.frames,
            other.tfdt,
            other.duration,
            other.end_pts,
        )

    def with_next(self, later: Segment) -> Segment:
        """Both as one.

        Raises:
            boxes.Damage: they do not join.
        """
        if not later.follows(self):
            raise boxes.Damage("its fragments do not join")
        return Segment(
            self.frames + later.frames,
            self.tfdt,
            self.duration + later.duration,
            self.size + later.size,
            self.keyframe,
            self.first_pts,
            later.end_pts,
        )


@dataclass(frozen=True, slots=True)
class Outline:
    """What the heads of a media segment's boxes say: every byte that they declare is there."""

    size: int
    """Bytes of the file."""
    begins: tuple[int, ...]
    """Decode time of the first sample of each fragment, in units of the track's timescale."""


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
    fragments: int = 0
    """Full fragments from 0 on: those of these segments, and those of the segment that is in the making."""
    ended: bool = False
    """Behind them lies the shorter segment that ends the stream. It is stored only after ffmpeg ended with 0,
    so it proves the end."""

    @property
    def segments(self) -> int:
        """All segments that need not be made again."""
        return self.full + self.ended


def inspect_segment(path: Path) -> Segment | Torn:
    """Read the boxes of a media segment or of a fragment: the metadata only, some 0.05 ms.

    Raises:
        FileNotFoundError: when there is no such file.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            pairs = _pairs(file, size)
            if isinstance(pairs, Torn):
                return pairs
            whole = reduce(
                Segment.with_next,
                [_fragment(boxes.load(file, *moof), media_bytes) for moof, media_bytes in pairs],
            )
    except (boxes.Damage, struct.error, IndexError) as damage:
        return Torn(str(damage) or "a box is cut short")
    return replace(whole, size=size)


def outline_segment(path: Path) -> Outline | Torn:
    """Read the heads of the boxes of a media segment, and no sample: some 0.02 ms for each fragment.

    Raises:
        FileNotFoundError: when there is no such file.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            pairs = _pairs(file, size)
            if isinstance(pairs, Torn):
                return pairs
            begins = tuple(boxes.decode_time(boxes.load(file, *moof)) for moof, _ in pairs)
    except (boxes.Damage, struct.error, IndexError) as damage:
        return Torn(str(damage) or "a box is cut short")
    return Outline(size, begins)


def _pairs(file: BinaryIO, size: int) -> list[tuple[tuple[int, int], int]] | Torn:
    """Of each fragment where the payload of its `moof` lies, and how many bytes its `mdat` holds."""
    found = boxes.top_level(file, size)
    media = [box for box in found if box[0] in (b"moof", b"mdat")]
    if not media:
        return Torn("no moof and no mdat box", empty=bool(found))
    if [kind for kind, *_ in media] != [b"moof", b"mdat"] * (len(media) // 2):
        return Torn("its moof and mdat boxes are not in pairs")
    return [(moof[1:], mdat[2]) for moof, mdat in zip(media[::2], media[1::2], strict=True)]


def _fragment(moof: bytes, media_bytes: int) -> Segment:
    samples = boxes.fragment(moof)
    if samples.bytes != media_bytes:
        raise boxes.Damage(f"its samples declare {samples.bytes} bytes, its mdat has {media_bytes}")
    return Segment(
        samples.count,
        samples.tfdt,
        samples.duration,
        media_bytes,
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


def is_placed(segment: Segment, frame: int, grid: Grid, timescale: int) -> bool:
    """Whether it begins with a keyframe, and that is this frame of the grid."""
    return segment.keyframe and grid.on_grid(frame, segment.tfdt, timescale)


def verified_prefix(directory: Path, grid: Grid) -> Prefix:
    """Find what of a video stream is whole, on the grid, full, and joined, from its first frame on.

    Args:
        directory: holds `init.mp4` and what `StreamOutput` stored.
    """
    try:
        init = inspect_init(directory / INIT_NAME)
    except (FileNotFoundError, NotADirectoryError):
        return Prefix()
    if isinstance(init, Torn):
        return Prefix()

    def find(path: Path, frame: int, before: Segment | None) -> Segment | None:
        try:
            found = inspect_segment(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if isinstance(found, Torn) or not is_placed(found, frame, grid, init.timescale):
            return None
        return found if before is None or found.follows(before) else None

    full, before, per_segment = 0, None, grid.fragments_per_segment
    while segment := find(directory / segment_name(full), full * grid.seg_frames, before):
        if segment.frames != grid.seg_frames:
            ended = 0 < segment.frames < grid.seg_frames
            ended = ended and not (directory / segment_name(full + 1)).exists()
            return Prefix(full, full * per_segment, ended)
        before, full = segment, full + 1
    made = full * per_segment
    # The last fragment of a segment lies there by itself only where the disk was too full to join them. It is
    # made again, and joined then: a run that began behind it would follow a segment that is not there.
    while made + 1 < (full + 1) * per_segment and (
        fragment := find(directory / FRAGMENTS_NAME / fragment_name(made), made * grid.gop, before)
    ):
        if fragment.frames != grid.gop:
            break
        before, made = fragment, made + 1
    return Prefix(full, made)
