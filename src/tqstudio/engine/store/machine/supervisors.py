"""Stores the row of the running supervisor, and the answers kept for repeated requests."""

from __future__ import annotations

import uuid

from tqstudio.engine.store.db.connection import Connection


def take_over(db: Connection, *, pid: int, version: str, now: int) -> str:
    """Records the running supervisor; returns the store's uuid, created at the first start."""
    return str(
        db.execute(
            "INSERT INTO supervisor (id, store_uuid, pid, version, started_at, last_heartbeat_at)"
            " VALUES (1, :uuid, :pid, :version, :now, :now) ON CONFLICT (id) DO UPDATE SET pid = :pid,"
            " version = :version, started_at = :now, last_heartbeat_at = :now RETURNING store_uuid",
            {"uuid": str(uuid.uuid4()), "pid": pid, "version": version, "now": now},
        ).scalar()
    )


def heartbeat(db: Connection, *, now: int) -> None:
    db.execute("UPDATE supervisor SET last_heartbeat_at = :now", {"now": now})


def stored_answer(db: Connection, key: str) -> str | None:
    """Returns the stored answer to a request with this idempotency key."""
    row = db.execute("SELECT answer FROM idempotency WHERE key = :key", {"key": key}).first()
    return None if row is None else str(row[0])


def store_answer(db: Connection, key: str, answer: str, *, now: int) -> None:
    db.execute(
        "INSERT INTO idempotency (key, answer, at) VALUES (:key, :answer, :now) ON CONFLICT DO NOTHING",
        {"key": key, "answer": answer, "now": now},
    )


def complete_answer(db: Connection, key: str, answer: str) -> None:
    """Replaces a stored answer by the complete one, once its effects outside the database are known."""
    db.execute("UPDATE idempotency SET answer = :answer WHERE key = :key", {"key": key, "answer": answer})


def prune_answers(db: Connection, *, before: int) -> None:
    """Deletes old answers."""
    db.execute("DELETE FROM idempotency WHERE at < :before", {"before": before})
