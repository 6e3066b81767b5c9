"""Collects what the packets of a source show: presentation times, clock jumps, holes and errors."""

from __future__ import annotations

import heapq
import struct
from collections import Counter
from fractions import Fraction

from av.packet import Packet
from av.stream import Stream

from tqstudio.engine.media.source.facts import Damage, SourceFacts

_REORDERED_WITHIN = 64
# A seek cannot be trusted across a gap of more than this (or of a few frames, if those are longer).
_JUMP_S = 1
_JUMP_FRAMES = 3
# What ffmpeg, while it decodes from the start, takes for another clock rather than for a pause.
_OTHER_CLOCK_S = 10
# Times without packets that nothing but a loss explains.
_HOLE_S = 0.5
_HOLE_FRAMES = 4


class PacketTimes:
    """When the packets of one stream are shown, in source time."""

    def __init__(self, stream: Stream, reordered: bool) -> None:
        """
        Args:
            reordered: the container has decode times only; ffmpeg's presentation times are made up.
        """
        self._reordered = reordered
        context = getattr(stream, "codec_context", None)
        self._base = stream.time_base or Fraction(1, 90_000)
        self._rate = getattr(context, "sample_rate", None)
        self.gaps: Counter[int] = Counter()
        """Between a packet and the one that is shown next: units of the time base → how often."""
        self._waiting: list[int] = []
        self._shown: int | None = None
        self._count = 0
        self._first: Fraction | None = None
        self._last_pts = self._last_duration = 0
        self._end: Fraction | None = None

    @property
    def first(self) -> Fraction | None:
        """That of the first packet; None when there is none."""
        return self._first

    @property
    def last(self) -> Fraction:
        """That of the last one."""
        return self._last_pts * self._base

    @property
    def end(self) -> Fraction | None:
        """When the last one ends; None when there is none."""
        return self._end

    def add(self, packet: Packet[Stream]) -> None:
        pts = packet.dts if self._reordered or packet.pts is None else packet.pts
        if pts is None:
            return
        self._count += 1
        heapq.heappush(self._waiting, pts)
        if len(self._waiting) > _REORDERED_WITHIN:
            self._show()
        begins, ends = pts * self._base, (pts + (packet.duration or 0)) * self._base
        if self._rate and packet.has_sidedata("skip_samples"):
            # What the encoder added at the start and at the end is not heard.
            before, after = struct.unpack_from("<II", bytes(packet.get_sidedata("skip_samples")))
            begins, ends = begins + Fraction(before, self._rate), ends - Fraction(after, self._rate)
        # The earliest of the first ones: pictures are reordered, and a later clock may restart below.
        if self._first is None or (self._count <= _REORDERED_WITHIN and begins < self._first):
            self._first = begins
        if self._end is None or ends > self._end:
            self._end = ends
        self._last_pts = max(self._last_pts, pts) if self._count > 1 else pts

    def close(self) -> None:
        """Count the gaps between the last packets."""
        while self._waiting:
            self._show()

    def _show(self) -> None:
        pts = heapq.heappop(self._waiting)
        if self._shown is not None and pts > self._shown:
            self.gaps[pts - self._shown] += 1
        self._shown = pts


class StreamClock:
    """What the decode times of a stream say of its clock."""

    def __init__(self, stream: Stream, fps: Fraction) -> None:
        self._ticks = 1 / (stream.time_base or Fraction(1, 90_000))
        self._frame = max(1, round(self._ticks / fps))
        self._jump = max(round(_JUMP_S * self._ticks), _JUMP_FRAMES * self._frame)
        self._other = round(_OTHER_CLOCK_S * self._ticks)
        self._last: int | None = None
        self._played = 0
        self.jumps = False
        """They go back, or leap ahead by more than a second."""

    @property
    def played_s(self) -> float:
        """How long it plays when ffmpeg decodes it from its start and corrects the jumps."""
        return float(self._played / self._ticks)

    def add(self, packet: Packet[Stream]) -> None:
        length = packet.duration or self._frame
        if packet.dts is None or self._last is None:
            self._played += length
        else:
            step = packet.dts - self._last
            # Some muxers write a time that is a frame too early.
            self.jumps = self.jumps or not -_JUMP_FRAMES * self._frame <= step <= self._jump
            self._played += step if 0 <= step <= self._other else length
        if packet.dts is None:
            return
        self._last = packet.dts


class PacketFaults:
    """What the packets say of damage: those with errors, holes between them, and an end within one."""

    def __init__(self, facts: SourceFacts) -> None:
        self._facts = facts
        self._video = facts.video.index
        self._hole = {self._video: max(_HOLE_S, _HOLE_FRAMES / float(facts.video.fps))}
        self._last: dict[int, float] = {}
        self._holes: dict[int, Damage] = {}
        self._corrupt: Damage | None = None

    def look(self, packet: Packet[Stream]) -> None:
        index = packet.stream_index
        # The order of decoding has no gaps where pictures are shown in another one.
        ticks = packet.dts if packet.dts is not None else packet.pts
        if ticks is None or packet.time_base is None:
            return
        at_s = float(ticks * packet.time_base - self._facts.video.first_pts_s)
        last_s = self._last.get(index)
        if last_s is not None and index not in self._holes:
            missing_s = at_s - last_s
            if self._hole.get(index, _HOLE_S) < missing_s <= _OTHER_CLOCK_S:
                self._holes[index] = Damage("hole", last_s, missing_s)
        self._last[index] = at_s + float((packet.duration or 0) * packet.time_base)
        if packet.is_corrupt and self._corrupt is None:
            self._corrupt = Damage("corrupt", at_s)

    def found(self, *, steady: bool, cut: bool) -> tuple[Damage, ...]:
        """The first of each kind.

        Args:
            steady: the rate of the pictures is constant, so that a gap between them is a hole.
            cut: the file ends within a packet.
        """
        end_s = max(self._last.values(), default=0.0)
        holes = [hole for index, hole in self._holes.items() if steady or index != self._video]
        found = [min(holes, key=lambda hole: hole.at_s)] if holes else []
        # The packet in which the file ends is one with errors, and no other may be.
        if self._corrupt and not (cut and self._corrupt.at_s > end_s - _HOLE_S):
            found.append(self._corrupt)
        return (*found, Damage("cut", end_s)) if cut else tuple(found)
