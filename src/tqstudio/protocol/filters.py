"""Parses the filters of job lists, which UI, command line and API write alike: `state:failed !profile:web x`.

A line is words, all of which a job must match: bare words are parts of its name, others are `word:value`,
`word:one,another` for either of them, and `!` in front for the opposite. Double quotes make spaces, commas
and `word:` literal; `""` within them is the sign itself. Only the supervisor knows the names of drop folders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tqstudio.errors import MEANINGS, ErrorClass, ErrorCode, TqError, WarningCode
from tqstudio.lifecycle import JobKind, JobStatus

LONGEST = 500
"""Characters of a filter."""
SORTS = ("order", "number", "state", "name", "size", "length", "priority", "added", "ended")
"""Orders of job lists: queue order, or by one fact; `-` in front turns them round."""
_SORT_NAMES = {"newest": "-number", "oldest": "number"}

WORDS: Mapping[str, str] = {
    "state": "running, pending, paused, failed, cancelled, done; deleted is the bin",
    "folder": "number or name of a drop folder",
    "profile": "name of a profile",
    "code": "code of an error, or any",
    "warning": "code of a warning, or any",
    "quality": "a quality of its ladder, such as 1080p",
    "owner": "folder, user, upload, or the name of a token",
    "kind": "new, changed or retranscode",
    "batch": "id of a batch",
    "older": "added longer ago than 90m, 12h, 2d or 3w",
    "larger": "source larger than 500M or 2G",
    "longer": "source longer than 90s, 10m or 1h",
    "text": "part of the name, as a word without a colon",
}
"""What may stand before a colon, and what follows it."""

STATES: Mapping[str, str] = {
    "running": JobStatus.IN_PROGRESS.value,
    **{status.value: status.value for status in JobStatus},
    "waiting": JobStatus.PENDING.value,
    "retry": JobStatus.PENDING.value,
    "held": JobStatus.PAUSED.value,
    "deleted": "deleted",
}
"""The words for states, and the status each stands for."""

_ANY = {"any": "any"}
_CODES = [code for code in ErrorCode if MEANINGS[code].error_class is not ErrorClass.REQUEST]
VALUES: Mapping[str, Mapping[str, str]] = {
    "state": STATES,
    "kind": {kind.value: kind.value for kind in JobKind},
    "code": _ANY | {code.value: code.value for code in _CODES},
    "warning": _ANY | {code.value: code.value for code in WarningCode},
}
"""The values of the words that have a fixed set of them, as they are written and as they are stored."""

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_BYTES = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS: Mapping[str, Mapping[str, int]] = {"older": _SECONDS, "longer": _SECONDS, "larger": _BYTES}

_HEAD = re.compile(r"(!?)(?:([A-Za-z]+):(?!//)(!?))?")
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
_LISTED, _BARE = re.compile(r"[^\s,]*"), re.compile(r"\S*")
_WORD_BEGIN, _PLAIN = re.compile(r"\S"), re.compile(r'[^\s,":]+')
_KINDS = {"older": "time", "longer": "time", "larger": "size"}
_AMOUNT = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([a-z])b?")


class FilterError(TqError):
    """A filter that cannot be understood.

    Args:
        unfinished: it may be a valid one once more of it is typed.
    """

    def __init__(self, message: str, hint: str, *, unfinished: bool = False) -> None:
        super().__init__(ErrorCode.BAD_REQUEST, message, hint)
        self.unfinished = unfinished


@dataclass(frozen=True, slots=True)
class Term:
    """One word of a filter: a job matches if it has one of the values, or none of them if negated."""

    word: str
    """One of `WORDS`."""
    values: tuple[str, ...]
    """As stored: statuses and codes in full, amounts with a unit (`2d`, `1.5G`), others as written."""
    negated: bool = False

    def line(self) -> str:
        """The term as it can be typed."""
        values = ["running" if value == JobStatus.IN_PROGRESS else _quoted(value) for value in self.values]
        bare = self.word == "text" and len(values) == 1
        written = values[0] if bare else f"{self.word}:{','.join(values)}"
        return f"!{written}" if self.negated else written


@dataclass(frozen=True, slots=True)
class Filter:
    """What a job must match: all terms, sorted as in `WORDS`."""

    terms: tuple[Term, ...] = ()

    def line(self) -> str:
        """The filter in its canonical form, which `parse` reads."""
        return " ".join(term.line() for term in self.terms)

    @property
    def deleted(self) -> bool:
        """Whether it is about deleted jobs; otherwise none of them matches."""
        return Term("state", ("deleted",)) in self.terms

    @property
    def statuses(self) -> tuple[JobStatus, ...]:
        """The statuses that a job may have."""
        terms = [term for term in self.terms if term.word == "state" and term.values != ("deleted",)]
        return tuple(each for each in JobStatus if all((each in t.values) != t.negated for t in terms))

    @property
    def others(self) -> tuple[Term, ...]:
        """The terms besides those of states."""
        return tuple(term for term in self.terms if term.word != "state")

    def of(self, word: str) -> tuple[Term, ...]:
        return tuple(term for term in self.terms if term.word == word)

    def with_terms(self, word: str, *terms: Term) -> Filter:
        """The filter with these terms in place of all of that word."""
        return _sorted([*(term for term in self.terms if term.word != word), *terms])


EVERYTHING = Filter()


def parse(line: str) -> Filter:
    """Parses a filter line; upper and lower case of words, states and codes are the same.

    Raises:
        FilterError: it cannot be understood.
    """
    if len(line) > LONGEST:
        raise FilterError(f"the filter has {len(line)} characters", f"write at most {LONGEST}")
    terms: list[Term] = []
    at = 0
    while begin := _WORD_BEGIN.search(line, at):
        term, at = _read(line, begin.start())
        terms.append(term)
    return _sorted(terms)


def sort_of(text: str) -> str:
    """Checks a sort order and returns its canonical name: one of `SORTS`, perhaps with `-` in front.

    Raises:
        TqError: BAD_REQUEST for an unknown one.
    """
    sort = _SORT_NAMES.get(text, text)
    if sort.removeprefix("-") not in SORTS:
        use = f"use {', '.join(SORTS)}, or one with - in front, such as -size"
        raise TqError(ErrorCode.BAD_REQUEST, f"jobs cannot be sorted by “{text}”", use)
    return sort


def seconds(amount: str) -> float:
    """Returns the seconds of a value of `older:` or `longer:`."""
    return float(amount[:-1]) * _SECONDS[amount[-1]]


def size(amount: str) -> int:
    """Returns the bytes of a value of `larger:`."""
    return int(float(amount[:-1]) * _BYTES[amount[-1]])


def _sorted(terms: Iterable[Term]) -> Filter:
    order = list(WORDS)
    return Filter(tuple(sorted(dict.fromkeys(terms), key=lambda term: order.index(term.word))))


def _quoted(value: str) -> str:
    plain = _PLAIN.fullmatch(value) and not value.startswith("!")
    return value if plain else '"' + value.replace('"', '""') + '"'


def _read(line: str, at: int) -> tuple[Term, int]:
    """Reads the word at a place; returns it and the place after it."""
    head = _HEAD.match(line, at)
    assert head is not None
    word = (head[2] or "text").lower()
    if word not in WORDS:
        there = " ".join(f"{each}:" for each in WORDS)
        hint = f'there are {there}; in a name write "{head[2]}:…" with quotes'
        raise FilterError(f"unknown word “{head[2]}:”", hint)
    given, after = _values(line, head.end(), listed=head[2] is not None)
    if head[2] is None and given == [""]:
        # An exclamation mark alone is part of a name.
        return Term("text", (head[1],)), after
    if "" in given:
        raise FilterError(f"“{word}:” needs a value", f"{word}: {WORDS[word]}", unfinished=True)
    values = tuple(dict.fromkeys(_stored(word, value) for value in given))
    if word == "state" and "deleted" in values and len(values) > 1:
        hint = "write state:deleted as a word of its own, beside another state:"
        raise FilterError("the bin is not a state among others", hint)
    return Term(word, values, (head[1] == "!") != (head[3] == "!")), after


def _values(line: str, at: int, *, listed: bool) -> tuple[list[str], int]:
    """Reads a value, or a list of them with commas; returns them and the place after them."""
    values: list[str] = []
    while True:
        if line.startswith('"', at):
            found = _QUOTED.match(line, at)
            if found is None:
                hint = 'write a second one after it, or "" within quotes for the sign itself'
                raise FilterError("a quote is not closed", hint, unfinished=True)
            values.append(found[1].replace('""', '"'))
        else:
            found = (_LISTED if listed else _BARE).match(line, at)
            assert found is not None
            values.append(found[0])
        at = found.end()
        if not listed or line[at : at + 1] != ",":
            return values, at
        at += 1


def _stored(word: str, value: str) -> str:
    """Checks a value and returns it as it is stored."""
    if units := _UNITS.get(word):
        amount = _AMOUNT.fullmatch(value.lower())
        unit = next((unit for unit in units if amount and unit.lower() == amount[2]), None)
        if amount is None or unit is None:
            hint = f"{word}: {WORDS[word]}"
            more = value.replace(".", "", 1).isdecimal()
            raise FilterError(f"{word}: “{value}” is no {_KINDS[word]}", hint, unfinished=more)
        return amount[1] + unit
    if (known := VALUES.get(word)) is None:
        return value
    typed = value.lower()
    found = {stored for name, stored in known.items() if name.lower() == typed} or {
        stored for name, stored in known.items() if name.lower().startswith(typed)
    }
    if not found:
        raise FilterError(f"unknown {word} “{value}”", f"use {', '.join(known)}")
    if len(found) > 1:
        message = f"{word}: “{value}” may be {' or '.join(sorted(found))}"
        raise FilterError(message, "write more of it, or several with commas", unfinished=True)
    return found.pop()
