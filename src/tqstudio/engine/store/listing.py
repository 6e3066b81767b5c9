"""Pages of jobs by key: as fast at a million rows as at ten, never by offset.

A list is made of lanes, one per status, each with an order that an index gives. “Queue order” reads lane
after lane (`lifecycle.QUEUE_ORDER`); by age, the lanes are merged.
"""

from __future__ import annotations

import base64
import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from tqstudio.engine.store.connection import Connection
from tqstudio.engine.store.statements import text
from tqstudio.lifecycle import QUEUE_ORDER, TERMINAL, JobStatus

SORTS = ("order", "newest", "oldest")
FEW = 8_000
"""Up to so many matches are fetched and sorted; beyond, the lanes are walked and each row is tested."""

Key = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """Which jobs, in which order. Empty `statuses` means all."""

    statuses: tuple[JobStatus, ...] = ()
    text: str = ""
    sort: str = "order"
    batch: str | None = None
    video: int | None = None
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Job ids in order, and cursors for what lies above and below; None where nothing does."""

    ids: list[int]
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class _Entry:
    key: Key
    """Rank of the lane (for queue order) and the place in it; greater is further down."""
    id: int


def page(
    db: Connection,
    query: Query,
    *,
    limit: int,
    after: str | None = None,
    before: str | None = None,
    around: int | None = None,
) -> Page:
    """A page of at most `limit` ids: after or before a cursor, around a job, or the first one.

    `after="start"` and `before="end"` name the two ends.

    Raises:
        ValueError: the cursor was not made by this query's order.
    """
    source = _source(db, query)
    if around is not None and (key := source.key_of(around)) is not None:
        above = list(islice(source.walk(key, backwards=True), limit // 2 + 1))
        below = list(islice(source.walk(key, backwards=False), limit + 1))
        more_above = len(above) > limit // 2
        above = above[: limit // 2][::-1]
        room = limit - len(above) - 1
        entries = [*above, _Entry(key, around), *below[: max(0, room)]]
        return _page(entries, more_above, len(below) > room)
    if before is not None:
        key = None if before == "end" else _decode(before, query.sort)
        found = list(islice(source.walk(key, backwards=True), limit + 1))
        return _page(found[:limit][::-1], len(found) > limit, key is not None)
    key = None if after in (None, "start") else _decode(str(after), query.sort)
    found = list(islice(source.walk(key, backwards=False), limit + 1))
    return _page(found[:limit], key is not None, len(found) > limit)


def _page(entries: list[_Entry], more_above: bool, more_below: bool) -> Page:
    if not entries:
        return Page([], None, None)
    return Page(
        [entry.id for entry in entries],
        _encode(entries[0].key) if more_above else None,
        _encode(entries[-1].key) if more_below else None,
    )


def _encode(key: Key) -> str:
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode()


def _decode(cursor: str, sort: str) -> Key:
    key = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    if not isinstance(key, list) or not all(type(part) is int and abs(part) < 2**63 for part in key):
        raise ValueError("not a cursor")
    if sort != "order":
        parts = 1
    elif not key or not 0 <= key[0] < len(QUEUE_ORDER):
        raise ValueError("not a cursor of the queue's order")
    else:
        parts = 3 if QUEUE_ORDER[key[0]] in TERMINAL else 4
    if len(key) != parts:
        raise ValueError("a cursor of another order")
    return tuple(key)


class _Walked:
    """The lanes, read from their indexes."""

    def __init__(self, db: Connection, query: Query, condition: str, values: dict[str, Any]) -> None:
        self._db, self._query, self._condition, self._values = db, query, condition, values
        self._statuses = [s for s in QUEUE_ORDER if not query.statuses or s in query.statuses]

    def key_of(self, job: int) -> Key | None:
        row = self._db.execute(
            text(
                "SELECT status, priority, created_at, coalesce(completed_at, 0), id FROM job"
                f" WHERE id = :job AND {_visible(self._query)}{self._condition}"
            ),
            {**self._values, "job": job},
        ).first()
        if row is None or JobStatus(row[0]) not in self._statuses:
            return None
        return _key(self._query.sort, JobStatus(row[0]), row[1], row[2], row[3], row[4])

    def walk(self, key: Key | None, *, backwards: bool) -> Iterator[_Entry]:
        if self._query.sort != "order":
            lanes = [self._by_id(status, key, backwards) for status in self._statuses]
            return heapq.merge(*lanes, key=lambda e: e.key, reverse=backwards)
        statuses = self._statuses[::-1] if backwards else self._statuses
        lanes = []
        for status in statuses:
            rank = QUEUE_ORDER.index(status)
            if key is not None and (rank > key[0] if backwards else rank < key[0]):
                continue
            start = key if key is not None and rank == key[0] else None
            lanes.append(self._lane(status, start, backwards))
        return chain.from_iterable(lanes)

    def _lane(self, status: JobStatus, key: Key | None, backwards: bool) -> Iterator[_Entry]:
        for where, values, order in _branches(status, key, backwards):
            rows = self._select(status, where, values, order)
            for row in rows:
                yield _Entry(_key("order", status, row[1], row[2], row[3], row[0]), row[0])

    def _by_id(self, status: JobStatus, key: Key | None, backwards: bool) -> Iterator[_Entry]:
        newest = self._query.sort == "newest"
        downwards = newest != backwards
        sign = -1 if newest else 1
        where = "" if key is None else f" AND id {'<' if downwards else '>'} :from"
        values = {} if key is None else {"from": sign * key[0]}
        for row in self._select(status, where, values, f"id {'DESC' if downwards else ''}"):
            yield _Entry((sign * row[0],), row[0])

    def _select(self, status: JobStatus, where: str, values: dict[str, Any], order: str) -> Iterable[Any]:
        statement = text(
            "SELECT id, priority, created_at, coalesce(completed_at, 0) FROM job"
            f" WHERE status = '{status.value}' AND {_visible(self._query)}{self._condition}{where}"
            f" ORDER BY {order}"
        )
        # Read in small batches: a page takes a handful of rows of a lane that may hold a million.
        return self._db.stream(statement, {**self._values, **values})


class _Fetched:
    """A few jobs, sorted here."""

    def __init__(self, db: Connection, query: Query, condition: str, values: dict[str, Any]) -> None:
        rows = db.execute(
            text(
                "SELECT id, status, priority, created_at, coalesce(completed_at, 0) FROM job"
                f" WHERE {_visible(query)}{condition}"
            ),
            values,
        )
        self._entries = sorted(
            (
                _Entry(_key(query.sort, JobStatus(row[1]), row[2], row[3], row[4], row[0]), row[0])
                for row in rows
                if not query.statuses or JobStatus(row[1]) in query.statuses
            ),
            key=lambda entry: entry.key,
        )

    def key_of(self, job: int) -> Key | None:
        return next((entry.key for entry in self._entries if entry.id == job), None)

    def walk(self, key: Key | None, *, backwards: bool) -> Iterator[_Entry]:
        if backwards:
            return (e for e in reversed(self._entries) if key is None or e.key < key)
        return (e for e in self._entries if key is None or e.key > key)


def _source(db: Connection, query: Query) -> _Walked | _Fetched:
    condition, values, few = "", dict[str, Any](), query.deleted
    if query.video is not None:
        condition, values, few = " AND video_id = :video", {"video": query.video}, True
    if query.batch is not None:
        condition, values, few = f"{condition} AND batch = :batch", {**values, "batch": query.batch}, True
    if query.text:
        matching = _matching_videos(db, query.text)
        if matching is not None:
            condition += " AND video_id IN (SELECT value FROM json_each(:videos))"
            values["videos"] = json.dumps(matching)
            few = True
        else:
            condition += (
                " AND EXISTS (SELECT 1 FROM video v WHERE v.id = video_id AND v.name LIKE :like ESCAPE '\\')"
            )
            values["like"] = _like(query.text)
    return (_Fetched if few else _Walked)(db, query, condition, values)


def _matching_videos(db: Connection, wanted: str) -> list[int] | None:
    """The videos whose name holds the text; None when there are more than a few.

    Trigrams answer for three and more characters; shorter texts match so much that walking is quick.
    """
    if len(wanted) < 3:
        return None
    phrase = '"' + wanted.replace('"', '""') + '"'
    found = db.execute(
        text("SELECT rowid FROM video_name WHERE video_name MATCH :phrase LIMIT :limit"),
        {"phrase": phrase, "limit": FEW + 1},
    )
    ids = [int(row[0]) for row in found]
    return None if len(ids) > FEW else ids


def _like(wanted: str) -> str:
    escaped = wanted.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _visible(query: Query) -> str:
    return "deleted_at IS NOT NULL" if query.deleted else "deleted_at IS NULL"


def _key(sort: str, status: JobStatus, priority: int, created_at: int, completed_at: int, job: int) -> Key:
    if sort == "newest":
        return (-job,)
    if sort == "oldest":
        return (job,)
    rank = QUEUE_ORDER.index(status)
    if status in TERMINAL:
        return (rank, -completed_at, -job)
    return (rank, -priority, created_at, job)


def _branches(status: JobStatus, key: Key | None, backwards: bool) -> list[tuple[str, dict[str, Any], str]]:
    """WHERE, values and ORDER BY of the index ranges that continue a lane from a key, in turn.

    One range per leading column: a single OR over all of them would scan the lane from its start.
    """
    if status in TERMINAL:
        order = "completed_at, id" if backwards else "completed_at DESC, id DESC"
        if key is None:
            return [("", {}, order)]
        than = ">" if backwards else "<"
        values = {"completed": -key[1], "job": -key[2]}
        return [(f" AND (completed_at, id) {than} (:completed, :job)", values, order)]
    order = "priority, created_at DESC, id DESC" if backwards else "priority DESC, created_at, id"
    if key is None:
        return [("", {}, order)]
    priority, created, job = -key[1], key[2], key[3]
    than, other = ("<", ">") if backwards else (">", "<")
    return [
        (
            f" AND priority = :priority AND (created_at, id) {than} (:created, :job)",
            {"priority": priority, "created": created, "job": job},
            order,
        ),
        (f" AND priority {other} :priority", {"priority": priority}, order),
    ]


def count(db: Connection, statuses: Sequence[JobStatus]) -> int:
    """Jobs with these statuses (all when empty), from the counts that triggers keep."""
    counts = counts_by_status(db)
    return sum(counts[status.value] for status in (statuses or tuple(JobStatus)))


def counts_by_status(db: Connection) -> dict[str, int]:
    found = {row[0]: int(row[1]) for row in db.execute(text("SELECT status, n FROM job_count"))}
    return {status.value: found.get(status.value, 0) for status in QUEUE_ORDER}
