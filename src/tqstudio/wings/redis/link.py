"""Keeps the connection to Redis: a circuit breaker, open while Redis cannot be used, with backoff."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import structlog

from tqstudio.engine.store.jobs.retry_rules import RetryRules
from tqstudio.errors import ErrorCode, TqError

if TYPE_CHECKING:
    from redis.asyncio import ConnectionPool, Redis

_TIMEOUT_S = 5.0
"""Of connecting, and of an answer."""
_CONNECTIONS = 10
_BACKOFF = RetryRules(1.0, 60.0, random.random)


class Link:
    """The connection to Redis.

    Args:
        on_lost: called when it cannot be used any more.
    """

    def __init__(self, url: str, on_lost: Callable[[], None]) -> None:
        self._url, self._on_lost = url, on_lost
        self._pool: ConnectionPool | None = None
        self.is_closed = False
        """Whether the circuit is closed, which means that Redis is used."""
        self.problem: str | None = None
        """Why the circuit is open; None before the first try, too."""
        self._lost_at = 0.0
        self._log = structlog.get_logger()

    async def prepare(self) -> None:
        """Load redis-py; nothing is connected yet.

        Raises:
            TqError: BAD_CONFIG, without the URL, which may have a password.
        """
        # On a thread, because it takes a while.
        redis: Any = await asyncio.to_thread(import_module, "redis.asyncio")
        retry = import_module("redis.asyncio.retry").Retry(import_module("redis.backoff").NoBackoff(), 0)
        try:
            self._pool = redis.ConnectionPool.from_url(
                self._url,
                max_connections=_CONNECTIONS,
                socket_timeout=_TIMEOUT_S,
                socket_connect_timeout=_TIMEOUT_S,
                retry=retry,
                protocol=2,
            )
        except ValueError:
            raise TqError(
                ErrorCode.BAD_CONFIG,
                "the setting redis_url is invalid",
                "write it as redis://HOST:PORT/0, or rediss:// for TLS, or unix:///PATH",
            ) from None

    async def run(self, use: Callable[[Redis], Awaitable[None]]) -> None:
        """Have a connection used until cancelled; try again after each failure.

        Args:
            use: calls `close` as soon as all works; ends only by an error.
        """
        failures = 0
        while True:
            try:
                async with self._client() as client:
                    await use(client)
            except Exception as error:
                failures = 1 if self.is_closed else failures + 1
                self._open(error)
            await asyncio.sleep(_BACKOFF.wait_s(failures))

    def close(self) -> None:
        """Close the circuit: Redis works."""
        self.is_closed = True
        if self.problem is not None:
            self.problem = None
            self._log.info("redis is back", after_s=round(time.monotonic() - self._lost_at, 1))

    def _open(self, error: Exception) -> None:
        shown = self._without_secrets(f"{type(error).__name__}: {error}")
        if self.problem is None:
            self._lost_at = time.monotonic()
            # Of a fault of ours the log needs to say where.
            expected = import_module("redis.exceptions").RedisError, OSError
            self._log.warning("redis is lost", error=shown, exc_info=not isinstance(error, expected))
        self.is_closed, self.problem = False, shown
        self._on_lost()

    @contextlib.asynccontextmanager
    async def _client(self) -> AsyncIterator[Redis]:
        redis: Any = import_module("redis.asyncio")
        try:
            yield redis.Redis(connection_pool=self._pool)
        finally:
            if self._pool is not None:
                # A server that hangs may not answer the end of TLS.
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(_TIMEOUT_S):
                        await self._pool.disconnect()

    def _without_secrets(self, text: str) -> str:
        """A server may repeat what it was sent: `unknown command AUTH, with args beginning with …`."""
        known = self._pool.connection_kwargs if self._pool is not None else {}
        for secret in filter(None, (self._url, known.get("password"))):
            text = text.replace(str(secret), "…")
        return text
