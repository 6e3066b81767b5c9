"""Creates, checks and revokes the tokens of the API.

A token is `tq_<prefix>_<secret>`. The database has the prefix, by which it is found, and a salted scrypt hash
of the secret: a copy of the database gives no access. A token that was checked once is known by its SHA-256
until it is revoked, because scrypt takes 50 ms.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from tqstudio.engine.access.principal import Principal, of_worker
from tqstudio.engine.access.worker_tokens import WorkerToken, WorkerTokens
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.machine import tokens, workers
from tqstudio.engine.store.machine.tokens import TokenRow
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol.roles import TOKEN_ACTOR, Role

_TOKEN = re.compile(r"tq_([0-9a-f]{12})_([\w-]{43})", re.ASCII)
_KNOWN = 1024
"""Checked tokens that are remembered."""
_SCRYPT = {"n": 2**14, "r": 8, "p": 1, "maxmem": 64 * 1024 * 1024, "dklen": 32}
"""16 MiB and about 50 ms for each check, as RFC 7914 proposes for interactive logins."""


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token, and what is stored of it."""

    text: str
    prefix: str
    salt: bytes
    hash: bytes


def new_token() -> NewToken:
    """Make a token; takes 50 ms."""
    prefix, secret, salt = secrets.token_hex(6), secrets.token_urlsafe(32), secrets.token_bytes(16)
    return NewToken(f"tq_{prefix}_{secret}", prefix, salt, _hash(secret, salt))


