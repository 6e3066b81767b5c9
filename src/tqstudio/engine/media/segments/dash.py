"""Names the files of DASH in a ladder, and says which MPD fits its segments.

OUT/<slug>/manifest.mpd       that of the current generation, below its folder as BaseURL
OUT/<slug>/v<N>/manifest.mpd  over the segments of the playlists
OUT/<slug>/v<N>/sub-de.vtt    all cues of a track, as players of DASH take no segments of WebVTT
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

from tqstudio.engine.files import durable
from tqstudio.engine.media.plan.grid import TIMELINE_START_S
from tqstudio.engine.media.plan.track_names import STORYBOARD
from tqstudio.engine.media.segments import storyboard
from tqstudio.engine.media.segments.checked import RenditionCheck
from tqstudio.ladder_files import MPD_NAME

_BASE = re.compile(rb"<BaseURL>v(\d+)/</BaseURL>")
_PERIOD = b"<Period "


def below(mpd: bytes, number: int) -> bytes:
    """The MPD of a generation, as it is beside the master playlist."""
    base = f"<BaseURL>v{number}/</BaseURL>\n  ".encode()
    return mpd.replace(_PERIOD, base + _PERIOD, 1)


def named(ladder: Path) -> int | None:
    """The generation that the MPD in the folder of a ladder names; None without one of ours."""
    try:
        found = _BASE.search(durable.read(ladder / MPD_NAME))
    except OSError:
        return None
    return int(found[1]) if found else None


def timeline(durations: Sequence[float], timescale: int, start: int) -> list[dict[str, str]]:
    """The attributes of the `S` elements of a rendition.

    Args:
        durations: of its segments in seconds.
        start: of the first one, in units of the timescale.
    """
    runs = groupby(round(duration * timescale) for duration in durations)
    entries = [{"d": str(length), "r": str(len([*alike]) - 1)} for length, alike in runs]
    return [{"t": str(start), **entries[0]}, *entries[1:]] if entries else []


def damage(ladder: Path, generation: Path, checks: Mapping[str, RenditionCheck]) -> str:
    """What is wrong with the MPD of a ladder; empty if nothing is, or without one.

    Args:
        generation: the folder of the generation that the master playlist names.
        checks: of all its renditions, by name.
    """
    number = int(generation.name[1:]) if generation.name[1:].isdecimal() else 0
    try:
        published = durable.read(generation / MPD_NAME)
    except FileNotFoundError:
        return "" if named(ladder) is None else f"{MPD_NAME} names no generation that has one"
    try:
        if durable.read(ladder / MPD_NAME) != below(published, number):
            return f"{MPD_NAME} is not that of {generation.name}"
        described = {each.get("id", ""): each for each in ElementTree.fromstring(published).iter(_tag())}
    except FileNotFoundError:
        return f"{MPD_NAME} is missing"
    except ElementTree.ParseError as error:
        return f"{MPD_NAME} cannot be parsed: {error}"
    if described.pop(STORYBOARD, None) is not None and storyboard.tiles(generation) is None:
        return f"{MPD_NAME} lists a storyboard that is not there"
    if described.keys() != checks.keys():
        return f"{MPD_NAME} lists other renditions than the master playlist"
    for name, check in checks.items():
        whole = _is_whole(generation / f"{name}.vtt") if not check.has_init else _fits(described[name], check)
        if not whole:
            return f"{MPD_NAME} does not fit the segments of {name}"
    return ""


def _tag(name: str = "Representation") -> str:
    return f"{{urn:mpeg:dash:schema:mpd:2011}}{name}"


def _fits(described: ElementTree.Element, check: RenditionCheck) -> bool:
    template = described.find(_tag("SegmentTemplate"))
    if template is None:
        return False
    try:
        timescale = int(template.get("timescale", ""))
        listed = [dict(each.items()) for each in template.iter(_tag("S"))]
        start = int(listed[0]["t"])
    except (ValueError, KeyError, IndexError):
        return False
    # Pictures may be decoded a little before they are shown.
    late_s = start / timescale - check.start_s if timescale else -1
    expected = timeline([segment.duration_s for segment in check.segments], timescale, start)
    return (
        0 <= late_s < 1 and template.get("presentationTimeOffset") == offset(timescale) and listed == expected
    )


def offset(timescale: int) -> str:
    """The time of the segments at which the video begins."""
    return str(TIMELINE_START_S * timescale)


def _is_whole(path: Path) -> bool:
    return path.is_file() and durable.read(path).startswith(b"WEBVTT")
