"""Delivers keys one at a time, so that each finds the focus that the previous one set."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from textual import events
from textual.app import App
from textual.dom import DOMNode

Typed = events.Key | events.Paste

ROUNDS = 3
"""Rounds of callbacks from the focused widget up to the app before a key counts as handled: one delivers the
key, a second one delivers messages of a field to its screen, which moves the focus."""
ALWAYS = "ctrl+c"
"""The key that is delivered immediately."""


class KeyQueue:
    """Queues keys until the previous one has taken effect.

    Textual sends a key to the widget that has the focus when the key arrives: of `/name`, typed fast, all
    would reach the list as commands before the first has opened the field.

    Args:
        deliver: Textual's own event handling.
    """

    def __init__(self, app: App[Any], deliver: Callable[[events.Event], Awaitable[None]]) -> None:
        self._app, self._deliver = app, deliver
        self._waiting: deque[Typed] = deque()
        self._busy = False
        self._blockers = 0

    @property
    def idle(self) -> bool:
        """Whether every key has taken effect."""
        return not (self._busy or self._blockers or self._waiting)

    async def take(self, event: Typed) -> None:
        if isinstance(event, events.Key) and event.key == ALWAYS:
            await self._deliver(event)
            return
        self._waiting.append(event)
        await self._next()

    def wait_for(self, task: asyncio.Task[None]) -> None:
        """Delay later keys until a task has ended: they are meant for its result."""
        self._blockers += 1
        task.add_done_callback(self._unblock)

    def _unblock(self, _: asyncio.Task[None]) -> None:
        self._blockers -= 1
        if not self._busy and self._app.is_running:
            self._busy = True
            self._app.call_later(self._arrived, ROUNDS)

    async def _next(self) -> None:
        if self._busy or self._blockers or not self._waiting:
            return
        self._busy = True
        await self._deliver(self._waiting.popleft())
        self._follow(self._app.focused or self._app.screen, ROUNDS)

    def _follow(self, node: DOMNode | None, rounds: int) -> None:
        """Call back after the messages queued at this widget, then at its ancestors, up to the app."""
        while node is not None and node is not self._app:
            if node.call_later(partial(self._follow, node.parent, rounds)):
                return
            # It is being removed and accepts no messages.
            node = node.parent
        self._app.call_later(partial(self._arrived, rounds))

    async def _arrived(self, rounds: int) -> None:
        if rounds > 1:
            self._follow(self._app.focused or self._app.screen, rounds - 1)
            return
        self._busy = False
        await self._next()
