"""Stores which generations are copied to a bucket, and which of those copies are removed.

| state | what is in the bucket | what is next, at `next_at` |
|---|---|---|
| waiting | nothing, or the first files | the others are uploaded, the master playlist last |
| delivered | the whole ladder, named by the master playlist | nothing, until it is replaced or deleted |
| unpublishing | the ladder of a deleted video | its master playlist is removed |
| removing | what players may still read for a while | its files are removed, then the row |
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, bindparam, case, delete, func, insert, or_, select, update

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import Rows
from tqstudio.engine.store.db.tables import delivery, generation, video
from tqstudio.errors import MAX_ERROR_TEXT, TqError
from tqstudio.events import EventKind
from tqstudio.lifecycle import DeliveryState

_NO_PROBLEM = {"tries": 0, "code": None, "error": None, "hint": None}
_NOW = 0
"""As `next_at`: due at once, also by the slower clock of another leader."""
_REPORTED_TRY = 3
"""A failure that so many tries in a row have had is recorded as an event."""


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """The copy of a generation in a bucket."""

    id: int
    video: int
    number: int
    job: int | None
    url: str
    state: DeliveryState
    files: int
    files_done: int
    tries: int
    code: str | None
    error: str | None
    hint: str | None
    next_at: int | None
    delivered_at: int | None
    evicted_at: int | None


_ROWS = Rows(DeliveryRow, delivery, video="video_id", job="job_id")
_SELECT = select(*_ROWS.columns)
_WAITING = delivery.c.state == DeliveryState.WAITING


def begin(db: Connection, video_id: int, generation: int, url: str, *, job: int | None) -> None:
    """Records that a generation is to be uploaded, instead of earlier ones that are not yet."""
    earlier = update(delivery).where(delivery.c.video_id == video_id, _WAITING)
    # One that was to be uploaded again is in the bucket, named by the master playlist.
    there = earlier.where(delivery.c.delivered_at.is_not(None))
    db.execute(there.values(_NO_PROBLEM | {"state": DeliveryState.DELIVERED, "next_at": None}))
    db.execute(earlier.values(_NO_PROBLEM | {"state": DeliveryState.REMOVING, "next_at": None}))
    db.execute(delete(delivery).where(delivery.c.video_id == video_id, delivery.c.number == generation))
    values = {"video_id": video_id, "number": generation, "job_id": job, "url": url, "next_at": _NOW}
    db.execute(insert(delivery), values | {"state": DeliveryState.WAITING})


# One that has failed waits for those that have not: a thousand of a bucket that is down would delay the
# others for hours. Removals, which are short, come before uploads: 'removing' < 'waiting'.
_ORDER = (delivery.c.tries, delivery.c.state, delivery.c.next_at, delivery.c.id)
_OLD = or_(delivery.c.state != DeliveryState.REMOVING, delivery.c.next_at <= bindparam("old"))
_RETRIED_BEYOND = and_(delivery.c.tries > 0, delivery.c.next_at > bindparam("longest"))
_DUE = (
    _SELECT.where(
        delivery.c.next_at.is_not(None),
        or_(and_(delivery.c.next_at <= bindparam("now"), _OLD), _RETRIED_BEYOND),
    )
    .order_by(*_ORDER)
    .limit(1)
)
_NEXT_AT = (
    select(delivery.c.next_at).where(delivery.c.next_at.is_not(None)).order_by(delivery.c.next_at).limit(1)
)


def due(db: Connection, *, now: int, old: int, longest_us: int) -> DeliveryRow | None:
    """Returns what is to be uploaded or removed next.

    Args:
        old: what was to be removed at this time may be, see `Ages`.
        longest_us: a retry that is further away was set before the wall clock was set back.
    """
    return _ROWS.first(db.execute(_DUE, {"now": now, "old": old, "longest": now + longest_us}))


def next_at(db: Connection) -> int | None:
    """Returns when something is to be uploaded or removed; None if never."""
    found: int | None = db.execute(_NEXT_AT).scalar()
    return found


def of_video(db: Connection, video_id: int) -> DeliveryRow | None:
    """Returns the newest copy of a video's ladder."""
    newest = _SELECT.where(delivery.c.video_id == video_id).order_by(delivery.c.number.desc()).limit(1)
    return _ROWS.first(db.execute(newest))


