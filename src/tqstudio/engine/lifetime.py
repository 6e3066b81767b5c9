"""Decides when a supervisor that was started for one run (`tqstudio up --until-idle`) is needed no longer.

It knows which commands use it and which jobs are open, and shuts down when there are none of both.
"""

from __future__ import annotations

import asyncio
import contextlib

import psutil

from tqstudio.engine.live.event_stream import Broadcast
from tqstudio.engine.shutdown import Shutdown, ShutdownMode
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.lists import pages
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import JobStatus
from tqstudio.protocol.answers import Need

GRACE_S = 5.0
"""After the start, and after a command that was killed: time in which another command may join."""
_CHECK_S = 1.0
_OPEN = (JobStatus.PENDING, JobStatus.IN_PROGRESS)


class Lifetime:
    """Counts the commands that use a supervisor by their processes: one that is killed counts no more.

    Args:
        until_idle: it shuts down by itself, unless a command asks it to stay.
    """

    def __init__(self, db: Database, broadcast: Broadcast, shutdown: Shutdown, *, until_idle: bool) -> None:
        self._db = db
        self._broadcast = broadcast
        self._shutdown = shutdown
        self._stays = not until_idle
        self._users: dict[int, psutil.Process] = {}

    def join(self, pid: int, *, stay: bool) -> None:
        """Registers a command until it leaves or its process exits.

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

    async def leave(self, pid: int, *, ignores_jobs: bool) -> Need | None:
        """Unregisters a command, and shuts down unless the supervisor is needed; returns by what it is.

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
        """Shuts down once the supervisor has not been needed for `GRACE_S`."""
        idle_s = 0.0
        while not self._stays:
            await asyncio.sleep(_CHECK_S)
            idle_s = 0.0 if await self._needed_by() else idle_s + _CHECK_S
            if idle_s >= GRACE_S:
                self._shutdown.request(ShutdownMode.NOW)
                return

    async def _needed_by(self) -> Need | None:
        counts = await self._db.read(pages.counts_by_status)
        # After the query: a command that joins from here on finds the shutdown begun.
        if self._stays:
            return "stay"
        if self._broadcast.watched or any(map(_runs, self._users.values())):
            return "commands"
        return "jobs" if any(counts[status] for status in _OPEN) else None


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
