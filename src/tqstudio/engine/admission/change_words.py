"""Describes what changed since a ladder was encoded: its source, its settings, or its files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from tqstudio.engine.admission.change_detection import SourceState
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.store.library.videos import VideoRow
from tqstudio.protocol.answers import ChangeView

_MAX_CHANGES = 12
"""Changed keys of a profile that are listed."""


def of_source(known: VideoRow, found: SourceState) -> list[ChangeView]:
    """The changes of a source whose content changed."""
    values: list[tuple[str, str | None, str | None]] = [
        ("size", str(known.size), str(found.size)),
        ("modified", _time(known.mtime_ns), _time(found.mtime_ns)),
        ("content", known.quick_hash, found.content_id),
    ]
    return [_change(*each) for each in values if each[1] != each[2]]


def of_settings(before: str, profile: Profile) -> list[ChangeView]:
    """The changes of a profile since a job; if there are none, the files with subtitles changed.

    Args:
        before: JSON of that job's profile.
    """
    old, new = dict(_flat(json.loads(before))), dict(_flat(profile.to_json()))
    names = [name for name in dict.fromkeys((*old, *new)) if name != "description"]
    changed = [
        _change(name if name != "name" else "profile", old.get(name), new.get(name))
        for name in names
        if old.get(name) != new.get(name)
    ]
    return changed[:_MAX_CHANGES] or [_change("subtitles", None, None)]


def of_ladder() -> list[ChangeView]:
    """The change of a ladder that is damaged."""
    return [_change("ladder", "complete", "incomplete")]


def _change(what: str, before: str | None, after: str | None) -> ChangeView:
    return {"what": what, "before": before, "after": after}


def _time(ns: int) -> str:
    return datetime.fromtimestamp(ns // 1_000_000 / 1000, UTC).isoformat(timespec="milliseconds")


def _flat(values: Mapping[str, Any], of: str = "") -> Iterator[tuple[str, str]]:
    """The values of nested tables by their dotted names, as text."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{of}{name}.")
        else:
            yield f"{of}{name}", value if isinstance(value, str) else json.dumps(value)
