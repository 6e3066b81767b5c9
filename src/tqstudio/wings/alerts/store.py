"""Stores alerts until they are delivered, and the event up to which they were made.

An alert is made in the transaction that advances the position, so each event becomes one alert per channel,
whenever the supervisor is killed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import bindparam, delete, func, insert, or_, select, update

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.db.tables import alert, alert_position, event, job, video
from tqstudio.events import EventKind


@dataclass(frozen=True, slots=True)
class NewAlert:
    """An alert to be stored; see the table."""

    key: str
    kind: str
    subject: str
    payload: str


@dataclass(frozen=True, slots=True)
class AlertRow:
    """A stored alert; times are µs since 1970 in UTC."""

    id: int
    channel: str
    key: str
    kind: str
    payload: str
    suppressed: int
    due_at: int
    next_at: int | None
    """When it is tried next; None once it was sent or given up."""
    tries: int
    error: str | None
    sent_at: int | None


@dataclass(frozen=True, slots=True)
class Unread:
    """Events after the position."""

    events: list[EventRow]
    through: int
    """The position after them."""
    lag: int
    """How far that is from the present one."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What alerts say about a job and its video."""

    job: int
    video: int
    name: str
    source: bytes
    output_root: bytes
    slug: str
    hint: str | None


# The position in the event history


def position(db: Connection) -> int | None:
    """Returns the last event that alerts were made of; None while alerts are off."""
    seq: int | None = db.execute(select(alert_position.c.seq)).scalar()
    return seq


def move_position(db: Connection, seq: int | None) -> None:
    """Sets the position; None for alerts that are off."""
    db.execute(delete(alert_position))
    if seq is not None:
        db.execute(insert(alert_position), {"seq": seq})


def unread(db: Connection, kinds: Iterable[EventKind], *, limit: int) -> Unread:
    """Returns the oldest events of these kinds after the position; none while alerts are off."""
    begun = position(db)
    last = db.execute(select(func.coalesce(func.max(event.c.seq), 0))).scalar_one()
    if begun is None:
        return Unread([], last, 0)
    wanted = (event.c.seq > begun, event.c.trigger.in_([kind.value for kind in kinds]))
    rows = db.execute(select(event).where(*wanted).order_by(event.c.seq).limit(limit))
    found = [EventRow(*row) for row in rows]
    through = found[-1].seq if len(found) == limit else last
    return Unread(found, through, through - begun)


_SUBJECT = select(
    job.c.id,
    *(video.c.id, video.c.name, video.c.source, video.c.output_root, video.c.slug),
    job.c.error_hint,
).join_from(job, video)


def subject_of(db: Connection, number: int) -> Subject | None:
    """Returns what is said about a job; None if it was removed."""
    row = db.execute(_SUBJECT.where(job.c.id == number)).first()
    return None if row is None else Subject(*row)


def times_failed(db: Connection, video_id: int, *, through: int) -> int:
    """Counts how often a video failed for good since it was last done, up to an event."""
    of_video = select(func.count()).join_from(event, job, event.c.job_id == job.c.id)
    of_video = of_video.where(job.c.video_id == video_id)
    done = of_video.with_only_columns(func.max(event.c.seq)).where(event.c.trigger == EventKind.COMPLETE)
    since = db.execute(done.where(event.c.seq <= through)).scalar() or 0
    failed = of_video.where(event.c.trigger == EventKind.FAIL_FINAL)
    count: int = db.execute(failed.where(event.c.seq > since, event.c.seq <= through)).scalar_one()
    return count


# Alerts


_COLUMNS = (
    *alert.c["id", "channel", "key", "kind", "payload", "suppressed"],
    *alert.c["due_at", "next_at", "tries", "error", "sent_at"],
)
_ALERTS = select(*_COLUMNS)
_LAST_OF_SUBJECT = (
    select(*alert.c["id", "tries", "next_at", "due_at"])
    .where(
        alert.c.channel == bindparam("channel"),
        alert.c.kind == bindparam("kind"),
        alert.c.subject == bindparam("subject"),
    )
    .order_by(alert.c.id.desc())
    .limit(1)
)


