"""Reads pages of job ids by keyset pagination, at constant cost for any number of jobs."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.lists import plan
from tqstudio.engine.store.lists.orders import SORTS as SORTS
from tqstudio.engine.store.lists.orders import Key, is_key
from tqstudio.engine.store.lists.orders import PageQuery as Query
from tqstudio.engine.store.lists.plan import Matching
from tqstudio.engine.store.lists.scan import Entry, Found
from tqstudio.lifecycle import QUEUE_ORDER, JobStatus

SEARCH_S = 0.01
"""Time limit of an unindexed search per page; the page's cursors continue it."""
COUNTED = 20_000
"""Deleted jobs are counted up to this number."""


@dataclass(frozen=True, slots=True)
class Page:
    """Job ids in order, and cursors for the previous and next page; None if there is none.

    A page of a search may have fewer ids than requested, or none, although its cursor leads to more.
    """

    ids: list[int]
    before: str | None
    after: str | None
    total: int | None = 0
    """Ids on all pages together; None if counting them would need a scan."""
    searching: bool = False
    """Whether the search timed out before the page was full; its cursors continue it."""


def page(
    db: Connection,
    query: Query,
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
    source = plan.source(db, query)
    if around is not None and (place := source.key_of(around)) is not None:
        made = _around(source, Entry(place, around), limit)
    elif before is not None:
        made = _beyond(
            source, None if before == "end" else _decode(before, query.sort), limit, backwards=True
        )
    else:
        start = None if after in (None, "start") else _decode(str(after), query.sort)
        made = _beyond(source, start, limit, backwards=False)
    return replace(made, total=_total(db, query, source, made))


def _beyond(source: Matching, key: Key | None, limit: int, *, backwards: bool) -> Page:
    found = source.read(key, backwards=backwards, limit=limit + 1, until=time.monotonic() + SEARCH_S)
    entries, on = _cut(found, limit, key)
    back: str | None = None
    if key is not None and entries:
        back = _encode(entries[0].key)
    elif key is not None:
        # Nothing was found, so the cursor back starts where the search ended.
        back = _encode(found.stop) if found.stop else "start" if backwards else "end"
    ids = [entry.id for entry in entries]
    searching = len(entries) < limit and on is not None
    if backwards:
        return Page(ids[::-1], on, back, searching=searching)
    return Page(ids, back, on, searching=searching)


def _around(source: Matching, middle: Entry, limit: int) -> Page:
    began, half = time.monotonic(), limit // 2
    found = source.read(middle.key, backwards=True, limit=half + 1, until=began + SEARCH_S / 2)
    above, before = _cut(found, half, middle.key)
    room = limit - len(above) - 1
    found = source.read(middle.key, backwards=False, limit=room + 1, until=began + SEARCH_S)
    below, after = _cut(found, room, middle.key)
    ids = [entry.id for entry in (*above[::-1], middle, *below)]
    searching = bool((before and len(above) < half) or (after and len(below) < room))
    return Page(ids, before, after, searching=searching)


def _cut(found: Found, room: int, key: Key | None) -> tuple[list[Entry], str | None]:
    """Returns the entries of a page and the cursor after them; `key` is where the read started."""
    if len(found.entries) <= room:
        return found.entries, _encode(found.stop) if found.stop else None
    shown = found.entries[:room]
    last = shown[-1].key if shown else key
    return shown, _encode(last) if last else None


def _encode(key: Key) -> str:
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode()


def _decode(cursor: str, sort: str) -> Key:
    key = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    if not isinstance(key, list) or not all(type(part) is int and abs(part) < 2**63 for part in key):
        raise ValueError("not a cursor")
    if not is_key(sort, tuple(key)):
        raise ValueError("a cursor of another order")
    return tuple(key)


def _total(db: Connection, query: Query, source: Matching, page: Page) -> int | None:
    if source.total is not None:
        return source.total
    if page.before is None and page.after is None:
        return len(page.ids)
    if query.text.strip() or query.batch is not None or query.folder is not None:
        return None
    return _count_deleted(db, query.statuses) if query.deleted else count(db, query.statuses)


def _count_deleted(db: Connection, statuses: Sequence[JobStatus]) -> int | None:
    listed = ", ".join(f"'{status.value}'" for status in statuses or JobStatus)
    counted = (
        "SELECT count(*) FROM (SELECT 1 FROM job INDEXED BY ix_job_deleted_status"
        f" WHERE deleted_at IS NOT NULL AND status IN ({listed}) LIMIT :most)"
    )
    found = int(db.execute(counted, {"most": COUNTED + 1}).scalar_one())
    return found if found <= COUNTED else None


def count(db: Connection, statuses: Sequence[JobStatus]) -> int:
    """Counts jobs with these statuses (all if empty), from the counts kept by triggers."""
    counts = counts_by_status(db)
    return sum(counts[status.value] for status in (statuses or tuple(JobStatus)))


def counts_by_status(db: Connection) -> dict[str, int]:
    found = {row[0]: int(row[1]) for row in db.execute("SELECT status, n FROM job_count")}
    return {status.value: found.get(status.value, 0) for status in QUEUE_ORDER}
