"""Names the renditions of tracks: `audio-en`, `audio-en-2`, `sub-de`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

MAX_TRACKS = 32
"""Tracks of a kind that are published at most; a player's menu holds no more."""
STORYBOARD, SUBTITLES = "storyboard", "subtitles"
"""Words for what a retranscode may drop besides renditions by name: the storyboard, all subtitles."""
SURROUND = "-surround"
"""Ends the name of a rendition with all channels of another one."""
LOW = "-low"
"""Ends the name of a rendition for the lowest quality with the sound of another one."""
_IN_QUALITY = re.compile(r"audio-.+-(\d+k)")


def track_names(kind: str, languages: Iterable[str]) -> Iterator[str]:
    """Name the renditions of tracks in these languages; `kind` is `audio` or `sub`."""
    count: Counter[str] = Counter()
    for language in languages:
        count[language] += 1
        yield f"{kind}-{language}" + (f"-{count[language]}" if count[language] > 1 else "")


def is_of_track(name: str) -> bool:
    """Whether a rendition of this name is a track of audio or subtitles, not a quality."""
    return name.startswith(("audio-", "sub-"))


def quality_of(name: str) -> str:
    """The quality to which a track of sound alone belongs: `128k` of `audio-de-128k`; else the name."""
    return found[1] if (found := _IN_QUALITY.fullmatch(name)) else name


def is_dropped(name: str, dropped: Collection[str]) -> bool:
    """Whether a rendition is to be dropped: by its name, with its downmix or quality, or with all
    subtitles."""
    return (
        name in dropped
        or name.removesuffix(SURROUND).removesuffix(LOW) in dropped
        or quality_of(name) in dropped
        or (SUBTITLES in dropped and name.startswith("sub-"))
    )
