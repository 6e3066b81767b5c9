"""Measures a whole source by its packets: where streams begin and end, the rate and the sizes of pictures.

What a container declares is often wrong: its length may include the time before its start, its rate may be
its clock's, and later pictures may be larger than the first. A job therefore reads every packet once before
it plans: 3 s for two hours from cache, plus the key frames that are decoded to see their size.
"""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import math
import struct
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

import av.error
from av.audio.codeccontext import AudioCodecContext
from av.audio.frame import AudioFrame
from av.container import InputContainer
from av.packet import Packet
from av.stream import Stream
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from tqstudio.engine.media.source.cut import is_cut
from tqstudio.engine.media.source.facts import AudioTrack, Damage, SourceFacts, VideoTrack
from tqstudio.engine.media.source.source_file import require_readable
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display

MAX_FPS = 60
_MIN_FPS = 5
# Above this a rate is the container's clock (1000 in MKV, 90000 in TS), not the rate of the pictures.
_IMPLAUSIBLE_FPS = 480
USUAL_FPS = tuple(
    Fraction(text)
    for text in [
        "10",
        "12",
        "15",
        "24000/1001",
        "24",
        "25",
        "30000/1001",
        "30",
        "48000/1001",
        "48",
        "50",
        "60000/1001",
        "60",
    ]
)
# 29.97 measured as 29.98 is still 29.97, and 30 is not.
_USUAL_SLACK = Fraction(9995, 10000)
# Gaps that differ by less than this are equal: cameras and muxers round their times.
_STEADY_SHARE = 0.2
_STEADY_OF_ALL = 0.9
_FINE_CLOCK = 4
# Of gaps that vary, the one that nine of ten exceed decides: no picture but a few outliers is lost.
_SHORT_GAPS = 0.1

_REORDERED_WITHIN = 64
_JUMPY_CONTAINERS = frozenset({"mpegts", "mpeg"})
"""Formats whose clock may restart anywhere; in others, time is an index that was written at the end."""
# A seek cannot be trusted across a gap of more than this (or of a few frames, if those are longer).
_JUMP_S = 1
_JUMP_FRAMES = 3
# What ffmpeg, while it decodes from the start, takes for another clock rather than for a pause.
_OTHER_CLOCK_S = 10
_CHECK_EVERY = 1000
# Times without packets that nothing but a loss explains.
_HOLE_S = 0.5
_HOLE_FRAMES = 4
# Seconds between two pictures that are decoded to see their size: at most 1 % of what a ladder costs.
_LOOK_EVERY_S = 2


_WITH_HEADERS = frozenset({"mpegts", "mpeg"})
_HEADER_BYTES = 32

_END_TOLERANCE_S = 0.5
_END_TOLERANCE_SHARE = 0.01
# Where timestamps jump, sound and picture are torn apart and put together again by guesses.
_LINEAR_TOLERANCE_SHARE = 0.05


def measure(
    path: bytes, container: InputContainer, facts: SourceFacts, check: Callable[[], None] = lambda: None
) -> SourceFacts:
    """Read all packets of a source and correct its facts by them. Ends quietly where the data does.

    Args:
        container: freshly opened.
        facts: as the head of the file declares them.
        check: called often; whatever it raises ends the reading.

    Raises:
        TqError: SOURCE_TRUNCATED when the packets end before the declared end, or why the file
            cannot be read to its end.
    """
    stream = next(s for s in container.streams.video if s.index == facts.video.index)
    times = {s.index: _Times(s, reordered=facts.linear) for s in (stream, *container.streams.audio)}
    # Sound that begins late in a recording is not described by its head.
    unknown = {s.index: s for s in container.streams.audio if not s.codec_context.sample_rate}
    clocks = {s.index: _Clock(s, facts.video.fps) for s in (stream, *container.streams.audio)}
    clock = clocks[stream.index]
    shapes = _Shapes(stream, facts.video, facts.container)
    faults = _Faults(facts)
    reached = Fraction(0)
    with contextlib.suppress(av.error.FFmpegError):
        for number, packet in enumerate(container.demux()):
            if number % _CHECK_EVERY == 0:
                check()
            if not packet.size:
                continue  # the flush at the end
            if packet.pts is not None and packet.time_base is not None:
                reached = max(reached, (packet.pts + (packet.duration or 0)) * packet.time_base)
            if packet.is_discard or packet.stream_index not in times:
                continue
            times[packet.stream_index].add(packet)
            clocks[packet.stream_index].add(packet)
            faults.look(packet)
            if packet.stream_index == stream.index:
                shapes.look(packet)
            elif packet.stream_index in unknown and _is_heard(packet):
                del unknown[packet.stream_index]
    times[stream.index].close()
    _require_whole(path, facts, clock, times[stream.index], reached)
    rates = {
        s.index: (channels_of(s.codec_context), s.codec_context.sample_rate) for s in container.streams.audio
    }
    video = shapes.apply(_video(facts, clock, times[stream.index], stream))
    return replace(
        facts,
        duration_s=_length_s(facts, clock, times),
        video=video,
        audio=tuple(
            _audio(track, times[track.index], rates[track.index], _played(facts, clocks, track.index))
            for track in facts.audio
        ),
        linear=facts.linear or _jumps(facts, clock),
        damage=faults.found(steady=not video.vfr, cut=is_cut(path, facts.container)),
        measured=True,
    )


