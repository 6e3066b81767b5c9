"""Lists the keys of profiles: the field of each, what it allows, and how its value is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tqstudio.engine.media.plan.video_codecs import CODECS, PRESETS
from tqstudio.engine.media.source.languages import standard


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


def _whole(low: int, high: int) -> tuple[str, Callable[[Any], int]]:
    def read(value: Any) -> int:
        # bool is a subclass of int, but true is not an accepted number.
        if type(value) is not int or not low <= value <= high:
            raise ValueError
        return value

    return f"a whole number from {low} to {high}", read


def _number(low: float, high: float) -> tuple[str, Callable[[Any], float]]:
    def read(value: Any) -> float:
        if type(value) not in (int, float) or not low <= value <= high:
            raise ValueError
        return float(value)

    return f"a number from {low:g} to {high:g}", read


def _loudness() -> tuple[str, Callable[[Any], float | str]]:
    allowed, number = _number(-31, -9)

    def read(value: Any) -> float | str:
        return "keep" if value == "keep" else number(value)

    return f'"keep", or LUFS: {allowed}', read


def _one_of(*words: str) -> tuple[str, Callable[[Any], str]]:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return " or ".join(f'"{word}"' for word in words), read


def _colour() -> tuple[str, Callable[[Any], str]]:
    def read(value: Any) -> str:
        if not re.fullmatch("#[0-9a-fA-F]{6}", value):
            raise ValueError
        return str(value).lower()

    return 'a colour such as "#ffffff"', read


def _burn() -> tuple[str, Callable[[Any], str]]:
    def read(value: Any) -> str:
        if value in ("none", "forced"):
            return str(value)
        if not isinstance(value, str) or (language := standard(value)) == "und":
            raise ValueError
        return language

    return '"none", "forced" or a language such as "de"', read


def _flag() -> tuple[str, Callable[[Any], bool]]:
    def read(value: Any) -> bool:
        if type(value) is not bool:
            raise ValueError
        return value

    return "true or false", read


_MOST_TEXT = 500


def _text() -> tuple[str, Callable[[Any], str]]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or len(value) > _MOST_TEXT:
            raise ValueError
        return value

    return f"a text of at most {_MOST_TEXT} characters", read


_OF_RUNG = {"short_side", "maxrate_kbps", "required", "codec", "preset", "crf", "hdr"}


def _rungs() -> tuple[str, Callable[[Any], tuple[RungSpec, ...]]]:
    side, rate = _whole(32, 8640)[1], _whole(16, 500_000)[1]
    codec, preset, crf = _one_of(*CODECS)[1], _one_of(*PRESETS)[1], _whole(1, 63)[1]

    def read(value: Any) -> tuple[RungSpec, ...]:
        rungs = []
        for entry in value:
            required, hdr = entry.get("required", True), entry.get("hdr", False)
            if set(entry) - _OF_RUNG or type(required) is not bool or type(hdr) is not bool:
                raise ValueError
            short_side = side(entry["short_side"])
            if short_side % 2:
                raise ValueError
            rungs.append(
                RungSpec(
                    short_side,
                    rate(entry["maxrate_kbps"]),
                    required,
                    codec(entry["codec"]) if "codec" in entry else "",
                    preset(entry["preset"]) if "preset" in entry else "",
                    crf(entry["crf"]) if "crf" in entry else 0,
                    hdr,
                )
            )
        if not rungs:
            raise ValueError
        return tuple(rungs)

    return (
        "a list of { short_side = even 32 … 8640, maxrate_kbps = 16 … 500000, required = true or false,"
        ' codec = "h264", "hevc" or "av1", preset, crf, hdr = true or false }',
        read,
    )


KEYS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "description": ("description", *_text()),
    "encoder": ("encoder", *_one_of("auto", "cpu")),
    "storyboard": ("storyboard", *_flag()),
    "dash": ("dash", *_flag()),
    "source.on_damage": ("on_damage", *_one_of("refuse", "accept", "strict")),
    "video.codec": ("codec", *_one_of(*CODECS)),
    "video.preset": ("preset", *_one_of(*PRESETS)),
    "video.crf": ("crf", *_whole(1, 63)),
    "video.profile": ("video_profile", *_one_of("high", "main")),
    "video.pixel_format": ("pixel_format", *_one_of("yuv420p", "yuv420p10le")),
    "video.fields": ("fields", *_one_of("frames", "double", "film")),
    "video.background": ("background", *_colour()),
    "video.segment_s": ("segment_s", *_whole(1, 30)),
    "video.gop_s": ("gop_s", *_whole(1, 30)),
    "video.bufsize_factor": ("bufsize_factor", *_number(0.5, 10)),
    "video.rungs": ("rungs", *_rungs()),
    "audio.codec": ("audio_codec", *_one_of("aac")),
    "audio.bitrate_kbps": ("audio_bitrate_kbps", *_whole(32, 512)),
    "audio.low_kbps": ("audio_low_kbps", *_whole(0, 128)),
    "audio.channels": ("audio_channels", *_whole(1, 8)),
    "audio.sample_rate": ("audio_sample_rate", *_whole(8000, 96000)),
    "audio.tracks": ("audio_tracks", *_one_of("all", "default")),
    "audio.surround": ("audio_surround", *_one_of("none", "aac", "eac3")),
    "audio.loudness": ("audio_loudness", *_loudness()),
    "subtitles.tracks": ("subtitle_tracks", *_one_of("all", "none")),
    "subtitles.burn": ("subtitle_burn", *_burn()),
    "poster.position": ("poster_position", *_number(0, 1)),
    "poster.height": ("poster_height", *_whole(16, 4320)),
}
"""Key in the file → field of Profile, allowed values for messages, converter."""
SECTIONS = ("source", "video", "audio", "subtitles", "poster")
