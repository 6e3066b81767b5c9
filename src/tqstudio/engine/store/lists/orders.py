"""Defines the orders of job lists, the key of a job in each, and the index ranges that follow a key.

“Queue order” is one lane per status, in the order of `lifecycle.QUEUE_ORDER`, each with an order of its own.
The other lists are sorted by age, that is by id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tqstudio.lifecycle import QUEUE_ORDER, TERMINAL, JobStatus

SORTS = ("order", "newest", "oldest")

Key = tuple[int, ...]
"""A position in a list; greater is further down."""


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

    @property
    def visible(self) -> str:
        """The condition of the partial indexes of these jobs, verbatim, or SQLite would not use them."""
        return "deleted_at IS NOT NULL" if self.deleted else "deleted_at IS NULL"

    @property
    def indexes(self) -> str:
        """The prefix of those indexes' names."""
        return "ix_job_deleted" if self.deleted else "ix_job"


@dataclass(frozen=True, slots=True)
class Range:
    """A contiguous part of a lane in its index: condition, values and order."""

    where: str
    values: Mapping[str, int]
    order: str


@dataclass(frozen=True, slots=True)
class Lane:
    """The jobs of one status in queue order."""

    INDEX: ClassVar[str]
    """Suffix of its index, after `PageQuery.indexes`."""
    COLUMNS: ClassVar[str]
    """The arguments of `key`, as far as that index contains them."""
    PARTS: ClassVar[int]
    """Numbers in a key."""
    status: JobStatus

    @property
    def rank(self) -> int:
        return QUEUE_ORDER.index(self.status)

    def key(self, job: int, priority: int, created_at: int, completed_at: int) -> Key:
        raise NotImplementedError

    def ranges(self, key: Key | None, backwards: bool) -> list[Range]:
        """Returns the ranges that follow a key, in order; the whole lane for a key of another lane.

        One range per leading column: a single OR over all of them would scan the lane from its start.
        """
        raise NotImplementedError


class Waiting(Lane):
    """Jobs that have not ended, in the order of work."""

    INDEX = "waiting"
    COLUMNS = "id, priority AS p, created_at AS c, 0 AS e"
    PARTS = 4

    def key(self, job: int, priority: int, created_at: int, _completed_at: int) -> Key:
        return (self.rank, -priority, created_at, job)

    def ranges(self, key: Key | None, backwards: bool) -> list[Range]:
        order = "priority, created_at DESC, id DESC" if backwards else "priority DESC, created_at, id"
        if key is None or key[0] != self.rank:
            return [Range("", {}, order)]
        priority, created, job = -key[1], key[2], key[3]
        than, other = ("<", ">") if backwards else (">", "<")
        return [
            Range(
                f" AND priority = :priority AND (created_at, id) {than} (:created, :job)",
                {"priority": priority, "created": created, "job": job},
                order,
            ),
            Range(f" AND priority {other} :priority", {"priority": priority}, order),
        ]


class Ended(Lane):
    """Jobs that have ended, latest first."""

    INDEX = "ended"
    COLUMNS = "id, 0 AS p, 0 AS c, coalesce(completed_at, 0) AS e"
    PARTS = 3

    def key(self, job: int, _priority: int, _created_at: int, completed_at: int) -> Key:
        return (self.rank, -completed_at, -job)

    def ranges(self, key: Key | None, backwards: bool) -> list[Range]:
        order = "completed_at, id" if backwards else "completed_at DESC, id DESC"
        if key is None or key[0] != self.rank:
            return [Range("", {}, order)]
        than = ">" if backwards else "<"
        values = {"completed": -key[1], "job": -key[2]}
        return [Range(f" AND (completed_at, id) {than} (:completed, :job)", values, order)]


LANES = {status: (Ended if status in TERMINAL else Waiting)(status) for status in QUEUE_ORDER}


def lanes_from(statuses: tuple[JobStatus, ...], key: Key | None, backwards: bool) -> list[Lane]:
    """Returns the lanes from a key on, in reading order; all lanes without a key."""
    lanes = [lane for status, lane in LANES.items() if not statuses or status in statuses]
    if backwards:
        return [lane for lane in reversed(lanes) if key is None or lane.rank <= key[0]]
    return [lane for lane in lanes if key is None or lane.rank >= key[0]]


def key_of(sort: str, status: JobStatus, job: int, priority: int, created_at: int, completed_at: int) -> Key:
    """Returns the key of a job in lists with this sort."""
    if sort == "order":
        return LANES[status].key(job, priority, created_at, completed_at)
    return (-job,) if sort == "newest" else (job,)


def is_key(sort: str, key: Key) -> bool:
    """Whether this can be a key of a list with that sort."""
    if sort != "order":
        return len(key) == 1
    return bool(key) and 0 <= key[0] < len(QUEUE_ORDER) and len(key) == LANES[QUEUE_ORDER[key[0]]].PARTS
