"""Reads a list of any length from its indexes, from any place up or down.

What no index tells is tried on row after row, stretch by stretch, and only for a moment; whoever asks goes on
from where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.lists.name_filter import Condition
from tqstudio.engine.store.lists.orders import Key, Lane, PageQuery, Range, key_of, lanes_from
from tqstudio.lifecycle import QUEUE_ORDER, JobStatus

STRETCH = 2_000
"""Rows tried between two looks at the clock; they cost 0.4 µs each."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    key: Key
    id: int


@dataclass(frozen=True, slots=True)
class Found:
    """Jobs in the order of the search, and where it stopped before its end; None when it came to the end."""

    entries: list[Entry] = field(default_factory=list)
    stop: Key | None = None


class Walk:
    """The jobs of a query, of which `tried` is to be tried on each."""

    total: int | None = None

    def __init__(self, db: Connection, query: PageQuery, tried: Condition) -> None:
        self._db, self._query, self._tried = db, query, tried
        # Batch and folder stand in the tables alone, whose scattered rows cost ten times as much.
        indexed = query.batch is None and query.folder is None
        self._rows = STRETCH if indexed else max(1, STRETCH // 5)

    def key_of(self, job: int) -> Key | None:
        """The place of a job; None when the query does not show it."""
        row = self._db.execute(
            "SELECT status, id, priority, created_at, coalesce(completed_at, 0) FROM job"
            f" WHERE id = :job AND {self._query.visible}{self._tried.sql}",
            {**self._tried.values, "job": job},
        ).first()
        if row is None or (self._query.statuses and row[0] not in self._query.statuses):
            return None
        return key_of(self._query.sort, JobStatus(row[0]), *row[1:])

    def read(self, key: Key | None, *, backwards: bool, limit: int, until: float) -> Found:
        """At most `limit` jobs behind a place; from the end that lies behind without one.

        Args:
            until: when to stop, by `time.monotonic()`; looked at after each stretch.
        """
        found: list[Entry] = []
        while True:
            stretch = self._stretch(key, backwards, limit - len(found))
            found += stretch.entries
            if len(found) >= limit:
                return Found(found)
            if stretch.stop is None or time.monotonic() >= until:
                return Found(found, stretch.stop)
            key = stretch.stop

    def _stretch(self, key: Key | None, backwards: bool, limit: int) -> Found:
        """What is found among the next rows. Fewer than `limit` without a stop are the last ones."""
        raise NotImplementedError


class QueueOrder(Walk):
    """Lane after lane."""

    def _stretch(self, key: Key | None, backwards: bool, limit: int) -> Found:
        found: list[Entry] = []
        for lane in lanes_from(self._query.statuses, key, backwards):
            for part in lane.ranges(key, backwards):
                found += self._select(lane, part, limit - len(found))
                if len(found) >= limit:
                    return Found(found)
                if self._tried.sql and (last := self._last(lane, part)) is not None:
                    return Found(found, last)
        return Found(found)

    def _select(self, lane: Lane, part: Range, limit: int) -> list[Entry]:
        values = {**part.values, "limit": limit}
        if self._tried.sql:
            columns = ", video_id, batch" if self._query.batch is not None else ", video_id"
            rows = f"{self._read(lane, part, columns)} LIMIT :rows"
            statement = f"SELECT id, p, c, e FROM ({rows}) AS job WHERE TRUE{self._tried.sql} LIMIT :limit"
            values |= {**self._tried.values, "rows": self._rows}
        else:
            statement = f"{self._read(lane, part)} LIMIT :limit"
        return [Entry(lane.key(*row), row[0]) for row in self._db.execute(statement, values)]

    def _last(self, lane: Lane, part: Range) -> Key | None:
        """The last row of a stretch, whether it was found or not; None when the range ends before."""
        statement = f"{self._read(lane, part)} LIMIT 1 OFFSET :before"
        row = self._db.execute(statement, {**part.values, "before": self._rows - 1}).first()
        return None if row is None else lane.key(*row)

    def _read(self, lane: Lane, part: Range, columns: str = "") -> str:
        return (
            f"SELECT {lane.COLUMNS}{columns} FROM job INDEXED BY {self._query.indexes}_{lane.INDEX}"
            f" WHERE status = '{lane.status.value}' AND {self._query.visible}{part.where}"
            f" ORDER BY {part.order}"
        )


class ByAge(Walk):
    """All statuses together, in the order of their ids."""

    def __init__(self, db: Connection, query: PageQuery, tried: Condition) -> None:
        statuses = [f"'{status.value}'" for status in query.statuses or QUEUE_ORDER]
        wanted = f"status IN ({', '.join(statuses)}) AND {query.visible}"
        if query.batch is None:
            index = f"job INDEXED BY {query.indexes}_status WHERE"
            self._lanes = [f"{index} status = {status} AND {query.visible}" for status in statuses]
            self._all = f"{index} {wanted}"
        else:
            # A batch has an index of its own, which knows no status.
            self._all = "job INDEXED BY ix_job_batch WHERE batch = :batch"
            self._lanes = [self._all]
            tried = Condition(f" AND {wanted}") & tried
        super().__init__(db, query, tried)

    def _stretch(self, key: Key | None, backwards: bool, limit: int) -> Found:
        sign = -1 if self._query.sort == "newest" else 1
        upwards = (sign > 0) != backwards
        order, beyond, within = ("id", ">", "<=") if upwards else ("id DESC", "<", ">=")
        where, values = "", dict(self._tried.values)
        if key is not None:
            where, values["from"] = f" AND id {beyond} :from", sign * key[0]
        stop = self._stop(where, values, upwards, self._rows if self._tried.sql else limit)
        if stop is not None:
            where, values["stop"] = f"{where} AND id {within} :stop", stop
        rows = self._db.execute(
            f"SELECT id FROM {self._all}{where}{self._tried.sql} ORDER BY {order} LIMIT :limit",
            {**values, "limit": limit},
        )
        found = [Entry((sign * row[0],), row[0]) for row in rows]
        return Found(found, None if stop is None else (sign * stop,))

    def _stop(self, where: str, values: Mapping[str, Any], upwards: bool, rows: int) -> int | None:
        """The nearest job at which some lane has had so many rows; None when all of them end before."""
        pick, order = ("min", "id") if upwards else ("max", "id DESC")
        each = (
            f"SELECT id FROM (SELECT id FROM {lane}{where} ORDER BY {order} LIMIT 1 OFFSET :before)"
            for lane in self._lanes
        )
        statement = f"SELECT {pick}(id) FROM ({' UNION ALL '.join(each)})"
        found: int | None = self._db.execute(statement, {**values, "before": rows - 1}).scalar()
        return found