def is_replaced(db: Connection, row: DeliveryRow) -> bool:
    """Whether the master playlist in the bucket names a newer generation."""
    newer = (delivery.c.video_id == row.video, delivery.c.number > row.number, delivery.c.url == row.url)
    # One that is uploaded again has kept the time of its first delivery.
    there = (delivery.c.state == DeliveryState.DELIVERED) | (_WAITING & delivery.c.delivered_at.is_not(None))
    found = select(delivery.c.id).where(*newer, there)
    return db.execute(found.limit(1)).first() is not None


def other_video_at_url(db: Connection, row: DeliveryRow) -> int | None:
    """Returns the other video whose ladder is at the same address, and has to be removed there first."""
    first = select(delivery.c.video_id).where(delivery.c.url == row.url).order_by(delivery.c.id).limit(1)
    found: int | None = db.execute(first).scalar()
    return None if found == row.video else found


def remove_now(db: Connection, row: DeliveryRow) -> None:
    """Has hidden ladders of other videos at this URL removed now: they can no longer be restored."""
    others = (delivery.c.url == row.url, delivery.c.video_id != row.video, delivery.c.tries == 0)
    hidden = update(delivery).where(*others, delivery.c.state == DeliveryState.REMOVING)
    db.execute(hidden.values(next_at=_NOW))


def _is(row: DeliveryRow) -> tuple[ColumnElement[bool], ...]:
    """The condition that nothing else was decided since a row was read."""
    return delivery.c.id == row.id, delivery.c.state == row.state


def advance(db: Connection, row: DeliveryRow, *, files: int, done: int) -> bool:
    """Stores how many files are in the bucket; False if the ladder is not wanted there any more."""
    return bool(db.execute(update(delivery).where(*_is(row)).values(files=files, files_done=done)).rowcount)


def delivered(db: Connection, row: DeliveryRow, *, now: int, remove_at: int, is_evicted: bool) -> bool:
    """Records that a ladder is in its bucket; False if it is not wanted there any more.

    Args:
        remove_at: when the generations that it replaces there are removed.
        is_evicted: its segments are in the bucket alone.
    """
    values = {"state": DeliveryState.DELIVERED, "delivered_at": now, "next_at": None}
    values |= {"evicted_at": now} if is_evicted else {}
    done = update(delivery).where(*_is(row)).values(values | _NO_PROBLEM)
    if not db.execute(done).rowcount:
        return False
    # Those that were replaced before keep their time.
    others = (delivery.c.video_id == row.video, delivery.c.number < row.number, delivery.c.next_at.is_(None))
    removing = {"state": DeliveryState.REMOVING, "next_at": remove_at}
    db.execute(update(delivery).where(*others).values(_NO_PROBLEM | removing))
    _report(db, EventKind.DELIVERED, row, now=now, detail=f"generation {row.number} is at {row.url}")
    return True


def failed(db: Connection, row: DeliveryRow, error: TqError, *, now: int, next_at: int) -> None:
    """Records why an upload or a removal failed, and when it is tried again."""
    tries, text = row.tries + 1, error.message[:MAX_ERROR_TEXT]
    values = {"tries": tries, "code": error.code.value, "error": text, "hint": error.hint, "next_at": next_at}
    if db.execute(update(delivery).where(*_is(row)).values(values)).rowcount and tries == _REPORTED_TRY:
        _report(db, EventKind.DELIVERY_FAILED, row, now=now, code=error.code, detail=text)


def removed(db: Connection, row: DeliveryRow, *, now: int) -> None:
    """Records that the files of a generation are no longer in the bucket."""
    if db.execute(delete(delivery).where(*_is(row))).rowcount:
        detail = f"generation {row.number} at {row.url}"
        _report(db, EventKind.DELIVERY_REMOVED, row, now=now, detail=detail)


