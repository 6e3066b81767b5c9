"""Pushes events and snapshots to the watchers of the event stream (server-sent events).

Stored events carry their sequence number. The newest are buffered once for all watchers; older ones are read
from the store page by page. `progress` and `worker` snapshots are not stored, and are limited to four per
second.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from tqstudio.engine.parts.part import Part
from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.event_row import EventRow

SNAPSHOT_INTERVAL_S = 0.25
RECENT = 1_000
"""Number of events buffered for all watchers together."""
PAGE = 200
"""Number of older events read from the store at once."""
BACKLOG = 240
"""Unread snapshots, at least a minute's, after which a watcher is disconnected and has to reload."""


@dataclass(frozen=True, slots=True)
class StoredEvents:
    """Stored events in order, and the first and last stored sequence number."""

    rows: list[EventRow]
    oldest: int
    last: int


def page(db: Connection, seen: int) -> StoredEvents:
    """Returns the events after `seen`; fewer than `PAGE` if these are all."""
    return StoredEvents(events.after(db, seen, limit=PAGE), *events.bounds(db))


class Watcher:
    """A client of the stream: its unsent snapshots, and whether its stream ends."""

    def __init__(self) -> None:
        self.woken = asyncio.Event()
        self.ending = False
        self._snapshots: list[bytes] = []

    @property
    def unread(self) -> int:
        return len(self._snapshots)

    def put(self, snapshot: bytes) -> None:
        self._snapshots.append(snapshot)
        self.woken.set()

    def take(self) -> list[bytes]:
        """Returns and clears the unsent snapshots."""
        taken, self._snapshots = self._snapshots, []
        return taken

    def end(self) -> None:
        """Ends the stream after all events are sent."""
        self.ending = True
        self.woken.set()


class EventStream(Part):
    """Distributes events and snapshots to the watchers; runs on the event loop."""

    triggers = None

    def __init__(self, view: Callable[[EventRow], Mapping[str, Any]]) -> None:
        self.view = view
        self._watchers: set[Watcher] = set()
        self._has_watcher = asyncio.Event()
        self._stopped = False
        self._recent: deque[tuple[int, bytes]] = deque()
        self._floor = 0
        """All events after this one are buffered."""
        self.last = 0
        """Sequence number of the last event that was passed on; 0 before the first."""

    @property
    def watched(self) -> bool:
        """Whether there is a watcher; without one, snapshots are not needed."""
        return bool(self._watchers)

    @property
    def watchers(self) -> int:
        """Number of watchers."""
        return len(self._watchers)

    async def until_watched(self) -> None:
        """Waits for a watcher."""
        while not self._watchers:
            self._has_watcher.clear()
            await self._has_watcher.wait()

    def on_events(self, rows: Sequence[EventRow]) -> None:
        """Passes on stored events: all of them, in the order of their sequence numbers."""
        if not self.last:
            self._floor = rows[0].seq - 1
        self.last = rows[-1].seq
        if not self._watchers:
            self._recent.clear()
            self._floor = self.last
            return
        # Events beyond the buffer are read from the store by their watchers.
        self._recent.extend((row.seq, message("event", self.view(row), row.seq)) for row in rows[-RECENT:])
        if len(rows) > RECENT:
            self._floor = rows[-RECENT - 1].seq
        while len(self._recent) > RECENT:
            self._floor = max(self._floor, self._recent.popleft()[0])
        for watcher in self._watchers:
            watcher.woken.set()

    def since(self, seen: int) -> list[tuple[int, bytes]] | None:
        """Returns the messages after `seen`, with their numbers; None if some are no longer buffered."""
        if seen >= self.last:
            return []
        if seen < self._floor:
            return None
        newest_first = takewhile(lambda event: event[0] > seen, reversed(self._recent))
        return list(newest_first)[::-1]

    def snapshot(self, name: str, data: Mapping[str, Any]) -> None:
        """Passes on a snapshot."""
        text = message(name, data)
        for watcher in list(self._watchers):
            if watcher.unread < BACKLOG:
                watcher.put(text)
                continue
            # This watcher is too slow: it has to reconnect and reload, because its snapshots are too old.
            watcher.take()
            watcher.end()
            self.leave(watcher)

    def watch(self) -> Watcher:
        """Adds a watcher; after `stop` its stream ends at once."""
        watcher = Watcher()
        if self._stopped:
            watcher.end()
        else:
            self._watchers.add(watcher)
            self._has_watcher.set()
        return watcher

    def leave(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)

    async def stop(self) -> None:
        """Ends every stream, so that the server can close."""
        self._stopped = True
        for watcher in self._watchers:
            watcher.end()
        self._watchers.clear()


async def stream(
    event_stream: EventStream,
    read: Callable[[int], Awaitable[StoredEvents]],
    seen: int,
    *,
    greeting: bytes,
    keepalive_s: float,
) -> AsyncIterator[bytes]:
    """Streams every event after `seen` to one watcher, and keep-alive comments while there are none.

    Holds only one page of old events at a time.

    Args:
        read: reads the page of events after a sequence number.
    """
    watcher = event_stream.watch()
    try:
        yield greeting
        catching_up = True
        while True:
            watcher.woken.clear()
            recent = None if catching_up else event_stream.since(seen)
            if recent is None:
                passed_on = event_stream.last
                found = await read(seen)
                texts = [message("event", event_stream.view(row), row.seq) for row in found.rows]
                if found.oldest and seen < found.oldest - 1:
                    texts.insert(0, reset(found.oldest, found.last))
                seen = found.rows[-1].seq if found.rows else seen
                catching_up = len(found.rows) == PAGE
                if not catching_up:
                    # Events passed on before this read and not found were deleted from the store.
                    seen = max(seen, passed_on)
            else:
                texts = [text for _, text in recent]
                seen = recent[-1][0] if recent else seen
            if chunk := b"".join(watcher.take() + texts):
                yield chunk
            elif not catching_up and watcher.ending:
                return
            elif not catching_up:
                try:
                    async with asyncio.timeout(keepalive_s):
                        await watcher.woken.wait()
                except TimeoutError:
                    yield b": still here\n\n"
    finally:
        event_stream.leave(watcher)


def message(name: str, data: Mapping[str, Any], seq: int | None = None) -> bytes:
    """Formats a server-sent event."""
    number = "" if seq is None else f"id: {seq}\n"
    return f"event: {name}\n{number}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def reset(oldest: int, last: int) -> bytes:
    """Formats the message that events before `oldest` were pruned before they could be sent."""
    return message("reset", {"oldest": oldest, "last": last})
