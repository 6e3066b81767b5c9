"""Schedules the supervisor's periodic tasks: flush heartbeats, recover jobs, update gates, clean up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from tqstudio.engine.files import bounded_io
from tqstudio.engine.gates.load import LoadGate
from tqstudio.engine.gates.monitor import TICK_S
from tqstudio.engine.gates.schedule import Schedule
from tqstudio.engine.host import children, logging_setup
from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.parts.services import Services
from tqstudio.engine.store import events
from tqstudio.engine.store.db import upkeep
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs import autorestart, jobs
from tqstudio.engine.store.jobs.folder_hours import FOREVER
from tqstudio.engine.store.jobs.retry_rules import longest_wait_s
from tqstudio.engine.store.library import uploads
from tqstudio.engine.store.machine import outbox, standbys, supervisors
from tqstudio.errors import UNWRITTEN, TqError

_SAVE_S = 1.0
_STUCK_S = 1.0
_SCANS_S = 1.0
_CHANGED_S = 1.0
_ALERTS_S = 5.0
_RETENTION_S = 60.0
_EXPIRY_S = 600.0
_UPLOADS_S = 10.0
_ANSWERS_KEPT_S = 86_400.0
_ALERTS_KEPT_S = 7 * 86_400.0
_STANDBYS_KEPT_S = 86_400.0
"""How long a supervisor that was killed or cut off is shown as standing by."""


class Every(IntervalTrigger):  # type: ignore[misc]
    """An interval whose missed runs become one.

    APScheduler computes each of them first: a thousand million if the wall clock is set ten years ahead.
    """

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        if previous_fire_time is not None and previous_fire_time < now:
            previous_fire_time += (now - previous_fire_time) // self.interval * self.interval
        found: datetime | None = super().get_next_fire_time(previous_fire_time, now)
        return found


class Scheduler(AsyncIOScheduler):  # type: ignore[misc]
    """APScheduler in the running event loop, made safe against a wall clock that is set.

    It stores wall times. Once the clock is an hour behind, every job would be an hour late.
    """

    def __init__(self) -> None:
        super().__init__(
            timezone="UTC", job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
        )

    def wakeup(self) -> None:
        """Run the due jobs, and those that are due only by a clock that was set back."""
        now = datetime.now(UTC)
        for job in self.get_jobs():
            # Twice the interval, because jitter delays a run too.
            if job.next_run_time > now + 2 * job.trigger.interval:
                job.modify(next_run_time=now)
        super().wakeup()


class Maintenance:
    """The supervisor's periodic tasks; `start` and `stop` start and stop its scheduler, in any order."""

    def __init__(self, services: Services) -> None:
        self._scheduler, self._services = Scheduler(), services
        self._settings, self._db = services.settings, services.db
        self._load_gate = LoadGate(services.settings, services.db)
        self._schedule = Schedule(services.settings, services.db, services.running_jobs)
        self._began = datetime.now(UTC)
        self._log = structlog.get_logger()

    def start(self) -> None:
        s, self._began = self._settings, datetime.now(UTC)
        self._every(s.heartbeat_s, self.flush_heartbeats)
        self._every(_SAVE_S, self.save_and_requeue)
        # The scheduler's jitter only adds: 0.9 · T and up to 0.2 · T more is T ± 10 %.
        self._every(0.9 * s.scan_s, self.recover, jitter_s=0.2 * s.scan_s)
        self._every(_STUCK_S, self._services.stuck_workers.tick)
        self._every(_CHANGED_S, self._services.changed_sources.tick)
        self._every(TICK_S, self.look_at_volumes)
        self._every(TICK_S, self._load_gate.tick, at_once=True)
        self._every(TICK_S, self.keep_hours, at_once=True)
        self._every(_SCANS_S, self._services.intake.request_due_scans)
        self._every(_RETENTION_S, self._services.publisher.undo_leftovers, at_once=True)
        self._every(_RETENTION_S, self._services.retention.remove_retired, at_once=True)
        self._every(_RETENTION_S, self.prune, at_once=True)
        self._every(_RETENTION_S, self._services.after_done.retry, at_once=True)
        self._every(_RETENTION_S, self._services.deletions.advance_all, at_once=True)
        self._every(_UPLOADS_S, self._services.uploads.finish_pending, at_once=True)
        self._every(_EXPIRY_S, self._services.retention.expire_work, at_once=True)
        self._every(_RETENTION_S, self.check_database)
        self._every(_RETENTION_S, self._services.ages.save, at_once=True)
        self._every(_EXPIRY_S, self.cut_logs, at_once=True)
        if self._services.alerts.active:
            self._every(_ALERTS_S, self._services.alerts.tick)
        self._scheduler.start()

    def stop(self) -> None:
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def _every(
        self,
        seconds: float,
        what: Callable[[], Awaitable[None]],
        *,
        jitter_s: float | None = None,
        at_once: bool = False,
    ) -> None:
        async def run() -> None:
            self._services.recovery.clock.now_us()  # it has to be read often, see `RunningClock`
            # While the database cannot be written, the only useful task is the one that checks its disk.
            if self._db.refusal is not None and what != self.look_at_volumes:
                return
            try:
                await what()
            except asyncio.CancelledError:
                return  # shutdown; writes already queued are still committed
            except TqError as error:
                if error.code not in UNWRITTEN:
                    self._log.exception("maintenance failed", task=what.__qualname__)
            except Exception:
                self._log.exception("maintenance failed", task=what.__qualname__)

        # All count from one moment, so that those that are due together share a wake-up and a read.
        first = self._began if at_once else self._began + timedelta(seconds=seconds)
        every = Every(seconds=seconds, jitter=jitter_s, timezone=UTC)
        self._scheduler.add_job(run, every, next_run_time=first)

    async def look_at_volumes(self) -> None:
        """Measure the volumes, and try a database that could not be written to."""
        refused = self._db.refusal is not None
        await self._services.volumes.look()
        if refused and self._db.refusal is None:
            # The lease may be about to run out.
            await self.flush_heartbeats()

    async def flush_heartbeats(self) -> None:
        """Store the heartbeats of workers and supervisor; started together they share a commit."""
        await asyncio.gather(self._services.reports.flush_heartbeats(), self._services.recovery.renew())

    async def save_and_requeue(self) -> None:
        """Store recent progress; requeue jobs whose backoff, or delay of their autorestart, is over."""
        await self._services.reports.save_progress()
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

    async def keep_hours(self) -> None:
        """Shut and open the queue by its hours, end pauses and waits, and stop jobs whose hours end."""
        if await self._schedule.tick():
            self._services.dispatch.wake()

    async def recover(self) -> None:
        """Requeue jobs with expired leases, and replace workers without heartbeats."""
        children.reap_orphans()
        if recovered := await self._services.recovery.scan():
            self._log.warning("requeued jobs with expired leases", jobs=recovered)
        for name in await self._services.recovery.offline_workers():
            self._services.pool.end_offline(name)

    async def prune(self) -> None:
        """Delete old events, alerts and idempotent answers; end tokens that have expired or are gone."""
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
        outbox.prune(db, before=old - int(_ALERTS_KEPT_S * MICROSECOND))
        supervisors.prune_answers(db, before=old - int(_ANSWERS_KEPT_S * MICROSECOND))
        uploads.prune(db, before=old)
        if not self._db.is_file:
            standbys.prune(db, before=db.now_us() - int(_STANDBYS_KEPT_S * MICROSECOND))


def _waiting(db: Connection) -> tuple[bool, bool]:
    """Whether any job waits for the end of its backoff, and any for its autorestart."""
    return jobs.is_any_due(db, now=FOREVER, longest_us=0), autorestart.is_any_due(db, now=FOREVER)