def grid_rate(
    guessed: Fraction | None, base: Fraction | None, average: Fraction | None
) -> tuple[Fraction, bool]:
    """The rate of the grid and whether the source's own rate varies, by what the container declares.

    The average lies (1439/60 for a 24 fps file of a minute), so it is used only where guessed and base rate
    are the container's clock, and then rounded up to a usual rate. More than 60 is divided until it fits.
    """
    nominal = next((r for r in (guessed, base) if r and 0 < r <= _IMPLAUSIBLE_FPS), None)
    if nominal is None:
        known = average if average and average > 0 else Fraction(30)
        nominal = next((r for r in USUAL_FPS if r >= known * _USUAL_SLACK), Fraction(MAX_FPS))
    vfr = bool(average) and average is not None and abs(average - nominal) > nominal / 100
    return _in_range(nominal), vfr


def measured_rate(gaps: Mapping[int, int], time_base: Fraction, nominal: Fraction) -> tuple[Fraction, bool]:
    """The rate of the grid and whether the source's own rate varies, by the times of its pictures.

    Args:
        gaps: between one picture and the next, in units of `time_base`: gap → how often.
        nominal: the declared rate; it is kept where the times agree with it as far as they are exact.
    """
    count = sum(gaps.values())
    if count < 2:
        return nominal, False
    median = _gap_at(gaps, count // 2)
    # Times in whole pictures have no rounding: twice the gap is a picture that was dropped.
    rounding = 1 if median >= _FINE_CLOCK else 0
    steady = {gap: n for gap, n in gaps.items() if abs(gap - median) <= max(rounding, median * _STEADY_SHARE)}
    if sum(steady.values()) >= count * _STEADY_OF_ALL:
        length = sum(gap * n for gap, n in steady.items())
        rate, nominal = _in_range(sum(steady.values()) / (length * time_base)), _in_range(nominal)
        slack = max(1 - _USUAL_SLACK, Fraction(1, length))
        near = [r for r in (nominal, *USUAL_FPS) if abs(r - rate) <= rate * slack]
        if nominal in near and (nominal in USUAL_FPS or len(near) == 1):
            return nominal, False
        usual = min(near, key=lambda r: (r not in USUAL_FPS, abs(r - rate)), default=rate)
        return usual.limit_denominator(1001), False
    rate = 1 / (_gap_at(gaps, int(count * _SHORT_GAPS)) * time_base)
    if abs(nominal - rate) > rate / 5:
        nominal = next((r for r in USUAL_FPS if r >= rate * _USUAL_SLACK), Fraction(MAX_FPS))
    return _in_range(nominal), True


def _gap_at(gaps: Mapping[int, int], place: int) -> int:
    """The gap that has this place, from 0, among all in ascending order."""
    for gap in sorted(gaps):
        place -= gaps[gap]
        if place < 0:
            return gap
    raise IndexError(place)


def display_size(width: int, height: int, aspect: Fraction | None, rotation: int) -> tuple[int, int]:
    """Compute the size in square pixels. The width follows the sample aspect; then both turn."""
    if aspect and aspect > 0:
        width = max(1, round(width * aspect))
    # ffmpeg turns the frame for quarter turns only; at odd angles it keeps the size.
    return (height, width) if rotation % 180 == 90 else (width, height)


def channels_of(described: AudioCodecContext | AudioFrame) -> int:
    """Count the channels of an audio codec or frame.

    PyAV 18.1 frees the map of a channel order that is not ffmpeg's own twice, with the layout object and with
    what it describes, which aborts the process. So the layout object is never freed: 100 bytes a track.
    """
    layout = described.layout
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(layout))
    return int(layout.nb_channels)


