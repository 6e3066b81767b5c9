"""The grid on which all renditions of a source are cut. Pure. The numbers are those of a measured recipe."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from tqstudio.engine.media.facts import SourceFacts
from tqstudio.engine.media.profiles import Profile

TIMELINE_START_S = 10
"""Seconds at which the output timeline of every source begins. Zero would put the first decode times below
zero, where the muxer shifts a first run by its B-frame delay and a resumed one not."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Where segments begin and end, counted in frames of the 1/fps clock of the source."""

    fps: Fraction
    gop: int
    """Frames from keyframe to keyframe; every GOP is closed."""
    seg_frames: int
    """Frames of a segment, a multiple of `gop`; the last segment has what is left."""
    g0: int
    """Index of the source's first frame on the clock. Every run of a source must use the same."""
    total_frames: int
    """An estimate from the declared duration, at least 1. The real count is known once an encode ended with
    0."""
    hls_time: str
    """The muxer's target, a µs short of a segment: larger, and cuts slip a GOP; much smaller, and some come
    early."""
    start_time: Fraction
    """The source's smallest timestamp in seconds, which becomes `TIMELINE_START_S` in every output."""

    @property
    def segment_count(self) -> int:
        """Segments of `total_frames`; as much of an estimate as that is."""
        return self.segments_of(self.total_frames)

    @property
    def frame_s(self) -> Fraction:
        """Seconds of one frame."""
        return 1 / self.fps

    @property
    def segment_s(self) -> Fraction:
        """Seconds of a full segment."""
        return self.seg_frames / self.fps

    @property
    def output_offset(self) -> Fraction:
        """Seconds added to source time, to the µs, as ffmpeg takes it."""
        return Fraction(round((TIMELINE_START_S - self.start_time) * 1_000_000), 1_000_000)

    def segments_of(self, frames: int) -> int:
        """The number of segments that hold so many frames."""
        return -(-frames // self.seg_frames)

    def frames_in(self, k: int, total_frames: int | None = None) -> int:
        """Frames of segment k when the source has `total_frames` (default: the estimate); 0 beyond its
        end."""
        total = self.total_frames if total_frames is None else total_frames
        return max(0, min(self.seg_frames, total - k * self.seg_frames))

    def tfdt(self, k: int, timescale: int) -> int:
        """The decode time in units of 1/timescale with which segment k begins, to within a frame's
        rounding."""
        return round(((self.g0 + k * self.seg_frames) * self.frame_s + self.output_offset) * timescale)

    def on_grid(self, k: int, tfdt: int, timescale: int) -> bool:
        """Whether a segment that begins at `tfdt` is segment k: less than half a frame off."""
        return abs(tfdt - self.tfdt(k, timescale)) * 2 * self.fps < timescale

    def with_total(self, total_frames: int) -> Grid:
        """The same grid once the real number of frames is known."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return Grid(**(values | {"total_frames": total_frames}))

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values; fractions are text."""
        data = asdict(self)
        return data | {"fps": str(self.fps), "start_time": str(self.start_time)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Grid:
        """The inverse of `to_json`."""
        return cls(**(data | {"fps": Fraction(data["fps"]), "start_time": Fraction(data["start_time"])}))


def make_grid(facts: SourceFacts, profile: Profile) -> Grid:
    """The grid of a source under a profile."""
    fps = facts.video.fps
    gop = max(1, _nearest(profile.gop_s * fps))
    seg_frames = gop * (profile.segment_s // profile.gop_s)
    segment_us = seg_frames * 1_000_000 * fps.denominator // fps.numerator
    length_s = facts.video.duration_s or facts.duration_s
    return Grid(
        fps=fps,
        gop=gop,
        seg_frames=seg_frames,
        g0=_nearest(facts.video.first_pts_s * fps),
        total_frames=max(1, _nearest(Fraction(length_s).limit_denominator(1_000_000) * fps)),
        hls_time=_seconds(segment_us - 1),
        start_time=Fraction(round(facts.start_time_s * 1_000_000), 1_000_000),
    )


def _nearest(value: Fraction) -> int:
    """The nearest whole number, halves away from zero: how ffmpeg rounds timestamps."""
    doubled = abs(value) * 2
    whole = (doubled.numerator // doubled.denominator + 1) // 2
    return whole if value >= 0 else -whole


def _seconds(microseconds: int) -> str:
    return f"{microseconds // 1_000_000}.{microseconds % 1_000_000:06d}"
