"""When the machine is too full to begin another job, and when it no longer is."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import MakeSupervisor
from tqstudio.config import Settings
from tqstudio.engine.gates import load
from tqstudio.engine.gates.load import LoadGate, Reading
from tqstudio.engine.store import events
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.machine import gates
from tqstudio.lifecycle import GateKind
from tqstudio.protocol import calls
from waiting import until

from .conftest import Desk

GB = 1_000_000_000
LIMITS = Settings(max_load=2, min_memory_bytes=GB)


@pytest.mark.parametrize(
    ("reading", "shut", "word"),
    [
        (Reading(0, 4 * GB), False, None),
        (Reading(2.0, GB), False, None),
        (Reading(2.1, 4 * GB), False, "load is 2.1"),
        (Reading(0, GB - 1), False, "memory"),
        (Reading(1.7, 4 * GB), True, "load is 1.7"),
        (Reading(1.6, 4 * GB), True, None),
        (Reading(0, int(1.19 * GB)), True, "memory"),
        (Reading(0, int(1.2 * GB)), True, None),
    ],
)
def test_what_shuts_it_and_what_opens_it(reading: Reading, shut: bool, word: str | None) -> None:
    found = load.pressed(LIMITS, reading, shut=shut)
    assert found is None if word is None else found is not None and word in found


def test_it_is_off_where_a_limit_is_nothing() -> None:
    off = Settings(max_load=0, min_memory_bytes=0)
    assert load.pressed(off, Reading(99, 0), shut=False) is None


def test_this_machine_can_be_read() -> None:
    reading = load.measure()
    assert reading.load >= 0
    assert reading.memory_bytes > 0


def test_it_opens_by_itself_with_room_to_spare(opened: Database) -> None:
    readings: Iterator[Reading] = iter(
        [
            Reading(0, 4 * GB),
            Reading(0, GB // 2),
            Reading(0, GB // 4),
            Reading(0, int(1.1 * GB)),
            Reading(0, int(1.3 * GB)),
            Reading(0, int(1.1 * GB)),
        ]
    )
    gate = LoadGate(LIMITS, opened, lambda: next(readings))
    shut = []
    for _ in range(6):
        asyncio.run(gate.tick())
        shut.append([row.kind for row in opened.read_now(gates.listing)])
    assert shut == [[], *[[GateKind.LOAD]] * 3, [], []]
    triggers = [e.trigger for e in opened.read_now(events.newest, limit=10)]
    assert triggers == ["gate_opened", "gate_closed"], "once each"


def test_what_an_earlier_supervisor_shut_opens_too(opened: Database) -> None:
    asyncio.run(LoadGate(LIMITS, opened, lambda: Reading(9, GB)).tick())
    asyncio.run(LoadGate(Settings(max_load=0), opened, lambda: Reading(9, 4 * GB)).tick())
    assert opened.read_now(gates.listing) == []


def test_settings_of_an_earlier_version_start_with_a_warning(make_supervisor: MakeSupervisor) -> None:
    live = make_supervisor(TQSTUDIO_YIELD_TO="a-game")
    live.home.config.parent.mkdir(parents=True, exist_ok=True)
    live.home.config.write_text("run_on_battery = false\n")
    live.start()
    log = live.home.supervisor_log.read_text()
    found = re.findall(
        r'level=warning event="a setting of an earlier version has no effect" setting=(\w+)', log
    )
    assert found == ["run_on_battery", "yield_to"]


@pytest.mark.slow
@pytest.mark.fault(
    "The machine is short of memory, or above `max_load`",
    "No job starts; running ones continue, and the gate opens by itself",
    area="workers",
)
def test_the_queue_waits_and_says_why(make_supervisor: MakeSupervisor, tmp_path: Path) -> None:
    live = make_supervisor(TQSTUDIO_MIN_MEMORY_BYTES=str(10**15)).start()
    until(lambda: live.send(calls.status())["gates"], "the gate is shut")
    desk = Desk(live, tmp_path)
    job = desk.job()
    worker = desk.worker()
    assert worker.claim(wait_s=0.5) is None
    [gate] = live.send(calls.status())["gates"]
    assert gate["kind"] == "load"
    assert "of memory are left, 1.0 PB are needed" in gate["reason"]
    assert "resumes" in gate["hint"]
    assert (desk.show(job)["status"], desk.show(job)["attempts"]) == ("pending", 0)
