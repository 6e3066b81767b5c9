"""Computes the grid of frames, fragments and segments on which all renditions of a source are cut."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from fractions import Fraction

from tqstudio.engine.media.plan import copying
from tqstudio.engine.media.plan.audio import audio_renditions
from tqstudio.engine.media.plan.profiles import Profile, RungSpec
from tqstudio.engine.media.source.facts import SourceFacts, VideoTrack

UNEVEN_S = Fraction(1, 20)
"""Seconds by which sound may start before or end after the pictures without a picture being repeated."""
# Share of a frame: timestamps in milliseconds are rounded by up to 0.5 ms.
_ROUNDING = Fraction(1, 10)

# Samples of a frame of E-AC-3; those of AAC have 1024.
_LONGEST_FRAME = 1536

# Frames by which encoders decode pictures before they are shown, at most: x264 and x265, by their pyramids.
_ENCODERS_REORDER = 2

NTSC = Fraction(30000, 1001)
_MAX_FPS = 60

SHORT_S = Fraction(1, 2)
"""A last piece of fewer seconds joins the one before: hls.js 1.7.4 stops before one of a single picture. The
longest one still rounds to the target duration."""

TIMELINE_START_S = 10
"""Start of every output timeline in seconds. At zero the first decode times would be negative, and the muxer
would shift a first run, but not a resumed one, by the B-frame delay."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Boundaries of fragments and segments, counted in frames of the source's 1/fps clock.

    A fragment is one GOP, the smallest unit of an encode that is stored; a segment is what players load. Both
    are equally long, unless a quality is a copy of the source: then segments begin at key frames of that.
    """

    fps: Fraction
    gop: int
    """Frames from key frame to key frame, which is one fragment; every GOP is closed. With `starts`, at
    most."""
    seg_frames: int
    """Frames per segment, a multiple of `gop`; the last segment may be shorter, or longer by a short rest.
    With `heads`, the nominal ones."""
    g0: int
    """Index of the first frame on the clock; equal in all runs of a source."""
    total_frames: int
    """Frames of every rendition; an estimate, at least 1, unless `exact`."""
    start_time: Fraction
    """The time on the clock in seconds that becomes `TIMELINE_START_S` in every output."""
    zero: Fraction = Fraction(0)
    """The same in source time. Rounding to the clock shifts pictures, and sound with them, by up to half a
    frame."""
    head: int = 0
    """Frames for which the first picture is repeated, because the sound begins before it."""
    tail: int = 0
    """Frames for which the last picture is repeated, because it is shown longer or the sound ends after
    it."""
    exact: bool = False
    """Whether the source was measured, so that `total_frames` is exact."""
    starts: tuple[int, ...] = ()
    """First frames of the fragments, and the end, if a quality is a copy; else empty."""
    heads: tuple[int, ...] = ()
    """Positions in `starts` at which segments begin, and that of the end."""
    copied: RungSpec | None = None
    """The quality that is a copy of the source's pictures."""
    not_copied: str = ""
    """Why none is, although the profile asks for it; else empty."""
    reordered: int = 0
    """Beside a copy, frames by which the first picture of each quality is decoded before it is shown."""

    @property
    def segment_count(self) -> int:
        """Segments per rendition; an estimate unless `exact`."""
        return len(self.heads) - 1 if self.heads else piece_count(self.length, self.segment_s)

    @property
    def edges(self) -> list[int]:
        """The frames at which segments begin, and the end; estimates unless `exact`."""
        return [*map(self.segment_start, range(self.segment_count)), self.total_frames]

    @property
    def fragment_count(self) -> int:
        """Fragments per rendition; an estimate unless `exact`."""
        return len(self.starts) - 1 if self.starts else -(-self.total_frames // self.gop)

    def fragment_start(self, fragment: int) -> int:
        """The first frame of a fragment."""
        if self.starts:
            return self.starts[min(fragment, len(self.starts) - 1)]
        return fragment * self.gop

    def fragment_frames(self, fragment: int) -> int:
        """Frames of a fragment that is not the last one."""
        return self.fragment_start(fragment + 1) - self.fragment_start(fragment)

    def fragment_s(self, fragment: int) -> float:
        """Start of a fragment in seconds from the first frame."""
        return float(self.fragment_start(fragment) / self.fps)

    def fragment_at(self, frame: int) -> int:
        """The fragment that contains a frame."""
        return bisect_right(self.starts, frame) - 1 if self.starts else frame // self.gop

    def fragments_of(self, segment: int) -> range:
        """The fragments of a segment that is not the last one."""
        if self.heads:
            last = len(self.heads) - 1
            return range(self.heads[min(segment, last)], self.heads[min(segment + 1, last)])
        each = self.seg_frames // self.gop
        return range(segment * each, (segment + 1) * each)

    def segment_of(self, fragment: int) -> int:
        """The segment that contains a fragment."""
        if self.heads:
            return bisect_right(self.heads, fragment) - 1
        return fragment // (self.seg_frames // self.gop)

    def segment_start(self, segment: int) -> int:
        """The first frame of a segment."""
        return self.fragment_start(self.fragments_of(segment).start)

    def segment_frames(self, segment: int) -> int:
        """Frames of a segment that is not the last one."""
        return self.segment_start(segment + 1) - self.segment_start(segment)

    @property
    def length(self) -> Fraction:
        """Seconds of every rendition; an estimate unless `exact`."""
        return self.total_frames / self.fps

    @property
    def segment_s(self) -> Fraction:
        """Seconds of a full segment."""
        return self.seg_frames / self.fps

    @property
    def hls_time(self) -> str:
        """The muxer's `-hls_time`: a µs less than a fragment, because it cuts at the first key frame at or
        after this time, and every key frame begins a fragment."""
        if self.starts:
            return "0.001"
        microseconds = self.gop * 1_000_000 * self.fps.denominator // self.fps.numerator - 1
        return f"{microseconds // 1_000_000}.{microseconds % 1_000_000:06d}"

    @property
    def output_offset(self) -> Fraction:
        """Seconds added to clock times by ffmpeg, rounded to the µs."""
        return Fraction(round((TIMELINE_START_S - self.start_time) * 1_000_000), 1_000_000)

    def tfdt(self, frame: int, timescale: int) -> int:
        """The decode time, in units of 1/timescale, of a fragment whose first frame is `frame`, from 0."""
        return round(((self.g0 + frame) / self.fps + self.output_offset) * timescale)

    def of_copy(self, starts: tuple[int, ...]) -> Grid:
        """The grid of the copied quality, whose fragments, given with the end, are those of the source."""
        heads = (bisect_right(starts, self.starts[head]) - 1 for head in self.heads)
        return replace(self, starts=starts, heads=tuple(heads))

    def is_last(self, segment: int) -> bool:
        """Whether it is known that a segment is the last one."""
        return bool(self.heads) and segment == self.segment_count - 1

    def may_be_last(self, segment: int, frames: int) -> bool:
        """Whether a segment of so many frames may be the last one."""
        if self.heads:
            return self.is_last(segment) and frames == self.segment_frames(segment)
        return frames > 0 and (frames - self.seg_frames) / self.fps < SHORT_S

    def on_grid(self, frame: int, tfdt: int, timescale: int) -> bool:
        """Whether `tfdt` is less than half a frame from the decode time expected for `frame`."""
        return abs(tfdt - self.tfdt(frame, timescale)) * 2 * self.fps < timescale


def fields_of(video: VideoTrack, profile: Profile) -> str:
    """`video.fields` of the profile if the source has such fields, else `frames`.

    Film may come as fields, or as pictures to be shown for two and three fields (a varying rate).
    """
    if profile.fields == "double" and video.interlaced and 2 * video.fps <= _MAX_FPS:
        return "double"
    if profile.fields == "film" and video.fps == NTSC and (video.interlaced or video.vfr):
        return "film"
    return "frames"


def picture_rate(video: VideoTrack, profile: Profile) -> Fraction:
    """The frame rate of what is published."""
    factors = {"frames": Fraction(1), "double": Fraction(2), "film": Fraction(4, 5)}
    return video.fps * factors[fields_of(video, profile)]


def make_grid(facts: SourceFacts, profile: Profile) -> Grid:
    """Compute the grid of a source for a profile.

    For a measured source it runs from the earliest start to the latest end of video and default audio; other
    tracks are cut or filled up to it. If the timestamps of a source jump, its end is known only after
    decoding.
    """
    grid = _regular(facts, profile)
    even = grid.exact and not (grid.head or grid.tail)
    frames = grid.total_frames, grid.gop, grid.seg_frames
    choice = copying.choose(facts, profile, *frames, even=even)
    if choice.spec is None:
        return replace(grid, not_copied=choice.why_not) if choice.why_not else grid
    reordered = max(facts.video.reordered, _ENCODERS_REORDER)
    return replace(grid, starts=choice.starts, heads=choice.heads, copied=choice.spec, reordered=reordered)


def _regular(facts: SourceFacts, profile: Profile) -> Grid:
    if facts.video.still:
        return _grid_of_sound(facts, profile)
    video, fps = facts.video, picture_rate(facts.video, profile)
    gop = max(1, nearest(profile.gop_s * fps))
    seg_frames = gop * (profile.segment_s // profile.gop_s)
    first = g0 = nearest(video.first_pts_s * fps)
    shift = first / fps - video.first_pts_s
    sound_begins, sound_ends = _sound_extent(facts, profile)
    if sound_begins is not None and sound_begins < video.first_pts_s - UNEVEN_S:
        g0 = min(g0, math.floor((sound_begins + shift) * fps + _ROUNDING))
    length_s = video.duration_s or facts.duration_s
    end = shown = first + max(1, nearest(Fraction(length_s).limit_denominator(1_000_000) * fps))
    if video.end_s is not None and video.last_s is not None:
        of_last = 2 if fields_of(video, profile) == "double" else 1
        # From the first picture, which is on the grid: others may lie halfway between two frames of it.
        last, ends = (Fraction(at_s) - video.first_pts_s for at_s in (video.last_s, video.end_s))
        shown = first + max(0, nearest(last * fps)) + of_last
        if video.one_of > 1:
            # Those that are shown within the second half of the last frame have no frame of their own.
            shown = min(shown, first + max(1, nearest(ends * fps + _ROUNDING)))
        end = max(shown, first + nearest(ends * fps))
    if sound_ends + shift > end / fps + UNEVEN_S:
        end = math.ceil((sound_ends + shift) * fps - _ROUNDING)
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


def _grid_of_sound(facts: SourceFacts, profile: Profile) -> Grid:
    """The grid of sound alone: the whole frames within it; `audio_command` keeps the rest."""
    fps = facts.video.fps
    begins, ends = _sound_extent(facts, profile)
    zero = facts.video.first_pts_s if begins is None else begins
    length = Fraction(facts.duration_s).limit_denominator(1_000_000) if begins is None else ends - zero
    gop = nearest(profile.gop_s * fps)
    return Grid(
        fps=fps,
        gop=gop,
        seg_frames=gop * (profile.segment_s // profile.gop_s),
        g0=0,
        total_frames=max(1, math.floor(length * fps)),
        start_time=Fraction(0),
        zero=zero,
        exact=begins is not None and not facts.unseekable,
    )


def _sound_extent(facts: SourceFacts, profile: Profile) -> tuple[Fraction | None, Fraction]:
    """Start, if measured, and end (else 0) of the default audio in source time, in seconds."""
    for sound in audio_renditions(facts, profile)[:1]:
        begin, end = sound.track.first_s, sound.track.end_s
        return None if begin is None else Fraction(begin), Fraction(end or 0)
    return None, Fraction(0)


def piece_count(length_s: Fraction, piece_s: Fraction) -> int:
    """The number of pieces of this length into which a rendition is cut, at least 1."""
    full, rest_s = divmod(length_s, piece_s)
    return max(1, full + (rest_s >= SHORT_S))


def sound_segment_s(length: Fraction, nominal_s: int, sample_rate: int) -> Fraction:
    """Seconds of a segment of sound of this length, which ends at the next frame of sound.

    These frames, and the one before the first, may make a segment that a short rest joins too long for the
    target duration: then segments are a little longer, so that the last one is not; a single one is shorter.
    """
    frame = Fraction(_LONGEST_FRAME, sample_rate)
    full, rest = divmod(length, nominal_s)
    if not full or not SHORT_S - frame <= rest < SHORT_S:
        return Fraction(nominal_s)
    return nominal_s + frame / (full - 1) if full > 1 else length - SHORT_S - frame


def nearest(value: Fraction) -> int:
    """Round to the nearest integer, halves away from zero, as ffmpeg rounds timestamps."""
    doubled = abs(value) * 2
    whole = (doubled.numerator // doubled.denominator + 1) // 2
    return whole if value >= 0 else -whole
