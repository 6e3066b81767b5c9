"""Builds the SQL of text filters: jobs whose video name contains all words, ignoring case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from tqstudio.engine.store.db.connection import Connection
from tqstudio.paths import readable

PROBES = 32
"""Maximum number of trigrams that are looked up."""


@dataclass(frozen=True, slots=True)
class Condition:
    """An SQL condition on a row `job` with `id` and `video_id`, and its values."""

    sql: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)

    def __and__(self, other: Condition) -> Condition:
        return Condition(self.sql + other.sql, {**self.values, **other.values})


def contains(wanted: str) -> Condition:
    """Returns the condition that the name contains every word of a text."""
    tests, values = [], {}
    for number, word in enumerate(_words(wanted)):
        test, values[f"word{number}"] = _contains_word(word)
        tests.append(test.format(name="v.name", word=f":word{number}"))
    if not tests:
        return Condition()
    # From the index: a row of `video` is twenty times as wide as the name.
    names = "SELECT 1 FROM video v INDEXED BY ix_video_name WHERE v.id = job.video_id"
    return Condition(f" AND EXISTS ({names} AND {' AND '.join(tests)})", values)


def _contains_word(word: str) -> tuple[str, str]:
    """Returns the test for a word and its value.

    SQLite's LIKE ignores case only for ASCII; other words are compared in Python.
    """
    if not word.isascii():
        return "name_holds({name}, {word})", word.lower()
    escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return "{name} LIKE {word} ESCAPE '\\'", f"%{escaped}%"


def narrowed(db: Connection, wanted: str, most: int) -> Condition | None:
    """Returns a condition for at most `most` videos that include all matches; None if no trigram is so rare.

    A name that contains a word contains each of its trigrams. Only single trigrams are looked up, because
    that stops after `most` names, while a search for a whole word may read lists of millions.
    """
    for letters in islice(_groups(wanted), PROBES):
        group = '"' + letters.replace('"', '""') + '"'
        found = db.execute(_COUNT, {"group": group, "most": most + 1}).scalar_one()
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
    """Splits the text into unique words, encoded like stored names."""
    return list(dict.fromkeys(readable(word) for word in wanted.split()))
