"""Reads the chapters of a source, and places them on the timeline of the published video."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING

from tqstudio.engine.media import languages
from tqstudio.engine.media.source.facts import Chapter, title_of

if TYPE_CHECKING:
    from av.container import InputContainer

MAX_CHAPTERS = 500
"""Chapters that are published at most."""
_MIN_S = 0.001


def read(container: InputContainer) -> tuple[Chapter, ...]:
    """Read the chapters in the order of their starts; one more than are published, so that it is noticed."""
    found = []
    for each in container.chapters():
        clock = each["time_base"] or Fraction(1)
        about = {key.lower(): value for key, value in each["metadata"].items()}
        title, language = title_of(about.get("title", "")), languages.standard(about.get("language", ""))
        found.append(Chapter(float(each["start"] * clock), float(each["end"] * clock), title, language))
    return tuple(sorted(found, key=lambda chapter: chapter.start_s)[: MAX_CHAPTERS + 1])


def within(chapters: Sequence[Chapter], begins: Fraction, length: Fraction) -> tuple[Chapter, ...]:
    """Place chapters on the timeline of a video, cut at its start and end; those outside are left out.

    The source time `begins` becomes zero; both are in seconds.
    """
    following = [*(later.start_s for later in chapters[1:]), inf]
    placed = []
    for chapter, ends in zip(chapters, following, strict=False):
        # Some programs write only where a chapter starts.
        end_s = chapter.end_s if chapter.end_s > chapter.start_s else ends
        start_s = max(0.0, chapter.start_s - float(begins))
        end_s = min(float(length), end_s - float(begins))
        if end_s - start_s >= _MIN_S:
            placed.append(replace(chapter, start_s=start_s, end_s=end_s))
    return tuple(placed[:MAX_CHAPTERS])
