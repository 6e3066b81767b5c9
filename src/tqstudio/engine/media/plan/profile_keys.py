"""Lists the keys of profiles: the field of each, what it allows, and how its value is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tqstudio.engine.media.languages import UNKNOWN, standard
from tqstudio.engine.media.plan.video_codecs import CODECS, PRESETS


@dataclass(frozen=True, slots=True)
class RungSpec:
    """One quality of a profile."""

    short_side: int
    """Pixels of the shorter side."""
    maxrate_kbps: int
    required: bool = True
    """Whether a failure of this rung fails the job; otherwise it only adds a warning."""
    codec: str = ""
    """Empty: that of the profile."""
    preset: str = ""
    """Empty: that of the profile, or the default if the codec is another one."""
    crf: int = 0
    """0: that of the profile, or the default of another codec."""
    hdr: bool = False
    """Made of HDR sources only, which keep their brightness and colours in it."""


Key = tuple[str, Callable[[Any], Any]]
"""What a key allows, for messages, and the function that reads its value, or raises ValueError."""


def _key(allowed: str, accepts: Callable[[Any], Any], convert: Callable[[Any], Any] = lambda v: v) -> Key:
    def read(value: Any) -> Any:
        with suppress(TypeError, KeyError, AttributeError):
            if accepts(value):
                return convert(value)
        raise ValueError

    return allowed, read


def _whole(low: int, high: int) -> Key:
    # bool is a subclass of int, but true is not an accepted number.
    return _key(f"a whole number from {low} to {high}", lambda v: type(v) is int and low <= v <= high)


def _number(low: float, high: float) -> Key:
    allowed = f"a number from {low:g} to {high:g}"
    return _key(allowed, lambda v: type(v) in (int, float) and low <= v <= high, float)


def _one_of(*words: str) -> Key:
    return _key(" or ".join(f'"{word}"' for word in words), lambda v: v in words)


def _loudness() -> Key:
    allowed, number = _number(-31, -9)
    return f'"keep", or LUFS: {allowed}', lambda v: v if v == "keep" else number(v)


def _quality() -> Key:
    allowed, number = _number(40, 99)
    return f"VMAF: {allowed}; or 0", lambda v: 0.0 if type(v) in (int, float) and v == 0 else number(v)


def _burn(value: Any) -> str:
    return value if value in ("none", "forced") else standard(value)


_FLAG = _key("true or false", lambda v: type(v) is bool)
_COLOUR = _key('a colour such as "#ffffff"', lambda v: re.fullmatch("#[0-9a-fA-F]{6}", v), str.lower)
_BURN = _key(
    '"none", "forced" or a language such as "de"', lambda v: isinstance(v, str) and _burn(v) != UNKNOWN, _burn
)
_RATES = 8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 64000, 88200, 96000
_AAC_RATE = _key(f"a rate of AAC: {', '.join(map(str, _RATES))}", lambda v: type(v) is int and v in _RATES)
_MAX_TEXT = 500
_TEXT = _key(
    f"a text of at most {_MAX_TEXT} characters", lambda v: isinstance(v, str) and len(v) <= _MAX_TEXT
)
_OF_RUNG = {
    "short_side": _whole(32, 8640)[1],
    "maxrate_kbps": _whole(16, 500_000)[1],
    "required": _FLAG[1],
    "codec": _one_of(*CODECS)[1],
    "preset": _one_of(*PRESETS)[1],
    "crf": _whole(1, 63)[1],
    "hdr": _FLAG[1],
}


def _rung(entry: Any) -> RungSpec:
    rung = RungSpec(**{key: _OF_RUNG[key](value) for key, value in entry.items()})
    if rung.short_side % 2:
        raise ValueError
    return rung


_RUNGS = _key(
    "a list of { short_side = even 32 … 8640, maxrate_kbps = 16 … 500000, required = true or false,"
    ' codec = "h264", "hevc" or "av1", preset, crf, hdr = true or false }',
    len,
    lambda v: tuple(map(_rung, v)),
)

_FILES = _key(
    'a list of "mp4", "m4a", or of a quality "mp4:720p"',
    lambda v: isinstance(v, list) and all(re.fullmatch(r"m4a|mp4(:[0-9a-z-]{1,30})?", each) for each in v),
    lambda v: tuple(dict.fromkeys(v)),
)

_FIRST = _key(
    '"auto", "off" or a quality such as "480p"',
    lambda v: isinstance(v, str) and re.fullmatch(r"auto|off|[0-9]+p[0-9a-z-]{0,30}", v),
)

KEYS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "description": ("description", *_TEXT),
    "encoder": ("encoder", *_one_of("auto", "cpu")),
    "storyboard": ("storyboard", *_FLAG),
    "dash": ("dash", *_FLAG),
    "files": ("files", *_FILES),
    "first": ("first", *_FIRST),
    "source.on_damage": ("on_damage", *_one_of("refuse", "refuse-truncated", "accept")),
    "video.codec": ("codec", *_one_of(*CODECS)),
    "video.preset": ("preset", *_one_of(*PRESETS)),
    "video.crf": ("crf", *_whole(1, 63)),
    "video.quality": ("quality", *_quality()),
    "video.profile": ("video_profile", *_one_of("high", "main")),
    "video.pixel_format": ("pixel_format", *_one_of("yuv420p", "yuv420p10le")),
    "video.copy": ("copy", *_one_of("fitting", "never")),
    "video.fields": ("fields", *_one_of("frames", "double", "film")),
    "video.background": ("background", *_COLOUR),
    "video.segment_s": ("segment_s", *_whole(1, 30)),
    "video.gop_s": ("gop_s", *_whole(1, 30)),
    "video.bufsize_factor": ("bufsize_factor", *_number(0.5, 10)),
    "video.rungs": ("rungs", *_RUNGS),
    "audio.codec": ("audio_codec", *_one_of("aac")),
    "audio.bitrate_kbps": ("audio_bitrate_kbps", *_whole(32, 512)),
    "audio.low_kbps": ("audio_low_kbps", *_whole(0, 128)),
    "audio.channels": ("audio_channels", *_whole(1, 8)),
    "audio.sample_rate": ("audio_sample_rate", *_AAC_RATE),
    "audio.tracks": ("audio_tracks", *_one_of("all", "default")),
    "audio.surround": ("audio_surround", *_one_of("none", "aac", "eac3")),
    "audio.loudness": ("audio_loudness", *_loudness()),
    "subtitles.tracks": ("subtitle_tracks", *_one_of("all", "none")),
    "subtitles.burn": ("subtitle_burn", *_BURN),
    "poster.position": ("poster_position", *_number(0, 1)),
    "poster.height": ("poster_height", *_whole(16, 4320)),
}
"""Key in the file → field of Profile, allowed values for messages, converter."""
SECTIONS = ("source", "video", "audio", "subtitles", "poster")
