"""The scheduler of everything that the supervisor does by the clock."""

from __future__ import annotations

from datetime import UTC, datetime

from apscheduler.schedulers.asyncio import AsyncIOScheduler


class Scheduler(AsyncIOScheduler):  # type: ignore[misc]
    """APScheduler in the running event loop, made safe against a wall clock that is set back.

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
