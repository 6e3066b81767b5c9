"""Finds the jobs of a list: sorted here if they are few, else by a scan of an index in the list's order."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import ColumnElement, Executable, FromClause, literal_column, select, union_all

from tqstudio.engine.store.db import tables
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.dialects.expressions import indexed_by
from tqstudio.engine.store.lists.orders import JOB, Key, PageQuery, sections
from tqstudio.lifecycle import JobStatus
from tqstudio.paths import readable
from tqstudio.protocol.roles import TOKEN_ACTOR

FEW = 1_000
"""Up to so many videos, or jobs of a batch, are read and sorted: a scattered row costs 10 µs."""

_VIDEO = tables.video
_OTHER = tables.job.alias("other")


def matching(db: Connection, query: PageQuery) -> Few | Scan:
    """Returns the jobs of a query, found in the quickest way."""
    few = _few(db, query)
    return Scan(db, query) if few is None else Few(db, query, few)


def _few(db: Connection, query: PageQuery) -> ColumnElement[bool] | None:
    """Returns a condition of few jobs that include all matches; None if there is none.

    Names are read from an index in the order of their ids, at 0.1 µs each, until there are more than `FEW`.
    """
    if query.video is not None:
        return JOB.video_id == query.video
    for index, tests in _indexed_tests(query, tables.job):
        jobs = select(JOB.id).with_hint(tables.job, indexed_by(index), "sqlite").where(*tests)
        few = db.execute(jobs.limit(FEW + 1)).scalars().all()
        if len(few) <= FEW:
            return JOB.id.in_(few)
    if tests := _video_tests(query):
        videos = db.execute(select(_VIDEO.c.id).where(*tests).limit(FEW + 1)).scalars().all()
        if len(videos) <= FEW:
            return JOB.video_id.in_(videos)
    return None


def _video_tests(query: PageQuery) -> list[ColumnElement[bool]]:
    """Returns the conditions on a job's video, all answered by `ix_video_search`."""
    words = dict.fromkeys(readable(word).lower() for word in query.text.split())
    tests = [_VIDEO.c.name_lower.contains(word, autoescape=True) for word in words]
    return tests if query.folder is None else [_VIDEO.c.folder_id == query.folder, *tests]


def _indexed_tests(query: PageQuery, of: FromClause) -> Iterator[tuple[str, list[ColumnElement[bool]]]]:
    """Yields conditions on a job, by the index that finds what they are about."""
    if query.batch is not None:
        yield "ix_job_batch", [of.c.batch == query.batch]
    origin = [] if query.kind is None else [of.c.kind == query.kind]
    if query.owner is not None:
        origin.append(of.c.owner.in_((query.owner, f"{TOKEN_ACTOR}{query.owner}")))
    if origin:
        yield "ix_job_origin", origin
    if query.warning is not None:
        warned = [of.c.warnings != literal_column(f"'{tables.NO_WARNINGS}'")]
        if query.warning.lower() != "any":
            begins = f'"code": "{query.warning.upper()}'
            warned.append(of.c.warnings.contains(begins, autoescape=True))
        yield "ix_job_warned", warned


def _job_tests(query: PageQuery) -> list[ColumnElement[bool]]:
    """Returns the conditions on a job besides its status."""
    deleted = JOB.deleted_at.is_not(None) if query.deleted else JOB.deleted_at.is_(None)
    tests: list[ColumnElement[bool]] = [deleted]
    if query.video is not None:
        tests.append(JOB.video_id == query.video)
    for index, indexed in _indexed_tests(query, _OTHER):
        # From the index: a row of the table costs ten times as much.
        found = select(_OTHER.c.id).where(_OTHER.c.id == JOB.id, *indexed)
        tests.append(found.with_hint(_OTHER, indexed_by(index), "sqlite").exists())
    if of_video := _video_tests(query):
        found = select(_VIDEO.c.id).where(_VIDEO.c.id == JOB.video_id, *of_video)
        tests.append(found.with_hint(_VIDEO, indexed_by("ix_video_search"), "sqlite").exists())
    return tests


class Few:
    """A few jobs, sorted here."""

    def __init__(self, db: Connection, query: PageQuery, few: ColumnElement[bool]) -> None:
        columns = (JOB.status, JOB.id, JOB.priority, JOB.created_at, JOB.completed_at)
        rows = db.execute(select(*columns).where(few, *_job_tests(query))).mappings().all()
        of = {status: each for each in sections(query.sort, query.statuses) for status in each.statuses}
        self._keys = sorted(of[status].key(row) for row in rows if (status := JobStatus(row["status"])) in of)
        self.total = len(self._keys)

    def key_of(self, job: int) -> Key | None:
        """Returns the key of a job; None if the query does not match it."""
        return next((key for key in self._keys if abs(key[-1]) == job), None)

    def read(self, key: Key | None, *, backwards: bool, limit: int) -> list[Key]:
        """Returns the keys after a key, or from the end where this direction starts."""
        if backwards:
            return [each for each in reversed(self._keys) if key is None or each < key][:limit]
        return [each for each in self._keys if key is None or each > key][:limit]


class Scan:
    """Any number of jobs, read from the indexes of the orders. A row that does not match costs 0.6 µs."""

    total = None
    """Not known without reading all."""

    def __init__(self, db: Connection, query: PageQuery) -> None:
        self._db = db
        self._sections = sections(query.sort, query.statuses)
        self._tests = _job_tests(query)
        self._indexes = "ix_job_deleted" if query.deleted else "ix_job"

    def key_of(self, job: int) -> Key | None:
        for section in self._sections:
            found = select(*section.columns).where(
                JOB.id == job, JOB.status.in_(section.statuses), *self._tests
            )
            if row := self._db.execute(found).mappings().first():
                return section.key(row)
        return None

    def read(self, key: Key | None, *, backwards: bool, limit: int) -> list[Key]:
        found: list[Key] = []
        for section in reversed(self._sections) if backwards else self._sections:
            index = indexed_by(f"{self._indexes}_{section.index}")
            jobs = select(*section.columns).with_hint(tables.job, index, "sqlite").where(*self._tests)
            for beyond in section.beyond(key, backwards=backwards):
                # One SELECT per status, because an index is sorted within a status.
                order, more = section.sorting(backwards=backwards), limit - len(found)
                firsts = [
                    jobs.where(JOB.status == status, beyond).order_by(*order).limit(more)
                    for status in section.statuses
                ]
                rows: Executable = firsts[0]
                if len(firsts) > 1:
                    rows = (
                        union_all(*(select(each.subquery()) for each in firsts)).order_by(*order).limit(more)
                    )
                found += map(section.key, self._db.execute(rows).mappings())
                if len(found) == limit:
                    return found
        return found
