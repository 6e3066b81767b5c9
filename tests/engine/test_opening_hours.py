"""When jobs start: hours of the queue and of drop folders, pauses with an end, programs that come first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness import MakeSupervisor
from tqstudio import paths
from tqstudio.config import Settings
from tqstudio.engine.gates import opening_hours
from tqstudio.engine.gates.opening_hours import Schedule
from tqstudio.engine.host.clock import RunningClock
from tqstudio.engine.live.leases import Leases
from tqstudio.engine.live.running_jobs import RunningJobs
from tqstudio.engine.store import events
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.engine.store.machine import gates
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import Control, GateKind
from tqstudio.protocol import calls
from waiting import until

from .conftest import Desk


def now_closed() -> str:
    """Hours that begin in more than an hour and end before now."""
    hour = datetime.now().hour
    return f"{(hour + 2) % 24:02d}:00-{(hour + 3) % 24:02d}:00"


def in_seconds(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_the_gate_of_the_queue_follows_its_hours(opened: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    running_jobs = RunningJobs(Leases(1, 1, 1, RunningClock(1)))
    begin = datetime(2026, 11, 23, 21, 59, 58).astimezone()
    clock = begin
    monkeypatch.setattr(opening_hours, "now_us", lambda: int(clock.timestamp() * 1_000_000))
    queue = Schedule(Settings(hours="22:00-06:00"), opened, running_jobs, lambda: None)

    def shut_at(after: timedelta) -> list[Any]:
        nonlocal clock
        clock = begin + after
        asyncio.run(queue.tick())
        return [(row.kind, row.until) for row in opened.read_now(gates.listing)]

    opens = int(datetime(2026, 11, 23, 22).astimezone().timestamp() * 1_000_000)
    assert shut_at(timedelta(0)) == [(GateKind.HOURS, opens)]
    assert shut_at(timedelta(seconds=2)) == []
    assert shut_at(timedelta(hours=8)) == []
    again = int(datetime(2026, 11, 24, 22).astimezone().timestamp() * 1_000_000)
    assert shut_at(timedelta(hours=8, seconds=2)) == [(GateKind.HOURS, again)]
    assert shut_at(timedelta(hours=2)) == [], "the clock was set back"
    assert shut_at(timedelta(hours=9)) == [(GateKind.HOURS, again)]
    triggers = [event.trigger for event in opened.read_now(events.newest, limit=10)]
    assert triggers == ["gate_closed", "gate_opened", "gate_closed", "gate_opened", "gate_closed"]

    # The next supervisor has other hours, or none.
    asyncio.run(
        Schedule(Settings(hours="06:00-07:00; 22:00-23:00"), opened, running_jobs, lambda: None).tick()
    )
    assert opened.read_now(gates.listing) == [], "06:59:58 is in them"
    shut_at(timedelta(hours=10))
    asyncio.run(Schedule(Settings(hours="sat 10:00-11:00"), opened, running_jobs, lambda: None).tick())
    [row] = opened.read_now(gates.listing)
    assert "sat 10:00-11:00" in row.reason
    asyncio.run(Schedule(Settings(), opened, running_jobs, lambda: None).tick())
    assert opened.read_now(gates.listing) == []


@pytest.mark.slow
@pytest.mark.fault(
    "It is outside of `hours`",
    "No job starts; running ones wait again, without an attempt; the queue resumes then",
    area="workers",
)
def test_no_job_starts_outside_of_the_hours(make_supervisor: MakeSupervisor, tmp_path: Path) -> None:
    live = make_supervisor(TQSTUDIO_HOURS=now_closed()).start()
    until(lambda: live.send(calls.status())["gates"], "the gate is shut")
    desk = Desk(live, tmp_path)
    job = desk.job()
    assert desk.worker().claim(wait_s=0.5) is None
    view = live.send(calls.status())
    [gate] = view["gates"]
    assert gate["kind"] == "hours"
    assert now_closed() in gate["reason"]
    opens = datetime.fromisoformat(str(gate["until"])).astimezone()
    assert f"{opens:%H:%M}" == now_closed()[:5]
    assert [reason["kind"] for reason in view["ready"]["reasons"]] == ["hours"]
    assert (desk.show(job)["status"], desk.show(job)["attempts"]) == ("pending", 0)


def test_what_runs_is_asked_to_stop_when_the_hours_of_the_queue_end(
    opened: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    running_jobs, token = RunningJobs(Leases(1, 10**9, 10**9, RunningClock(10**9))), LeaseToken(1, 1, "one")
    running_jobs.begin(token, "cpu-0", 1)
    need = gates.JobVolumes(**dict.fromkeys(gates.JobVolumes.__dataclass_fields__) | {"job": 1})
    monkeypatch.setattr(gates, "running_needs", lambda _: [need])
    asyncio.run(Schedule(Settings(hours=now_closed()), opened, running_jobs, lambda: None).tick())
    assert running_jobs.jobs[1].asked == "hours"
    running_jobs.control(1, Control.PAUSE)
    assert running_jobs.jobs[1].asked == "pause", "a person's request comes first"
    running_jobs.control(1, Control.NONE)
    asyncio.run(Schedule(Settings(), opened, running_jobs, lambda: None).tick())
    assert running_jobs.jobs[1].asked == "none"


def test_a_pause_ends_by_itself(desk: Desk) -> None:
    gate = desk.live.send(calls.pause_queue("a film is watched", in_seconds(3600)))
    assert gate["until"] is not None
    again = desk.live.send(calls.pause_queue("", in_seconds(1.5)))
    assert again["until"] is not None
    assert again["until"] < gate["until"]
    assert again["reason"] == "paused by user"
    job, worker = desk.job(priority=1000), desk.worker()
    assert worker.claim(wait_s=20)["job"] == job, "woken without asking again"
    assert desk.live.send(calls.status())["gates"] == []
    desk.live.send(calls.pause_queue("", in_seconds(3600)))
    assert desk.live.send(calls.pause_queue())["until"] is None
    desk.live.send(calls.resume_queue())


@pytest.mark.parametrize("end", ["soon", "2020-01-01", "2999-01-01T00:00:00+00:00", "", "2026-11-23T25:00"])
def test_a_pause_until_no_usable_time_is_refused(desk: Desk, end: str) -> None:
    with pytest.raises(TqError) as caught:
        desk.live.send(calls.pause_queue("", end))
    assert caught.value.code is ErrorCode.BAD_REQUEST
    assert caught.value.hint
    assert desk.live.send(calls.status())["gates"] == []


@pytest.fixture
def watched(desk: Desk, tmp_path: Path) -> Iterator[tuple[Desk, Any]]:
    place = tmp_path / "nightly"
    place.mkdir()
    folder = desk.live.send(
        calls.add_folder(paths.encode(place), hours=now_closed(), priority=1000, settle_s=0)
    )
    yield desk, folder
    desk.live.send(calls.remove_folder(folder["id"]))


@pytest.mark.fault(
    "It is outside of the hours of a drop folder",
    "Its jobs wait without an attempt, others start; they start when the hours begin or are changed",
    area="workers",
)
def test_jobs_of_a_folder_wait_for_its_hours_and_others_start(watched: tuple[Desk, Any]) -> None:
    desk, folder = watched
    assert folder["hours"] == now_closed()
    for number in range(3):
        desk.file(f"nightly/{number}.mp4")
    until(lambda: len(_jobs_of(desk, folder)) == 3, "the files are queued")
    other, worker = desk.job(), desk.worker()
    assert worker.claim()["job"] == other, "although the others have a higher priority"
    for job in _jobs_of(desk, folder):
        view = desk.show(job)
        assert (view["status"], view["attempts"], view["crashes"]) == ("pending", 0, 0)
        assert view["error"]["code"] == "OUTSIDE_HOURS"
        assert now_closed() in view["error"]["message"]
        assert (view["word"], view["retry_in_s"], view["not_before"]) == ("retry", None, None)
    second = desk.worker()
    assert second.claim(wait_s=0.5) is None
    desk.live.send(calls.edit_folder(folder["id"], hours=""))
    assert second.claim(wait_s=20)["job"] in _jobs_of(desk, folder)
    assert all(desk.show(job)["error"] is None for job in _jobs_of(desk, folder))


def _jobs_of(desk: Desk, folder: Any) -> list[int]:
    rows = desk.live.send(calls.jobs(f"folder:{folder['id']}", limit=100))["jobs"]
    return [row["id"] for row in rows]


@pytest.mark.parametrize("text", ["night", "22-06", "25:00-26:00"])
def test_hours_that_cannot_be_read_are_refused(watched: tuple[Desk, Any], text: str) -> None:
    desk, folder = watched
    with pytest.raises(TqError) as caught:
        desk.live.send(calls.edit_folder(folder["id"], hours=text))
    assert caught.value.code is ErrorCode.BAD_REQUEST
    assert "22:00-06:00" in caught.value.message
    [stored] = [each for each in desk.live.send(calls.folders())["folders"] if each["id"] == folder["id"]]
    assert stored["hours"] == now_closed()
