"""Measures a whole source by its packets: where streams begin and end, the rate and the sizes of pictures.

What a container declares is often wrong: its length may include the time before its start, its rate may be
its clock's, and later pictures may be larger than the first. A job therefore reads every packet once before
it plans: 3 s for two hours from cache, plus the key frames that are decoded to see their size.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

import av.error
from av.audio.codeccontext import AudioCodecContext
from av.audio.frame import AudioFrame
from av.container import InputContainer
from av.packet import Packet
from av.stream import Stream
from av.video.stream import VideoStream

from tqstudio.engine.media.source.cut import is_cut
from tqstudio.engine.media.source.facts import AudioTrack, SourceFacts, VideoTrack
from tqstudio.engine.media.source.packet_times import PacketFaults, PacketTimes, StreamClock
from tqstudio.engine.media.source.picture_shapes import PictureShapes
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

_JUMPY_CONTAINERS = frozenset({"mpegts", "mpeg"})
"""Formats whose clock may restart anywhere; in others, time is an index that was written at the end."""
_CHECK_EVERY = 1000

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
    times = {s.index: PacketTimes(s, reordered=facts.linear) for s in (stream, *container.streams.audio)}
    # Sound that begins late in a recording is not described by its head.
    unknown = {s.index: s for s in container.streams.audio if not s.codec_context.sample_rate}
    clocks = {s.index: StreamClock(s, facts.video.fps) for s in (stream, *container.streams.audio)}
    clock = clocks[stream.index]
    shapes = PictureShapes(stream, facts.video, facts.container)
    faults = PacketFaults(facts)
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


def _jumps(facts: SourceFacts, clock: StreamClock) -> bool:
    return facts.container in _JUMPY_CONTAINERS and clock.jumps


def _video(facts: SourceFacts, clock: StreamClock, times: PacketTimes, stream: VideoStream) -> VideoTrack:
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


def _played(facts: SourceFacts, clocks: Mapping[int, StreamClock], index: int) -> float | None:
    """How long sound plays where the clock of the source jumps; None where it does not."""
    return clocks[index].played_s if _jumps(facts, clocks[facts.video.index]) else None


def _audio(
    track: AudioTrack, times: PacketTimes, rate: tuple[int, int], played_s: float | None = None
) -> AudioTrack:
    channels, sample_rate = rate
    track = replace(
        track, channels=track.channels or channels, sample_rate=track.sample_rate or sample_rate or 0
    )
    if times.first is None or times.end is None:
        return track
    end_s = float(times.end) if played_s is None else float(times.first) + played_s
    return replace(track, first_s=float(times.first), end_s=end_s)


def _length_s(facts: SourceFacts, clock: StreamClock, times: Mapping[int, PacketTimes]) -> float:
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


def _require_whole(
    path: bytes, facts: SourceFacts, clock: StreamClock, times: PacketTimes, reached: Fraction
) -> None:
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
