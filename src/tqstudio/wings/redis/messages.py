"""Publishes what the event stream says, with the paths that callers from the network see.

Pub/Sub keeps nothing, so what cannot be sent is dropped: who has to see all reads the event stream.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from tqstudio.engine.assembly.services import Services
from tqstudio.engine.host import logging_setup
from tqstudio.engine.host.waiting import wait_until_set
from tqstudio.engine.http import relative_paths
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.jobs.transitions import job_facts
from tqstudio.errors import TqError

if TYPE_CHECKING:
    from redis.asyncio import Redis

_WAITING = 1000
"""Events that wait to be sent; beyond them the oldest are dropped."""
_LOOK_S = 1.0
"""How often it is looked whether a job runs."""

Message = tuple[str, Mapping[str, Any]]
"""The channel, and what is sent there."""


class Messages:
    """What is published."""

    def __init__(self, services: Services, prefix: str) -> None:
        self._services, self._prefix = services, prefix
        self._events: deque[EventRow] = deque(maxlen=_WAITING)
        self._woken = asyncio.Event()
        self._videos = dict[int, int]()
        """The video of each running job."""

    def put(self, rows: Sequence[EventRow]) -> None:
        """Have events published."""
        self._events.extend(rows)
        self._woken.set()

    def drop(self) -> None:
        """Drop what was not published."""
        self._events.clear()

    async def send_events(self, client: Redis) -> None:
        """Publish events until cancelled."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            rows = list(self._events)
            self._events.clear()
            view = self._services.event_stream.view
            await self._publish(client, [(f"{self._prefix}:events", view(row)) for row in rows])

    async def send_snapshots(self, client: Redis) -> None:
        """Publish the progress of jobs and the state of workers until cancelled."""
        stream = self._services.event_stream
        while True:
            watcher = stream.watch() if self._may_watch() else None
            try:
                while watcher is not None and not watcher.ending and self._may_watch():
                    watcher.woken.clear()
                    if taken := watcher.take():
                        await self._publish(client, await self._messages_of(taken))
                    else:
                        await wait_until_set(watcher.woken, _LOOK_S)
            finally:
                if watcher is not None:
                    stream.leave(watcher)
            await asyncio.sleep(_LOOK_S)

    def _may_watch(self) -> bool:
        """Whether the stream may have a watcher, which keeps a supervisor that is to end when it is idle."""
        return not self._services.until_idle or bool(self._services.running_jobs.jobs)

    async def _messages_of(self, snapshots: Sequence[bytes]) -> list[Message]:
        messages: list[Message] = []
        for snapshot in snapshots:
            head, _, data = snapshot.partition(b"\ndata: ")
            match head:
                case b"event: worker":
                    messages.append((f"{self._prefix}:workers", from_json(data)))
                case b"event: progress":
                    rows = from_json(data)["jobs"]
                    found = [(await self._video_of(row["id"]), row) for row in rows]
                    messages += [(f"{self._prefix}:progress:{video}", row) for video, row in found if video]
        return messages

    async def _video_of(self, job: int) -> int | None:
        if job not in self._videos:
            running = self._services.running_jobs.jobs
            self._videos = {each: video for each, video in self._videos.items() if each in running}
            with contextlib.suppress(TqError):
                if (facts := await self._services.db.read(job_facts, job)) is not None:
                    self._videos[job] = facts.video
        return self._videos.get(job)

    async def _publish(self, client: Redis, messages: Sequence[Message]) -> None:
        pipe, roots = client.pipeline(transaction=False), logging_setup.roots()
        for channel, data in messages:
            pipe.publish(channel, relative_paths.of_json(to_json(data), roots))
        await pipe.execute()
