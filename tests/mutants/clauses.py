"""Finds the clauses that guard a statement, and makes the statements that lack one of them.

Works on the text, so that all of it outside a clause stays as it is. Knows of SQL only what it needs: where a
condition begins and ends, and what AND, OR, CASE, BETWEEN and parentheses hold together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_TOKEN = re.compile(
    r"""\s+ | '(?:[^']|'')*' | "(?:[^"]|"")*" | [:@$]?\w[\w.]* | <> | <= | >= | != | == | \|\| | .""",
    re.VERBOSE,
)
_INDEXED = re.compile(r"\s+INDEXED\s+BY\s+\w+", re.IGNORECASE)

_OPENS = {"WHERE", "ON", "HAVING", "WHEN"}
_BOUNDS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_ENDS = {
    *_OPENS,
    *("SELECT", "DISTINCT", "FROM", "JOIN", "LEFT", "INNER", "CROSS", "SET", "VALUES", "RETURNING", "DO"),
    *("GROUP", "ORDER", "BY", "LIMIT", "OFFSET", "UNION", "ALL", "EXCEPT", "INTERSECT", "AS", "WINDOW"),
    *("CASE", "THEN", "ELSE", "END", ",", ";"),
}


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """A clause, and what is put in its place."""

    clause: str
    put: str
    nth: int
    """Which one it is of those in the statement that read the same, from 0."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A token, or all between two parentheses or CASE and END; `inside` are its parts."""

    start: int
    end: int
    word: str
    """In capitals; `(` and `CASE` for what has parts."""
    inside: list[_Part] = field(default_factory=list)


_Parts = Sequence[_Part]


@dataclass(frozen=True, slots=True)
class _Cut:
    """A clause from `start` to `end`, of which `put` replaces what is from `first` to `last`."""

    start: int
    end: int
    first: int
    last: int
    put: str

    def clause(self, sql: str) -> str:
        return " ".join(sql[self.start : self.end].split())

    def replaced(self, sql: str) -> str:
        """What stands in the place of the clause."""
        return " ".join((sql[self.start : self.first] + self.put + sql[self.last : self.end]).split())

    def applied(self, sql: str) -> str:
        return _INDEXED.sub("", sql[: self.first]) + self.put + _INDEXED.sub("", sql[self.last :])


def mutants(sql: str) -> dict[Change, str]:
    """The statement once without each of its clauses.

    A conjunct becomes TRUE, an arm of an OR and a condition of a CASE also FALSE, a list of values loses one
    after another, and a bound that belongs to its range no longer does, or the other way round. The mutants
    lack INDEXED BY: without its clause a partial index would fail the statement, which says nothing about
    the clause.
    """
    found: dict[Change, str] = {}
    alike: Counter[tuple[str, str]] = Counter()
    for cut in dict.fromkeys(_cuts(_parse(sql))):
        clause, put = cut.clause(sql), cut.replaced(sql)
        found[Change(clause, put, alike[clause, put])] = cut.applied(sql)
        alike[clause, put] += 1
    return found


def _parse(sql: str) -> list[_Part]:
    levels: list[list[_Part]] = [[]]
    opened: list[_Part] = []
    for match in _TOKEN.finditer(sql):
        word = match.group().upper()
        if word.isspace():
            continue
        if word in (")", "END"):
            begun = opened.pop()
            inside = levels.pop()
            levels[-1].append(_Part(begun.start, match.end(), begun.word, inside))
        elif word in ("(", "CASE"):
            opened.append(_Part(match.start(), match.end(), word))
            levels.append([])
        else:
            levels[-1].append(_Part(match.start(), match.end(), word))
    if opened:
        raise ValueError(f"nothing closes what is opened at {opened[-1].start} of: {sql}")
    return levels[0]


def _cuts(parts: _Parts, skipped: str = "") -> Iterator[_Cut]:
    """The cuts in the parts of one level, but not behind a skipped keyword, and in those inside of them."""
    for opener, condition in _conditions(parts):
        if opener != skipped or not skipped:
            yield from _of_condition(opener, condition)
    for before, part in pairwise([_Part(0, 0, ""), *parts]):
        if part.word == "(" and before.word == "IN":
            yield from _of_list(part)
        if part.word == "(" and before.word == "IIF":
            yield from _of_condition("WHEN", _until(part.inside, ","))
        # What stands behind WHEN in `CASE x WHEN value` is no condition.
        compares = part.word == "CASE" and part.inside[0].word != "WHEN"
        yield from _cuts(part.inside, "WHEN" if compares else "")


def _conditions(parts: _Parts) -> Iterator[tuple[str, _Parts]]:
    """Every stretch between keywords, with the one before it: a condition, or just an expression."""
    opener, begun = "", 0
    for place, part in enumerate([*parts, _Part(0, 0, ";")]):
        if part.word in _ENDS and not (part.word == "CASE" and part.inside):
            if place > begun:
                conflict = opener == "ON" and parts[begun].word == "CONFLICT"
                yield "" if conflict else opener, parts[begun:place]
            opener, begun = part.word, place + 1


def _of_condition(opener: str, condition: _Parts) -> Iterator[_Cut]:
    arms = _split(condition, "OR")
    terms = [term for arm in arms for term in _split(arm, "AND")]
    if len(terms) == 1 and (opener not in _OPENS or condition[0].word == "TRUE"):
        return
    if len(arms) > 1:
        yield from (_whole(arm, "FALSE") for arm in arms)
    if len(arms) == 1 or len(terms) > len(arms):
        for arm in arms:
            of_arm = _split(arm, "AND")
            if len(arms) == 1 or len(of_arm) > 1:
                yield from (_whole(term, "TRUE") for term in of_arm)
    if opener == "WHEN":
        yield _whole(condition, "FALSE")
        if len(arms) > 1:
            yield _whole(condition, "TRUE")
    for term in terms:
        yield from _of_bound(term)


def _of_bound(term: _Parts) -> Iterator[_Cut]:
    for part in term:
        if part.word in _BOUNDS:
            yield _Cut(term[0].start, term[-1].end, part.start, part.end, _BOUNDS[part.word])


def _of_list(group: _Part) -> Iterator[_Cut]:
    """`x IN (1, 2)` loses its values one by one; a sub-select has conditions instead."""
    values = group.inside[::2]
    commas = group.inside[1::2]
    if len(values) < 2 or any(part.word != "," for part in commas):
        return
    for number, value in enumerate(values):
        if number:
            yield _cut(commas[number - 1].start, value.end, "")
        else:
            yield _cut(value.start, commas[0].end, "")


def _split(parts: _Parts, word: str) -> list[_Parts]:
    """The stretches between a word; the AND of a BETWEEN is none."""
    pieces: list[list[_Part]] = [[]]
    between = False
    for part in parts:
        if part.word == word and not between:
            pieces.append([])
            continue
        between = part.word == "BETWEEN" or (between and part.word != "AND")
        pieces[-1].append(part)
    return list(pieces)


def _until(parts: _Parts, word: str) -> _Parts:
    return parts[: next((place for place, part in enumerate(parts) if part.word == word), len(parts))]


def _whole(parts: _Parts, put: str) -> _Cut:
    return _cut(parts[0].start, parts[-1].end, put)


def _cut(start: int, end: int, put: str) -> _Cut:
    return _Cut(start, end, start, end, put)
