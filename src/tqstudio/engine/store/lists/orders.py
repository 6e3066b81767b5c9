"""Defines the orders of job lists: their sections, keys of jobs, and conditions of what follows a key.

“Queue order” has a section per status, in the order of `lifecycle.QUEUE_ORDER`: waiting jobs in the order of
work, ended ones latest first. The other lists are one section, sorted by age, that is by id.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Column, ColumnElement, RowMapping, UnaryExpression, and_, true

from tqstudio.engine.store.db import tables
from tqstudio.lifecycle import QUEUE_ORDER, TERMINAL, JobStatus

SORTS = ("order", "newest", "oldest")

Key = tuple[int, ...]
"""A position in a list; greater is further down. Its last number is the job's id, perhaps negated."""

JOB = tables.job.c


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Which jobs, in which order. Empty `statuses` means all; names must contain all words of `text`."""

    statuses: tuple[JobStatus, ...] = ()
    text: str = ""
    sort: str = "order"
    batch: str | None = None
    video: int | None = None
    deleted: bool = False
    folder: int | None = None
    """A drop folder."""
    kind: str | None = None
    owner: str | None = None
    """As stored, or the name of a token."""
    warning: str | None = None
    """How the code of a warning begins, or “any”."""

    @property
    def filtered(self) -> bool:
        """Whether finding or counting the jobs may need a scan of up to a second."""
        others = (self.batch, self.folder, self.kind, self.owner, self.warning)
        return bool(self.text.strip()) or any(each is not None for each in others)


@dataclass(frozen=True, slots=True)
class Section:
    """The jobs of some statuses, sorted by columns; its keys are `rank` and the columns' values."""

    rank: Key
    statuses: tuple[JobStatus, ...]
    order: tuple[tuple[Column[int], int], ...]
    """Columns, with 1 for ascending and -1 for descending."""
    index: str
    """The end of the name of the index in this order."""

    @property
    def columns(self) -> list[Column[int]]:
        return [column for column, _ in self.order]

    def key(self, row: RowMapping) -> Key:
        return (*self.rank, *(sign * (row[column.name] or 0) for column, sign in self.order))

    def has(self, key: Key) -> bool:
        """Whether a key has the form and the rank of the keys of this section."""
        return len(key) == len(self.rank) + len(self.order) and key[: len(self.rank)] == self.rank

    def sorting(self, *, backwards: bool) -> list[UnaryExpression[int]]:
        return [column.desc() if (sign < 0) != backwards else column.asc() for column, sign in self.order]

    def beyond(self, key: Key | None, *, backwards: bool) -> Iterator[ColumnElement[bool]]:
        """Yields conditions that select the jobs after a key, or before it if `backwards`, nearest first.

        Yields nothing if this section has no such jobs. There is one condition per column, because a single
        OR over all of them would scan the index from its start.
        """
        if key is None or not self.has(key):
            if key is None or (self.rank > key) != backwards:
                yield true()
            return
        values = [sign * part for (_, sign), part in zip(self.order, key[len(self.rank) :], strict=True)]
        equal = [column == value for column, value in zip(self.columns, values, strict=True)]
        for at in reversed(range(len(self.order))):
            column, sign = self.order[at]
            further = column > values[at] if (sign > 0) != backwards else column < values[at]
            yield and_(*equal[:at], further)


_WAITING = ((JOB.priority, -1), (JOB.created_at, 1), (JOB.id, 1)), "waiting"
_ENDED = ((JOB.completed_at, -1), (JOB.id, -1)), "ended"


def sections(sort: str, statuses: tuple[JobStatus, ...] = ()) -> list[Section]:
    """Returns the sections of a list, from top to bottom."""
    shown = tuple(status for status in QUEUE_ORDER if not statuses or status in statuses)
    if sort != "order":
        return [Section((), shown, ((JOB.id, -1 if sort == "newest" else 1),), "status")]
    return [
        Section((QUEUE_ORDER.index(status),), (status,), *(_ENDED if status in TERMINAL else _WAITING))
        for status in shown
    ]
