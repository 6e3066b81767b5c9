"""Stores which entries of the stream were added, for as long as Redis can deliver them again.

The answers of repeated requests are deleted by their age; the one of an entry gets none before Redis has
acknowledged the entry.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select, update

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.tables import idempotency, upload
from tqstudio.engine.store.jobs.folder_hours import FOREVER
from tqstudio.engine.store.machine import supervisors


def is_added(db: Connection, key: str) -> bool:
    """Whether the entry with this key was added."""
    return supervisors.stored_answer(db, key) is not None


def remember(db: Connection, key: str, answer: str) -> None:
    """Store that an entry was added, until `release`."""
    supervisors.store_answer(db, key, answer, now=FOREVER)


def release(db: Connection, keys: Sequence[str], *, now: int) -> None:
    """Let the answers of acknowledged entries age."""
    db.execute(update(idempotency).where(idempotency.c.key.in_(keys)).values(at=now))


def release_all(db: Connection, *, now: int) -> None:
    """Let all answers age, because Redis has no entry any more that is not acknowledged."""
    db.execute(update(idempotency).where(idempotency.c.at == FOREVER).values(at=now))


def is_fetched(db: Connection, about: str) -> bool:
    """Whether there is an upload with this metadata."""
    return db.execute(select(upload.c.id).where(upload.c.upload_metadata == about)).first() is not None
