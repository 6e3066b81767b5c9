"""Keeps the last value of something that may not answer, such as a database on a hanging disk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog

from tqstudio.errors import TqError

T = TypeVar("T")

_FRESH_S = 0.2
"""How long a value counts as new, so that many callers cause few reads."""


class Latest(Generic[T]):
    """The last value of a read. One read runs at a time, however many callers wait for it.

    Args:
        read: reads the value.
        patience_s: how long a caller waits for a read, counted from its start.
    """

    def __init__(self, read: Callable[[], Awaitable[T]], patience_s: float) -> None:
        self._read, self._patience_s = read, patience_s
        self._running: asyncio.Task[None] | None = None
        self._began = self._arrived = float("-inf")
        self.value: T | None = None
        """The last value that was read; None before the first."""

    async def refresh(self) -> bool:
        """Reads the value again; False if it does not arrive in time, or the read fails."""
        now = asyncio.get_running_loop().time()
        if now - self._arrived <= _FRESH_S:
            return True
        if self._running is None or self._running.done():
            self._began = now
            self._running = asyncio.create_task(self._renew())
        running, began = self._running, self._began
        await asyncio.wait([running], timeout=max(0.0, began + self._patience_s - now))
        return running.done() and self._arrived >= began

    async def _renew(self) -> None:
        try:
            self.value = await self._read()
        except (OSError, TqError):
            return  # the state of a disk, which its own gate reports
        except Exception:
            structlog.get_logger().exception("not read for monitoring")
            return
        self._arrived = asyncio.get_running_loop().time()
