"""What a text filter finds: the jobs whose video's name holds all its words, in capitals or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from tqstudio.engine.store.db.connection import Connection
from tqstudio.paths import readable

PROBES = 32
"""Of long texts, no more groups of three letters than this are looked up."""


@dataclass(frozen=True, slots=True)
class Condition:
    """SQL about a row `job` with an `id` and a `video_id`, and its values."""

    sql: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)

    def __and__(self, other: Condition) -> Condition:
        return Condition(self.sql + other.sql, {**self.values, **other.values})


def holds(wanted: str) -> Condition:
    """That the name holds every word of a text."""
    tests, values = [], {}
    for number, word in enumerate(_words(wanted)):
        test, values[f"word{number}"] = _holds_word(word)
        tests.append(test.format(name="v.name", word=f":word{number}"))
    if not tests:
        return Condition()
    # By its index: a row of `video` is twenty times as wide as the name.
    names = "SELECT 1 FROM video v INDEXED BY ix_video_name WHERE v.id = job.video_id"
    return Condition(f" AND EXISTS ({names} AND {' AND '.join(tests)})", values)


def _holds_word(word: str) -> tuple[str, str]:
    """The test and its value.

    SQLite's LIKE takes capitals for small letters in ASCII alone; what goes beyond is compared in Python.
    """
    if not word.isascii():
        return "name_holds({name}, {word})", word.lower()
    escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return "{name} LIKE {word} ESCAPE '\\'", f"%{escaped}%"


def narrowed(db: Connection, wanted: str, most: int) -> Condition | None:
    """At most so many videos, among them all whose name holds the text; None when no index tells so few.

    Names that hold a word hold each three letters of it. Only single groups are looked up: that ends after
    `most` names, where a search for a whole word may read the lists of millions.
    """
    for letters in islice(_groups(wanted), PROBES):
        group = '"' + letters.replace('"', '""') + '"'
        found = db.execute(_COUNT, {"group": group, "most": most + 1}).scalar()
        if found <= most:
            return Condition(
                " AND job.video_id IN (SELECT rowid FROM video_name WHERE video_name MATCH :group)",
                {"group": group},
            )
    return None


_COUNT = "SELECT count(*) FROM (SELECT rowid FROM video_name WHERE video_name MATCH :group LIMIT :most)"


def _groups(wanted: str) -> Iterator[str]:
    for word in _words(wanted):
        for start in range(len(word) - 2):
            yield word[start : start + 3]


def _words(wanted: str) -> list[str]:
    """What is looked for, as names are stored: readable."""
    return list(dict.fromkeys(readable(word) for word in wanted.split()))