class ApiTokens:
    """The tokens of this supervisor: stored ones, and those of its worker processes."""

    def __init__(self, db: Database, worker_tokens: WorkerTokens) -> None:
        self._db, self._worker_tokens = db, worker_tokens
        self._known: OrderedDict[bytes, Principal] = OrderedDict()
        self._hashing = asyncio.Semaphore(1)
        """Guessed tokens may keep one processor busy, not all."""
        self.on_revoked: list[Callable[[int], None]] = []
        """Called with the id of a token that was revoked."""

    async def load(self) -> None:
        """Read which workers have a stored token."""
        rows = await self._db.read(tokens.listing)
        self._worker_tokens.stored = {row.worker_name for row in rows if row.worker_name}

    def known(self, token: str) -> Principal | None:
        """The caller of a token that was checked before, or of a worker process; else None."""
        if (worker := self._worker_tokens.of(token)) is not None:
            return of_worker(worker)
        found = self._known.get(_digest(token))
        return found if found is None or not _expired(found.expires_at) else None

    async def check(self, token: str) -> Principal | None:
        """The caller of any token; None if it is wrong, expired or revoked."""
        if (found := self.known(token)) is not None:
            return found
        parts = _TOKEN.fullmatch(token)
        row = await self._db.read(tokens.by_prefix, parts[1]) if parts else None
        if parts is None or row is None or _expired(row.expires_at):
            return None
        async with self._hashing:
            hashed = await asyncio.to_thread(_hash, parts[2], row.salt)
        # It may have been revoked meanwhile.
        if not hmac.compare_digest(hashed, row.hash) or not await self._db.read(tokens.by_prefix, parts[1]):
            return None
        caller = _principal(row)
        self._known[_digest(token)] = caller
        if len(self._known) > _KNOWN:
            self._known.popitem(last=False)
        return caller

    async def create(
        self,
        name: str,
        role: Role,
        *,
        kind: str,
        actor: str,
        expires_at: int | None = None,
        joined_by: str | None = None,
        max_workers: int | None = None,
    ) -> str:
        """Create a token and return it; it cannot be read again.

        Args:
            name: of a token with the role worker, also the name of that worker.
            kind: of that worker: cpu or gpu.
            joined_by: the token by which that worker joins; its new token replaces one that it got by that.
            max_workers: how many workers may join by a token with the role join; None for any number.

        Raises:
            TqError: REFUSED if another token of that name exists, or as many workers have joined as may.
        """
        token = await asyncio.to_thread(new_token)
        now = now_us()

        def store(db: Connection) -> int | None:
            worker = replaced = None
            if joined_by is not None:
                replaced = tokens.remove_joined(db, name, joined_by=joined_by, now=now, actor=actor)
                if not tokens.may_join(db, joined_by):
                    raise _all_joined(joined_by)
            if role is Role.WORKER:
                worker = workers.ensure(db, name, kind, remote=True, joined_by=joined_by).id
            stored = tokens.create(
                db,
                name=name,
                role=role,
                prefix=token.prefix,
                salt=token.salt,
                secret_hash=token.hash,
                worker=worker,
                expires_at=expires_at,
                now=now,
                actor=actor,
                joined=joined_by is not None,
                max_workers=max_workers,
            )
            if not stored and joined_by is not None:
                raise name_taken(name)
            if not stored:
                raise TqError(
                    ErrorCode.REFUSED,
                    f"there is a token {name} already",
                    f"choose another name, or revoke it first: tqstudio token revoke {name}",
                )
            return replaced

        replaced = await self._db.write(store)
        if role is Role.WORKER:
            self._worker_tokens.stored.add(name)
        if replaced is not None:
            self._end(replaced)
        return token.text

    async def revoke(self, name: str, *, actor: str, with_joined: bool = False) -> list[str]:
        """Revoke a token: it is refused from now on, and its open requests end.

        Args:
            with_joined: revoke the tokens of the workers that joined by it too.

        Returns:
            The names of those tokens.

        Raises:
            TqError: NOT_FOUND.
        """
        now = now_us()

        def remove(db: Connection) -> dict[str, int | None]:
            names = [name, *(tokens.joined(db, name) if with_joined else ())]
            return {each: tokens.remove(db, each, now=now, actor=actor) for each in names}

        removed = await self._db.write(remove)
        if removed[name] is None and len(removed) == 1:
            raise TqError(
                ErrorCode.NOT_FOUND, f"there is no token {name}", "list tokens with: tqstudio token list"
            )
        for each, number in removed.items():
            self._worker_tokens.stored.discard(each)
            if number is not None:
                self._end(number)
        return [each for each in removed if each != name]

    async def end_removed(self) -> None:
        """End the tokens that another supervisor of this database has removed."""
        had = set(self._worker_tokens.stored)
        rows = await self._db.read(tokens.listing)
        self._worker_tokens.stored -= had - {row.worker_name for row in rows}
        known = {caller.token for caller in self._known.values() if caller.token is not None}
        for number in known - {row.id for row in rows}:
            self._end(number)

    def end_expired(self) -> None:
        """End the open requests of tokens that expired since, also by a clock that was set."""
        for caller in [each for each in self._known.values() if _expired(each.expires_at)]:
            if caller.token is not None:
                self._end(caller.token)

    def _end(self, number: int) -> None:
        """Refuse a token that is no longer stored, and end its open requests."""
        for digest in [digest for digest, caller in self._known.items() if caller.token == number]:
            del self._known[digest]
        for end_requests in self.on_revoked:
            end_requests(number)


def name_taken(name: str) -> TqError:
    """The error for a worker that joins under the name of another."""
    return TqError(
        ErrorCode.REFUSED,
        f"the name {name} belongs to another worker or token of the studio",
        "choose another one with --name",
    )


def _all_joined(joined_by: str) -> TqError:
    return TqError(
        ErrorCode.REFUSED,
        f"as many workers have joined by the token {joined_by} as may",
        "at the studio, revoke one (tqstudio token revoke WORKER), or create a token with more --workers",
    )


def prefix_of(token: str) -> str:
    """The prefix by which a token is looked up; empty if it has none."""
    parts = _TOKEN.fullmatch(token)
    return parts[1] if parts else ""


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _hash(secret: str, salt: bytes) -> bytes:
    return hashlib.scrypt(secret.encode(), salt=salt, **_SCRYPT)


def _expired(expires_at: int | None) -> bool:
    return expires_at is not None and expires_at <= now_us()


def _principal(row: TokenRow) -> Principal:
    worker = None
    if row.worker is not None and row.worker_name and row.worker_kind:
        worker = WorkerToken(row.worker, row.worker_name, row.worker_kind)
    return Principal(
        worker.name if worker else f"{TOKEN_ACTOR}{row.name}",
        row.role,
        worker,
        token=row.id,
        expires_at=row.expires_at,
    )
