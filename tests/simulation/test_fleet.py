"""The model of a large fleet, small: what it keeps, and that each of its invariants can fail."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from .fleet.__main__ import SIZES
from .fleet.constants import Costs, Fleet, Rules
from .fleet.course import Course, mean_length_s
from .fleet.leader import Load, load
from .fleet.outcome import INVARIANTS, Outcome, Violation

SMALL = SIZES["small"]
SECONDS = 5
"""Of the requests that are served one by one."""
BROKEN = {
    "one_leader": Rules(waits_for_lease=False),
    "one_owner": Rules(keeps_leases_by_own_clock=False),
    "done_once": Rules(compares_epochs=False),
    "published_once": Rules(settles=False),
    "none_lost": Rules(adopts=False),
}
"""The invariant that notices, and the rule that is taken away."""
SEEDS = 8
"""It is looked for in so many courses; nearly all show it in the first."""


@cache
def _loaded(fleet: Fleet) -> Load:
    return load(Costs(), fleet, mean_length_s(fleet), seconds=SECONDS)


def _course(fleet: Fleet, rules: Rules | None = None) -> Outcome:
    return Course(fleet, Costs(), _loaded(fleet), rules or Rules()).run()


def test_every_job_is_done_once_under_all_faults() -> None:
    outcome = _course(SMALL)
    assert outcome.takeovers > 5
    assert outcome.requeued > 10
    assert outcome.refused > 0
    assert 0 < outcome.again_us < outcome.encoded_us / 50


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_a_broken_fleet_is_caught(invariant: str) -> None:
    def run() -> None:
        for seed in range(SEEDS):
            _course(replace(SMALL, seed=seed), BROKEN[invariant])

    with pytest.raises(Violation) as caught:
        run()
    assert caught.value.invariant == invariant


def test_wrong_clocks_of_workers_change_nothing() -> None:
    right, wrong = (_course(replace(SMALL, skew_s=skew)) for skew in (0, 86_400))
    assert wrong.digest() == right.digest()


def test_equal_seeds_make_equal_courses() -> None:
    first, again, other = (_course(replace(SMALL, seed=seed)) for seed in (3, 3, 4))
    assert first.digest() == again.digest() != other.digest()


def test_a_leader_that_has_too_much_to_do_makes_encodes_slower_and_loses_none() -> None:
    few, many = (_loaded(replace(SMALL, workers=workers)) for workers in (20, 400))
    assert few.processor < 0.5
    assert few.slower == 1
    assert many.processor > 0.99
    assert many.slower > 3
    # Each worker has two open requests at most, so the queue of the leader is bounded.
    assert many.wait_ms(99) < SMALL.lease_s * 1000 / 4


def test_leases_of_leaders_that_are_shorter_than_those_of_workers_keep_their_jobs() -> None:
    equal, shorter = (
        _course(replace(SMALL, line_fault_s=0, leader_lease_s=seconds)) for seconds in (60.0, 30.0)
    )
    assert equal.requeued > 100
    assert shorter.requeued == 0
