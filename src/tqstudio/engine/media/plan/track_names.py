"""Names the renditions of tracks: `audio-en`, `audio-en-2`, `sub-de`."""

from __future__ import annotations

from collections import Counter

MOST_TRACKS = 32
"""Tracks of a kind that are published at most; a player's menu holds no more."""
SURROUND = "-surround"
"""Ends the name of a rendition with all channels of another one."""


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
    """Whether a rendition of this name is audio or subtitles."""
    return name.startswith(("audio-", "sub-"))


def without_surround(name: str) -> str:
    """Return the name of the rendition with the same sound in fewer channels."""
    return name.removesuffix(SURROUND)
