"""Runs file-system calls with a timeout: a network mount whose server is gone may block them for ever.

A blocked call cannot be cancelled and occupies its thread. So each path has at most one outstanding call, on
a daemon thread, and a path whose call has timed out gets no other until that call returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tqstudio.paths import display

T = TypeVar("T")

TIMEOUT_S = 5.0
"""Long enough for a disk that has to spin up."""


class NoAnswer(OSError):
    """The file system of a path does not answer."""

    strerror: str

    def __init__(self, place: bytes) -> None:
        super().__init__(errno.ETIMEDOUT, f"the file system of {display(place)} does not answer")


class _Place:
    """The outstanding call at a path, and the callers waiting for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        """Held from the start of a call until it returns, however late. Each return wakes one waiter."""
        self.since = 0.0
        """When the call that holds the lock began, in the loop's time."""
        self.callers = 0


class BoundedIO:
    """Runs file-system calls with a timeout; at most one outstanding call per path."""

    def __init__(self) -> None:
        self._places: dict[bytes, _Place] = {}

    async def run(self, place: bytes, function: Callable[[], T]) -> T:
        """Run `function` in a thread and return its result.

        Raises:
            NoAnswer: it did not return within `TIMEOUT_S`, or an earlier call at this path has not yet.
            OSError: any other error that `function` raises.
        """
        entry = self._places.setdefault(place, _Place())
        entry.callers += 1
        try:
            await self._acquire(place, entry)
            try:
                answer = on_a_thread(function)
            except BaseException:
                entry.lock.release()
                raise
            answer.add_done_callback(lambda _: self._on_return(place, entry))
            await asyncio.wait([answer], timeout=TIMEOUT_S)
            if not answer.done():
                raise NoAnswer(place)
            result: T = answer.result()
            return result
        finally:
            entry.callers -= 1
            self._forget(place, entry)

    async def _acquire(self, place: bytes, entry: _Place) -> None:
        loop = asyncio.get_running_loop()
        while True:
            waits_for = entry.since
            try:
                async with asyncio.timeout_at(waits_for + TIMEOUT_S):
                    await entry.lock.acquire()
            except TimeoutError:
                if entry.lock.locked() and entry.since == waits_for:
                    raise NoAnswer(place) from None
            else:
                entry.since = loop.time()
                return

    def _on_return(self, place: bytes, entry: _Place) -> None:
        entry.lock.release()
        self._forget(place, entry)

    def _forget(self, place: bytes, entry: _Place) -> None:
        if not entry.callers and not entry.lock.locked():
            self._places.pop(place, None)

    async def answers(self, place: bytes) -> bool:
        """Whether the file system of this path answers; the path itself need not exist."""
        try:
            await self.run(place, lambda: os.path.lexists(place))
        except NoAnswer:
            return False
        return True

    async def require(self, place: Path) -> None:
        """Check that the file system of a path answers.

        Raises:
            NoAnswer: it does not.
        """
        encoded = os.fsencode(place)
        if not await self.answers(encoded):
            raise NoAnswer(encoded)


def on_a_thread(function: Callable[[], T]) -> asyncio.Future[T]:
    """Run `function` on a daemon thread, without a timeout; the process exits without waiting for it."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if answer.cancelled():
            return
        if error is not None:
            answer.set_exception(error)
            answer.exception()  # the caller may have been cancelled
        else:
            answer.set_result(result)

    def run() -> None:
        result, error = None, None
        try:
            result = function()
        except BaseException as raised:
            error = raised
        # The call may return after the loop has closed.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, error)

    # Daemon: a blocked call must not delay the exit of the process.
    threading.Thread(target=run, name="bounded-io", daemon=True).start()
    return answer
