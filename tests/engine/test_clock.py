"""Clocks: that of the leases leaves out what the process did not run, the wall clock may be set."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tqstudio.engine.host import ages
from tqstudio.engine.host.ages import Ages
from tqstudio.engine.host.clock import RunningClock
from tqstudio.engine.parts.scheduler import Every, Scheduler

SECOND = 1_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
YEARS_50 = 50 * 365 * DAY


class Machine:
    """The time since boot and the wall clock, set by a test."""

    def __init__(self) -> None:
        self.boot = 50 * SECOND
        self.wall_ahead = 1_800_000_000 * SECOND
        self.clock = RunningClock(15 * SECOND, lambda: self.boot)

    @property
    def wall(self) -> int:
        return self.boot + self.wall_ahead

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


@pytest.mark.fault(
    "The wall clock is set by fifty years, ahead or back",
    "Periodic work runs on, once for all missed runs",
    area="supervisor",
)
@pytest.mark.parametrize("years", [-50, -1, 1, 50])
def test_missed_runs_are_one(years: int) -> None:
    every = Every(seconds=1, timezone=UTC)
    listed = []

    class Listing(Every):
        def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
            listed.append(previous_fire_time)
            assert len(listed) < 100, "every missed run is listed"
            return super().get_next_fire_time(previous_fire_time, now)

    async def run() -> None:
        scheduler, runs = Scheduler(), asyncio.Queue[None]()
        scheduler.start()
        scheduler.add_job(runs.put, Listing(seconds=0.05, timezone=UTC), args=[None]).modify(
            # As it is after the clock was set.
            next_run_time=datetime.now(UTC) - timedelta(days=365 * years)
        )
        async with asyncio.timeout(60):
            for _ in range(3):
                await runs.get()
        scheduler.shutdown()

    asyncio.run(run())
    now = datetime(2026, 11, 27, 12, 0, 0, 250_000, UTC)
    on_time = datetime(2026, 11, 27, 12, tzinfo=UTC)
    assert every.get_next_fire_time(on_time, now) == on_time + timedelta(seconds=1)
    assert every.get_next_fire_time(on_time - timedelta(days=3650), now) == on_time + timedelta(seconds=1)
    assert every.get_next_fire_time(now, now) == now + timedelta(seconds=1)


class Archive:
    """What is old on a machine whose clocks a test sets."""

    def __init__(self, machine: Machine, path: Path) -> None:
        self.machine, self.path = machine, path
        self.restart()

    def restart(self) -> None:
        """The next supervisor."""
        self.machine.clock = RunningClock(15 * SECOND, lambda: self.machine.boot)
        wall, boot = (lambda: self.machine.wall), (lambda: self.machine.boot)
        self.ages = Ages(self.path, self.machine.clock, wall=wall, boot=boot)

    def run(self, us: int) -> None:
        for _ in range(us // (10 * SECOND)):
            self.machine.run(10 * SECOND)
            self.machine.clock.now_us()

    def save(self) -> None:
        asyncio.run(self.ages.save())

    @property
    def counts(self) -> bool:
        """Whether things become old."""
        assert self.ages.before(7) in (0, self.machine.wall - 7)
        assert (self.ages.held_us > 0) == (self.ages.before(7) == 0)
        return self.ages.before(7) != 0


@pytest.fixture
def archive(machine: Machine, tmp_path: Path) -> Archive:
    return Archive(machine, tmp_path / "clock.json")


@pytest.mark.parametrize("ahead", [DAY + SECOND, YEARS_50])
def test_nothing_is_old_for_a_day_after_a_jump_ahead(archive: Archive, ahead: int) -> None:
    assert archive.counts
    archive.machine.wall_ahead += ahead
    assert not archive.counts
    assert archive.ages.ahead_us == ahead
    archive.run(DAY - 20 * SECOND)
    assert not archive.counts
    assert archive.ages.held_us == 20 * SECOND
    archive.machine.run(30 * DAY)
    assert not archive.counts, "it has not run in that time"
    archive.run(20 * SECOND)
    assert archive.counts


@pytest.mark.parametrize("ahead", [0, DAY, -DAY, -YEARS_50])
def test_a_clock_that_is_set_a_little_or_back_holds_nothing(archive: Archive, ahead: int) -> None:
    archive.machine.wall_ahead += ahead
    assert archive.counts
    archive.machine.run(30 * DAY)
    assert archive.counts, "the machine slept"
    archive.machine.wall_ahead -= min(ahead, 0)
    assert archive.counts is (ahead != -YEARS_50), "to the right time again is ahead"


def test_the_next_supervisor_knows_of_a_jump(archive: Archive) -> None:
    archive.save()
    archive.machine.wall_ahead += YEARS_50
    archive.restart()
    assert not archive.counts, "the clock was set while none ran"
    archive.run(DAY // 2)
    archive.save()
    archive.restart()
    assert archive.ages.held_us == DAY // 2
    assert archive.ages.ahead_us == YEARS_50
    archive.run(DAY // 2)
    archive.save()
    archive.restart()
    assert archive.counts


def test_a_machine_that_was_off_has_not_jumped(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.save()
    monkeypatch.setattr(ages, "_BOOT_ID", archive.path.with_name("boot"))
    archive.path.with_name("boot").write_text("another one")
    archive.machine.boot, archive.machine.wall_ahead = SECOND, archive.machine.wall + 30 * DAY
    archive.restart()
    assert archive.counts
    archive.machine.wall_ahead += YEARS_50
    assert not archive.counts
    archive.save()
    archive.path.with_name("boot").write_text("a third one")
    archive.restart()
    assert not archive.counts, "it goes on after a boot"


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"boot": 1}', b"\xff"])
def test_a_damaged_note_of_the_clock_is_as_none(archive: Archive, content: bytes) -> None:
    archive.path.write_bytes(content)
    archive.restart()
    assert archive.counts
    archive.save()
    assert archive.path.read_bytes() != content
