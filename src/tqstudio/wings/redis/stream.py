"""Reads the stream of jobs as a consumer group, and acknowledges the entries that are done.

Only the supervisor that leads reads. What another one has read and not acknowledged is claimed after a while,
as are the entries that could not be judged.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import structlog

from tqstudio.engine.host import logging_setup
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.store.db.database import Database
from tqstudio.errors import ErrorCode, TqError
from tqstudio.wings.redis import entries, store
from tqstudio.wings.redis.taking import Later, Taking

if TYPE_CHECKING:
    from redis.asyncio import Redis

Delivered = Sequence[tuple[bytes | None, Mapping[bytes, bytes] | None]]

_PAGE = 32
_BLOCK_MS = 1000
"""How long Redis holds a request for entries; shorter than its timeout."""
AGAIN_S = 30.0
"""After which an entry is tried again that could not be judged, or whose supervisor has ended."""
_MAX_WAITING = 1000
"""Entries that cannot be judged, beyond which no new ones are read."""
_MAX_REFUSED = 10_000
"""Kept of those that were refused."""
_SHOWN_FIELDS, _SHOWN_BYTES = 10, 1000


class JobStream:
    """The stream of jobs.

    Args:
        consumer: names this supervisor within the group.
    """

    def __init__(self, prefix: str, consumer: str, db: Database, taking: Taking) -> None:
        self._prefix, self._consumer, self._db, self._taking = prefix, consumer, db, taking
        self._jobs, self._refused = f"{prefix}:jobs", f"{prefix}:rejected"
        self.waiting = dict[bytes, TqError]()
        """Why entries could not be judged, by their ids."""
        self._log = structlog.get_logger()

    async def begin(self, client: Redis) -> None:
        """Create the group if need be, and do what was read before the connection was lost."""
        from redis.exceptions import ResponseError

        self.waiting.clear()
        try:
            # From 0: entries that are older than the group are read too.
            await client.xgroup_create(self._jobs, self._prefix, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
        after: bytes | str = "0"
        while found := await self._read(client, after):
            await self._take_all(client, found)
            after = found[-1][0] or "0"
        await self._claim(client)
        left = await client.xpending(self._jobs, self._prefix)
        if not left["pending"]:
            with contextlib.suppress(TqError):
                await self._db.write(store.release_all, now=now_us())

    async def read(self, client: Redis) -> None:
        """Read until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time() + AGAIN_S
        while True:
            if loop.time() >= due:
                await self._claim(client)
                due = loop.time() + AGAIN_S
            if len(self.waiting) < _MAX_WAITING:
                await self._take_all(client, await self._read(client, ">", block_ms=_BLOCK_MS))
            else:
                await asyncio.sleep(due - loop.time())

    async def _read(self, client: Redis, after: bytes | str, block_ms: int | None = None) -> Delivered:
        """Read new entries (`>`), or those after an id that this supervisor has read and not acknowledged."""
        of: Any = {self._jobs: after}
        answer: Any = await client.xreadgroup(self._prefix, self._consumer, of, count=_PAGE, block=block_ms)
        return answer[0][1] if answer else ()

    async def _claim(self, client: Redis) -> None:
        """Take over, and try, what was delivered a while ago."""
        idle_ms, after = int(AGAIN_S * 1000), b"0-0"
        while True:
            after, found, *_ = await client.xautoclaim(
                self._jobs, self._prefix, self._consumer, idle_ms, start_id=after, count=_PAGE
            )
            await self._take_all(client, found)
            if after == b"0-0":
                return

    async def _take_all(self, client: Redis, delivered: Delivered) -> None:
        """Add entries; acknowledge and remove those that are done, also those that are refused."""
        done, keys, refused = list[bytes](), list[str](), list[tuple[bytes, Mapping[bytes, bytes], TqError]]()
        for number, fields in delivered:
            if number is None:
                continue  # Redis 6.2 claims even entries that were removed
            try:
                if fields:  # else it was removed
                    entry = entries.parse(self._prefix, number, fields)
                    await self._taking.take(entry)
                    keys.append(entry.key)
            except Later as later:
                self._let_wait(number, later.why)
                continue
            except TqError as error:
                refused.append((number, fields or {}, error))
            except Exception:
                # It must hold up no other.
                self._log.exception("entry failed", id=number.decode())
                fault = TqError(
                    ErrorCode.INTERNAL, "it could not be added; the log of the supervisor says why"
                )
                refused.append((number, fields or {}, fault))
            done.append(number)
            self.waiting.pop(number, None)
        if done:
            await self._end(client, done, refused)
        if keys:
            # Else they are let go when nothing is pending.
            with contextlib.suppress(TqError):
                await self._db.write(store.release, keys, now=now_us())

    def _let_wait(self, number: bytes, why: TqError) -> None:
        if not self.waiting:
            self._log.warning("entries wait", id=number.decode(), code=why.code.value, error=why.message)
        self.waiting[number] = why

    async def _end(
        self,
        client: Redis,
        done: Sequence[bytes],
        refused: Sequence[tuple[bytes, Mapping[bytes, bytes], TqError]],
    ) -> None:
        """Acknowledge entries, in one transaction with the record of those that are refused."""
        pipe, roots = client.pipeline(transaction=True), logging_setup.roots()
        for number, fields, why in refused:
            self._log.warning("entry refused", id=number.decode(), code=why.code.value, error=why.message)
            cut = [(name[:_SHOWN_BYTES], text[:_SHOWN_BYTES]) for name, text in fields.items()]
            record: dict[Any, Any] = dict(cut[:_SHOWN_FIELDS])
            error, hint = roots.relative(why.message), roots.relative(why.hint)
            record |= {b"id": number, b"code": why.code.value, b"error": error, b"hint": hint}
            pipe.xadd(self._refused, record, maxlen=_MAX_REFUSED, approximate=True)
        pipe.xack(self._jobs, self._prefix, *done)
        pipe.xdel(self._jobs, *done)
        await pipe.execute()
