"""What all the simulated worlds together have to bring about, or they would show little."""

from __future__ import annotations

from pathlib import Path

import pytest

from tqstudio.lifecycle import TRANSITIONS

from .courses import MIN_STEPS, MIXED, OF_ONE_KIND, STEPS, course
from .of_a_job import transitions_of

HAPPENS = {
    *(
        "gate_closed",
        "gate_opened",
        "worker_quarantined",
        "worker_tested",
        "worker_drained",
        "worker_disabled",
        "worker_enabled",
    ),
    *("worker_offline", "worker_online", "worker_ended", "published", "publish_undone"),
    *("folder_added", "folder_changed", "folder_removed", "generation_removed", "work_removed"),
    *(
        "deleted",
        "undeleted",
        "priority_changed",
        "pause_requested",
        "resume_requested",
        "cancel_requested",
        "restart_requested",
    ),
    *("aborted:shutdown", "requeued:supervisor", "requeued:stale", "requeued:abandoned"),
}
"""Events that no transition of the table is named after, and that must come about too."""
WORLDS = MIXED + OF_ONE_KIND
GATES = {"user", "disk", "load"}


@pytest.mark.timeout(1_800)
@pytest.mark.slow
def test_every_transition_of_the_lifecycle_is_taken(kept: Path) -> None:
    # From the last on: another process may be at the first ones.
    seen = {each for world in reversed(WORLDS) for each in course(*world, kept).seen}
    taken = {row for trigger, source, target in seen for row in transitions_of(trigger, source, target)}
    assert {(t.trigger.value, t.source, t.target) for t in TRANSITIONS} - taken == set()
    assert HAPPENS - {trigger for trigger, _, _ in seen} == set()
    assert {code for trigger, _, code in seen if trigger == "gate_closed"} == GATES


def test_there_are_so_many_steps() -> None:
    assert STEPS * len(WORLDS) >= MIN_STEPS
