"""Decides when a supervisor shuts down: on request, or once neither commands, jobs nor buckets need it."""

from __future__ import annotations

import asyncio
import contextlib
from enum import Enum

import psutil

from tqstudio.engine.host.waiting import wait_until_set
from tqstudio.engine.live.event_stream import EventStream
from tqstudio.engine.live.running_jobs import RunningJobs
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.library import deliveries
from tqstudio.engine.store.lists import pages
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import JobStatus
from tqstudio.protocol.answers import KeepAliveReason

GRACE_S = 5.0
"""After the start, and after a command that was killed: time in which another command may join."""
_CHECK_S = 1.0
_OPEN = (JobStatus.PENDING, JobStatus.IN_PROGRESS)


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
        changed: set when a job has ended.
    """

    def __init__(self, running_jobs: RunningJobs, drain_s: float, changed: asyncio.Event) -> None:
        self._running_jobs, self._drain_s, self._changed = running_jobs, drain_s, changed
        self._mode: ShutdownMode | None = None
        self.is_asked_for = False
        """Whether a person or the service manager has requested it."""
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
        self.is_asked_for = True
        self.request(ShutdownMode.WHEN_IDLE if drain else ShutdownMode.NOW)

    def request_by_signal(self) -> None:
        """Request it as SIGTERM does: the second one does not wait."""
        self.is_asked_for = True
        again = self._mode in (ShutdownMode.DRAIN, ShutdownMode.NOW)
        self.request(ShutdownMode.NOW if again else ShutdownMode.DRAIN)

    async def requested(self) -> None:
        """Wait for the first request."""
        while self._mode is None:
            self._changed.clear()
            await self._changed.wait()
        self.worked_on |= set(self._running_jobs.jobs)

    async def until_due(self) -> None:
        """Wait as long as running jobs may continue after a request."""
        loop = asyncio.get_running_loop()
        left: float | None = None
        deadline = None
        while self._running_jobs.jobs and self._mode is not ShutdownMode.NOW:
            if self._mode is ShutdownMode.DRAIN:
                # Counts from the signal: the supervisor may have been draining without a limit before.
                deadline = deadline or loop.time() + self._drain_s
                if (left := deadline - loop.time()) <= 0:
                    return
            self._changed.clear()
            await wait_until_set(self._changed, left)


class IdleShutdown:
    """Shuts a supervisor that was started for one run (`up --until-idle`) down when it is needed no longer.

    It is needed by open jobs, by ladders that are copied to buckets, and by commands, which are counted by
    their processes: one that is killed counts no more.

    Args:
        until_idle: it shuts down by itself, unless a command asks it to stay.
    """

    def __init__(
        self, db: Database, event_stream: EventStream, shutdown: Shutdown, *, until_idle: bool
    ) -> None:
        self._db = db
        self._event_stream = event_stream
        self._shutdown = shutdown
        self._stays = not until_idle
        self._users: dict[int, psutil.Process] = {}

    def join(self, pid: int, *, stay: bool) -> None:
        """Register a command until it leaves or its process exits.

        Args:
            stay: do not shut down when idle any more.

        Raises:
            TqError: NO_SUPERVISOR during the shutdown.
        """
        if self._shutdown.at_once:
            raise TqError(
                ErrorCode.NO_SUPERVISOR, "the supervisor is shutting down", "start it again with: tqstudio up"
            )
        self._stays |= stay
        # Of a command in another container the exit could not be seen, so it does not count.
        with contextlib.suppress(psutil.Error):
            self._users[pid] = psutil.Process(pid)

    async def leave(self, pid: int, *, ignores_jobs: bool) -> KeepAliveReason | None:
        """Unregister a command; shut down unless the supervisor is needed, else return what needs it.

        Args:
            ignores_jobs: it is not needed for the jobs that are open.
        """
        self._users.pop(pid, None)
        need = await self._needed_by()
        if need is None or (need == "jobs" and ignores_jobs):
            self._shutdown.request(ShutdownMode.NOW)
            return None
        return need

    async def watch(self) -> None:
        """Shut down once the supervisor has not been needed for `GRACE_S`."""
        idle_s = 0.0
        while not self._stays:
            await asyncio.sleep(_CHECK_S)
            try:
                idle_s = 0.0 if await self._needed_by() else idle_s + _CHECK_S
            except TqError:
                continue  # the database does not answer: it may be needed
            if idle_s >= GRACE_S:
                self._shutdown.request(ShutdownMode.NOW)
                return

    async def _needed_by(self) -> KeepAliveReason | None:
        counts = await self._db.read(pages.counts_by_status)
        # After the query: a command that joins from here on finds the shutdown begun.
        if self._stays:
            return "stay"
        if self._event_stream.watched or any(map(_runs, self._users.values())):
            return "commands"
        if any(counts[status] for status in _OPEN):
            return "jobs"
        return "uploads" if await self._db.read(deliveries.are_uploaded) else None


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
