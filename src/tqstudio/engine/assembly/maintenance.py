"""Does the periodic work that belongs to no other part: requeue, recover, prune, check the database."""

from __future__ import annotations

from functools import partial

import structlog

from tqstudio.engine.assembly.services import Services
from tqstudio.engine.files import bounded_io
from tqstudio.engine.gates.volume_monitor import TICK_S
from tqstudio.engine.host import children, logging_setup
from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.parts.part import Part, Periodic
from tqstudio.engine.queue.undo import UNDO_KEPT_US
from tqstudio.engine.store import events
from tqstudio.engine.store.db import upkeep
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs import autorestart, jobs, undo
from tqstudio.engine.store.jobs.folder_hours import FOREVER
from tqstudio.engine.store.jobs.retry_rules import longest_wait_s
from tqstudio.engine.store.machine import standbys, supervisors

_REQUEUE_S = 1.0
_PRUNE_S = 60.0
_LOGS_S = 600.0
_ANSWERS_KEPT_S = 86_400.0
_STANDBYS_KEPT_S = 86_400.0
"""How long a supervisor that was killed or cut off is shown as standing by."""


class Maintenance(Part):
    """The periodic tasks that concern several parts, or none."""

    def __init__(self, services: Services) -> None:
        self._services, self._settings, self._db = services, services.settings, services.db
        # The scheduler's jitter only adds: 0.9 · T and up to 0.2 · T more is T ± 10 %.
        lease_scan_s = services.settings.lease_scan_s
        self.every = (
            Periodic(_REQUEUE_S, self.requeue),
            Periodic(0.9 * lease_scan_s, self.recover, jitter_s=0.2 * lease_scan_s),
            Periodic(TICK_S, self.look_at_volumes, without_database=True),
            Periodic(_PRUNE_S, self.prune, at_once=True),
            Periodic(_PRUNE_S, self.check_database),
            Periodic(_PRUNE_S, services.ages.save, at_once=True),
            Periodic(_LOGS_S, self.cut_logs, at_once=True),
        )
        self._log = structlog.get_logger()

    async def look_at_volumes(self) -> None:
        """Measure the volumes, and try a database that could not be written to."""
        refused = self._db.refusal is not None
        await self._services.volumes.look()
        if refused and self._db.refusal is None:
            # The lease may be about to run out.
            await self._services.recovery.renew()

    async def requeue(self) -> None:
        """Requeue jobs whose backoff, or delay of their autorestart, is over."""
        waits, restarts = await self._db.reread(_waiting)
        due = {
            "now": now_us(),
            "longest_us": int(longest_wait_s(self._settings.backoff_max_s) * MICROSECOND),
        }
        if waits and await self._db.read(jobs.is_any_due, **due):
            await self._db.write(jobs.promote_due, **due)
            self._services.dispatch.wake()
        if restarts and await self._db.read(lambda db: autorestart.is_any_due(db, now=now_us())):
            await self._db.write(lambda db: autorestart.restart_due(db, now=now_us()))

    async def recover(self) -> None:
        """Requeue jobs with expired leases, and replace workers without heartbeats."""
        children.reap_orphans()
        if recovered := await self._services.recovery.scan():
            self._log.warning("requeued jobs with expired leases", jobs=recovered)
        for name in await self._services.recovery.offline_workers():
            self._services.pool.end_offline(name)

    async def prune(self) -> None:
        """Delete old events, answers and former states; end tokens that have expired or are gone."""
        await self._db.write(self._prune, self._services.ages.before(0), now_us())
        self._services.tokens.end_expired()
        if not self._db.is_file:
            await self._services.tokens.end_removed()
        if self._db.is_file and await self._db.read(upkeep.has_spare_pages):
            await self._db.write(upkeep.give_back_pages)

    async def check_database(self) -> None:
        """Check the whole database weekly, when no job runs."""
        await self._services.weekly_check.tick(idle=not self._services.running_jobs.jobs)

    async def cut_logs(self) -> None:
        """Cut long logs of workers, probe and alerts."""
        await bounded_io.on_a_thread(partial(logging_setup.cut_long, self._services.home))

    def _prune(self, db: Connection, old: int, now: int) -> None:
        """As `prune`; `old` is the time to which ages are counted."""
        events.prune(db, before=old - int(self._settings.event_retention_s * MICROSECOND), now=now)
        undo.prune(db, before=old - UNDO_KEPT_US)
        supervisors.prune_answers(db, before=old - int(_ANSWERS_KEPT_S * MICROSECOND))
        if not self._db.is_file:
            standbys.prune(db, before=db.now_us() - int(_STANDBYS_KEPT_S * MICROSECOND))


def _waiting(db: Connection) -> tuple[bool, bool]:
    """Whether any job waits for the end of its backoff, and any for its autorestart."""
    return jobs.is_any_due(db, now=FOREVER, longest_us=0), autorestart.is_any_due(db, now=FOREVER)
