"""Pushes what happens to every watcher of the event stream.

Stored events carry their sequence number and can be replayed; `progress` and `worker` snapshots are not
stored and are coalesced to four a second.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from tqstudio.engine.store.events import EventRow

SNAPSHOT_INTERVAL_S = 0.25
BACKLOG = 2_000
"""Messages a watcher may lag behind before it is told to read everything anew."""


class Broadcast:
    """The watchers of the event stream; runs on the event loop."""

    def __init__(self, view: Callable[[EventRow], Mapping[str, Any]]) -> None:
        self._view = view
        self._watchers: set[asyncio.Queue[bytes | None]] = set()
        self._somebody = asyncio.Event()
        self._stopped = False

    @property
    def watched(self) -> bool:
        """Whether anybody looks: nobody needs a snapshot nobody sees."""
        return bool(self._watchers)

    async def until_watched(self) -> None:
        """Return once somebody looks."""
        while not self._watchers:
            self._somebody.clear()
            await self._somebody.wait()

    def events(self, rows: list[EventRow]) -> None:
        """Pass stored events on."""
        if not self._watchers:
            return
        for row in rows:
            self._put(message("event", self._view(row), row.seq))

    def snapshot(self, name: str, data: Mapping[str, Any]) -> None:
        """Pass an unstored snapshot on."""
        self._put(message(name, data))

    def _put(self, text: bytes) -> None:
        for queue in list(self._watchers):
            try:
                queue.put_nowait(text)
            except asyncio.QueueFull:
                # A watcher that slow is cut off; it reconnects and reads everything anew.
                self._watchers.discard(queue)
                _end(queue)

    def watch(self) -> asyncio.Queue[bytes | None]:
        """A new watcher's queue; None in it ends the stream."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(BACKLOG)
        if self._stopped:
            _end(queue)
        else:
            self._watchers.add(queue)
            self._somebody.set()
        return queue

    def leave(self, queue: asyncio.Queue[bytes | None]) -> None:
        self._watchers.discard(queue)

    def stop(self) -> None:
        """End every stream, so that the server can close."""
        self._stopped = True
        for queue in self._watchers:
            _end(queue)
        self._watchers.clear()


async def stream(
    broadcast: Broadcast, queue: asyncio.Queue[bytes | None], replay: list[bytes], *, keepalive_s: float
) -> AsyncIterator[bytes]:
    """The bytes of one watcher's stream: what it missed, then what comes; a comment when nothing does."""
    try:
        for text in replay:
            yield text
        while True:
            try:
                text_or_end = await asyncio.wait_for(queue.get(), keepalive_s)
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if text_or_end is None:
                return
            yield text_or_end
    finally:
        broadcast.leave(queue)


def message(name: str, data: Mapping[str, Any], seq: int | None = None) -> bytes:
    """One server-sent event."""
    number = "" if seq is None else f"id: {seq}\n"
    return f"event: {name}\n{number}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def _end(queue: asyncio.Queue[bytes | None]) -> None:
    while queue.full():
        queue.get_nowait()
    queue.put_nowait(None)