def tolerance_s(seconds: float, linear: bool) -> float:
    """By how much the end of a stream may be off."""
    return max(_END_TOLERANCE_S, (_LINEAR_TOLERANCE_SHARE if linear else _END_TOLERANCE_SHARE) * seconds)


def _jumps(facts: SourceFacts, clock: _Clock) -> bool:
    return facts.container in _JUMPY_CONTAINERS and clock.jumps


def _video(facts: SourceFacts, clock: _Clock, times: _Times, stream: VideoStream) -> VideoTrack:
    video = facts.video
    if times.end is None:
        return video
    fps, vfr = video.fps, video.vfr
    if not _jumps(facts, clock):
        fps, vfr = measured_rate(times.gaps, stream.time_base or Fraction(1, 90_000), fps)
    if video.interlaced and fps == 2 * video.fps:
        fps = video.fps  # a packet a field
    if _jumps(facts, clock):
        return replace(video, duration_s=clock.played_s, own_duration=True)
    # The last packet may not say how long it is shown.
    end = max(times.end, times.last + 1 / fps)
    length = max(end - video.first_pts_s, 1 / fps)
    return replace(
        video,
        fps=fps,
        vfr=vfr,
        last_s=float(times.last),
        end_s=float(end),
        duration_s=float(length),
        own_duration=True,
    )


def _played(facts: SourceFacts, clocks: Mapping[int, _Clock], index: int) -> float | None:
    """How long sound plays where the clock of the source jumps; None where it does not."""
    return clocks[index].played_s if _jumps(facts, clocks[facts.video.index]) else None


def _audio(
    track: AudioTrack, times: _Times, rate: tuple[int, int], played_s: float | None = None
) -> AudioTrack:
    channels, sample_rate = rate
    track = replace(
        track, channels=track.channels or channels, sample_rate=track.sample_rate or sample_rate or 0
    )
    if times.first is None or times.end is None:
        return track
    end_s = float(times.end) if played_s is None else float(times.first) + played_s
    return replace(track, first_s=float(times.first), end_s=end_s)


def _length_s(facts: SourceFacts, clock: _Clock, times: Mapping[int, _Times]) -> float:
    if _jumps(facts, clock):
        return clock.played_s
    known = [(found.first, found.end) for found in times.values() if found.end is not None]
    begins = min((first for first, _ in known if first is not None), default=Fraction(0))
    return float(max((end for _, end in known if end is not None), default=begins) - begins)


def _is_heard(packet: Packet[Stream]) -> bool:
    """Decode a packet of sound, so that its stream knows channels and rate."""
    with contextlib.suppress(av.error.FFmpegError):
        frames = packet.decode()
        for frame in frames:
            if isinstance(frame, AudioFrame):
                channels_of(frame)
        return bool(frames)
    return False


def _require_whole(path: bytes, facts: SourceFacts, clock: _Clock, times: _Times, reached: Fraction) -> None:
    """Compare the declared end with the packets.

    A container may declare a length, or the time of its end: a file that starts late is whole by either. A
    stream without a length of its own may end early, as long as another one reaches the end.

    Raises:
        TqError: SOURCE_TRUNCATED, or why the file cannot be read to its end.
    """
    declared_s = facts.video.duration_s
    if not declared_s or _jumps(facts, clock):
        return
    slack_s = tolerance_s(declared_s, linear=False)
    # A recording may begin with pictures that cannot be decoded.
    first_s = float(min(facts.video.first_pts_s, times.first if times.first is not None else math.inf))
    own_end = float(times.end) if times.end is not None else first_s
    end_s = own_end if facts.video.own_duration else max(own_end, float(reached))
    if end_s - first_s >= declared_s - slack_s or abs(end_s - declared_s) <= slack_s:
        return
    # To ffmpeg a file ends where its disk fails.
    require_readable(path)
    raise TqError(
        ErrorCode.SOURCE_TRUNCATED,
        f"{display(path)} declares {declared_s:.1f} s of video but holds {max(0, own_end - first_s):.1f} s",
    )


