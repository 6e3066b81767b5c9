"""Runs what a supervisor does with Redis: publishes messages, and takes jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tqstudio.engine.assembly.services import Services
from tqstudio.engine.host import logging_setup
from tqstudio.engine.parts.part import Background
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol.answers import CheckView, Reason, check_view
from tqstudio.wings.redis.link import Link
from tqstudio.wings.redis.messages import Messages
from tqstudio.wings.redis.stream import JobStream
from tqstudio.wings.redis.taking import Taking

if TYPE_CHECKING:
    from redis.asyncio import Redis

_CANCEL_S = 1.0
_EFFECT = "jobs from there wait, and nothing is published"


class RedisPart(Background):
    """The connection of a studio with Redis; without `redis_url` it does nothing.

    Raises:
        TqError: BAD_CONFIG if redis-py is not installed.
    """

    def __init__(self, services: Services) -> None:
        settings = services.settings
        self._is_on = bool(settings.redis_url)
        if self._is_on and find_spec("redis") is None:
            raise TqError(
                ErrorCode.BAD_CONFIG,
                "the setting redis_url needs redis-py, which is not installed",
                "install it with: pip install 'tqstudio[redis]', uv tool install or pipx install --force",
            )
        taking = Taking(services)
        logging_setup.know(*taking.roots)
        self._messages = Messages(services, settings.redis_prefix)
        self._jobs = JobStream(settings.redis_prefix, settings.host_name, services.db, taking)
        self._link = Link(settings.redis_url, self._messages.drop)
        self.triggers = None if self._is_on else ()
        self._works: list[asyncio.Task[None]] = []
        """What needs the present connection."""
        super().__init__(lambda: self._link.run(self._use))

    async def start(self) -> None:
        """Connect in the background; a server that is away holds nothing up."""
        if self._is_on:
            await self._link.prepare()
            await super().start()

    async def stop(self) -> None:
        await _end([*self._works, *([] if self._task is None else [self._task])])

    def on_events(self, events: Sequence[EventRow]) -> None:
        """Publish events that were committed, if Redis is there."""
        if self._link.is_closed:
            self._messages.put(events)

    async def checks(self) -> list[CheckView]:
        """Report whether Redis can be used, and whether entries wait."""
        if not self._is_on:
            return []
        if (problem := self._link.problem) is not None:
            hint = "check the server and redis_url; the supervisor keeps trying"
            return [check_view("redis", "warn", f"{problem}; {_EFFECT}", hint)]
        if waiting := self._jobs.waiting:
            why = next(iter(waiting.values()))
            return [
                check_view("redis", "warn", f"entries that wait: {len(waiting)}; {why.message}", why.hint)
            ]
        return [
            check_view("redis", "ok", "it is connected" if self._link.is_closed else "it is being connected")
        ]

    def trouble(self) -> Reason | None:
        """Say that Redis is lost."""
        if self._link.problem is None:
            return None
        return {"kind": "redis", "reason": f"Redis cannot be used: {_EFFECT}"}

    async def _use(self, client: Redis) -> None:
        """Do all that needs a connection, until one of it fails."""
        await self._jobs.begin(client)
        self._link.close()
        kinds = self._jobs.read, self._messages.send_events, self._messages.send_snapshots
        self._works = [asyncio.create_task(work(client)) for work in kinds]
        try:
            ended, _ = await asyncio.wait(self._works, return_when=asyncio.FIRST_COMPLETED)
            for work in ended:
                work.result()
        finally:
            await _end(self._works)


async def _end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they have ended: redis-py may lose a cancellation that comes with an error."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_CANCEL_S)
