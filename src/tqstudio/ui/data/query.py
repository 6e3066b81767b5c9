"""The query of the queue view: the filter line, and the sort order."""

from __future__ import annotations

from dataclasses import dataclass

from tqstudio.paths import readable
from tqstudio.protocol.filters import EVERYTHING, Filter, parse

SORT_NAMES = {"order": "queue order"}
"""What the sorts are called that are not called by their name."""
_GREATEST_FIRST = ("number", "size", "length", "priority", "added", "ended")


def turned(sort: str, by: str) -> str:
    """The order after a choice of `by`: its usual direction, or the other if it is that already."""
    usual = f"-{by}" if by in _GREATEST_FIRST else by
    other = by if by in _GREATEST_FIRST else f"-{by}"
    return other if sort == usual else usual


@dataclass(frozen=True, slots=True)
class Query:
    filter: Filter = EVERYTHING
    sort: str = "order"

    @property
    def narrowed(self) -> bool:
        return bool(self.filter.terms)

    @property
    def text(self) -> str:
        """The text of a filter of one bare word; empty for any other."""
        match self.filter.terms:
            case (term,) if term.word == "text" and len(term.values) == 1 and not term.negated:
                return term.values[0]
        return ""

    def shows(self, status: str, name: str) -> bool:
        """Whether a job with this status and name matches; False if other words need more data."""
        return status in self.filter.statuses and all(
            term.word == "text"
            and any(readable(value).lower() in name.lower() for value in term.values) != term.negated
            for term in self.filter.others
        )

    def line(self) -> str:
        """The filter as it can be typed."""
        return self.filter.line()


def query_of(line: str, sort: str = "order") -> Query:
    """Makes the query of a filter line.

    Raises:
        FilterError: it cannot be understood.
    """
    return Query(parse(line), sort)
