"""Answers whether the supervisor is healthy and takes jobs, and what its metrics are.

What does not answer in time is reported as such, with the last known values.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from importlib import import_module

from tqstudio.engine.assembly.services import Services
from tqstudio.engine.monitoring import disks, stored
from tqstudio.engine.monitoring.disks import Disk
from tqstudio.engine.monitoring.latest import Latest
from tqstudio.engine.monitoring.readiness import SILENT, readiness
from tqstudio.engine.monitoring.stored import Stored
from tqstudio.engine.monitoring.workers import statuses
from tqstudio.protocol.answers import HealthView, ReadyView

DATABASE_S = 1.0
"""A database that takes longer to answer counts as hanging."""
_DISKS_S = 0.1
"""How long a scrape waits for the outputs' disks."""


class Monitor:
    """Watches a supervisor."""

    def __init__(self, services: Services) -> None:
        self._services, self._began = services, time.monotonic()
        self._stored: Latest[Stored] = Latest(partial(stored.read, services.db), DATABASE_S)
        self._disks: Latest[list[Disk]] = Latest(partial(disks.of_outputs, services), _DISKS_S)

    async def health(self) -> HealthView:
        """Checks that the database answers to reads and writes; names also what troubles a wing."""
        answers = await self._stored.refresh()
        troubles = [part.trouble() for part in self._services.wings.parts]
        reasons = [] if answers else [SILENT]
        return {"healthy": answers, "reasons": [*reasons, *filter(None, troubles)]}

    async def readiness(self) -> ReadyView:
        """Checks that a new job would be processed now."""
        answers, found = await self._stored.refresh(), self._stored.value
        if not answers or found is None:
            return {"ready": False, "reasons": [SILENT]}
        closed = [row.kind for row in found.gates]
        return readiness(self._services, statuses(self._services, found.workers), closed)

    async def scrape(self) -> bytes:
        """Returns all metrics in the text format of Prometheus."""
        # Only now, because most supervisors are never scraped; on a thread, because it takes a while.
        exposition = await asyncio.to_thread(import_module, "tqstudio.engine.monitoring.exposition")
        answers, _ = await asyncio.gather(self._stored.refresh(), self._disks.refresh())
        text: bytes = exposition.write(
            self._services,
            self._stored.value,
            self._disks.value or (),
            uptime_s=time.monotonic() - self._began,
            database_answers=answers,
        )
        return text
