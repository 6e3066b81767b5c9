"""Writes the chapters of a ladder as WebVTT and as the JSON of Apple's players, and checks the latter."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence

from tqstudio.engine.media.segments.webvtt import clock
from tqstudio.engine.media.source.facts import Chapter

WEBVTT_NAME, JSON_NAME = "chapters.vtt", "chapters.json"


def files(chapters: Sequence[Chapter]) -> dict[str, bytes]:
    """Write the files of chapters on the timeline of the video, by name; none without chapters."""
    if not chapters:
        return {}
    cues, entries = ["WEBVTT\n"], []
    for number, chapter in enumerate(chapters, 1):
        title = chapter.title or f"Chapter {number}"
        start, end = round(chapter.start_s * 1000), round(chapter.end_s * 1000)
        cues.append(f"{number}\n{clock(start)} --> {clock(end)}\n{html.escape(title, quote=False)}\n")
        entries.append(
            {
                "chapter": number,
                "start-time": start / 1000,
                "duration": (end - start) / 1000,
                "titles": [{"language": chapter.language, "title": title}],
            }
        )
    return {
        WEBVTT_NAME: "\n".join(cues).encode(),
        JSON_NAME: json.dumps(entries, ensure_ascii=False, indent=1).encode(),
    }


def is_valid(content: bytes) -> bool:
    """Whether this is a list of chapters in JSON, each with its start."""
    try:
        entries = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(entries, list) and all(
        isinstance(entry, dict) and isinstance(entry.get("start-time"), int | float) for entry in entries
    )
