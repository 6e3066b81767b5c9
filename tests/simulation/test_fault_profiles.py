"""Simulated worlds with one kind of trouble: each brings about what others rarely do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .courses import OF_ONE_KIND, STEPS, course, label


@pytest.mark.slow
@pytest.mark.parametrize(("fault_profile", "seed"), OF_ONE_KIND)
def test_a_world_of_one_kind_of_trouble(
    fault_profile: str, seed: int, kept: Path, record_property: Callable[[str, object], None]
) -> None:
    outcome = course(fault_profile, seed, kept)
    record_property("simulated", label(outcome))
    assert outcome.steps >= STEPS
