"""Stores which supervisors stand by, and reads which one leads."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, func, insert, or_, select

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import Rows
from tqstudio.engine.store.db.tables import standby, supervisor, token, worker
from tqstudio.protocol.roles import Role

SEEN_S = 5
"""How often a supervisor that stands by stores that it does."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The supervisor that began last; times are µs since 1970 of the database's clock."""

    id: int
    home: str
    name: str
    url: str | None
    certificate: str | None
    expires_at: int


@dataclass(frozen=True, slots=True)
class StandbyRow:
    """A supervisor that stands by."""

    name: str
    version: str
    seen_at: int


_LEADERS = Rows(Leader, supervisor)
_STANDBYS = Rows(StandbyRow, standby)


def leader(db: Connection) -> Leader | None:
    """Returns the supervisor that leads, or led last; None if there was none yet."""
    newest = select(*_LEADERS.columns).order_by(supervisor.c.id.desc()).limit(1)
    return _LEADERS.first(db.execute(newest))


def may_follow(leader: Leader, home: str, now: int) -> bool:
    """Whether the supervisor of a home may take over: the lease has run out, or was of its last run."""
    return leader.home == home or leader.expires_at <= now


def may_lead(db: Connection, home: str) -> bool:
    """Whether no other supervisor leads, by its lease."""
    last = leader(db)
    return last is None or may_follow(last, home, db.now_us())


def record_seen(db: Connection, home: str, *, name: str, version: str, now: int) -> None:
    """Stores that a supervisor stands by now, in place of others of its name or its home."""
    renamed = select(standby.c.name).where(standby.c.home == home, standby.c.name != name)
    for earlier in db.execute(renamed).scalars().all():
        forget(db, home, name=earlier)
    # Not its tokens, which have its name.
    db.execute(delete(standby).where(standby.c.name == name))
    db.execute(insert(standby).values(home=home, name=name, version=version, seen_at=now))


def forget(db: Connection, home: str, *, name: str) -> None:
    """Removes a supervisor that stands by no longer, its tokens, and those of the workers it has lent."""
    names = token_names(name)
    lent = select(worker.c.id).where(worker.c.joined_by == names[Role.JOIN])
    db.execute(delete(standby).where(standby.c.home == home))
    db.execute(delete(token).where(or_(token.c.name.in_(names.values()), token.c.worker_id.in_(lent))))


def prune(db: Connection, *, before: int) -> None:
    """Removes supervisors that have not stood by since a time."""
    gone = select(standby.c.home, standby.c.name).where(standby.c.seen_at < before)
    for home, name in db.execute(gone).all():
        forget(db, home, name=name)


def listing(db: Connection) -> list[StandbyRow]:
    """Returns the supervisors that stand by, or did so until they were cut off or killed."""
    found = select(*_STANDBYS.columns).order_by(standby.c.name, standby.c.home)
    return [_STANDBYS.value(row) for row in db.execute(found)]


def number(db: Connection, *, after: int) -> int:
    """Returns how many supervisors were seen standing by after a time."""
    seen = select(func.count()).select_from(standby).where(standby.c.seen_at > after)
    return int(db.execute(seen).scalar_one())


def homes_of(db: Connection, name: str, *, after: int) -> list[str]:
    """Returns the ids of the homes whose supervisors have a name and were seen standing by after a time."""
    found = select(standby.c.home).where(standby.c.name == name, standby.c.seen_at > after)
    return list(db.execute(found).scalars())


def token_names(name: str) -> dict[Role, str]:
    """Returns the names of the tokens with which a supervisor that stands by calls the one that leads."""
    return {Role.ADMIN: f"standby-{name}", Role.JOIN: f"standby-{name}-workers"}


def replace_token(
    db: Connection, name: str, role: Role, *, prefix: str, salt: bytes, secret_hash: bytes, now: int
) -> None:
    """Stores a token of a supervisor that stands by, in place of the one of its last run."""
    named = token_names(name)[role]
    db.execute(delete(token).where(token.c.name == named))
    values = {"name": named, "role": role, "prefix": prefix, "salt": salt, "hash": secret_hash}
    db.execute(insert(token).values(**values, created_at=now))
