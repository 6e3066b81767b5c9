"""Collects what the packets of a source show: times, the frame rate, clock jumps, holes and errors."""

from __future__ import annotations

import heapq
import math
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction

from av.audio.codeccontext import AudioCodecContext
from av.packet import Packet
from av.stream import Stream

from tqstudio.engine.media.source.facts import Damage, SourceFacts

_REORDERED_WITHIN = 64
# A larger gap (or one of more than a few frames, if those are longer) makes seeking unreliable.
_JUMP_S = 1
_JUMP_FRAMES = 3
# When it decodes from the start, ffmpeg treats longer gaps as a change of the clock, not as a pause.
_OTHER_CLOCK_S = 10
# From decoding to presentation, the first picture may differ from later ones by this much.
_UNEVEN_START_S = 0.3
# Longer gaps between packets count as lost data.
_HOLE_S = 0.5
_HOLE_FRAMES = 4
_ADTS_RATES = 96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350
_ADTS_SAMPLES = 1024
MAX_FPS = 60
_MIN_FPS = 5
# A higher rate is the clock of the container (1000 in MKV, 90000 in TS), not a frame rate.
_IMPLAUSIBLE_FPS = 480
_RATES = "10 12 15 24000/1001 24 25 30000/1001 30 48000/1001 48 50 60000/1001 60"
USUAL_FPS = tuple(map(Fraction, _RATES.split()))
# 29.98 counts as 29.97, but 30 does not.
_USUAL_SLACK = Fraction(9995, 10000)
# Gaps that differ by less than this are equal: cameras and muxers round timestamps.
_STEADY_SHARE = 0.2
_STEADY_OF_ALL = 0.9
_FINE_CLOCK = 4
# From this many per picture, ticks distinguish rates from each other and from jitter.
_EXACT_TICKS = 400
# 24 and 23.976 differ by less: ticks may not distinguish them.
_OTHER_RATE = Fraction(1002, 1000)
# With a variable rate, the 10th percentile of the gaps decides: only a few outliers are dropped.
_SHORT_GAPS = 0.1
# Film in NTSC: half of the pictures are shown for two fields, the others for three. Some more of two fields
# would be video, which has more pictures.
_PULLDOWN_OF_ALL = 0.48
# From the pictures after a pause to the sound beside them in the file.
_INTERLEAVED_S = 5


def retime_adts(packet: Packet[Stream], at: int) -> int:
    """Set the time of a frame of AAC without container, and its length by the rate in its header.

    ffmpeg counts all of them in the rate of the first. Returns the end of the frame.
    """
    header = bytes(memoryview(packet)[:7])
    index = header[2] >> 2 & 15
    packet.pts = packet.dts = at
    if packet.time_base and index < len(_ADTS_RATES):
        samples = _ADTS_SAMPLES * ((header[6] & 3) + 1)
        packet.duration = round(samples / (_ADTS_RATES[index] * packet.time_base))
    return at + (packet.duration or 0)


class PacketTimes:
    """Presentation times of the packets of one stream, in source time."""

    def __init__(self, stream: Stream, reordered: bool) -> None:
        """With `reordered`, the container has decode times only: ffmpeg invents presentation times."""
        self._reordered = reordered
        context = getattr(stream, "codec_context", None)
        self._base = stream.time_base or Fraction(1, 90_000)
        self._rate = getattr(context, "sample_rate", None)
        self.gaps: Counter[int] = Counter()
        """Gap between packets in presentation order, in units of the time base → count."""
        self._waiting: list[int] = []
        self._shown: int | None = None
        self.size = 0
        """Bytes of all packets."""
        self.last_size = 0
        """Bytes of the last packet."""
        self._count = 0
        self.first: Fraction | None = None
        """Start of the first packet in seconds; None without packets."""
        self._last_pts = 0
        self._is_video = stream.type == "video"
        self._last_end: Fraction | None = None
        self._latest = Fraction(0), Fraction(0)

    @property
    def end(self) -> Fraction | None:
        """End of the last packet in seconds; None without packets."""
        if self._last_end is None or not self._is_video:
            return self._last_end
        # Lengths are in decode order: what MP4 shows last may have the length of a pause before it.
        begins, ends = self._latest
        return max(ends, min(self._last_end, self.last + ends - begins))

    @property
    def last(self) -> Fraction:
        """Start of the last packet in seconds."""
        return self._last_pts * self._base

    def add(self, packet: Packet[Stream]) -> None:
        """Record the times of the next packet in decode order."""
        self.size += packet.size
        pts = packet.dts if self._reordered or packet.pts is None else packet.pts
        if pts is None:
            return
        self._count += 1
        heapq.heappush(self._waiting, pts)
        if len(self._waiting) > _REORDERED_WITHIN:
            self._show()
        begins, ends = pts * self._base, (pts + (packet.duration or 0)) * self._base
        if self._rate and packet.has_sidedata("skip_samples"):
            # Priming and padding samples of the encoder are not played.
            before, after = struct.unpack_from("<II", bytes(packet.get_sidedata("skip_samples")))
            begins, ends = begins + Fraction(before, self._rate), ends - Fraction(after, self._rate)
        # Only among the first ones, because of reordering: the clock may restart at lower values later.
        if self.first is None or (self._count <= _REORDERED_WITHIN and begins < self.first):
            self.first = begins
        is_last = pts >= self._last_pts if self._is_video else ends > (self._last_end or 0)
        if self._count == 1 or is_last:
            self._last_end, self.last_size = ends, packet.size
        self._latest = begins, ends
        self._last_pts = max(self._last_pts, pts) if self._count > 1 else pts

    def close(self) -> None:
        """Count the remaining gaps; call after the last packet."""
        while self._waiting:
            self._show()

    def _show(self) -> None:
        pts = heapq.heappop(self._waiting)
        if self._shown is not None and pts > self._shown:
            self.gaps[pts - self._shown] += 1
        self._shown = pts


