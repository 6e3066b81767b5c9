"""Decides whether a quality is a copy of the source's pictures, and where a ladder with one is cut."""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from tqstudio.engine.media.plan.profiles import Profile, RungSpec
from tqstudio.engine.media.plan.subtitles import burnt_subtitles
from tqstudio.engine.media.plan.video_codecs import H264_LEVELS, HEVC_MAX_LEVEL, MAX_BLOCKS, MAX_SIDE
from tqstudio.engine.media.source import coded_pictures
from tqstudio.engine.media.source.colour import BT709, UNSPECIFIED, colour_of
from tqstudio.engine.media.source.facts import SourceFacts, VideoTrack

COPY = "copy"
"""The name of a copy in the place of an encoder's."""
DAMAGED = "the pictures of the source are damaged: the next attempt encodes them instead of copying"

# A source of at least this percentage of a rung gets that rung at its own size: 1918×1078 counts as 1080p,
# because 720p would discard half of its pixels.
_STANDS_FOR_PERCENT = 95
# Up to this percentage it keeps its own size: 1920×1088 is not resampled for eight lines.
_KEEPS_SIZE_PERCENT = 101
_LONGER_S = Fraction(1, 2)
"""By how much groups of pictures may be longer than a segment."""
_PROFILES = {
    ("h264", "main"): ("Constrained Baseline", "Baseline", "Main"),
    ("h264", "high"): ("Constrained Baseline", "Baseline", "Main", "High"),
    ("hevc", "yuv420p"): ("Main",),
    ("hevc", "yuv420p10le"): ("Main 10",),
}
# Their demuxers guess the times of pictures, or where key frames are.
_WITHOUT_TIMES = ("avi", "h264", "hevc")
_MAX_LISTED_S = 6 * 3600
"""An argument of a program has at most 128 kB, and the times of key frames of six hours some 100."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The quality that is a copy, and where the ladder is cut then."""

    spec: RungSpec | None = None
    why_not: str = ""
    """Why no quality is one; empty if none was asked for."""
    starts: tuple[int, ...] = ()
    """First frames of the fragments of encoded qualities, and the end."""
    heads: tuple[int, ...] = ()
    """Positions in `starts` at which segments begin, and that of the end."""


def choose(
    facts: SourceFacts, profile: Profile, frames: int, gop: int, seg_frames: int, *, even: bool
) -> Choice:
    """Choose the largest quality that may be a copy of the pictures of the source.

    Args:
        frames: of the ladder.
        gop: frames of a fragment, at most.
        seg_frames: nominal frames of a segment.
        even: whether sound and pictures begin and end together, so that no picture has to be repeated.
    """
    if profile.copy == "never" or facts.video.still or not facts.measured:
        return Choice()
    video = facts.video
    specs = [spec for spec in profile.rungs if profile.codec_of(spec) == video.codec and not spec.hdr]
    if not specs:
        return Choice(why_not=f"the source is {video.codec}")
    specs = [spec for spec in specs if keeps_size(video.width, video.height, spec.short_side)]
    if not specs:
        return Choice(why_not="no quality of the profile has its size")
    # Of several that would have equal pictures, only the lowest is made.
    lowest = min(spec.short_side for spec in specs)
    specs = [spec for spec in specs if spec.short_side == lowest]
    why_not = _of_pictures(video, profile) or _of_source(facts, profile, even=even)
    why_not = why_not or _of_packets(facts, frames, seg_frames)
    if why_not:
        return Choice(why_not=why_not)
    fitting = [spec for spec in specs if video.measured_bitrate <= spec.maxrate_kbps * 1000]
    if not fitting:
        has, allowed = video.measured_bitrate / 1e6, specs[0].maxrate_kbps / 1000
        return Choice(why_not=f"the source has {has:.1f} Mb/s, the profile allows {allowed:g}")
    starts, heads = _cuts(video.key_gaps, gop, seg_frames, math.ceil(video.fps / 2))
    return Choice(fitting[0], "", starts, heads)


def keeps_size(width: int, height: int, short_side: int) -> bool:
    """Whether a rung has the size of a source that it stands for, if that is even."""
    short = min(width, height)
    return stands_for(width, height, short_side) and (
        short * 100 <= short_side * _KEEPS_SIZE_PERCENT or short_side >= short - short % 2
    )


def stands_for(width: int, height: int, short_side: int) -> bool:
    """Whether a source is large enough for a rung."""
    short, long = sorted((width, height))
    # A film of 1920×800 is of 1080p: it would be as wide with bars above and below.
    return max(short, long * 9 / 16) * 100 >= short_side * _STANDS_FOR_PERCENT


def copied_starts(video: VideoTrack) -> tuple[int, ...]:
    """First frames of the fragments of a copy, and the end."""
    return coded_pictures.read(video.key_gaps)