def _in_range(rate: Fraction) -> Fraction:
    """More than 60 is divided until it fits; a slide show is doubled until it can be cut finely enough."""
    rate = rate / max(1, math.ceil(rate / MAX_FPS))
    while rate < _MIN_FPS:
        rate *= 2
    return rate


class _Times:
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


class _Clock:
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


class _Faults:
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


class _Shapes:
    """Sizes, shapes and fields of the pictures, seen on a key frame every few seconds."""

    def __init__(self, stream: VideoStream, video: VideoTrack, container: str) -> None:
        self._context = stream.codec_context
        self._context.skip_frame = "NONKEY"
        self._context.thread_count = 1
        self._video = video
        self._base = stream.time_base or Fraction(1, 90_000)
        self._own_aspect = stream.sample_aspect_ratio
        self._has_headers = container in _WITH_HEADERS
        self._head = b""
        self._next: Fraction | None = None
        self._aspects: list[tuple[Fraction, Fraction]] = []
        self._seen: Counter[tuple[int, int, Fraction | None]] = Counter()
        self._interlaced = video.interlaced

    def look(self, packet: Packet[Stream]) -> None:
        """Decode a key frame if the last one was decoded some seconds ago."""
        at = None if packet.pts is None else packet.pts * self._base
        if not packet.is_keyframe:
            return
        # A stream that can be tuned in to repeats its headers with every key frame.
        head = bytes(memoryview(packet)[:_HEADER_BYTES]) if self._has_headers else b""
        if head == self._head and at is not None and self._next is not None and at < self._next:
            return
        self._head = head
        self._next = None if at is None else at + _LOOK_EVERY_S
        self._decode(packet)

    def apply(self, video: VideoTrack) -> VideoTrack:
        """The track as the whole source has it; to be called at the end."""
        video = replace(video, interlaced=self._interlaced)
        if len(self._seen) < 2:
            return video
        sizes = {shape: self._display(*shape) for shape in self._seen}
        # Most of the time it has this shape; everything else is fitted into its largest picture.
        ratios: Counter[Fraction] = Counter()
        for shape, (width, height) in sizes.items():
            ratios[Fraction(round(width / height * 20), 20)] += self._seen[shape]
        usual = max(ratios, key=lambda r: (ratios[r], r))
        width, height = max(
            size for size in sizes.values() if Fraction(round(size[0] / size[1] * 20), 20) == usual
        )
        aspects = tuple((float(at), float(aspect)) for at, aspect in self._aspects)
        return replace(
            video, width=width, height=height, varies=True, aspects=aspects if len(aspects) > 1 else ()
        )

    def _decode(self, packet: Packet[Stream]) -> None:
        # A damaged picture says nothing; what it costs is seen when all are decoded.
        with contextlib.suppress(av.error.FFmpegError):
            # Drained at once: the decoder's aspect is that of the picture only until the next header.
            frames = [*self._context.decode(packet), *self._context.decode(None)]
            for frame in frames[:1]:
                if isinstance(frame, VideoFrame):
                    aspect = self._context.sample_aspect_ratio or None
                    self._seen[frame.width, frame.height, aspect] += 1
                    self._note_aspect(frame, aspect or self._own_aspect or Fraction(1))
                    self._interlaced = self._interlaced or bool(frame.interlaced_frame)
        self._context.flush_buffers()

    def _note_aspect(self, frame: VideoFrame, aspect: Fraction) -> None:
        if frame.pts is not None and (not self._aspects or self._aspects[-1][1] != aspect):
            self._aspects.append((frame.pts * self._base, aspect))

    def _display(self, width: int, height: int, aspect: Fraction | None) -> tuple[int, int]:
        return display_size(width, height, aspect or self._own_aspect, self._video.rotation)
