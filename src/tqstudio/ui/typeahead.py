"""Keys in turn: what one key opens has the focus before the next key is looked at."""

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
"""So often a callback follows a key up to the app. With the first the key is there; what it does may take a
message from a field to itself, a second one to its screen, and only that moves the focus."""
ALWAYS = "ctrl+c"
"""The key that waits for nothing."""


class KeysInTurn:
    """Textual sends a key to the widget that has the focus when the key arrives: of a burst such as `/name`
    all would reach the list, as commands, before the first has opened the field for the others.

    Args:
        deliver: Textual's own way of an event.
    """

    def __init__(self, app: App[Any], deliver: Callable[[events.Event], Awaitable[None]]) -> None:
        self._app, self._deliver = app, deliver
        self._waiting: deque[Typed] = deque()
        self._busy = False
        self._holds = 0

    @property
    def idle(self) -> bool:
        """Whether every key has had its effect."""
        return not (self._busy or self._holds or self._waiting)

    async def take(self, event: Typed) -> None:
        if isinstance(event, events.Key) and event.key == ALWAYS:
            await self._deliver(event)
            return
        self._waiting.append(event)
        await self._next()

    def hold(self, task: asyncio.Task[None]) -> None:
        """Let later keys wait for the end of a task: they are meant for what it brings."""
        self._holds += 1
        task.add_done_callback(self._let_go)

    def _let_go(self, _: asyncio.Task[None]) -> None:
        self._holds -= 1
        if not self._busy and self._app.is_running:
            self._busy = True
            self._app.call_later(self._arrived, ROUNDS)

    async def _next(self) -> None:
        if self._busy or self._holds or not self._waiting:
            return
        self._busy = True
        await self._deliver(self._waiting.popleft())
        self._follow(self._app.focused or self._app.screen, ROUNDS)

    def _follow(self, node: DOMNode | None, rounds: int) -> None:
        """Call back behind all that waits at this widget, then behind what waits above it, up to the app."""
        while node is not None and node is not self._app:
            if node.call_later(partial(self._follow, node.parent, rounds)):
                return
            # It is being removed, and takes no messages any more.
            node = node.parent
        self._app.call_later(partial(self._arrived, rounds))

    async def _arrived(self, rounds: int) -> None:
        if rounds > 1:
            self._follow(self._app.focused or self._app.screen, rounds - 1)
            return
        self._busy = False
        await self._next()
