"""Draws the chart of which the sources of the corpus are made, and reads it in what was published.

Its upper half shows the number of the picture as 16 black and white bars, its lower half four colours. The
sound of each track is one beep at a pitch of its own, which starts at a known time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import av

BITS = 16
COLOURS = ((190, 40, 40), (40, 170, 60), (50, 70, 200), (128, 128, 128))
BEEP_S = 1.0
"""When the beep starts."""
BEEP_LENGTH_S = 0.2
_PITCHES = [500 + 300 * track for track in range(16)]
_WINDOW_S = 0.005
_POINTS = [(0.65 + 0.05 * down, 0.1 * across) for down in range(5) for across in (-0.5, 0, 0.5)]


def pictures(rate: str, seconds: float, size: str = "320x180") -> str:
    """The pictures as a source for `-f lavfi`, in RGB."""
    bar = f"bitand(floor(N/pow(2,floor(X*{BITS}/W))),1)"
    planes = [
        f"{plane}='if(lt(Y,H/2),255*{bar},{_quarters([colour[at] for colour in COLOURS])})'"
        for at, plane in enumerate("rgb")
    ]
    # Drawn as large as its bars need, for each pixel costs an expression.
    drawn = f"color=s={BITS}x2:r={rate}:d={seconds},format=gbrp,geq={':'.join(planes)}"
    return f"{drawn},scale={size.replace('x', ':')}:flags=neighbor,setsar=1"


def sound(track: int, seconds: float, layout: str = "stereo", rate: int = 48000) -> str:
    """The beep of a track as a source for `-f lavfi`, in all channels."""
    within = f"between(t,{BEEP_S},{BEEP_S + BEEP_LENGTH_S})"
    beep = f"0.3*sin(2*PI*{_PITCHES[track]}*t)*{within}"
    channels = "|".join([beep] * av.AudioLayout(layout).nb_channels)
    return f"aevalsrc='{channels}':c={layout}:s={rate}:d={seconds}"


def number_of(picture: av.VideoFrame, down: float = 0.25) -> int:
    """The number that a picture shows, read at a point of its upper half, given in parts of the height."""
    luma = _Plane(picture, 0)
    lit = [luma.at(down, (bar + 0.5) / BITS) > 126 for bar in range(BITS)]
    return sum(1 << bar for bar in range(BITS) if lit[bar])


def colours_of(picture: av.VideoFrame) -> list[tuple[int, int, int]]:
    """The four colours that a picture of BT.709 in limited range shows, as RGB."""
    planes = [_Plane(picture, number) for number in range(3)]
    found = []
    for quarter in range(4):
        points = [(down, (quarter + 0.5 + 2 * across) / 4) for down, across in _POINTS]
        y, u, v = (sum(plane.at(*point) for point in points) / len(points) for plane in planes)
        light, blue, red = (y - 16) / 219, (u - 128) / 224, (v - 128) / 224
        rgb = (light + 1.5748 * red, light - 0.18733 * blue - 0.46813 * red, light + 1.8556 * blue)
        found.append(tuple(round(255 * value) for value in rgb))
    return found  # type: ignore[return-value]


def beep_of(samples: Sequence[int], rate: int) -> tuple[float, int]:
    """When the only beep of a sound starts, in seconds, and the number of the track that has this pitch."""
    length = int(rate * _WINDOW_S)
    windows = [samples[at : at + length] for at in range(0, len(samples) - length, length)]
    power = [sum(value * value for value in window) for window in windows]
    assert max(power) > length * 300**2, "it is silent"
    loud = [at for at, value in enumerate(power) if value > max(power) / 8]
    lasts = (loud[-1] + 1 - loud[0]) * _WINDOW_S
    assert abs(lasts - BEEP_LENGTH_S) < 0.05, f"its beep lasts {lasts:.3f} s"
    beep = samples[loud[0] * length : loud[-1] * length]
    return loud[0] * _WINDOW_S, max(
        range(len(_PITCHES)), key=lambda track: _strength(beep, rate, _PITCHES[track])
    )


class _Plane:
    def __init__(self, picture: av.VideoFrame, number: int) -> None:
        plane = picture.planes[number]
        self._bytes, self._line = bytes(plane), plane.line_size
        self._width, self._height = plane.width, plane.height

    def at(self, down: float, across: float) -> int:
        """The value at a point, given in parts of the height and the width."""
        return self._bytes[int(down * self._height) * self._line + int(across * self._width)]


def _strength(samples: Sequence[int], rate: int, pitch: int) -> float:
    angle = 2 * math.pi * pitch / rate
    cosine = sum(value * math.cos(angle * at) for at, value in enumerate(samples))
    sine = sum(value * math.sin(angle * at) for at, value in enumerate(samples))
    return math.hypot(cosine, sine)


def _quarters(values: Sequence[int]) -> str:
    first, second, third, fourth = values
    return f"if(lt(X,W/4),{first},if(lt(X,W/2),{second},if(lt(X,3*W/4),{third},{fourth})))"
