"""Stores the event history: appended in the transaction of the change, read by sequence number."""

from __future__ import annotations

from sqlalchemy import ColumnElement, delete, func, insert, literal_column, select

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.db.tables import event
from tqstudio.engine.store.db.tables import video as video_table
from tqstudio.events import EventKind

MAX_DETAIL = 500


# As text, because SQLAlchemy does not correlate what is returned.
_OF_NEW = video_table.c.id == literal_column("event.video_id")
# The name too, as the event is sent without being read again.
_INSERT = insert(event).returning(event.c.seq, select(video_table.c.name).where(_OF_NEW).scalar_subquery())
_SELECT = select(event, video_table.c.name).outerjoin_from(
    event, video_table, video_table.c.id == event.c.video_id
)


def append(
    db: Connection,
    kind: EventKind,
    *,
    now: int,
    actor: str,
    job: int | None = None,
    video: int | None = None,
    worker: str | None = None,
    source: str | None = None,
    target: str | None = None,
    code: str | None = None,
    detail: str | None = None,
) -> None:
    """Appends an event; it is pushed to watchers after the commit."""
    if detail is not None and len(detail) > MAX_DETAIL:
        detail = detail[: MAX_DETAIL - 1] + "…"
    values = {
        "at": now,
        "trigger": kind,
        "job_id": job,
        "video_id": video,
        "worker": worker,
        "source": source,
        "target": target,
        "actor": actor,
        "code": code,
        "detail": detail,
    }
    seq, name = db.execute(_INSERT, values).one()
    pending = db.appended
    if pending is not None:
        row = EventRow(seq, now, kind, job, video, worker, source, target, actor, code, detail, name)
        pending.append(row)


def after(
    db: Connection, seq: int, *, limit: int, job: int | None = None, since: int | None = None
) -> list[EventRow]:
    """Returns the events after `seq` (and not before `since`), oldest first."""
    found = _SELECT.where(event.c.seq > seq).order_by(event.c.seq).limit(limit)
    if job is not None:
        found = found.where(event.c.job_id == job)
    if since is not None:
        found = found.where(event.c.at >= since)
    return [EventRow(*row) for row in db.execute(found)]


def newest(
    db: Connection, *, limit: int, job: int | None = None, before: int | None = None
) -> list[EventRow]:
    """Returns the last events, or the last before a sequence number, newest first."""
    found = _SELECT.order_by(event.c.seq.desc()).limit(limit)
    if job is not None:
        found = found.where(event.c.job_id == job)
    if before is not None:
        found = found.where(event.c.seq < before)
    return [EventRow(*row) for row in db.execute(found)]


def bounds(db: Connection) -> tuple[int, int]:
    """Returns the first and last stored sequence number; (0, 0) for an empty history."""
    # Two lookups: min and max in one SELECT would scan the whole table.
    first = select(func.min(event.c.seq)).scalar_subquery()
    last = select(func.max(event.c.seq)).scalar_subquery()
    row = db.execute(select(func.coalesce(first, 0), func.coalesce(last, 0))).one()
    return int(row[0]), int(row[1])


def forget(db: Connection, *, through: int, limit: int) -> int:
    """Deletes up to `limit` of the oldest events, none later than `through`; returns how many."""
    return _delete(db, event.c.seq <= through, limit)


def prune(db: Connection, *, before: int, now: int, limit: int = 10_000) -> int:
    """Deletes up to `limit` events older than `before`; one `pruned` event records how many.

    Older `pruned` events are deleted too, because the history would look complete from such an event on.
    """
    old = event.c.at < before
    due = select(event.c.seq).where(old, event.c.trigger != EventKind.PRUNED).limit(1)
    if db.execute(due).first() is None:
        return 0
    removed = _delete(db, old, limit)
    append(
        db, EventKind.PRUNED, now=now, actor="retention", detail=f"{removed} events older than the retention"
    )
    return removed


def _delete(db: Connection, those: ColumnElement[bool], limit: int) -> int:
    oldest = select(event.c.seq).where(those).order_by(event.c.seq).limit(limit)
    return db.execute(delete(event).where(event.c.seq.in_(oldest))).rowcount
