"""Finds the jobs of a list: sorted here if they are few, else by a scan of an index in the list's order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Executable,
    FromClause,
    Select,
    UnaryExpression,
    literal_column,
    or_,
    select,
    true,
    union_all,
)

from tqstudio.engine.host.clock import MICROSECOND
from tqstudio.engine.store.db import tables
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.dialects.expressions import indexed_by
from tqstudio.engine.store.library import folders
from tqstudio.engine.store.lists.orders import JOB, Key, PageQuery, Section, sections
from tqstudio.lifecycle import JobStatus
from tqstudio.paths import display, readable
from tqstudio.protocol.filters import Filter, FilterError, Term, seconds, size
from tqstudio.protocol.roles import TOKEN_ACTOR

FEW = 1_000
"""Up to so many videos, or jobs of a batch, are read and sorted: a scattered row costs 10 µs."""

# Of their own, because a list may be sorted by columns of a video.
_VIDEO = tables.video.alias("searched")
_OTHER = tables.job.alias("other")
_QUALITY = tables.rendition.alias("quality")
_ORIGIN = ("kind", "owner", "profile", "code", "older")
"""Words that `ix_job_origin` answers."""
_OF_VIDEO = ("folder", "larger", "longer", "text")
"""Words that `ix_video_search` answers."""


def with_folders(db: Connection, asked: Filter) -> Filter:
    """Returns the filter with the numbers of drop folders in place of their names.

    A name is the end of a folder's path, of which upper and lower case are the same.

    Raises:
        FilterError: there is no such folder.
    """
    if not (terms := asked.of("folder")):
        return asked
    rows = folders.listing(db)
    paths = {str(row.id): display(row.path) for row in rows}

    def numbers(name: str) -> list[str]:
        if name in paths:
            return [name]
        end = readable(name).lower().rstrip("/")
        found = [
            number
            for number, path in paths.items()
            if path.lower() == end or (not end.startswith("/") and path.lower().endswith(f"/{end}"))
        ]
        if not found:
            raise FilterError(f"there is no drop folder “{name}”", "see: tqstudio folder list")
        return found

    return asked.with_terms(
        "folder",
        *(Term("folder", tuple(n for v in t.values for n in numbers(v)), t.negated) for t in terms),
    )


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
    for condition in _conditions(query):
        if condition.absent:
            continue
        few = db.execute(condition.rows().limit(FEW + 1)).scalars().all()
        if len(few) <= FEW:
            return condition.key.in_(few)
    return None


@dataclass(frozen=True, slots=True)
class _Condition:
    """A condition on jobs that an index answers: it has rows of the job that pass tests, or none if absent.

    A row of a table costs ten times as much.
    """

    source: FromClause
    index: str | None
    """None for that of a primary key."""
    column: ColumnElement[int]
    """What its rows have in common with `key`."""
    key: ColumnElement[int]
    """Of the job in the list."""
    tests: Sequence[ColumnElement[bool]]
    absent: bool = False

    def rows(self) -> Select[int]:
        rows = select(self.column).where(*self.tests)
        return rows.with_hint(self.source, indexed_by(self.index), "sqlite") if self.index else rows

    def of_job(self) -> ColumnElement[bool]:
        found = self.rows().where(self.column == self.key).exists()
        return ~found if self.absent else found


def _conditions(query: PageQuery) -> Iterator[_Condition]:
    """Yields the conditions of the filter, besides states; each may be that of few jobs."""
    if query.filtered or query.by_video:
        of_state = [_is_deleted(_OTHER.c.deleted_at, query), _OTHER.c.status.in_(query.filter.statuses)]
        yield _Condition(_OTHER, f"{_orders(query)}_status", _OTHER.c.id, JOB.id, of_state)
    origin = [_test(term, query) for term in query.filter.terms if term.word in _ORIGIN]
    if origin:
        yield _Condition(_OTHER, "ix_job_origin", _OTHER.c.id, JOB.id, origin)
    for term in query.filter.terms:
        of_rows = [_any_of(term, query)]
        match term.word:
            case "batch":
                yield _Condition(_OTHER, "ix_job_batch", _OTHER.c.id, JOB.id, of_rows, term.negated)
            case "warning":
                # From the partial index even where only a part of them is asked for.
                warned = [_OTHER.c.warnings != literal_column(f"'{tables.NO_WARNINGS}'"), *of_rows]
                yield _Condition(_OTHER, "ix_job_warned", _OTHER.c.id, JOB.id, warned, term.negated)
            case "quality":
                of = _QUALITY.c
                yield _Condition(_QUALITY, None, of.job_id, JOB.id, of_rows, term.negated)
    of_video = [_test(term, query) for term in query.filter.terms if term.word in _OF_VIDEO]
    if of_video:
        yield _Condition(_VIDEO, "ix_video_search", _VIDEO.c.id, JOB.video_id, of_video)


def _test(term: Term, query: PageQuery) -> ColumnElement[bool]:
    test = _any_of(term, query)
    # Without a value it has none of those asked for.
    return test.is_not(true()) if term.negated else test


def _any_of(term: Term, query: PageQuery) -> ColumnElement[bool]:
    """Returns whether a row has one of the values of a term."""
    values = term.values
    match term.word:
        case "kind" | "profile" | "batch":
            return _OTHER.c[term.word].in_(values)
        case "owner":
            return _OTHER.c.owner.in_([*values, *(f"{TOKEN_ACTOR}{value}" for value in values)])
        case "code":
            code = _OTHER.c.error_code
            return code.is_not(None) if "any" in values else code.in_(values)
        case "older":
            return _OTHER.c.created_at < query.now - int(min(map(seconds, values)) * MICROSECOND)
        case "warning":
            codes = [_OTHER.c.warnings.contains(f'"code": "{code}"', autoescape=True) for code in values]
            return true() if "any" in values else or_(*codes)
        case "quality":
            return _QUALITY.c.name.in_(values)
        case "folder":
            return _VIDEO.c.folder_id.in_(map(int, values))
        case "larger":
            return _VIDEO.c.size > min(map(size, values))
        case "longer":
            return _VIDEO.c.length_ms > min(map(seconds, values)) * 1000
        case _:
            words = (readable(value).lower() for value in values)
            return or_(*(_VIDEO.c.name_lower.contains(word, autoescape=True) for word in words))


def _is_deleted(at: ColumnElement[int], query: PageQuery) -> ColumnElement[bool]:
    return at.is_not(None) if query.filter.deleted else at.is_(None)


def _orders(query: PageQuery) -> str:
    """Returns how the names of the indexes of orders begin."""
    return "ix_job_deleted" if query.filter.deleted else "ix_job"


def _tests(query: PageQuery) -> list[ColumnElement[bool]]:
    """Returns the conditions on a job besides its status."""
    tests = [each.of_job() for each in _conditions(query) if not (each.index or "").endswith("_status")]
    if query.video is not None:
        tests.append(JOB.video_id == query.video)
    return [_is_deleted(JOB.deleted_at, query), *tests]


class Few:
    """A few jobs, sorted here."""

    def __init__(self, db: Connection, query: PageQuery, few: ColumnElement[bool]) -> None:
        of = {each: section for section in _sections(query) for each in section.statuses}
        columns = dict.fromkeys(column for section in of.values() for column in section.columns)
        both = tables.job.join(tables.video, JOB.video_id == tables.video.c.id)
        rows = db.execute(select(JOB.status, *columns).select_from(both).where(few, *_tests(query)))
        keys = []
        for status, *values in rows:
            if (section := of.get(JobStatus(status))) is not None:
                row = dict(zip(columns, values, strict=True))
                keys.append(section.key([row[column] for column in section.columns]))
        self._keys = sorted(keys, reverse=query.descending)
        self._descending = query.descending
        self.total = len(self._keys)

    def key_of(self, job: int) -> Key | None:
        """Returns the key of a job; None if the query does not match it."""
        return next((key for key in self._keys if abs(key[-1]) == job), None)

    def read(self, key: Key | None, *, backwards: bool, limit: int) -> list[Key]:
        """Returns the keys after a key, or from the end where this direction starts."""
        keys = reversed(self._keys) if backwards else iter(self._keys)
        lower = backwards != self._descending
        return list(islice((k for k in keys if key is None or (k < key if lower else k > key)), limit))


class Scan:
    """Any number of jobs, read from the indexes of the orders. A row that does not match costs 0.6 µs."""

    total = None
    """Not known without reading all."""

    def __init__(self, db: Connection, query: PageQuery) -> None:
        self._db = db
        self._sections = _sections(query)
        self._tests = _tests(query)
        self._indexes = _orders(query)
        self._descending = query.descending

    def key_of(self, job: int) -> Key | None:
        for section in self._sections:
            both = tables.job.join(tables.video, JOB.video_id == tables.video.c.id)
            found = select(*section.columns).select_from(both)
            found = found.where(JOB.id == job, JOB.status.in_(section.statuses), *self._tests)
            if row := self._db.execute(found).first():
                return section.key(row)
        return None

    def read(self, key: Key | None, *, backwards: bool, limit: int) -> list[Key]:
        found: list[Key] = []
        up = backwards != self._descending
        for section in reversed(self._sections) if up else self._sections:
            for beyond in section.beyond(key, backwards=up):
                rows = self._rows(section, beyond, section.sorting(backwards=up), limit - len(found))
                found += map(section.key, self._db.execute(rows))
                if len(found) == limit:
                    return found
        return found

    def _rows(
        self, section: Section, beyond: ColumnElement[bool], order: list[UnaryExpression[Any]], limit: int
    ) -> Executable:
        jobs = select(*section.columns).where(beyond, *self._tests)
        if section.of_video:
            both = tables.video.join(tables.job, JOB.video_id == tables.video.c.id)
            by_video = jobs.select_from(both).where(JOB.status.in_(section.statuses))
            by_video = by_video.with_hint(tables.video, indexed_by(section.index), "sqlite")
            by_video = by_video.with_hint(tables.job, indexed_by("ix_job_video"), "sqlite")
            return by_video.order_by(*order).limit(limit)
        jobs = jobs.with_hint(tables.job, indexed_by(f"{self._indexes}_{section.index}"), "sqlite")
        # One SELECT per status, because an index is sorted within a status.
        firsts = [jobs.where(JOB.status == each).order_by(*order).limit(limit) for each in section.statuses]
        if len(firsts) == 1:
            return firsts[0]
        return union_all(*(select(each.subquery()) for each in firsts)).order_by(*order).limit(limit)


def _sections(query: PageQuery) -> list[Section]:
    return sections(query.sort, query.filter.statuses)
