"""Decides when a supervisor shuts down: at once, or once its running jobs have ended."""

from __future__ import annotations

import asyncio
import contextlib
from enum import Enum

from tqstudio.engine.live.running_jobs import LiveBoard


class ShutdownMode(Enum):
    """How a supervisor was asked to shut down; a later request can only be more urgent."""

    WHEN_IDLE = 1
    """When the running jobs have ended (`down --drain`)."""
    DRAIN = 2
    """When the running jobs have ended, at most `drain_s` from now (SIGTERM)."""
    NOW = 3
    """At once, keeping finished segments (`down`, a second signal)."""


class Shutdown:
    """The request to shut down, if any, and the jobs that may end first.

    Args:
        drain_s: how long SIGTERM waits for running jobs.
    """

    def __init__(self, board: LiveBoard, drain_s: float) -> None:
        self._board, self._drain_s = board, drain_s
        self._mode: ShutdownMode | None = None
        self._changed = asyncio.Event()
        self.worked_on: set[int] = set()
        """Jobs that workers had when the shutdown began."""

    @property
    def at_once(self) -> bool:
        """Whether the shutdown was requested, and does not wait for jobs."""
        return self._mode is ShutdownMode.NOW

    def request(self, mode: ShutdownMode) -> None:
        """Request the shutdown; the more urgent of two requests counts."""
        if self._mode is None or mode.value > self._mode.value:
            self._mode = mode
            self._changed.set()

    def request_by_api(self, drain: bool) -> None:
        """Request it at once, or once the running jobs have ended."""
        self.request(ShutdownMode.WHEN_IDLE if drain else ShutdownMode.NOW)

    def request_by_signal(self) -> None:
        """Request it as SIGTERM does: the second one does not wait."""
        again = self._mode in (ShutdownMode.DRAIN, ShutdownMode.NOW)
        self.request(ShutdownMode.NOW if again else ShutdownMode.DRAIN)

    async def requested(self) -> None:
        """Wait for the first request."""
        await self._changed.wait()
        self.worked_on |= set(self._board.jobs)

    async def until_due(self) -> None:
        """Wait as long as running jobs may continue after a request."""
        loop = asyncio.get_running_loop()
        self._board.on_end = self._changed.set
        left: float | None = None
        deadline = None
        while self._board.jobs and self._mode is not ShutdownMode.NOW:
            if self._mode is ShutdownMode.DRAIN:
                # Counts from the signal: the supervisor may have been draining without a limit before.
                deadline = deadline or loop.time() + self._drain_s
                if (left := deadline - loop.time()) <= 0:
                    return
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()
