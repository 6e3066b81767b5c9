"""Runs periodic tasks on APScheduler, made safe against a wall clock that is set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from tqstudio.engine.host.clock import RunningClock
from tqstudio.engine.parts.part import Part, Periodic
from tqstudio.engine.store.db.database import Database
from tqstudio.errors import UNWRITTEN, TqError


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


class Timetable(Part):
    """Runs the periodic tasks of all parts.

    Args:
        tasks: returns them, at the start.
        clock: read before each run, see `RunningClock`.
    """

    def __init__(self, db: Database, tasks: Callable[[], Sequence[Periodic]], clock: RunningClock) -> None:
        self._db, self._tasks, self._clock = db, tasks, clock
        self._scheduler = Scheduler()
        self._log = structlog.get_logger()

    async def start(self) -> None:
        # All count from one moment, so that those that are due together share a wake-up and a commit.
        began = datetime.now(UTC)
        for task in self._tasks():
            first = began if task.at_once else began + timedelta(seconds=task.seconds)
            every = Every(seconds=task.seconds, jitter=task.jitter_s, timezone=UTC)
            self._scheduler.add_job(partial(self._run, task), every, next_run_time=first)
        self._scheduler.start()

    async def stop(self) -> None:
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    async def _run(self, task: Periodic) -> None:
        self._clock.now_us()
        if self._db.refusal is not None and not task.without_database:
            return
        try:
            await task.run()
        except asyncio.CancelledError:
            return  # shutdown; writes already queued are still committed
        except Exception as error:
            if not isinstance(error, TqError) or error.code not in UNWRITTEN:
                self._log.exception("a periodic task failed", task=task.run.__qualname__)
