"""Supervisors that stand by, when they are stopped, or what they need is missing."""

from __future__ import annotations

import signal
from collections.abc import Callable

import psutil
import pytest
from sqlalchemy import URL

import postgres
from waiting import until

from .conftest import LEASES, MakeFleet
from .studio import Studio
from .test_standby import leads, log_of, stand_by


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


@pytest.mark.slow
def test_it_ends_when_asked_to_while_its_workers_end_before_it_leads(fleet: MakeFleet) -> None:
    first, second = fleet("first", "second")
    first.up()
    stand_by(second)
    lent = until(lambda: psutil.Process(second.process.pid).children(), "its workers run")
    lent[0].suspend()
    assert first.stop() == 0
    until(lambda: "no other supervisor leads any more" in log_of(second), "it is about to lead")
    assert second.terminate() == 0
    assert "supervisor started" not in log_of(second)


@pytest.mark.slow
def test_one_that_is_cut_off_ends_when_asked_to(on_postgresql: Callable[..., Studio], database: URL) -> None:
    line = postgres.Line()
    studio = on_postgresql(line.url(database), standby="true", **LEASES)
    studio.up()
    line.cut()
    assert studio.terminate(signal.SIGTERM) == 4
    line.mend()
    assert studio.last_words().strip().startswith("→ start PostgreSQL")
