"""The grid on which all renditions of a source are cut. Pure. The numbers are those of a measured recipe."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tqstudio.engine.media.facts import SourceFacts
from tqstudio.engine.media.profiles import Profile

TIMELINE_START_S = 10
"""Seconds at which the output timeline of every source begins. Zero would put the first decode times below
zero, where the muxer shifts a first run by its B-frame delay and a resumed one not."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Where fragments and segments begin and end, counted in frames of the 1/fps clock of the source.

    A fragment is one GOP, the least that can be kept of an encode; a segment is what players load.
    """

    fps: Fraction
    gop: int
    """Frames from keyframe to keyframe, which is a fragment; every GOP is closed."""
    seg_frames: int
    """Frames of a segment, a multiple of `gop`; the last segment has what is left."""
    g0: int
    """Index of the source's first frame on the clock. Every run of a source must use the same."""
    total_frames: int
    """An estimate from the declared duration, at least 1. The real count is known once an encode ended with
    0."""
    start_time: Fraction
    """The source's smallest timestamp in seconds, which becomes `TIMELINE_START_S` in every output."""

    @property
    def segment_count(self) -> int:
        """Segments of `total_frames`; as much of an estimate as that is."""
        return -(-self.total_frames // self.seg_frames)

    @property
    def fragment_count(self) -> int:
        """The same in fragments."""
        return -(-self.total_frames // self.gop)

    @property
    def fragments_per_segment(self) -> int:
        """Fragments of a full segment."""
        return self.seg_frames // self.gop

    @property
    def frame_s(self) -> Fraction:
        """Seconds of one frame."""
        return 1 / self.fps

    @property
    def fragment_s(self) -> Fraction:
        """Seconds of a full fragment."""
        return self.gop / self.fps

    @property
    def hls_time(self) -> str:
        """The muxer's target in seconds, a µs short of a fragment: it cuts at the first keyframe that is not
        before it, and every keyframe begins a fragment."""
        microseconds = self.gop * 1_000_000 * self.fps.denominator // self.fps.numerator - 1
        return f"{microseconds // 1_000_000}.{microseconds % 1_000_000:06d}"

    @property
    def output_offset(self) -> Fraction:
        """Seconds added to source time, to the µs, as ffmpeg takes it."""
        return Fraction(round((TIMELINE_START_S - self.start_time) * 1_000_000), 1_000_000)

    def tfdt(self, frame: int, timescale: int) -> int:
        """The decode time in units of 1/timescale of a frame, counted from the first, with which a fragment
        begins; to within a frame's rounding."""
        return round(((self.g0 + frame) * self.frame_s + self.output_offset) * timescale)

    def on_grid(self, frame: int, tfdt: int, timescale: int) -> bool:
        """Whether what begins at `tfdt` begins with that frame: less than half a frame off."""
        return abs(tfdt - self.tfdt(frame, timescale)) * 2 * self.fps < timescale


def make_grid(facts: SourceFacts, profile: Profile) -> Grid:
    """The grid of a source under a profile."""
    fps = facts.video.fps
    gop = max(1, _nearest(profile.gop_s * fps))
    seg_frames = gop * (profile.segment_s // profile.gop_s)
    length_s = facts.video.duration_s or facts.duration_s
    return Grid(
        fps=fps,
        gop=gop,
        seg_frames=seg_frames,
        g0=_nearest(facts.video.first_pts_s * fps),
        total_frames=max(1, _nearest(Fraction(length_s).limit_denominator(1_000_000) * fps)),
        start_time=Fraction(round(facts.start_time_s * 1_000_000), 1_000_000),
    )


def _nearest(value: Fraction) -> int:
    """The nearest whole number, halves away from zero: how ffmpeg rounds timestamps."""
    doubled = abs(value) * 2
    whole = (doubled.numerator // doubled.denominator + 1) // 2
    return whole if value >= 0 else -whole
