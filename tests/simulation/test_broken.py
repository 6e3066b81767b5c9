"""Engines that are broken on purpose: each is seen by the one invariant that is for it (`make mutants`)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .audit import Violation
from .broken import BROKEN, Broken
from .invariants import NAMES
from .world import LAST_ACTIONS, simulate

WORLDS = 12
"""It is looked for in so many, one after another; each of them shows it at even odds at least, most at once.

An engine that does anything else a little differently takes other courses: nothing hangs on a single one.
"""
FAULT_MATRIX = Path(__file__).parents[2] / "docs" / "internals" / "fault-matrix.md"


@pytest.mark.gate
@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_a_broken_engine_is_caught(broken: Broken) -> None:
    with broken.how(), pytest.raises(Violation) as caught:
        _some_worlds(broken)
    assert caught.value.invariant == broken.caught_by
    course = str(caught.value).partition("actions:\n")
    assert re.search(r"seed \d+, faults \w+, step \d+: ", course[0])
    assert 0 < len(course[2].splitlines()) <= LAST_ACTIONS


def _some_worlds(broken: Broken) -> None:
    for seed in range(broken.seed, broken.seed + WORLDS):
        simulate(seed, broken.steps, broken.fault_profile, frozenset({broken.caught_by}))


def test_every_invariant_catches_something() -> None:
    assert set(NAMES) - {broken.caught_by for broken in BROKEN} == set()


def test_every_invariant_is_written_down() -> None:
    written = set(re.findall(r"^\| `(\w+)` \|", FAULT_MATRIX.read_text(), re.MULTILINE))
    assert written >= set(NAMES)
