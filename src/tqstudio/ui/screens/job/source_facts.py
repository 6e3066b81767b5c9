"""Formats all facts about a source as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tqstudio import units
from tqstudio.paths import readable
from tqstudio.words import format as fmt
from tqstudio.words.sentences import source_path

if TYPE_CHECKING:
    from tqstudio.protocol.answers import VideoView

Row = tuple[str, str]

NAME_CELLS = 18
"""Cells for the indentation and the name of a fact."""

# Code points of ITU-T H.273 that occur in videos.
_PRIMARIES = {1: "BT.709", 5: "BT.601 (625 lines)", 6: "BT.601 (525 lines)", 9: "BT.2020", 12: "Display P3"}
_TRANSFERS = {1: "BT.709", 4: "gamma 2.2", 6: "BT.601", 13: "sRGB", 14: "BT.2020", 16: "PQ", 18: "HLG"}
_MATRICES = {0: "RGB", 1: "BT.709", 5: "BT.601", 6: "BT.601", 9: "BT.2020"}
_RANGES = {1: "limited", 2: "full"}
_CHANNELS = {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}


def facts_text(video: VideoView) -> str:
    """One fact per line, under the headings File, Video, Audio and Subtitles."""
    facts = video["facts"] or {}
    parts = [_table("File", _file(video, facts))]
    if not facts:
        parts.append("The contents are not known: the file has not been analysed yet, or cannot be read.")
    video_facts = facts.get("video") or {}
    if video_facts.get("width"):
        is_cover = video_facts.get("still")
        rows = _video(video_facts)
        parts.append(_table("Cover", rows[:2]) if is_cover else _table("Video", rows))
    for kind, tracks in (("Audio", facts.get("audio")), ("Subtitles", facts.get("subtitles"))):
        for number, track in enumerate(tracks or (), 1):
            parts.append(_table(f"{kind} {number}", _track(track)))
    return "\n\n".join(parts)


def _table(title: str, rows: Iterable[Row]) -> str:
    lines = [f"  {name}".ljust(NAME_CELLS) + value for name, value in rows if value]
    return "\n".join([title, *lines])


def _file(video: VideoView, facts: Mapping[str, Any]) -> list[Row]:
    start = facts.get("start_time_s")
    return [
        ("title", video["title"]),
        ("path", source_path(video)),
        ("size", f"{units.size(video['size'])} ({fmt.number(video['size'])} bytes)"),
        ("container", str(facts.get("container") or "")),
        ("length", _seconds(facts.get("duration_s"))),
        ("begins at", f"{start:.3f} s" if start else ""),
        ("bit rate", fmt.bitrate(facts.get("bitrate"))),
        ("status", video["status"]),
        ("output", readable(f"{video['output_root']}/{video['slug']}")),
    ]


def _video(track: Mapping[str, Any]) -> list[Row]:
    coded = f"{track.get('coded_width')}×{track.get('coded_height')}"
    shown = f"{track.get('width')}×{track.get('height')}"
    depth = f", {track['bit_depth']} bit" if track.get("bit_depth") else ""
    return [
        ("codec", ", ".join(filter(None, (track.get("codec"), track.get("profile"))))),
        ("picture", f"{shown} pixels" + (f", stored as {coded}" if coded != shown else "")),
        ("rotated by", f"{track['rotation']}°" if track.get("rotation") else ""),
        ("frame rate", _rate(track.get("fps")) + (", variable" if track.get("vfr") else "")),
        ("scan", "interlaced" if track.get("interlaced") else "progressive"),
        ("pixel format", f"{track.get('pix_fmt')}{depth}" if track.get("pix_fmt") else ""),
        ("colour", _colour(track)),
        ("Dolby Vision", f"profile {track['dv_profile']}" if track.get("dv_profile") else ""),
        ("bit rate", fmt.bitrate(track.get("bitrate"))),
        ("length", _seconds(track.get("duration_s"))),
        ("stream", _number(track.get("index"))),
    ]


def _colour(track: Mapping[str, Any]) -> str:
    """Primaries, transfer, matrix and range, where the source declares them."""
    parts = [
        ("primaries", _PRIMARIES, track.get("color_primaries")),
        ("transfer", _TRANSFERS, track.get("color_transfer")),
        ("matrix", _MATRICES, track.get("color_space")),
    ]
    # 2 is H.273's “unspecified”.
    found = {name: str(names.get(code, code)) for name, names, code in parts if code not in (None, 2)}
    words = [f"{name} {value}" for name, value in found.items()]
    if len(found) == len(parts) and len(set(found.values())) == 1:
        words = [found["primaries"]]
    scale = _RANGES.get(track.get("color_range") or 0)
    return ", ".join([*words, *([f"{scale} range"] if scale else [])]) or "not declared"


def _track(track: Mapping[str, Any]) -> list[Row]:
    rate = track.get("sample_rate")
    return [
        ("codec", str(track.get("codec") or "not known")),
        ("channels", channels_word(track.get("channels"))),
        ("sample rate", f"{rate / 1000:g} kHz" if rate else ""),
        ("language", language_word(track, "not declared")),
        ("title", str(track.get("title") or "")),
        ("role", str(track.get("role") or "")),
        ("default", "yes" if track.get("default") else ""),
        ("stream", _number(track.get("index"))),
    ]


def channels_word(count: int | None) -> str:
    return _CHANNELS.get(count, f"{count} channels") if count else ""


def language_word(track: Mapping[str, Any], unknown: str) -> str:
    """The language of a track; `unknown` when none is declared."""
    language = track.get("language")
    return str(language) if language and language != "und" else unknown


def _number(value: Any) -> str:
    return "" if value is None else str(value)


def _seconds(value: float | None) -> str:
    return f"{fmt.clock_duration(value)} ({value:.3f} s)" if value else ""


def _rate(text: Any) -> str:
    """`30000/1001` as `29.97 frames a second`."""
    above, _, below = str(text or "").partition("/")
    try:
        return f"{float(above) / float(below or 1):.5g} frames a second"
    except (ValueError, ZeroDivisionError):
        return str(text or "")
