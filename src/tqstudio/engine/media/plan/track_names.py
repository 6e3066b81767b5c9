"""Names the renditions of tracks: `audio-en`, `audio-en-2`, `sub-de`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection

MOST_TRACKS = 32
"""Tracks of a kind that are published at most; a player's menu holds no more."""
STORYBOARD, SUBTITLES = "storyboard", "subtitles"
"""Words for what a retranscode may drop besides renditions by name: the storyboard, all subtitles."""
SURROUND = "-surround"
"""Ends the name of a rendition with all channels of another one."""
LOW = "-low"
"""Ends the name of a rendition for the lowest quality with the sound of another one."""
_IN_QUALITY = re.compile(r"audio-.+-(\d+k)")


class TrackNames:
    """Gives each rendition of a kind a name of its own.

    Args:
        kind: `audio` or `sub`.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._count: Counter[str] = Counter()

    def next(self, language: str) -> str:
        """Return the name of the next track in a language."""
        self._count[language] += 1
        number = self._count[language]
        return f"{self._kind}-{language}" + (f"-{number}" if number > 1 else "")


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