class StreamClock:
    """Detects jumps in the decode times of one stream and sums its playing time."""

    def __init__(self, stream: Stream, fps: Fraction) -> None:
        self._ticks = 1 / (stream.time_base or Fraction(1, 90_000))
        self._frame = max(1, round(self._ticks / fps))
        self._jump = max(round(_JUMP_S * self._ticks), _JUMP_FRAMES * self._frame)
        self._other = round(_OTHER_CLOCK_S * self._ticks)
        self._uneven = round(_UNEVEN_START_S * self._ticks)
        self._ahead: list[tuple[int, int]] = []
        """Steps ahead by more than that, and what is played of them if the clock has changed."""
        self._last: int | None = None
        self._played = 0
        self._jumped = Fraction(-1 << 40)
        self._delay = 0, 0
        self.jumps = False
        """Whether decode times went back, or ahead by more than a second."""
        self.pause_s = 0
        """Seconds: steps ahead up to this are pauses, although ffmpeg takes them for changes of the clock."""
        self.longest_s = 0
        """Seconds: the longest step ahead that ffmpeg takes for a pause too."""

    def played_s(self, pause_s: int) -> float:
        """Playing time in seconds if ffmpeg decodes it from the start and corrects jumps above `pause_s`."""
        most = pause_s * self._ticks
        played = self._played + sum(step if step <= most else own for step, own in self._ahead)
        # Recordings may begin with many pictures of one decode time, or of one presentation time.
        first, usual = self._delay
        return float((played + (usual - first if abs(usual - first) > self._uneven else 0)) / self._ticks)

    def add(self, packet: Packet[Stream], others: Iterable[StreamClock] = ()) -> bool:
        """Record the decode time of the next packet; returns whether a pause of more than 10 s precedes it.

        Args:
            others: clocks that show, when this one is far ahead, whether that is a pause.
        """
        pauses = False
        length = packet.duration or self._frame
        if packet.is_keyframe and packet.pts is not None and packet.dts is not None:
            delay = packet.pts - packet.dts
            self._delay = (delay if self._last is None else self._delay[0]), delay
        if packet.dts is None or self._last is None:
            self._played += length
        else:
            step, now = packet.dts - self._last, packet.dts / self._ticks
            # Some muxers write times that are a frame too early.
            self.jumps = self.jumps or not -_JUMP_FRAMES * self._frame <= step <= self._jump
            if 0 <= step <= self._other:
                self._played += step
                self.longest_s = max(self.longest_s, math.ceil(step / self._ticks))
            else:
                self._jumped = now
                self._ahead.append((step, length) if step > 0 else (length, length))
            if step > self._other and any(other._ran(self._last / self._ticks, now) for other in others):
                pauses = True
                self.pause_s = max(self.pause_s, math.ceil(step / self._ticks) + 1)
        self._last = self._last if packet.dts is None else packet.dts
        return pauses

    def _ran(self, begin: Fraction, end: Fraction) -> bool:
        """Whether it continued without a jump between two times, in seconds."""
        return (
            self._last is not None
            and self._last / self._ticks > end - _INTERLEAVED_S
            and self._jumped < begin
        )


