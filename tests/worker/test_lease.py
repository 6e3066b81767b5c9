"""When work on a job must stop."""

from __future__ import annotations

import time

import pytest

from tqstudio.engine.host.clock import since_boot
from tqstudio.engine.worker.reporting.lease import Lease, StopWork
from tqstudio.engine.worker.reporting.outcome import Lost, Stopped


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lease(clock: Clock) -> Lease:
    return Lease(7, 1, 60, clock=clock)


def test_a_silent_supervisor_ends_it(lease: Lease, clock: Clock) -> None:
    clock.now = 159.9
    assert lease.ended is None
    clock.now = 160
    assert isinstance(lease.ended, Lost)


def test_an_answer_counts_from_when_it_was_asked_for(lease: Lease, clock: Clock) -> None:
    clock.now = 150
    lease.renew(asked_at=110)
    clock.now = 169
    assert lease.ended is None
    lease.renew(asked_at=105)  # an older answer that arrives late takes nothing back
    assert lease.ended is None
    clock.now = 170
    assert isinstance(lease.ended, Lost)


def test_it_counts_from_when_the_claim_was_sent(clock: Clock) -> None:
    """The answer may have lain in the socket while this process was stopped."""
    assert isinstance(Lease(7, 1, 60, asked_at=40, clock=clock).ended, Lost)
    assert Lease(7, 1, 60, asked_at=41, clock=clock).ended is None


@pytest.mark.fault(
    "The machine is suspended, or the supervisor stopped",
    "That time does not count against a lease; no job is taken away",
    area="workers",
)
@pytest.mark.skipif(
    not hasattr(time, "CLOCK_BOOTTIME"), reason="the system does not report how long it slept"
)
def test_a_suspend_counts() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= since_boot() <= time.clock_gettime(time.CLOCK_BOOTTIME)


@pytest.mark.parametrize("word", ["pause", "cancel", "restart"])
def test_a_control_request_stops_it(lease: Lease, word: str) -> None:
    lease.control(word)
    assert lease.ended == Stopped(word)  # type: ignore[arg-type]
    with pytest.raises(StopWork) as raised:
        lease.check()
    assert raised.value.outcome == Stopped(word)  # type: ignore[arg-type]


def test_a_control_request_can_be_taken_back_but_not_a_shutdown(lease: Lease) -> None:
    lease.control("pause")
    lease.control("none")
    assert lease.ended is None
    lease.shut_down()
    lease.control("none")
    assert lease.ended == Stopped("shutdown")


def test_a_lost_lease_outranks_every_control_request(lease: Lease) -> None:
    lease.control("cancel")
    lease.shut_down()
    lease.lose("another worker has it")
    assert lease.ended == Lost("another worker has it")
