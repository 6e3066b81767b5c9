"""Defines what a part of a supervisor is: it starts and stops, hears of events, and works at intervals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.protocol.answers import CheckView, Reason


@dataclass(frozen=True)
class Periodic:
    """A task that runs every so many seconds.

    Args:
        at_once: whether it runs at the start, too.
        jitter_s: at most so many seconds are added to each interval.
        without_database: whether it runs while nothing can be written, when most tasks are of no use.
    """

    seconds: float
    run: Callable[[], Awaitable[None]]
    at_once: bool = False
    jitter_s: float | None = None
    without_database: bool = False


class Part:
    """Part of a supervisor. What a part does not need it inherits from here."""

    triggers: Collection[str] | None = ()
    """The kinds of events that it is handed; None stands for all."""
    every: Sequence[Periodic] = ()

    async def start(self) -> None:
        """Start. The parts before it in the list have started."""

    async def stop(self) -> None:
        """Stop; idempotent, also before `start`. The parts after it have stopped."""

    def on_events(self, events: Sequence[EventRow], /) -> None:
        """Take notice of events after their commit, on the event loop; it must not wait."""

    async def checks(self) -> Sequence[CheckView]:
        """Check what `doctor` reports of it."""
        return ()

    def trouble(self) -> Reason | None:
        """Return what `/health` names of it, although the supervisor stays healthy; it must not wait."""
        return None


class Background(Part):
    """Runs a coroutine function as a task from start to stop, and logs its failure."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self._run = run
        self._task: asyncio.Task[Any] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(_log_failure)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


class Parts:
    """Starts parts in their order and stops them in the reverse one."""

    def __init__(self, *parts: Part) -> None:
        self._parts = parts

    def periodic(self) -> Sequence[Periodic]:
        """Return the periodic tasks of all."""
        return [each for part in self._parts for each in part.every]

    async def start(self) -> None:
        for part in self._parts:
            await part.start()

    async def stop(self) -> None:
        """Stop all, also if one of them fails; its error is raised at the end."""
        errors = []
        for part in reversed(self._parts):
            try:
                await part.stop()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def on_events(self, events: Sequence[EventRow]) -> None:
        """Hand each part the events whose kind it names."""
        for part in self._parts:
            wanted = part.triggers
            mine = events if wanted is None else [event for event in events if event.trigger in wanted]
            if mine:
                part.on_events(mine)


def _log_failure(task: asyncio.Task[Any]) -> None:
    """Log the error by which a task has ended, if any."""
    if not task.cancelled() and (error := task.exception()) is not None:
        structlog.get_logger().error("a part failed", exc_info=error)
