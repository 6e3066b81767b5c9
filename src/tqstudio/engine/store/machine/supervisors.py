"""Stores the leases of supervisors, and the answers kept for repeated requests."""

from __future__ import annotations

import uuid

from sqlalchemy import delete, func, insert, select, update

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.tables import idempotency, supervisor
from tqstudio.engine.store.dialects.expressions import upsert
from tqstudio.engine.store.machine import standbys, workers
from tqstudio.events import EventKind


def begin(
    db: Connection, *, pid: int, version: str, home: str = "", name: str = "", now: int, lease_us: int
) -> tuple[int, str]:
    """Adds the row of a supervisor; returns its id, and the store's uuid, created at the first start.

    The lock of the home or of PostgreSQL proves that no earlier supervisor writes any more, so their leases
    run out at once.

    Args:
        home, name: id of its home, and name among several supervisors; empty if there can be one alone.
        now: of the database's clock, as all times of leases.
    """
    last = standbys.leader(db)
    db.execute(update(supervisor).values(expires_at=0))
    store = db.execute(select(supervisor.c.store_uuid).limit(1)).scalar() or str(uuid.uuid4())
    row = {"store_uuid": store, "pid": pid, "version": version, "home": home, "name": name}
    begun: int = db.execute(
        insert(supervisor).values(**row, started_at=now, expires_at=now + lease_us).returning(supervisor.c.id)
    ).scalar_one()
    if last is not None and last.home not in ("", home):
        why = f"the lease of {last.name} ran out" if last.expires_at else f"{last.name} was stopped"
        events.append(db, EventKind.LEADER_CHANGED, now=now, actor="supervisor", worker=name, detail=why)
        workers.enable_local(db)
    return begun, store


def leader_changes(db: Connection) -> int:
    """Returns how often another supervisor than the one before has begun to lead the queue, ever."""
    before = func.lag(supervisor.c.home).over(order_by=supervisor.c.id)
    rows = select(supervisor.c.home, before.label("before")).subquery()
    changes = select(func.count()).where(rows.c.before != "", rows.c.before != rows.c.home)
    return int(db.execute(changes).scalar_one())


def renew(db: Connection, row: int, *, now: int, lease_us: int) -> None:
    """Renews the lease of a supervisor."""
    db.execute(update(supervisor).where(supervisor.c.id == row).values(expires_at=now + lease_us))


def end(db: Connection, row: int) -> None:
    """Ends the lease of a supervisor that shuts down, so that another one can lead at once."""
    db.execute(update(supervisor).where(supervisor.c.id == row).values(expires_at=0))


def announce(db: Connection, row: int, *, url: str, certificate: str | None) -> None:
    """Stores where a supervisor is reached, for those that stand by."""
    reached = {"url": url, "certificate": certificate}
    db.execute(update(supervisor).where(supervisor.c.id == row).values(**reached))


def stored_answer(db: Connection, key: str) -> str | None:
    """Returns the stored answer to a request with this idempotency key."""
    answer = db.execute(select(idempotency.c.answer).where(idempotency.c.key == key)).scalar()
    return None if answer is None else str(answer)


def store_answer(db: Connection, key: str, answer: str, *, now: int) -> None:
    db.execute(upsert(idempotency).on_conflict_do_nothing(), {"key": key, "answer": answer, "at": now})


def complete_answer(db: Connection, key: str, answer: str) -> None:
    """Replaces a stored answer by the complete one, once its effects outside the database are known."""
    db.execute(update(idempotency).where(idempotency.c.key == key).values(answer=answer))


def prune_answers(db: Connection, *, before: int) -> None:
    """Deletes old answers."""
    db.execute(delete(idempotency).where(idempotency.c.at < before))
