"""Reads what is drawn of a ladder once, and keeps it: it never changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from tqstudio.errors import UNANSWERED, TqError
from tqstudio.protocol.calls import Call

T = TypeVar("T")
Start = Callable[[Coroutine[Any, Any, None]], None]
_MOST = 32


class LadderAnswers:
    """Args: `send` sends a call, `changed` is called after its answer."""

    def __init__(self, send: Callable[[Call[Any]], Awaitable[Any]], changed: Callable[[], None]) -> None:
        self._send, self._changed = send, changed
        self._known: dict[object, Any] = {}

    def get(self, call: Call[T], generation: int, start: Start | None) -> T | None:
        """The answer about a generation; None until it is there, and if there is none.

        Of generation 0, which is not published yet, it is asked for until it is there. `start` runs a
        coroutine in the background; None reads nothing.
        """
        key = (call.path, *call.params.values(), generation)
        if key not in self._known and start is not None:
            self._known[key] = None
            if len(self._known) > _MOST:
                del self._known[next(iter(self._known))]
            start(self._read(key, call, may_come=not generation))
        found: T | None = self._known.get(key)
        return found

    async def _read(self, key: object, call: Call[Any], *, may_come: bool) -> None:
        try:
            self._known[key] = await self._send(call)
            self._changed()
        except TqError as error:
            if may_come or error.code in UNANSWERED:
                self._known.pop(key, None)
