"""Finds out from its packets whether a stream of pictures can be published as it is."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from tqstudio.engine.media import nal_units
from tqstudio.engine.media.source.facts import VideoTrack

if TYPE_CHECKING:
    from av.packet import Packet
    from av.stream import Stream

# Of a frame. Containers round times to a millisecond; a picture further from its place is not on the clock.
_OFF_CLOCK = 4


class CodedPictures:
    """Collects order, times and kinds of the packets of one stream of H.264 or HEVC."""

    def __init__(self, stream: Stream) -> None:
        context = stream.codec_context
        self._codec: str = context.name if context is not None else ""
        self._known = self._codec in nal_units.IDR
        self._base = stream.time_base or Fraction(1, 90_000)
        self._extradata: bytes = getattr(context, "extradata", None) or b""
        self._length = nal_units.length_bytes(self._codec, self._extradata)
        self._level = int(getattr(context, "level", 0) or 0)
        self._sets_inside = False
        self._shown = array("q")
        """Presentation times in the order of decoding."""
        self._keys: list[int] = []
        """Positions of key frames in that order."""
        self._problem = ""

    def add(self, packet: Packet[Stream]) -> None:
        """Record the next packet in the order of decoding."""
        if self._problem or not self._known:
            return
        if packet.is_discard:
            self._problem = "an edit list leaves out pictures"
        elif packet.pts is None:
            self._problem = "pictures without times"
        elif packet.is_corrupt:
            self._problem = "damage"
        elif packet.has_sidedata("new_extradata"):
            self._problem = "parameter sets that change"
        else:
            if packet.is_keyframe or not self._shown:
                self._keys.append(len(self._shown))
                self._look_at_key(packet)
            self._shown.append(packet.pts)

    def _look_at_key(self, packet: Packet[Stream]) -> None:
        kinds = set()
        for unit in nal_units.units(bytes(packet), self._length):
            kind = nal_units.kind(self._codec, unit)
            if kind in nal_units.PARAMETER_SETS[self._codec]:
                self._sets_inside = True
                if unit not in self._extradata:
                    self._problem = "parameter sets that change"
            elif kind in nal_units.PICTURES[self._codec]:
                kinds.add(kind)
        if not packet.is_keyframe or not kinds <= nal_units.IDR[self._codec] or not kinds:
            self._problem = self._problem or "key frames at which decoding cannot begin"

    def apply(self, video: VideoTrack) -> VideoTrack:
        """Add to the measured facts of the track what a copy of it needs, or why there can be none."""
        if not self._known or not self._shown:
            return video
        video = replace(video, level=self._level)
        places = self._places(video)
        problem = self._problem or self._misplaced(places)
        if problem:
            return replace(video, not_copied=problem)
        gaps = [end - begin for begin, end in pairwise((*self._keys, len(places)))]
        reordered = max(decoded - shown for decoded, shown in enumerate(places))
        return replace(video, key_gaps=written(gaps), sets_inside=self._sets_inside, reordered=reordered)

    def _places(self, video: VideoTrack) -> Sequence[int]:
        """The frame of each picture on the clock, counted from the first one; −1 for one beside the clock."""
        step = 1 / (self._base * video.fps)
        ticks, per = step.numerator, step.denominator
        zero = self._shown[0] * per
        found = []
        for shown in self._shown:
            off = shown * per - zero
            place = (2 * off + ticks) // (2 * ticks)
            found.append(place if _OFF_CLOCK * abs(off - place * ticks) <= ticks else -1)
        return found

    def _misplaced(self, places: Sequence[int]) -> str:
        """What is wrong with these frames; empty if each has one picture, and key frames separate them."""
        if sorted(places) != list(range(len(places))):
            return "a varying frame rate"
        latest, keys = -1, set(self._keys)
        for decoded, shown in enumerate(places):
            if decoded in keys and (shown != decoded or latest != decoded - 1):
                return "times out of order"
            latest = max(latest, shown)
        return ""


def written(gaps: Sequence[int]) -> str:
    """Write frames between key frames as text: `48*3 31` for 48, 48, 48, 31."""
    runs = ((gap, len(list(equal))) for gap, equal in groupby(gaps))
    return " ".join(f"{gap}*{count}" if count > 1 else str(gap) for gap, count in runs)


@lru_cache(maxsize=16)
def read(text: str) -> tuple[int, ...]:
    """Read the first frames of all groups of pictures, and the end, from what `written` wrote."""
    found = [0]
    for run in text.split():
        gap, _, count = run.partition("*")
        for _ in range(int(count or 1)):
            found.append(found[-1] + int(gap))
    return tuple(found)
