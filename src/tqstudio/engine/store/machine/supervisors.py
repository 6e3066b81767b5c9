"""Stores the row of the running supervisor, and the answers kept for repeated requests."""

from __future__ import annotations

import uuid

from sqlalchemy import delete, select, update

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.sqlite import upsert
from tqstudio.engine.store.db.tables import idempotency, supervisor


def take_over(db: Connection, *, pid: int, version: str, now: int) -> str:
    """Records the running supervisor; returns the store's uuid, created at the first start."""
    running = {"pid": pid, "version": version, "started_at": now, "last_heartbeat_at": now}
    statement = (
        upsert(supervisor)
        .values(id=1, store_uuid=str(uuid.uuid4()), **running)
        .on_conflict_do_update(index_elements=["id"], set_=running)
        .returning(supervisor.c.store_uuid)
    )
    return str(db.execute(statement).scalar_one())


def heartbeat(db: Connection, *, now: int) -> None:
    db.execute(update(supervisor).values(last_heartbeat_at=now))


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
