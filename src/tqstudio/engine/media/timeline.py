"""Reads the timestamps of a whole source, where they may jump: recordings, and streams put end to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import av.error
from av.container import InputContainer
from av.video.stream import VideoStream

JUMPY_CONTAINERS = frozenset({"mpegts", "mpeg"})
"""Formats whose clock may start anew anywhere; in others, time is an index that was written at the end."""

# A seek cannot be trusted across a gap of more than this (or of a few frames, if those are longer).
_JUMP_S = 1
_JUMP_FRAMES = 3
# What ffmpeg, while it decodes from the start, takes for another clock rather than for a pause.
_OTHER_CLOCK_S = 10
_CHECK_EVERY = 1000


@dataclass(frozen=True, slots=True)
class Timeline:
    """What the decode times of a video stream say."""

    jumps: bool
    """They go back, or leap ahead by more than a second."""
    duration_s: float
    """How long it plays when ffmpeg decodes it from its start and corrects the jumps."""


def read_timeline(
    container: InputContainer,
    stream: VideoStream,
    fps: Fraction,
    check: Callable[[], None] = lambda: None,
) -> Timeline:
    """Read all packets of a stream: 3 s for two hours from cache. Ends quietly where the data does.

    Args:
        container: freshly opened.
        check: called often; whatever it raises ends the reading.
    """
    ticks = 1 / (stream.time_base or Fraction(1, 90_000))
    frame = max(1, round(ticks / fps))
    jump = max(round(_JUMP_S * ticks), _JUMP_FRAMES * frame)
    other_clock = round(_OTHER_CLOCK_S * ticks)
    jumps, last, played = False, None, frame
    try:
        for number, packet in enumerate(container.demux(stream)):
            if number % _CHECK_EVERY == 0:
                check()
            if not packet.size:
                continue  # the flush at the end
            if packet.dts is None:
                played += frame
                continue
            if last is not None:
                step = packet.dts - last
                jumps = jumps or not 0 <= step <= jump
                played += step if 0 <= step <= other_clock else frame
            last = packet.dts
    except av.error.FFmpegError:
        pass
    return Timeline(jumps, float(played / ticks))
