"""Starts an optional part only when a setting or the database asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from functools import wraps

import structlog

from tqstudio.engine.parts.part import Part
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.protocol.answers import CheckView, Reason


class Dormant(Part):
    """A part of which nothing runs before it is needed: from then on it is a part like any other.

    Args:
        is_needed: asks for it, at the start and after some events.
        wakers: kinds of those events.
    """

    def __init__(
        self,
        db: Database,
        part: Part,
        is_needed: Callable[[Connection], bool],
        wakers: Collection[str] = (),
    ) -> None:
        self._db, self.part, self._is_needed, self._wakers = db, part, is_needed, frozenset(wakers)
        self._waking = asyncio.Lock()
        self._is_awake = self._has_stopped = False
        self._tasks = set[asyncio.Task[None]]()
        self.triggers = None if part.triggers is None else self._wakers | {*part.triggers}
        self.every = [replace(each, run=self._if_awake(each.run)) for each in part.every]

    async def start(self) -> None:
        await self._wake_if_needed(())

    async def wake(self) -> None:
        """Start the part, unless it has started, or all ends."""
        async with self._waking:
            if not self._is_awake and not self._has_stopped:
                await self.part.start()
                self._is_awake = True

    async def stop(self) -> None:
        async with self._waking:
            self._has_stopped = True
        if self._is_awake:
            await self.part.stop()

    def on_events(self, events: Sequence[EventRow]) -> None:
        if self._is_awake:
            self._hand_over(events)
        elif any(event.trigger in self._wakers for event in events):
            task = asyncio.get_running_loop().create_task(self._wake_if_needed(events))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def checks(self) -> Sequence[CheckView]:
        return await self.part.checks()

    def trouble(self) -> Reason | None:
        return self.part.trouble()

    def _hand_over(self, events: Sequence[EventRow]) -> None:
        wanted = self.part.triggers
        mine = events if wanted is None else [event for event in events if event.trigger in wanted]
        if mine:
            self.part.on_events(mine)

    async def _wake_if_needed(self, events: Sequence[EventRow]) -> None:
        try:
            if not await self._db.read(self._is_needed):
                return
            await self.wake()
        except Exception:
            if not events:
                raise
            structlog.get_logger().exception("a part did not start", part=type(self.part).__name__)
            return
        if events and self._is_awake:
            self._hand_over(events)

    def _if_awake(self, task: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        @wraps(task)
        async def run() -> None:
            if self._is_awake:
                await task()

        return run
