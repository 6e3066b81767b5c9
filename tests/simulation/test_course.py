"""Simulated worlds, each from its seed: trouble for thousands of steps, then calm, then every job has ended.

A failure names its seed; `make simulate SEED=… STEPS=… FAULTS=…` runs it again, step by step the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .courses import MIXED, STEPS, course, label
from .world import simulate


@pytest.mark.slow
@pytest.mark.parametrize(("fault_profile", "seed"), MIXED)
def test_a_world_of_every_trouble(
    fault_profile: str, seed: int, kept: Path, record_property: Callable[[str, object], None]
) -> None:
    outcome = course(fault_profile, seed, kept)
    record_property("simulated", label(outcome))
    assert outcome.steps >= STEPS
    assert outcome.jobs["done"] > 20, "it would show little if nothing got done"


@pytest.mark.slow
def test_equal_seeds_make_equal_courses() -> None:
    """Also in a process with other hashes: nothing depends on the order of a set."""
    here = simulate(11, 700)
    program = "from simulation.world import simulate; print(simulate(11, 700).digest)"
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(__file__).parents[1])}
    there = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert there.stdout.strip() == here.digest
    assert simulate(12, 700).digest != here.digest
