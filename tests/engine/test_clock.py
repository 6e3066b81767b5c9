"""The clock of the leases: it advances evenly, and leaves out what the process did not run; the scheduler."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from tqstudio.engine.host.clock import RunningClock
from tqstudio.engine.maintenance import Scheduler

SECOND = 1_000_000
HOUR = 3600 * SECOND


class Machine:
    """The time since boot, set by a test."""

    def __init__(self) -> None:
        self.boot = 50 * SECOND
        self.clock = RunningClock(15 * SECOND, lambda: self.boot)

    def run(self, us: int) -> None:
        """Lets time pass, whether the process runs or not."""
        self.boot += us


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_process_that_runs_is_measured_exactly(machine: Machine) -> None:
    began = machine.clock.now_us()
    for _ in range(5):
        machine.run(15 * SECOND)
        machine.clock.now_us()
    assert machine.clock.now_us() - began == 75 * SECOND
    assert machine.clock.stopped_us == 0


def test_time_in_which_the_process_was_stopped_does_not_pass(machine: Machine) -> None:
    began = machine.clock.now_us()
    machine.run(HOUR)
    assert machine.clock.now_us() == began
    machine.run(SECOND)
    assert machine.clock.now_us() == began + SECOND
    machine.run(HOUR)
    assert machine.clock.now_us() == began + SECOND
    assert machine.clock.stopped_us == 2 * HOUR


def test_a_wall_clock_that_is_set_back_delays_no_scheduled_work() -> None:
    async def run() -> None:
        scheduler, ran = Scheduler(), asyncio.Event()

        async def work() -> None:
            ran.set()

        scheduler.start()
        job = scheduler.add_job(work, "interval", seconds=0.05)
        # As it is after the clock was set back by an hour.
        job.modify(next_run_time=datetime.now(UTC) + timedelta(hours=1))
        scheduler.wakeup()
        async with asyncio.timeout(60):
            await ran.wait()
        scheduler.shutdown()

    asyncio.run(run())