def is_tagged(video: VideoTrack) -> bool:
    """Whether the pictures say themselves that their colours are those of BT.709."""
    return (video.color_primaries, video.color_transfer, video.color_space) == (BT709, BT709, BT709)


def _of_pictures(video: VideoTrack, profile: Profile) -> str:
    """What the pictures have that has to be converted; empty if nothing."""
    coded = video.coded_width, video.coded_height
    colours = colour_of(video)
    macroblocks = math.ceil(coded[0] / 16) * math.ceil(coded[1] / 16)
    per_second, per_picture = H264_LEVELS.get(video.level, (0, 0, 0))[:2]
    is_over = macroblocks > per_picture or macroblocks * video.fps > per_second
    return next(
        (
            why
            for why, applies in (
                ("rotated pictures", video.rotation != 0),
                ("pixels that are not square", coded != (video.width, video.height)),
                ("an odd width or height", bool(coded[0] % 2 or coded[1] % 2)),
                ("larger pictures than are published", macroblocks > MAX_BLOCKS or max(coded) > MAX_SIDE),
                ("pictures of varying size or colours", video.varies or video.follows_tags),
                ("rows of signals above the pictures", video.vbi_rows > 0),
                ("interlaced pictures", video.interlaced or bool(video.fields)),
                ("film whose fields are joined", profile.fields == "film" and video.vfr),
                ("a varying frame rate", video.vfr),
                ("more pictures per second than are published", video.one_of > 1),
                (f"pictures in {video.pix_fmt}", video.pix_fmt != profile.pixel_format),
                ("Dolby Vision", video.dv_profile > 0),
                ("HDR", colours.hdr),
                ("pictures for two eyes, or all around", video.more_views or bool(video.projection)),
                (
                    "colours other than those of BT.709",
                    colours.full_range
                    or not {video.color_primaries, video.color_transfer} <= {BT709, UNSPECIFIED}
                    or colours.matrix != BT709,
                ),
                (
                    f"the profile {video.profile}",
                    video.profile not in _profiles(video.codec, profile),
                ),
                (f"level {video.level / 10:g}", video.codec == "h264" and is_over),
                (f"level {video.level / 30:g}", video.codec == "hevc" and video.level > HEVC_MAX_LEVEL),
            )
            if applies
        ),
        "",
    )


def _profiles(codec: str, profile: Profile) -> tuple[str, ...]:
    return _PROFILES.get((codec, profile.video_profile if codec == "h264" else profile.pixel_format), ())


def _of_source(facts: SourceFacts, profile: Profile, *, even: bool) -> str:
    """What the source has that has to be repaired or added; empty if nothing."""
    video = facts.video
    return next(
        (
            why
            for why, applies in (
                ("subtitles become part of the pictures", burnt_subtitles(facts, profile) is not None),
                ("damage", any(damage.kind != "sound" for damage in facts.damage)),
                ("an edit list", bool(video.edits)),
                ("no times of its pictures", facts.container in _WITHOUT_TIMES),
                ("sound and pictures do not begin and end together", not even),
                ("messages that ffmpeg has to leave out", bool(video.stated_twice)),
                ("a length above six hours", facts.duration_s > _MAX_LISTED_S),
            )
            if applies
        ),
        "",
    )


def _of_packets(facts: SourceFacts, frames: int, seg_frames: int) -> str:
    video = facts.video
    if video.not_copied:
        return video.not_copied
    starts = copied_starts(video) if video.key_gaps else ()
    if not starts or starts[-1] != frames:
        return "its key frames are not known" if not starts else "pictures that have to be repeated"
    longest = max(end - begin for begin, end in pairwise(starts))
    if longest > seg_frames + _LONGER_S * video.fps:
        return f"key frames {float(longest / video.fps):.1f} s apart"
    return ""


@functools.lru_cache(maxsize=16)
def _cuts(key_gaps: str, gop: int, seg_frames: int, short: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """First frames of fragments, and which of them begin segments, see `Choice`.

    Segments begin at key frames as near as possible to their nominal length; a last one of less than `short`
    frames joins the one before. Fragments are equal parts of segments.
    """
    keys = coded_pictures.read(key_gaps)
    end, cuts = keys[-1], [0]
    while cuts[-1] < end:
        aim = cuts[-1] + seg_frames
        after = bisect_left(keys, aim)
        around = [key for key in keys[after - 1 : after + 1] if key > cuts[-1]]
        cuts.append(min(around, key=lambda key: (abs(key - aim), key)))
    if len(cuts) > 2 and end - cuts[-2] < short:
        del cuts[-2]
    starts: list[int] = []
    heads: list[int] = []
    for begin, stop in pairwise(cuts):
        heads.append(len(starts))
        parts = -(-(stop - begin) // gop)
        starts += [begin + (stop - begin) * part // parts for part in range(parts)]
    return (*starts, end), (*heads, len(starts))
