"""Schedules the supervisor's periodic tasks: flush heartbeats, recover jobs, update gates, clean up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import structlog
from apscheduler.schedulers.base import BaseScheduler

from tqstudio.config import Settings
from tqstudio.engine.gates.machine import PressureGate
from tqstudio.engine.gates.monitor import TICK_S, VolumeMonitor
from tqstudio.engine.host import children
from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.intake import Intake
from tqstudio.engine.outputs.after_done import AfterDone
from tqstudio.engine.outputs.publisher import Publisher
from tqstudio.engine.outputs.retention import Retention
from tqstudio.engine.queue.dispatcher import Dispatch
from tqstudio.engine.queue.recovery import Recovery
from tqstudio.engine.queue.reports import Reports
from tqstudio.engine.queue.stuck_workers import StuckWorkers
from tqstudio.engine.queue.worker_pool import WorkerPool
from tqstudio.engine.retry import longest_wait_s
from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import autorestart, jobs
from tqstudio.engine.store.machine import supervisors
from tqstudio.errors import UNWRITTEN, TqError

_SAVE_S = 1.0
_AUTORESTART_S = 1.0
_STUCK_S = 1.0
_SCANS_S = 1.0
_RETENTION_S = 60.0
_EXPIRY_S = 600.0
_ANSWERS_KEPT_S = 86_400.0


class Maintenance:
    """The supervisor's periodic tasks; `start` and `stop` start and stop its scheduler, in any order."""

    def __init__(
        self,
        scheduler: BaseScheduler,
        settings: Settings,
        db: Database,
        dispatch: Dispatch,
        reports: Reports,
        recovery: Recovery,
        retention: Retention,
        publisher: Publisher,
        pool: WorkerPool,
        volumes: VolumeMonitor,
        stuck_workers: StuckWorkers,
        after_done: AfterDone,
        intake: Intake,
    ) -> None:
        self._scheduler = scheduler
        self._settings, self._db, self._dispatch, self._reports = settings, db, dispatch, reports
        self._retention, self._publisher, self._pool, self._volumes = retention, publisher, pool, volumes
        self._recovery, self._stuck_workers = recovery, stuck_workers
        self._after_done, self._intake = after_done, intake
        self._pressure = PressureGate(settings, db)
        self._log = structlog.get_logger()

    def start(self) -> None:
        s = self._settings
        self._every(s.heartbeat_s, self.flush_heartbeats)
        self._every(_SAVE_S, self.save_and_promote)
        self._every(_AUTORESTART_S, self.restart_failed)
        # The scheduler's jitter only adds: 0.9 · T and up to 0.2 · T more is T ± 10 %.
        self._every(0.9 * s.scan_s, self.recover, jitter_s=0.2 * s.scan_s)
        self._every(_STUCK_S, self._stuck_workers.tick)
        self._every(TICK_S, self._volumes.look)
        self._every(TICK_S, self._pressure.tick, at_once=True)
        self._every(_SCANS_S, self._intake.request_due_scans)
        self._every(_RETENTION_S, self.clean_up, at_once=True)
        self._every(_RETENTION_S, self._after_done.retry, at_once=True)
        self._every(_EXPIRY_S, self._retention.expire_work, at_once=True)
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
            self._recovery.clock.now_us()  # it has to be read often, see `RunningClock`
            # While the database cannot be written, the only useful task is the one that checks its disk.
            if self._db.refusal is not None and what != self._volumes.look:
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

        first = {"next_run_time": datetime.now(UTC)} if at_once else {}
        self._scheduler.add_job(run, "interval", seconds=seconds, jitter=jitter_s, **first)

    async def flush_heartbeats(self) -> None:
        """Stores the heartbeats of workers and supervisor; started together they share a commit."""
        await asyncio.gather(self._reports.flush_heartbeats(), self._recovery.renew())

    async def save_and_promote(self) -> None:
        """Stores recent progress, and makes jobs claimable whose backoff is over."""
        await self._reports.save_progress()
        due = {
            "now": now_us(),
            "longest_us": int(longest_wait_s(self._settings.backoff_max_s) * MICROSECOND),
        }
        if await self._db.read(jobs.is_any_due, **due):
            await self._db.write(jobs.promote_due, **due)
            self._dispatch.wake()

    async def restart_failed(self) -> None:
        """Requeues failed jobs with autorestart whose delay is over."""
        if await self._db.read(lambda db: autorestart.is_any_due(db, now=now_us())):
            await self._db.write(lambda db: autorestart.restart_due(db, now=now_us()))

    async def recover(self) -> None:
        """Requeues jobs with expired leases, and replaces workers without heartbeats."""
        children.reap_orphans()
        if recovered := await self._recovery.scan():
            self._log.warning("requeued jobs with expired leases", jobs=recovered)
        for name in await self._recovery.silent_workers():
            self._pool.end_silent(name)

    async def clean_up(self) -> None:
        """Removes replaced generations after `keep_old_s`, old events, and old idempotent answers."""
        await self._publisher.undo_leftovers()
        await self._retention.remove_retired()
        await self._db.write(self._prune, now_us())

    def _prune(self, db: Connection, now: int) -> None:
        events.prune(db, before=now - int(self._settings.event_retention_s * MICROSECOND), now=now)
        supervisors.prune_answers(db, before=now - int(_ANSWERS_KEPT_S * MICROSECOND))
