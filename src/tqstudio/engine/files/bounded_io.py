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

from tqstudio.paths import display

T = TypeVar("T")

PATIENCE_S = 5.0
"""A disk that has to spin up answers within this time."""


class NoAnswer(OSError):
    """The file system of a path does not answer."""

    strerror: str

    def __init__(self, place: bytes) -> None:
        super().__init__(errno.ETIMEDOUT, f"the file system of {display(place)} does not answer")


class _Place:
    """A place that is asked, or waited for."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        """Held from the begin of a look to its answer, however late. Those who wait have it in turn: each
        answer wakes one of them."""
        self.since = 0.0
        """When the look began that holds it."""
        self.callers = 0


class Patience:
    """Asks places, and remembers which of them owe an answer."""

    def __init__(self) -> None:
        self._places: dict[bytes, _Place] = {}
        self._silent: set[bytes] = set()
        self._answered = False

    async def look(self, place: bytes, look: Callable[[], T]) -> T:
        """What `look` answers, on a thread of its own.

        Raises:
            NoAnswer: there is no answer after `PATIENCE_S`, or an earlier look at this place has none.
            OSError: whatever else `look` raises.
        """
        asked = self._places.setdefault(place, _Place())
        asked.callers += 1
        try:
            await self._take_turn(place, asked)
            try:
                answer = _on_a_thread(look)
            except BaseException:
                asked.turn.release()
                raise
            answer.add_done_callback(lambda _: self._have_answered(place, asked))
            await asyncio.wait([answer], timeout=PATIENCE_S)
            if not answer.done():
                raise self._no_answer(place)
            result: T = answer.result()
            return result
        finally:
            asked.callers -= 1
            self._forget(place, asked)

    async def _take_turn(self, place: bytes, asked: _Place) -> None:
        loop = asyncio.get_running_loop()
        while True:
            waits_for = asked.since
            try:
                async with asyncio.timeout_at(waits_for + PATIENCE_S):
                    await asked.turn.acquire()
            except TimeoutError:
                if asked.turn.locked() and asked.since == waits_for:
                    raise self._no_answer(place) from None
            else:
                asked.since = loop.time()
                return

    def take_answered(self) -> bool:
        """Whether a place has answered since the last call that had not done so in time."""
        answered, self._answered = self._answered, False
        return answered

    def _have_answered(self, place: bytes, asked: _Place) -> None:
        asked.turn.release()
        self._answered |= place in self._silent
        self._silent.discard(place)
        self._forget(place, asked)

    def _forget(self, place: bytes, asked: _Place) -> None:
        if not asked.callers and not asked.turn.locked():
            self._places.pop(place, None)

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

    def _no_answer(self, place: bytes) -> NoAnswer:
        self._silent.add(place)
        return NoAnswer(place)


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
