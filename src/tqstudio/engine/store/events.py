"""Stores the event history: appended in the transaction of the change, read by sequence number."""

from __future__ import annotations

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.events import EventKind

MAX_DETAIL = 500


_INSERT = (
    "INSERT INTO event (at, trigger, job_id, video_id, worker, source, target, actor, code, detail)"
    " VALUES (:at, :trigger, :job, :video, :worker, :source, :target, :actor, :code, :detail)"
    " RETURNING seq"
)
_COLUMNS = "seq, at, trigger, job_id, video_id, worker, source, target, actor, code, detail"


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
        "job": job,
        "video": video,
        "worker": worker,
        "source": source,
        "target": target,
        "actor": actor,
        "code": code,
        "detail": detail,
    }
    seq = db.execute(_INSERT, values).scalar_one()
    pending = db.appended
    if pending is not None:
        pending.append(EventRow(seq, now, kind, job, video, worker, source, target, actor, code, detail))


def after(
    db: Connection, seq: int, *, limit: int, job: int | None = None, since: int | None = None
) -> list[EventRow]:
    """Returns the events after `seq` (and not before `since`), oldest first."""
    where, values = ["seq > :seq"], {"seq": seq, "limit": limit, "job": job, "since": since}
    if job is not None:
        where.append("job_id = :job")
    if since is not None:
        where.append("at >= :since")
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM event WHERE {' AND '.join(where)} ORDER BY seq LIMIT :limit", values
    )
    return [EventRow(*row) for row in rows]


def newest(
    db: Connection, *, limit: int, job: int | None = None, before: int | None = None
) -> list[EventRow]:
    """Returns the last events, or the last before a sequence number, newest first."""
    where = []
    if job is not None:
        where.append("job_id = :job")
    if before is not None:
        where.append("seq < :before")
    those = f"WHERE {' AND '.join(where)}" if where else ""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM event {those} ORDER BY seq DESC LIMIT :limit",
        {"job": job, "before": before, "limit": limit},
    )
    return [EventRow(*row) for row in rows]


def bounds(db: Connection) -> tuple[int, int]:
    """Returns the first and last stored sequence number; (0, 0) for an empty history."""
    # Two lookups: min and max in one SELECT would scan the whole table.
    row = db.execute(
        "SELECT coalesce((SELECT min(seq) FROM event), 0), coalesce((SELECT max(seq) FROM event), 0)"
    ).one()
    return int(row[0]), int(row[1])


def forget(db: Connection, *, through: int, limit: int) -> int:
    """Deletes up to `limit` of the oldest events, none later than `through`; returns how many."""
    return db.execute(
        "DELETE FROM event WHERE seq IN"
        " (SELECT seq FROM event WHERE seq <= :through ORDER BY seq LIMIT :limit)",
        {"through": through, "limit": limit},
    ).rowcount


def prune(db: Connection, *, before: int, now: int, limit: int = 10_000) -> int:
    """Deletes up to `limit` events older than `before`; one `pruned` event records how many.

    Older `pruned` events are deleted too, because the history would look complete from such an event on.
    """
    values = {"before": before, "limit": limit}
    due = db.execute(
        f"SELECT 1 FROM event WHERE at < :before AND trigger <> '{EventKind.PRUNED}' LIMIT 1", values
    )
    if due.first() is None:
        return 0
    removed = db.execute(
        "DELETE FROM event WHERE seq IN (SELECT seq FROM event WHERE at < :before ORDER BY seq LIMIT :limit)",
        values,
    ).rowcount
    append(
        db, EventKind.PRUNED, now=now, actor="retention", detail=f"{removed} events older than the retention"
    )
    return removed
