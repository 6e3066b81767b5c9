"""Pushes what happens to every watcher of the event stream.

Stored events carry their sequence number. The newest are held here once for all watchers; whoever lags behind
them, or asks for older ones, reads them from the store page by page. `progress` and `worker` snapshots are
not stored and are coalesced to four a second.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.event_row import EventRow

SNAPSHOT_INTERVAL_S = 0.25
RECENT = 1_000
"""Events held for all watchers together."""
PAGE = 200
"""Events read at once for a watcher that wants older ones."""
BACKLOG = 240
"""Snapshots a watcher may leave unread, a minute's at least, before it is told to read everything anew."""


@dataclass(frozen=True, slots=True)
class EventPage:
    """Stored events in order, and the first and last sequence number that the store has."""

    rows: list[EventRow]
    oldest: int
    last: int


def page(db: Connection, seen: int) -> EventPage:
    """The events that follow `seen`; fewer than `PAGE` when these are all."""
    return EventPage(events.after(db, seen, limit=PAGE), *events.bounds(db))


class Watcher:
    """One reader of the stream: the snapshots it has yet to be sent, and whether it is to end."""

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
        """The snapshots, which are then its reader's."""
        taken, self._snapshots = self._snapshots, []
        return taken

    def end(self) -> None:
        """Let the stream end once every event is told."""
        self.ending = True
        self.woken.set()


class Broadcast:
    """The watchers of the event stream, and the newest events for them; runs on the event loop."""

    def __init__(self, view: Callable[[EventRow], Mapping[str, Any]]) -> None:
        self.view = view
        self._watchers: set[Watcher] = set()
        self._somebody = asyncio.Event()
        self._stopped = False
        self._recent: deque[tuple[int, bytes]] = deque()
        self._floor = 0
        """Every event after this one is among the recent ones."""
        self.last = 0
        """The last event that was passed on; 0 before the first."""

    @property
    def watched(self) -> bool:
        """Whether anybody looks: nobody needs a snapshot nobody sees."""
        return bool(self._watchers)

    @property
    def watchers(self) -> int:
        """How many look."""
        return len(self._watchers)

    async def until_watched(self) -> None:
        """Return once somebody looks."""
        while not self._watchers:
            self._somebody.clear()
            await self._somebody.wait()

    def events(self, rows: list[EventRow]) -> None:
        """Pass stored events on; all of them, in the order of their numbers."""
        if not self.last:
            self._floor = rows[0].seq - 1
        self.last = rows[-1].seq
        if not self._watchers:
            self._recent.clear()
            self._floor = self.last
            return
        # What does not fit is not even made: its watchers read it from the store.
        self._recent.extend((row.seq, message("event", self.view(row), row.seq)) for row in rows[-RECENT:])
        if len(rows) > RECENT:
            self._floor = rows[-RECENT - 1].seq
        while len(self._recent) > RECENT:
            self._floor = max(self._floor, self._recent.popleft()[0])
        for watcher in self._watchers:
            watcher.woken.set()

    def since(self, seen: int) -> list[tuple[int, bytes]] | None:
        """The messages that follow `seen`, by number; None where some are held no more."""
        if seen >= self.last:
            return []
        if seen < self._floor:
            return None
        newest_first = takewhile(lambda event: event[0] > seen, reversed(self._recent))
        return list(newest_first)[::-1]

    def snapshot(self, name: str, data: Mapping[str, Any]) -> None:
        """Pass an unstored snapshot on."""
        text = message(name, data)
        for watcher in list(self._watchers):
            if watcher.unread < BACKLOG:
                watcher.put(text)
                continue
            # Who has not read for so long comes back and reads everything anew; its snapshots are too old.
            watcher.take()
            watcher.end()
            self.leave(watcher)

    def watch(self) -> Watcher:
        """A new watcher; after the end it is one that ends at once."""
        watcher = Watcher()
        if self._stopped:
            watcher.end()
        else:
            self._watchers.add(watcher)
            self._somebody.set()
        return watcher

    def leave(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)

    def stop(self) -> None:
        """End every stream, so that the server can close."""
        self._stopped = True
        for watcher in self._watchers:
            watcher.end()
        self._watchers.clear()


async def stream(
    broadcast: Broadcast,
    read: Callable[[int], Awaitable[EventPage]],
    seen: int,
    *,
    greeting: bytes,
    keepalive_s: float,
) -> AsyncIterator[bytes]:
    """One watcher's stream: every event after `seen`, then what comes; a comment when nothing does.

    Only one page is held at a time, however far behind the reader is.

    Args:
        read: the page of events that follow a sequence number.
    """
    watcher = broadcast.watch()
    try:
        yield greeting
        behind = True
        while True:
            watcher.woken.clear()
            recent = None if behind else broadcast.since(seen)
            if recent is None:
                passed_on = broadcast.last
                found = await read(seen)
                texts = [message("event", broadcast.view(row), row.seq) for row in found.rows]
                if found.oldest and seen < found.oldest - 1:
                    texts.insert(0, reset(found.oldest, found.last))
                seen = found.rows[-1].seq if found.rows else seen
                behind = len(found.rows) == PAGE
                if not behind:
                    # What was passed on before the look and was not found is in the store no more.
                    seen = max(seen, passed_on)
            else:
                texts = [text for _, text in recent]
                seen = recent[-1][0] if recent else seen
            if told := b"".join(watcher.take() + texts):
                yield told
            elif not behind and watcher.ending:
                return
            elif not behind:
                try:
                    await asyncio.wait_for(watcher.woken.wait(), keepalive_s)
                except TimeoutError:
                    yield b": still here\n\n"
    finally:
        broadcast.leave(watcher)


def message(name: str, data: Mapping[str, Any], seq: int | None = None) -> bytes:
    """One server-sent event."""
    number = "" if seq is None else f"id: {seq}\n"
    return f"event: {name}\n{number}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def reset(oldest: int, last: int) -> bytes:
    """Tells that events were pruned before they could be told: those from `oldest` on follow."""
    return message("reset", {"oldest": oldest, "last": last})
