"""Locks the outputs of a supervisor's videos, so that no other one of the same store writes there."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

import structlog

from tqstudio.engine.assembly.services import Services
from tqstudio.engine.host.home_guard import HomeGuard
from tqstudio.engine.host.service_manager import ServiceManager
from tqstudio.engine.http.server import SocketServer
from tqstudio.engine.store.library import videos
from tqstudio.errors import ErrorCode, TqError
from tqstudio.wings.standby.answers import Answers

LOOK_S = 1.0
"""Interval of tries."""


class OutputLocks:
    """Locks all outputs at the start of a supervisor."""

    def __init__(self, services: Services, home_guard: HomeGuard, manager: ServiceManager) -> None:
        self._services, self._home_guard, self._manager = services, home_guard, manager

    async def acquire(self) -> bool:
        """Lock them; a supervisor that has led until now, and was stopped, may still hold them: wait for it.

        Returns:
            False if this one is asked to shut down meanwhile: then it must not touch them.

        Raises:
            TqError: OUTPUT_IN_USE.
        """
        services = self._services
        try:
            await self._lock_all()
            return True
        except TqError as error:
            if not services.settings.standby:
                raise
            why = f"this supervisor waits for the one that has led before: {error.message}"
        structlog.get_logger().warning("waiting for the supervisor that has led before", why=why)
        refusal = TqError(ErrorCode.REFUSED, why, "end that supervisor if it hangs")
        server = SocketServer(Answers(lambda: refusal, partial(services.shutdown.request_by_api, False)))
        serving = asyncio.create_task(server.serve(sockets=[self._home_guard.open_socket()]))
        reporting = asyncio.create_task(self._manager.watch(lambda: "waiting for outputs"))
        try:
            return await self._until_locked()
        finally:
            reporting.cancel()
            server.end()
            await serving
            self._home_guard.close_socket()

    async def _until_locked(self) -> bool:
        recovery = self._services.recovery
        while True:
            recovery.clock.now_us()  # it has to be read often, see `RunningClock`
            await recovery.renew()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._services.shutdown.requested()
                    return False
            with contextlib.suppress(TqError):
                await self._lock_all()
                return True

    async def _lock_all(self) -> None:
        services = self._services

        async def lock(root: bytes) -> None:
            with contextlib.suppress(OSError):
                await services.bounded_io.run(root, partial(services.workspace.require_lock, root))

        await asyncio.gather(*map(lock, await services.db.read(videos.output_roots)))
