"""Stores uploads: how much of each is durable, and the result once it is whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, delete, func, insert, select, update

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.tables import upload


@dataclass(frozen=True, slots=True)
class UploadRow:
    """An upload; times are µs since 1970 in UTC."""

    id: str
    size: int
    received: int
    upload_metadata: str
    actor: str
    expires_at: int
    path: bytes | None
    answer: str | None
    url: str | None = None
    """URL of the object in a bucket that is fetched; None if a client sends the file."""
    version: str | None = None
    """ETag of that object."""
    output_root: bytes | None = None
    """Output folder of its ladder; None for the default."""

    @property
    def is_whole(self) -> bool:
        return self.received == self.size


_ROWS = select(
    *upload.c["id", "size", "received", "upload_metadata", "actor", "expires_at", "path", "answer"],
    *upload.c["url", "version", "output_root"],
).order_by(upload.c.id)
_ONE = _ROWS.where(upload.c.id == bindparam("given"))
_UNFINISHED_COUNT = select(func.count()).where(upload.c.answer.is_(None))
_UNFINISHED = _ROWS.where(upload.c.answer.is_(None))


def create(
    db: Connection,
    number: str,
    *,
    size: int,
    upload_metadata: str,
    actor: str,
    expires_at: int,
    limit: int,
    **of: Any,
) -> bool:
    """Stores an upload; False if so many are unfinished already.

    Args:
        of: `url`, `version` and `output_root` of one that is fetched.
    """
    if db.execute(_UNFINISHED_COUNT).scalar_one() >= limit:
        return False
    values = {
        "id": number,
        "size": size,
        "upload_metadata": upload_metadata,
        "actor": actor,
        "expires_at": expires_at,
    }
    db.execute(insert(upload), values | of)
    return True


def find(db: Connection, number: str) -> UploadRow | None:
    row = db.execute(_ONE, {"given": number}).first()
    return None if row is None else UploadRow(*row)


def unfinished(db: Connection) -> list[UploadRow]:
    """Returns the uploads without a result."""
    return [UploadRow(*row) for row in db.execute(_UNFINISHED)]


def advance(db: Connection, number: str, *, before: int, received: int, expires_at: int) -> bool:
    """Stores how much is durable; False if that is not what it was when the bytes came."""
    moved = (
        update(upload)
        .where(upload.c.id == number, upload.c.received == before, upload.c.path.is_(None))
        .values(received=received, expires_at=expires_at)
    )
    return db.execute(moved).rowcount == 1


def place(db: Connection, number: str, path: bytes) -> None:
    """Stores where the whole file is being moved to."""
    db.execute(update(upload).where(upload.c.id == number).values(path=path))


def answer(db: Connection, number: str, text: str, *, expires_at: int) -> None:
    """Stores the result, which is kept until it expires."""
    db.execute(update(upload).where(upload.c.id == number).values(answer=text, expires_at=expires_at))


def remove(db: Connection, number: str) -> None:
    db.execute(delete(upload).where(upload.c.id == number))


def prune(db: Connection, *, before: int) -> None:
    """Deletes the results that have expired."""
    db.execute(delete(upload).where(upload.c.answer.is_not(None), upload.c.expires_at < before))
