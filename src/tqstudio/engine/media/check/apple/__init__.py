"""Checks ladders against Apple's rules for authors of HLS.

The numbers are those of the "HTTP Live Streaming (HLS) authoring specification for Apple devices", revision
2025-06-26. Not here: what `media.check.rendition` proves of every frame (7.1, 7.3, 7.4, 8.1), what only a
server or a listener can judge (10 to 12, loudness), and live, encrypted and spatial media.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tqstudio.engine.media.check.apple import package, playlists, tracks, video
from tqstudio.engine.media.check.apple.rules import Result, Rule, RuleOutcome, result_of

__all__ = ["RULES", "Outcome", "Result", "check", "violation"]


def _order(rule: Rule) -> tuple[int, int, str]:
    if not rule.number[0].isdigit():
        return 99, 0, rule.number
    chapter, _, item = rule.number.partition(".")
    return int(chapter), int(item.rstrip("ab")), item


RULES = tuple(sorted((*video.RULES, *tracks.RULES, *playlists.RULES), key=_order))


_OF_PICTURES = frozenset({"1.1", "1.12", "1.18", "6.1", "9.2", "9.15"})
"""Rules that demand something of pictures, which sound alone has not."""


def check(master: Path) -> tuple[Result, ...]:
    """Check a ladder, whose playlists are known to be sound, against all rules."""
    read = package.read(master)
    return tuple(
        result_of(rule, read) for rule in RULES if not (read.is_audio_only and rule.number in _OF_PICTURES)
    )


def violation(results: Iterable[Result]) -> str | None:
    """A sentence about the first violated MUST, with the first three places."""
    for result in results:
        if result.outcome is RuleOutcome.FAIL:
            return (
                f"it violates Apple's rule {result.number} ({result.text}): {'; '.join(result.details[:3])}"
            )
    return None
