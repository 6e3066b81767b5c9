"""Answers that are the same for whoever asks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """Makes one answer for all who ask before it is begun: a thousand callers cost two answers.

    Args:
        make: makes an answer; nobody gets one that was begun before he asked.
    """

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._current: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def get(self) -> T:
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._current))
            self._next.add_done_callback(lambda made: made.cancelled() or made.exception())
        # Who hangs up takes nobody's answer away.
        return await asyncio.shield(self._next)

    async def _after(self, before: asyncio.Task[T] | None) -> T:
        if before is not None:
            await asyncio.wait([before])
        self._current, self._next = self._next, None
        return await self._make()
