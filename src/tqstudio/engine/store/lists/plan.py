"""Chooses how the jobs of a list are found: sorted here when an index says they are few, else by a walk."""

from __future__ import annotations

from typing import Protocol

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.lists import name_filter
from tqstudio.engine.store.lists.name_filter import Condition
from tqstudio.engine.store.lists.orders import Key, PageQuery, key_of
from tqstudio.engine.store.lists.scan import ByAge, Entry, Found, QueueOrder
from tqstudio.lifecycle import JobStatus

FEW = 1_000
"""Up to so many jobs are fetched and sorted: scattered rows cost 10 µs each."""


class Matching(Protocol):
    """The jobs of a query, in order."""

    @property
    def total(self) -> int | None:
        """How many there are, where that is known without counting."""

    def key_of(self, job: int) -> Key | None:
        """The place of a job; None when the query does not show it."""

    def read(self, key: Key | None, *, backwards: bool, limit: int, until: float) -> Found:
        """At most `limit` jobs behind a place; from the end that lies behind without one.

        Args:
            until: by `time.monotonic()`, when a search stops.
        """


def source(db: Connection, query: PageQuery) -> Matching:
    """The quickest way to the jobs of a query."""
    tried = _tried(query)
    if query.video is not None:
        return _Few(db, query, tried, "ix_job_video")
    if query.batch is not None and _in_batch(db, query.batch) <= FEW:
        return _Few(db, query, tried, "ix_job_batch")
    narrowed = name_filter.narrowed(db, query.text, FEW)
    if narrowed is not None:
        return _Few(db, query, narrowed & tried, "ix_job_video")
    return (QueueOrder if query.sort == "order" else ByAge)(db, query, tried)


def _tried(query: PageQuery) -> Condition:
    """What is tried on each row, besides its status."""
    tried = Condition()
    if query.video is not None:
        tried &= Condition(" AND job.video_id = :video", {"video": query.video})
    if query.batch is not None:
        tried &= Condition(" AND job.batch = :batch", {"batch": query.batch})
    if query.folder is not None:
        dropped = "SELECT 1 FROM video v WHERE v.id = job.video_id AND v.folder_id = :folder"
        tried &= Condition(f" AND EXISTS ({dropped})", {"folder": query.folder})
    return tried & name_filter.contains(query.text)


def _in_batch(db: Connection, batch: str) -> int:
    """Jobs of a batch, counted a little beyond `FEW`."""
    counted = "SELECT count(*) FROM (SELECT 1 FROM job WHERE batch = :batch LIMIT :most)"
    return int(db.execute(counted, {"batch": batch, "most": FEW + 1}).scalar_one())


class _Few:
    """A few jobs, sorted here."""

    def __init__(self, db: Connection, query: PageQuery, tried: Condition, index: str) -> None:
        rows = db.execute(
            "SELECT id, priority, created_at, coalesce(completed_at, 0), status"
            f" FROM job INDEXED BY {index} WHERE {query.visible}{tried.sql}",
            tried.values,
        )
        entries = (
            Entry(key_of(query.sort, JobStatus(status), *row), row[0])
            for *row, status in rows
            if not query.statuses or status in query.statuses
        )
        self._entries = sorted(entries)

    def key_of(self, job: int) -> Key | None:
        return next((entry.key for entry in self._entries if entry.id == job), None)

    def read(self, key: Key | None, *, backwards: bool, limit: int, until: float) -> Found:  # noqa: ARG002
        if backwards:
            found = [entry for entry in reversed(self._entries) if key is None or entry.key < key]
        else:
            found = [entry for entry in self._entries if key is None or entry.key > key]
        return Found(found[:limit])

    @property
    def total(self) -> int:
        return len(self._entries)
