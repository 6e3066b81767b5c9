"""Defines the orders of job lists: their sections, keys of jobs, and conditions of what follows a key.

“Queue order” has a section per status, in the order of `lifecycle.QUEUE_ORDER`: waiting jobs in the order of
work, ended ones latest first. By state there is a section per status too, by end one of ended jobs and one of
the others; the other lists are one section. An order with `-` in front is read from its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, ColumnElement, UnaryExpression, and_, true

from tqstudio.engine.store.db import tables
from tqstudio.lifecycle import QUEUE_ORDER, TERMINAL, JobStatus
from tqstudio.protocol.filters import EVERYTHING, Filter

Key = tuple[Any, ...]
"""A position in a list; greater is further down. Its last number is the job's id, perhaps negated."""

JOB = tables.job.c
VIDEO = tables.video.c


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Which jobs, in which order. Drop folders in the filter are numbers, see `matching.with_folders`."""

    filter: Filter = EVERYTHING
    sort: str = "order"
    """One of `filters.SORTS`, perhaps with `-` in front."""
    video: int | None = None
    now: int = 0
    """Ages are counted from here, in µs."""

    @property
    def filtered(self) -> bool:
        """Whether finding or counting the jobs may need a scan of up to a second."""
        return bool(self.filter.others)

    @property
    def by_video(self) -> bool:
        """Whether it is sorted by a column of videos: jobs of some states may be found by a scan of all."""
        return any(section.of_video for section in sections(self.sort))

    @property
    def descending(self) -> bool:
        return self.sort.startswith("-")


@dataclass(frozen=True, slots=True)
class Section:
    """The jobs of some statuses, sorted by columns; its keys are `rank` and the columns' values."""

    rank: Key
    statuses: tuple[JobStatus, ...]
    order: tuple[tuple[Column[Any], int], ...]
    """Columns, with 1 for ascending and -1 for descending."""
    index: str
    """The end of the name of the index in this order, which begins with a status; or one of `video`."""

    @property
    def of_video(self) -> bool:
        """Whether it is sorted by a column of `video`, of all statuses together."""
        return self.order[0][0].table is tables.video

    @property
    def columns(self) -> list[Column[Any]]:
        return [column for column, _ in self.order]

    def key(self, values: Sequence[Any]) -> Key:
        """The key of a job by the values of `columns`."""
        signed = (
            value if sign > 0 else -(value or 0) for value, (_, sign) in zip(values, self.order, strict=True)
        )
        return (*self.rank, *signed)

    def has(self, key: Key) -> bool:
        """Whether a key has the form and the rank of the keys of this section."""
        kinds = [type(part) for part in self.rank] + [column.type.python_type for column in self.columns]
        return [type(part) for part in key] == kinds and key[: len(self.rank)] == self.rank

    def sorting(self, *, backwards: bool) -> list[UnaryExpression[Any]]:
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
        parts = key[len(self.rank) :]
        values = [part if sign > 0 else -part for (_, sign), part in zip(self.order, parts, strict=True)]
        equal = [column == value for column, value in zip(self.columns, values, strict=True)]
        for at in reversed(range(len(self.order))):
            column, sign = self.order[at]
            further = column > values[at] if (sign > 0) != backwards else column < values[at]
            yield and_(*equal[:at], further)


_NUMBER = ((JOB.id, 1),), "status"
_WAITING = ((JOB.priority, -1), (JOB.created_at, 1), (JOB.id, 1)), "waiting"
_ENDED = ((JOB.completed_at, -1), (JOB.id, -1)), "ended"
_SORTED = {
    # Numbers are given when jobs are added.
    **dict.fromkeys(("number", "added"), _NUMBER),
    "priority": (((JOB.priority, 1), (JOB.created_at, -1), (JOB.id, -1)), "waiting"),
    "name": (((VIDEO.name_lower, 1), (VIDEO.id, 1), (JOB.id, 1)), "ix_video_by_name"),
    "size": (((VIDEO.size, 1), (VIDEO.id, 1), (JOB.id, 1)), "ix_video_by_size"),
    "length": (((VIDEO.length_ms, 1), (VIDEO.id, 1), (JOB.id, 1)), "ix_video_by_length"),
}


def sections(sort: str, statuses: Sequence[JobStatus] = tuple(JobStatus)) -> list[Section]:
    """Returns the sections of a list that is not turned round, from top to bottom."""
    shown = tuple(status for status in QUEUE_ORDER if status in statuses)
    match sort.removeprefix("-"):
        case "order":
            of_status = [(status, *(_ENDED if status in TERMINAL else _WAITING)) for status in shown]
            return [Section((QUEUE_ORDER.index(each),), (each,), *how) for each, *how in of_status]
        case "state":
            return [Section((QUEUE_ORDER.index(each),), (each,), *_NUMBER) for each in shown]
        case "ended":
            ended = tuple(status for status in shown if status in TERMINAL)
            others = tuple(status for status in shown if status not in TERMINAL)
            by_end = Section((0,), ended, ((JOB.completed_at, 1), (JOB.id, 1)), "ended")
            # Those that have not ended come last both ways.
            rest = Section((-1 if sort.startswith("-") else 1,), others, *_NUMBER)
            found = [rest, by_end] if sort.startswith("-") else [by_end, rest]
            return [section for section in found if section.statuses]
        case other:
            return [Section((), shown, *_SORTED[other])] if shown else []
