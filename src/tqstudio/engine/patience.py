"""Looks at file systems that may never answer: a network mount whose server is gone holds whoever asks it.

Such a look takes a thread with it. So at each place there is one look at a time, on a thread that nothing
else needs and nobody waits for at the end, and a place that does not answer is not asked again while it does
not.
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

from tqstudio.sources import display

T = TypeVar("T")

PATIENCE_S = 5.0
"""A disk that has to spin up answers within this time."""


class NoAnswer(OSError):
    """The file system of a path does not answer."""

    strerror: str

    def __init__(self, place: bytes) -> None:
        super().__init__(errno.ETIMEDOUT, f"the file system of {display(place)} does not answer")


class Patience:
    """Asks places, and remembers which of them owe an answer."""

    def __init__(self) -> None:
        self._looks: dict[bytes, tuple[float, asyncio.Future[Any]]] = {}
        self._silent: set[bytes] = set()
        self._answered = False

    async def look(self, place: bytes, look: Callable[[], T]) -> T:
        """What `look` answers, on a thread of its own.

        Raises:
            NoAnswer: there is no answer after `PATIENCE_S`, or an earlier look at this place has none.
            OSError: whatever else `look` raises.
        """
        while (earlier := self._looks.get(place)) is not None:
            since, answer = earlier
            await self._wait(place, answer, since)
        answer = _on_a_thread(look)
        self._looks[place] = asyncio.get_running_loop().time(), answer
        answer.add_done_callback(lambda _: self._have_answered(place))
        await self._wait(place, answer, asyncio.get_running_loop().time())
        result: T = answer.result()
        return result

    def take_answered(self) -> bool:
        """Whether a place has answered since the last call that had not done so in time."""
        answered, self._answered = self._answered, False
        return answered

    def _have_answered(self, place: bytes) -> None:
        self._looks.pop(place, None)
        self._answered |= place in self._silent
        self._silent.discard(place)

    async def answers(self, place: bytes) -> bool:
        """Whether the file system on which this path is, or will be, answers at all."""
        try:
            await self.look(place, lambda: os.path.lexists(place))
        except NoAnswer:
            return False
        return True

    async def require(self, place: Path) -> None:
        """
        Raises:
            NoAnswer: the file system of the path does not answer.
        """
        encoded = os.fsencode(place)
        if not await self.answers(encoded):
            raise NoAnswer(encoded)

    async def _wait(self, place: bytes, answer: asyncio.Future[Any], since: float) -> None:
        left = since + PATIENCE_S - asyncio.get_running_loop().time()
        await asyncio.wait([answer], timeout=max(0.0, left))
        if not answer.done():
            self._silent.add(place)
            raise NoAnswer(place)


def _on_a_thread(look: Callable[[], Any]) -> asyncio.Future[Any]:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if error is not None:
            answer.set_exception(error)
            answer.exception()  # whoever asked may have gone
        else:
            answer.set_result(result)

    def run() -> None:
        result, error = None, None
        try:
            result = look()
        except BaseException as raised:
            error = raised
        # The answer may come when the loop has ended.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, error)

    # A daemon: nobody waits at the end for a disk that does not answer.
    threading.Thread(target=run, name="look", daemon=True).start()
    return answer
