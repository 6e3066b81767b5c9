"""Stores the tokens of the API: a lookup prefix and a salted hash of each secret."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, bindparam, delete, select

from tqstudio.engine.store import events
from tqstudio.engine.store.db import tables
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import Rows
from tqstudio.engine.store.dialects.expressions import upsert
from tqstudio.events import EventKind
from tqstudio.protocol.roles import Role


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token; times are µs since 1970 in UTC."""

    id: int
    name: str
    role: Role
    prefix: str
    salt: bytes
    hash: bytes
    worker: int | None
    """The worker in whose name it acts."""
    worker_name: str | None
    worker_kind: str | None
    joined_by: str | None
    """Name of the token by which that worker joined."""
    created_at: int
    expires_at: int | None
    max_workers: int | None
    """How many workers may join by it; None: any number."""


_ROWS = Rows(
    TokenRow,
    tables.token,
    worker="worker_id",
    worker_name=tables.worker.c.name,
    worker_kind=tables.worker.c.kind,
    joined_by=tables.worker.c.joined_by,
)
_LISTING = (
    select(*_ROWS.columns).join_from(tables.token, tables.worker, isouter=True).order_by(tables.token.c.id)
)
_BY_PREFIX = _LISTING.where(tables.token.c.prefix == bindparam("given"))


def create(
    db: Connection,
    *,
    name: str,
    role: Role,
    prefix: str,
    salt: bytes,
    secret_hash: bytes,
    worker: int | None,
    expires_at: int | None,
    now: int,
    actor: str,
    joined: bool = False,
    max_workers: int | None = None,
) -> bool:
    """Stores a token, by hand or because its worker joined; False if one of that name exists."""
    values = {
        "name": name,
        "role": role,
        "prefix": prefix,
        "salt": salt,
        "hash": secret_hash,
        "worker_id": worker,
        "created_at": now,
        "expires_at": expires_at,
        "max_workers": max_workers,
    }
    new = upsert(tables.token).on_conflict_do_nothing(index_elements=["name"]).returning(tables.token.c.id)
    if db.execute(new, values).first() is None:
        return False
    if joined:
        events.append(db, EventKind.WORKER_JOINED, now=now, actor=actor, worker=name)
    else:
        events.append(db, EventKind.TOKEN_CREATED, now=now, actor=actor, code=role.value, detail=name)
    return True


def remove(db: Connection, name: str, *, now: int, actor: str) -> int | None:
    """Deletes a token; returns its id, None if there is none of that name."""
    return _removed(db, tables.token.c.name == name, name, now, actor)


def _removed(db: Connection, which: ColumnElement[bool], name: str, now: int, actor: str) -> int | None:
    gone = delete(tables.token).where(which).returning(tables.token.c.id)
    number: int | None = db.execute(gone).scalar()
    if number is not None:
        events.append(db, EventKind.TOKEN_REVOKED, now=now, actor=actor, detail=name)
    return number


def remove_joined(db: Connection, name: str, *, joined_by: str, now: int, actor: str) -> int | None:
    """Deletes the token of a worker that joined by another token; returns its id, None if there is none."""
    worker = tables.worker.c
    joined = select(worker.id).where(worker.name == name, worker.joined_by == joined_by)
    return _removed(db, tables.token.c.worker_id.in_(joined), name, now, actor)


def joined(db: Connection, joined_by: str) -> list[str]:
    """Returns the names of the tokens of workers that joined by another token."""
    worker = tables.worker.c
    names = select(tables.token.c.name).join_from(tables.token, tables.worker)
    return list(db.execute(names.where(worker.joined_by == joined_by).order_by(worker.id)).scalars())


def may_join(db: Connection, joined_by: str) -> bool:
    """Whether one more worker may join by a token."""
    limit = db.execute(select(tables.token.c.max_workers).where(tables.token.c.name == joined_by)).scalar()
    return limit is None or len(joined(db, joined_by)) < limit


def listing(db: Connection) -> list[TokenRow]:
    return [_ROWS.value(row) for row in db.execute(_LISTING)]


def by_prefix(db: Connection, prefix: str) -> TokenRow | None:
    return _ROWS.first(db.execute(_BY_PREFIX, {"given": prefix}))
