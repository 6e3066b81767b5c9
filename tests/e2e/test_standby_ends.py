"""Supervisors that stand by, when they are stopped, or what they need is missing."""

from __future__ import annotations

from waiting import until

from .conftest import MakeFleet
from .test_standby import leads, stand_by


def test_after_it_was_killed_it_leads_and_its_commands_reach_it(fleet: MakeFleet) -> None:
    first, second = fleet("first", "second")
    first.up()
    stand_by(second)
    second.kill()
    assert first.stop() == 0
    second.launch()
    until(lambda: leads(second), "it leads")
    shown = second("status")
    assert shown.code == 0, shown.err
    assert f"pid {second.process.pid}" in shown.out