def _length_s(packet: Packet[Stream]) -> float:
    """The length of a packet in seconds: MP4 states that of sound until the next one, also before a gap."""
    length_s = float((packet.duration or 0) * (packet.time_base or 0))
    context = packet.stream.codec_context
    if length_s > _HOLE_S and isinstance(context, AudioCodecContext) and context.sample_rate:
        return context.frame_size / context.sample_rate or length_s
    return length_s


class PacketFaults:
    """Collects damage that shows in the packets: errors, holes between them, truncation within one."""

    def __init__(self, facts: SourceFacts, *, restarts: bool) -> None:
        """With `restarts`, a clock that goes back is no damage."""
        self._facts, self._restarts = facts, restarts
        self._video = facts.video.index
        self._hole = {self._video: max(_HOLE_S, _HOLE_FRAMES / float(facts.video.fps))}
        self._last: dict[tuple[int, bool], float] = {}
        self._holes: dict[int, Damage] = {}
        self._corrupt: Damage | None = None
        self._restart: Damage | None = None
        self._decoded: dict[int, float] = {}

    def add(self, packet: Packet[Stream], *, pauses: bool = False) -> None:
        """Check the next packet in decode order; with `pauses`, a gap before it is no change of the clock."""
        index = packet.stream_index
        # Decode times have no gaps from reordering.
        ticks = packet.dts if packet.dts is not None else packet.pts
        if ticks is None or packet.time_base is None:
            return
        at_s = float(ticks * packet.time_base - self._facts.video.first_pts_s)
        # The first packets of some files have presentation times alone, which are later, and in the order of
        # decoding: the gaps between those of pictures are filled by the next ones.
        clock = index, packet.dts is None
        last_s = self._last.get(clock)
        if last_s is not None and index not in self._holes and clock != (self._video, True):
            missing_s = at_s - last_s
            is_pause = pauses or not self._restarts or missing_s <= _OTHER_CLOCK_S
            if is_pause and self._hole.get(index, _HOLE_S) < missing_s:
                self._holes[index] = Damage("hole", last_s, missing_s)
        if packet.dts is not None and not self._restarts:
            before_s = self._decoded.get(index, at_s)
            if at_s < before_s - _HOLE_S:
                self._restart = self._restart or Damage("restart", before_s)
            self._decoded[index] = at_s
        self._last[clock] = at_s + _length_s(packet)
        if packet.is_corrupt and self._corrupt is None:
            self._corrupt = Damage("corrupt", at_s)

    def damage(self, *, steady: bool, skipped: bool, cut: bool) -> tuple[Damage, ...]:
        """The first damage of each kind.

        Recorders of screens make no picture while nothing moves. So a gap between pictures is a hole only if
        packets are corrupt or data cannot be read; if sound is missing too, that is one.

        Args:
            steady: the frame rate is constant.
            skipped: the demuxer has skipped data.
            cut: the file is truncated (`is_cut`).
        """
        end_s = max(self._last.values(), default=0.0)
        # The truncated last packet is marked corrupt too: do not report it twice.
        is_last = self._corrupt is not None and cut and self._corrupt.at_s > end_s - _HOLE_S
        corrupt = (self._corrupt,) if self._corrupt is not None and not is_last else ()
        lost = steady and (skipped or corrupt)
        holes = [hole for index, hole in self._holes.items() if lost or index != self._video]
        found = [min(holes, key=lambda hole: hole.at_s)] if holes else []
        if self._restart:
            found.append(self._restart)
        found += corrupt
        return (*found, Damage("cut", end_s)) if cut else tuple(found)


def grid_rate(
    guessed: Fraction | None, base: Fraction | None, average: Fraction | None
) -> tuple[Fraction, bool]:
    """Derive the grid's frame rate, and whether the source's rate varies, from the declared rates.

    The average is inexact (1439/60 for a 24 fps file of a minute), so it is used only if guessed and base
    rate are the clock of the container, and then rounded up to a usual rate. Rates above 60 are divided.
    """
    nominal = next((r for r in (guessed, base) if r and 0 < r <= _IMPLAUSIBLE_FPS), None)
    if nominal is None:
        known = average if average and average > 0 else Fraction(30)
        nominal = next((r for r in USUAL_FPS if r >= known * _USUAL_SLACK), Fraction(MAX_FPS))
    vfr = bool(average) and average is not None and abs(average - nominal) > nominal / 100
    return _in_range(nominal), vfr


