"""Simulated worlds, each from its seed: trouble for thousands of steps, then calm, then every job has ended.

A failure names its seed; `make simulate SEED=… STEPS=… WEATHER=…` runs it again, step by step the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tqstudio.lifecycle import TRANSITIONS

from .courses import LEAST_STEPS, MIXED, OF_ONE_KIND, STEPS, course, told
from .of_a_job import transitions_of
from .world import simulate

HAPPENS = {
    *(
        "gate_shut",
        "gate_opened",
        "worker_quarantined",
        "worker_drained",
        "worker_disabled",
        "worker_enabled",
    ),
    *("worker_offline", "worker_online", "worker_ended", "leases_extended", "published", "publish_undone"),
    *("folder_added", "folder_changed", "folder_removed", "generation_removed", "work_removed"),
    *("deleted", "undeleted", "priority", "pause_asked", "resume_asked", "cancel_asked", "restart_asked"),
    *("aborted:shutdown", "requeued:supervisor", "requeued:stale", "requeued:abandoned"),
}
"""Events that no transition of the table is named after, and that must come about too."""
GATES = {"user", "disk", "backpressure"}


@pytest.mark.parametrize(("weather", "seed"), MIXED)
def test_a_world_of_every_trouble(
    weather: str, seed: int, record_property: Callable[[str, object], None]
) -> None:
    outcome = course(weather, seed)
    record_property("simulated", told(outcome))
    assert outcome.steps >= STEPS
    assert outcome.jobs["done"] > 20, "it would show little if nothing got done"


def test_every_transition_of_the_lifecycle_is_taken() -> None:
    seen = {each for world in MIXED for each in course(*world).seen}
    taken = {row for trigger, source, target in seen for row in transitions_of(trigger, source, target)}
    assert {(t.trigger.value, t.source, t.target) for t in TRANSITIONS} - taken == set()
    assert HAPPENS - {trigger for trigger, _, _ in seen} == set()
    assert {code for trigger, _, code in seen if trigger == "gate_shut"} == GATES


def test_there_are_so_many_steps() -> None:
    assert STEPS * len(MIXED + OF_ONE_KIND) >= LEAST_STEPS


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
