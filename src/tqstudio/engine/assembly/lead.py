"""Decides when a supervisor has to stop leading: its home or database is lost, or another one leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from tqstudio.config import Settings
from tqstudio.engine.assembly.shutdown import Shutdown, ShutdownMode
from tqstudio.errors import ErrorCode, TqError

_LOOK_S = 1.0
"""Interval of looks at the lease."""


class Lead:
    """Whether this supervisor leads.

    Args:
        lease_left_s: returns how long no other supervisor may lead.
    """

    def __init__(self, settings: Settings, shutdown: Shutdown, lease_left_s: Callable[[], float]) -> None:
        self._settings, self._shutdown, self._lease_left_s = settings, shutdown, lease_left_s
        self._lost = ""
        self._is_replaced = False
        self._log = structlog.get_logger()

    @property
    def stands_by_again(self) -> bool:
        """Whether another supervisor leads now, and this process lives on."""
        return self._is_replaced and not self._shutdown.is_asked_for

    def require(self) -> None:
        """
        Raises:
            TqError: NOT_FOUND, the home or the database was lost.
        """
        if self._lost:
            raise TqError(
                ErrorCode.NOT_FOUND,
                f"the supervisor lost its home or database and shut down: {self._lost}",
                "start a new one with: tqstudio up",
            )

    def lose(self, why: TqError) -> None:
        """Shut down, or stand by if the settings say so, because another supervisor may lead."""
        if self._settings.standby:
            self._is_replaced = True
            self._log.warning("another supervisor may lead, standing by", why=why.message)
            self._shutdown.request(ShutdownMode.NOW)
        else:
            self._give_up(why.message)

    async def watch_home(self, lost: Callable[[], Awaitable[str]]) -> None:
        """Shut down once the home is lost: clients can no longer reach the supervisor.

        Args:
            lost: returns why, when it is.
        """
        self._give_up(await lost())

    async def watch_lease(self) -> None:
        """Stand by again after the lease has run out, as when the database does not answer."""
        left_s = _LOOK_S
        while left_s > 0:
            await asyncio.sleep(min(left_s, _LOOK_S))
            left_s = self._lease_left_s()
        why = f"its lease could not be renewed for {self._settings.supervisor_lease_s:g} s"
        self.lose(TqError(ErrorCode.DATABASE_UNREACHABLE, why))

    def _give_up(self, why: str) -> None:
        self._lost = self._lost or why
        self._log.error("home or database lost, shutting down", why=self._lost)
        self._shutdown.request(ShutdownMode.NOW)