def measured_rate(gaps: Mapping[int, int], time_base: Fraction, nominal: Fraction) -> tuple[Fraction, bool]:
    """Derive the grid's frame rate, and whether the source's rate varies, from the times of its pictures.

    Args:
        gaps: gap between consecutive pictures in units of `time_base` → count.
        nominal: the declared rate; kept if it matches the times within their precision.
    """
    count = sum(gaps.values())
    if count < 2:
        return nominal, False
    median = gap_at(gaps, count // 2)
    fastest = _fastest_rate(gaps, time_base) if median >= _EXACT_TICKS else Fraction(0)
    # If one tick is about one picture there is no rounding: twice the gap is a dropped picture.
    rounding = 1 if median >= _FINE_CLOCK else 0
    steady = {gap: n for gap, n in gaps.items() if abs(gap - median) <= max(rounding, median * _STEADY_SHARE)}
    if sum(steady.values()) >= count * _STEADY_OF_ALL:
        length = sum(gap * n for gap, n in steady.items())
        # Times may come from a coarser clock, such as milliseconds; each run of pictures is off by one tick.
        tick = math.gcd(*gaps) if len(steady) > 1 else 1
        runs = 1 + count - sum(steady.values())
        slack = max(1 - _USUAL_SLACK, Fraction(tick * runs, length))
        rate = _in_range(sum(steady.values()) / (length * time_base), slack)
        nominal = _in_range(nominal)
        if fastest > rate * _OTHER_RATE:
            return fastest, True
        near = [r for r in (nominal, *USUAL_FPS) if abs(r - rate) <= rate * slack]
        if nominal in near and (nominal in USUAL_FPS or len(near) == 1):
            return nominal, False
        varies = not near and max(steady) - min(steady) > 2 * rounding
        if varies and (faster := _fastest_rate(steady, time_base)):
            # Two rates by turns, as of a phone in low light: each picture of the faster one is shown.
            return faster, True
        usual = min(near, key=lambda r: (r not in USUAL_FPS, abs(r - rate)), default=rate)
        return usual.limit_denominator(1001), False
    if film := _film_rate(gaps, time_base, rounding):
        return film, False
    rate = 1 / (gap_at(gaps, int(count * _SHORT_GAPS)) * time_base)
    if abs(nominal - rate) > rate / 5:
        nominal = next((r for r in USUAL_FPS if r >= rate * _USUAL_SLACK), Fraction(MAX_FPS))
    nominal = _in_range(nominal)
    return fastest if fastest > nominal * _OTHER_RATE else nominal, True


def _film_rate(gaps: Mapping[int, int], time_base: Fraction, rounding: int) -> Fraction | None:
    """The usual rate of pictures that are shown for two and three fields in turn; None if they are not."""
    count = sum(gaps.values())
    two = Fraction(gap_at(gaps, int(count * _SHORT_GAPS)))
    means = Fraction(0)
    for length in (two, two * 3 / 2):
        turn = {gap: n for gap, n in gaps.items() if abs(gap - length) <= 2 * rounding}
        if sum(turn.values()) < count * _PULLDOWN_OF_ALL:
            return None
        means += Fraction(sum(gap * n for gap, n in turn.items()), sum(turn.values()))
    return min(USUAL_FPS, key=lambda rate: abs(rate - 2 / (means * time_base)))


def _fastest_rate(gaps: Mapping[int, int], time_base: Fraction) -> Fraction:
    """The highest usual rate that enough pictures have to the tick, so that it is no jitter; else 0."""
    needed = sum(gaps.values()) * _SHORT_GAPS
    exact = (r for r in USUAL_FPS if sum(gaps.get(n, 0) for n in _ticks(r, time_base)) > needed)
    return max(exact, default=Fraction(0))


def _ticks(rate: Fraction, time_base: Fraction) -> set[int]:
    """The gaps between pictures of a rate, rounded down and up."""
    gap = 1 / (rate * time_base)
    return {math.floor(gap), math.ceil(gap)}


def gap_at(gaps: Mapping[int, int], rank: int) -> int:
    """The gap with this rank, from 0, among all in ascending order."""
    for gap in sorted(gaps):
        rank -= gaps[gap]
        if rank < 0:
            return gap
    raise IndexError(rank)


def _in_range(rate: Fraction, slack: Fraction = 1 - _USUAL_SLACK) -> Fraction:
    """Divide a rate above `MAX_FPS` and double one below `_MIN_FPS` until it is in range.

    With `slack`, a share: 180 pictures at 60 fps measure 60.01 on a clock of milliseconds.
    """
    rate = min(Fraction(MAX_FPS), rate / max(1, math.ceil(rate * (1 - slack) / MAX_FPS)))
    while rate < _MIN_FPS:
        rate *= 2
    return rate