def unpublish(db: Connection, video_id: int) -> None:
    """Records that the ladder of a deleted video is to be hidden in the bucket now."""
    of_video = update(delivery).where(delivery.c.video_id == video_id)
    db.execute(of_video.values(_NO_PROBLEM | {"state": DeliveryState.UNPUBLISHING, "next_at": _NOW}))


def record_unpublished(db: Connection, row: DeliveryRow, *, remove_at: int) -> None:
    """Records that no master playlist names a generation, whose files are removed at a time."""
    removing = {"state": DeliveryState.REMOVING, "next_at": remove_at}
    db.execute(update(delivery).where(*_is(row)).values(_NO_PROBLEM | removing))


def restore(db: Connection, video_id: int, url: str) -> None:
    """Records that the current generation of a video that is brought back is to be uploaded.

    If all its files are in the bucket still, only its master playlist is.
    """
    current = (
        select(generation.c.number)
        .join_from(video, generation, generation.c.id == video.c.generation_id)
        .where(video.c.id == video_id)
    )
    published = db.execute(current).scalar()
    whole = (delivery.c.video_id == video_id, delivery.c.number == published, delivery.c.url == url)
    there = update(delivery).where(*whole, delivery.c.files_done == delivery.c.files)
    waiting = _NO_PROBLEM | {"state": DeliveryState.WAITING, "next_at": _NOW}
    if published is not None and not db.execute(there.values(waiting)).rowcount:
        begin(db, video_id, published, url, job=None)


def requeue(db: Connection, video_id: int) -> bool:
    """Records that the newest copy of a video's ladder is to be uploaded now; all of it, if it was delivered.

    Returns False if there is none, it is being removed, or its segments are in the bucket alone.
    """
    newest = select(func.max(delivery.c.number)).where(delivery.c.video_id == video_id).scalar_subquery()
    row = (delivery.c.video_id == video_id, delivery.c.number == newest, delivery.c.evicted_at.is_(None))
    again = _NO_PROBLEM | {"state": DeliveryState.WAITING, "next_at": _NOW}
    whole = update(delivery).where(*row, delivery.c.state == DeliveryState.DELIVERED)
    if db.execute(whole.values(again | {"files_done": 0})).rowcount:
        return True
    return bool(db.execute(update(delivery).where(*row, _WAITING).values(again)).rowcount)


def unfinished(db: Connection) -> tuple[int, DeliveryRow | None]:
    """Returns how many copies wait to be uploaded or removed, and of them the one that failed most often."""
    waits = delivery.c.next_at.is_not(None)
    count = int(db.execute(select(func.count()).where(waits)).scalar_one())
    worst = _SELECT.where(waits, delivery.c.tries > 0).order_by(delivery.c.tries.desc()).limit(1)
    return count, _ROWS.first(db.execute(worst))


def waiting_and_failing(db: Connection) -> tuple[int, int]:
    """Returns how many ladders wait for their first upload, and how many copies have failed last."""
    never, failing = _WAITING & (delivery.c.tries == 0), delivery.c.tries > 0
    counted = select(func.count(case((never, 1))), func.count(case((failing, 1))))
    waiting, failed = db.execute(counted.where(delivery.c.next_at.is_not(None))).one()
    return waiting, failed


def are_uploaded(db: Connection) -> bool:
    """Whether ladders are being uploaded, other than those that have failed again and again."""
    waits = (delivery.c.next_at.is_not(None), _WAITING)
    found = select(delivery.c.id).where(*waits, delivery.c.tries < _REPORTED_TRY)
    return db.execute(found.limit(1)).first() is not None


def _report(
    db: Connection, kind: EventKind, row: DeliveryRow, *, now: int, detail: str, code: str | None = None
) -> None:
    of_job, of_video = row.job, row.video
    events.append(db, kind, now=now, actor="supervisor", job=of_job, video=of_video, code=code, detail=detail)
