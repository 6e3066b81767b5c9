"""Time that goes on evenly, whatever is done to the clock or to the process."""

from __future__ import annotations

import pytest

from tqstudio.engine.host.clock import NOTICEABLE_US, Drift, SteadyClock

SECOND = 1_000_000
HOUR = 3600 * SECOND


class Machine:
    """Both clocks of a machine, in a test's hands."""

    def __init__(self) -> None:
        self.wall, self.boot = 1_800_000_000 * SECOND, 50 * SECOND
        self.clock = SteadyClock(lambda: self.wall, lambda: self.boot)
        self.clock.watch(15 * SECOND)

    def run(self, us: int) -> None:
        """Time passes; the process runs, suspended or not."""
        self.wall += us
        self.boot += us


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_it_goes_on_like_the_wall_clock(machine: Machine) -> None:
    for _ in range(5):
        machine.run(14 * SECOND)
        assert machine.clock.now_us() == machine.wall
        assert machine.clock.drift() == Drift(0, 0)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_wall_clock_that_is_set_moves_nothing_until_it_is_caught_up_with(
    machine: Machine, jump: int
) -> None:
    machine.wall += jump
    machine.run(SECOND)
    assert machine.clock.now_us() == machine.wall - jump
    drift = machine.clock.drift()
    assert (drift.total_us, drift.set_us, drift.noticeable) == (jump, jump, True)
    machine.clock.catch_up(drift)
    assert machine.clock.now_us() == machine.wall
    assert machine.clock.drift() == Drift(0, 0)


def test_time_in_which_nobody_looked_does_not_pass(machine: Machine) -> None:
    before, started = machine.clock.now_us(), machine.clock.running_us()
    machine.run(HOUR)
    assert machine.clock.now_us() == before
    machine.run(SECOND)
    assert machine.clock.now_us() == before + SECOND
    assert machine.clock.running_us() == started + SECOND
    drift = machine.clock.drift()
    assert drift == Drift(HOUR, HOUR)
    assert drift.set_us == 0
    machine.clock.catch_up(drift)
    assert machine.clock.now_us() == machine.wall


def test_both_at_once_are_told_apart(machine: Machine) -> None:
    machine.run(HOUR)
    machine.wall -= 2 * HOUR
    drift = machine.clock.drift()
    assert (drift.total_us, drift.missed_us, drift.set_us) == (-HOUR, HOUR, -2 * HOUR)


def test_small_corrections_are_let_be_until_they_add_up(machine: Machine) -> None:
    machine.wall += NOTICEABLE_US // 2
    assert not machine.clock.drift().noticeable
    machine.wall += NOTICEABLE_US
    assert machine.clock.drift().noticeable


def test_without_an_owner_a_silence_means_nothing() -> None:
    machine = Machine()
    clock = SteadyClock(lambda: machine.wall, lambda: machine.boot)
    machine.run(HOUR)
    assert clock.now_us() == machine.wall
