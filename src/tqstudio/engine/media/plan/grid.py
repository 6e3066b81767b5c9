"""The grid on which all renditions of a source are cut. Pure. The numbers are those of a measured recipe."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.plan.rungs import audio_renditions
from tqstudio.engine.media.source.facts import SourceFacts

UNEVEN_S = Fraction(1, 20)
"""Seconds of sound before the picture and after it for which no picture is held."""
# Of a frame: times in milliseconds are up to half of one off.
_ROUNDING = Fraction(1, 10)

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
    """Index of the first frame on the clock. Every run of a source must use the same."""
    total_frames: int
    """Frames of every rendition; an estimate, at least 1, unless `exact`."""
    start_time: Fraction
    """The time on the clock, in seconds, that becomes `TIMELINE_START_S` in every output."""
    zero: Fraction = Fraction(0)
    """The same in source time. Pictures are moved onto the clock by up to half a frame, sound with them."""
    head: int = 0
    """Frames for which the first picture is held, because the sound begins before it."""
    tail: int = 0
    """Frames for which the last picture is held, because it is shown longer or the sound ends after it."""
    exact: bool = False
    """The source was measured: `total_frames` is what every rendition has."""

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
    """The grid of a source under a profile.

    It covers picture and published sound of a measured source, from where the first of them begins to where
    the last one ends. The end of a source whose clock jumps is known only after it was decoded.
    """
    video, fps = facts.video, facts.video.fps
    gop = max(1, _nearest(profile.gop_s * fps))
    seg_frames = gop * (profile.segment_s // profile.gop_s)
    first = g0 = _nearest(video.first_pts_s * fps)
    shift = first / fps - video.first_pts_s
    for begins in _sound_begins(facts, profile):
        if begins < video.first_pts_s - UNEVEN_S:
            g0 = min(g0, math.floor((begins + shift) * fps + _ROUNDING))
    length_s = video.duration_s or facts.duration_s
    end = shown = first + max(1, _nearest(Fraction(length_s).limit_denominator(1_000_000) * fps))
    if video.end_s is not None and video.last_s is not None:
        shown = max(first, _nearest(Fraction(video.last_s) * fps)) + 1
        end = max(shown, _nearest(Fraction(video.end_s) * fps))
    if (sound_s := sound_end(facts, profile) + shift) > end / fps + UNEVEN_S:
        end = math.ceil(sound_s * fps - _ROUNDING)
    return Grid(
        fps=fps,
        gop=gop,
        seg_frames=seg_frames,
        g0=g0,
        total_frames=end - g0,
        start_time=g0 / fps,
        zero=g0 / fps - shift,
        head=first - g0,
        tail=end - shown,
        exact=video.end_s is not None,
    )


def sound_end(facts: SourceFacts, profile: Profile) -> Fraction:
    """When the last of the published sound ends, in source time; 0 when there is none."""
    ends = [sound.track.end_s for sound in audio_renditions(facts, profile)]
    return max((Fraction(end) for end in ends if end is not None), default=Fraction(0))


def _sound_begins(facts: SourceFacts, profile: Profile) -> list[Fraction]:
    begins = [sound.track.first_s for sound in audio_renditions(facts, profile)]
    return [Fraction(begin) for begin in begins if begin is not None]


def _nearest(value: Fraction) -> int:
    """The nearest whole number, halves away from zero: how ffmpeg rounds timestamps."""
    doubled = abs(value) * 2
    whole = (doubled.numerator // doubled.denominator + 1) // 2
    return whole if value >= 0 else -whole