def add(db: Connection, new: NewAlert, *, channel: str, now: int, cooldown_us: int) -> None:
    """Stores an alert, once for each key.

    At most one per cool-down is due for a kind and subject. Until it has been tried, a later alert replaces
    it and is counted.
    """
    known = select(alert.c.id).where(alert.c.channel == channel, alert.c.key == new.key)
    if db.execute(known).first() is not None:
        return
    group = {"channel": channel, "kind": new.kind, "subject": new.subject}
    last = db.execute(_LAST_OF_SUBJECT, group).first()
    if last is not None and not last.tries and last.next_at is not None:
        replaced = {"key": new.key, "payload": new.payload, "suppressed": alert.c.suppressed + 1}
        db.execute(update(alert).where(alert.c.id == last.id).values(replaced))
        return
    # Not later than a cool-down from now, should the clock have been set back.
    due = now if last is None else min(max(now, last.due_at + cooldown_us), now + cooldown_us)
    values = {**group, "key": new.key, "payload": new.payload, "due_at": due, "next_at": due}
    db.execute(insert(alert), values)


def known(db: Connection, keys: Iterable[str]) -> set[str]:
    """Returns those of the keys for which there is an alert."""
    return {row[0] for row in db.execute(select(alert.c.key).where(alert.c.key.in_(list(keys))))}


def next_due(db: Connection, channel: str, *, now: int, longest_us: int) -> AlertRow | None:
    """Returns the alert of a channel that has been due for longest.

    One that is due in more than `longest_us` was made before the wall clock was set back.
    """
    waits = (alert.c.channel == channel, alert.c.next_at.is_not(None))
    due = or_(alert.c.next_at <= now, alert.c.next_at > now + longest_us)
    row = db.execute(_ALERTS.where(*waits, due).order_by(alert.c.next_at, alert.c.id).limit(1)).first()
    return None if row is None else AlertRow(*row)


def begin(db: Connection, number: int, *, retry_at: int) -> AlertRow:
    """Counts a try before it is made, and returns the alert that is to be sent.

    From then on its content does not change: a receiver may already know its key.
    """
    tried = {"tries": alert.c.tries + 1, "next_at": retry_at}
    begun = update(alert).where(alert.c.id == number).values(tried).returning(*_COLUMNS)
    return AlertRow(*db.execute(begun).one())


def sent(db: Connection, number: int, *, now: int) -> None:
    """Records a delivery."""
    values = {"sent_at": now, "next_at": None, "error": None}
    db.execute(update(alert).where(alert.c.id == number).values(values))


def not_sent(db: Connection, number: int, error: str, *, next_at: int | None) -> None:
    """Records why a try failed; with `next_at` None the alert is given up."""
    values = {"error": error, "next_at": next_at}
    db.execute(update(alert).where(alert.c.id == number).values(values))


def give_up_others(db: Connection, channels: Iterable[str]) -> None:
    """Gives up the alerts that wait for any channel but these, which are the configured ones."""
    waiting = (alert.c.next_at.is_not(None), alert.c.channel.not_in(list(channels)))
    values = {"error": "its channel is not configured any more", "next_at": None}
    db.execute(update(alert).where(*waiting).values(values))


def listing(db: Connection, *, limit: int) -> list[AlertRow]:
    """Returns the newest alerts, newest first."""
    return [AlertRow(*row) for row in db.execute(_ALERTS.order_by(alert.c.id.desc()).limit(limit))]


def overdue(db: Connection, *, before: int) -> list[AlertRow]:
    """Returns, for each channel, the earliest failing alert that was due before a time."""
    failing = (alert.c.next_at.is_not(None), alert.c.error.is_not(None), alert.c.due_at < before)
    rows = db.execute(_ALERTS.where(*failing).order_by(alert.c.due_at.desc()))
    return list({row.channel: row for row in (AlertRow(*each) for each in rows)}.values())


def prune(db: Connection, *, before: int) -> None:
    """Deletes alerts that were due before a time and do not wait."""
    db.execute(delete(alert).where(alert.c.next_at.is_(None), alert.c.due_at < before))
