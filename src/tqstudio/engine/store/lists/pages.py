"""Reads pages of job ids by keyset pagination."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.tables import job_count
from tqstudio.engine.store.lists.matching import matching
from tqstudio.engine.store.lists.orders import JOB, Key, PageQuery, sections
from tqstudio.lifecycle import QUEUE_ORDER, JobStatus

COUNTED = 20_000
"""Deleted jobs are counted up to this number."""


@dataclass(frozen=True, slots=True)
class Page:
    """Job ids in order, and cursors for the previous and next page; None if there is none."""

    ids: list[int]
    before: str | None
    after: str | None
    total: int | None
    """Ids on all pages together; None if counting them would need a scan."""


def page(
    db: Connection,
    query: PageQuery,
    *,
    limit: int,
    after: str | None = None,
    before: str | None = None,
    around: int | None = None,
) -> Page:
    """Returns a page of at most `limit` ids: after or before a cursor, around a job, or the first one.

    `after="start"` and `before="end"` name the two ends.

    Raises:
        ValueError: the cursor belongs to another order.
    """
    jobs = matching(db, query)
    if around is not None and (middle := jobs.key_of(around)) is not None:
        half = limit // 2
        above = jobs.read(middle, backwards=True, limit=half + 1)
        room = limit - 1 - min(half, len(above))
        below = jobs.read(middle, backwards=False, limit=room + 1)
        keys = [*reversed(above[:half]), middle, *below[:room]]
        more_above, more_below = len(above) > half, len(below) > room
    elif before is not None:
        start = None if before == "end" else _decode(before, query.sort)
        above = jobs.read(start, backwards=True, limit=limit + 1)
        keys = [*reversed(above[:limit])]
        more_above, more_below = len(above) > limit, start is not None
    else:
        start = None if after in (None, "start") else _decode(str(after), query.sort)
        below = jobs.read(start, backwards=False, limit=limit + 1)
        keys = [*below[:limit]]
        more_above, more_below = start is not None, len(below) > limit
    total = jobs.total
    if total is None:
        total = _total(db, query) if more_above or more_below else len(keys)
    return Page(
        [abs(key[-1]) for key in keys],
        (_encode(keys[0], query.sort) if keys else "end") if more_above else None,
        (_encode(keys[-1], query.sort) if keys else "start") if more_below else None,
        total,
    )


def _encode(key: Key, sort: str) -> str:
    return base64.urlsafe_b64encode(json.dumps((sort, *key)).encode()).decode()


def _decode(cursor: str, sort: str) -> Key:
    found = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    if not isinstance(found, list) or found[:1] != [sort]:
        raise ValueError("no cursor of this order")
    key = tuple(found[1:])
    if not any(section.has(key) for section in sections(sort)):
        raise ValueError("a cursor of another order")
    if any(type(part) is int and abs(part) >= 2**63 for part in key):
        raise ValueError("not a cursor")
    return key


def _total(db: Connection, query: PageQuery) -> int | None:
    if query.filtered:
        return None
    statuses = query.filter.statuses
    return _count_deleted(db, statuses) if query.filter.deleted else count(db, statuses)


def _count_deleted(db: Connection, statuses: Sequence[JobStatus]) -> int | None:
    deleted = select(JOB.id).where(JOB.deleted_at.is_not(None), JOB.status.in_(statuses))
    found = db.execute(select(func.count()).select_from(deleted.limit(COUNTED + 1).subquery())).scalar_one()
    return found if found <= COUNTED else None


def count(db: Connection, statuses: Sequence[JobStatus]) -> int:
    """Counts jobs with these statuses (all if empty), from the counts kept by triggers."""
    counts = counts_by_status(db)
    return sum(counts[status.value] for status in (statuses or tuple(JobStatus)))


def counts_by_status(db: Connection) -> dict[str, int]:
    found = {row.status: row.n for row in db.execute(select(job_count))}
    return {status.value: found.get(status.value, 0) for status in QUEUE_ORDER}
