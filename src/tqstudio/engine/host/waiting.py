"""Waits for events and signals, and repeats a task when it is woken or its next work is due."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from tqstudio.errors import UNWRITTEN, TqError

_LOOK_S = 60.0
"""Longest time without a look."""
_PAUSE_S = 10.0
"""After an error, of the database for instance."""


async def wait_until_set(event: asyncio.Event, at_most_s: float | None) -> bool:
    """Wait until an event is set, at most so many seconds; returns whether it is."""
    # Not `asyncio.wait_for`: in Python 3.11 it loses a cancellation that comes with the result.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(at_most_s):
            await event.wait()
    return event.is_set()


class Signal:
    """Wakes all that wait for the next `set`."""

    def __init__(self) -> None:
        self.next = asyncio.Event()

    def set(self) -> None:
        self.next.set()
        self.next = asyncio.Event()


class WakeableLoop:
    """Calls `once`, which returns for how many seconds there is no work."""

    def __init__(self, name: str, once: Callable[[], Awaitable[float]]) -> None:
        self._name, self._once = name, once
        self._woken = asyncio.Event()
        self._log = structlog.get_logger()

    def wake(self) -> None:
        """Look for work now."""
        self._woken.set()

    async def run(self) -> None:
        """Look for work until cancelled; log errors, except those of an unwritable database."""
        while True:
            self._woken.clear()
            try:
                wait_s = min(_LOOK_S, await self._once())
            except Exception as error:
                if not isinstance(error, TqError) or error.code not in UNWRITTEN:
                    self._log.exception("looking for work failed", task=self._name)
                wait_s = _PAUSE_S
            await wait_until_set(self._woken, wait_s)
