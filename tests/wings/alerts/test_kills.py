"""Alerts of a real supervisor: killed at each step, beside a server that hangs, by command and API."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path

import pytest

from harness import LiveSupervisor, MakeSupervisor
from tqstudio import paths
from tqstudio.protocol import calls
from waiting import WAIT_S, until

from .receiver import Receiver, serving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with serving() as receiver:
        yield receiver


def started(make: MakeSupervisor, receiver: Receiver, root: Path, **more: str) -> LiveSupervisor:
    settings = {"ALERT_WEBHOOK": receiver.url, "ALERT_PRIVATE": "true", "ALERT_SECRET": "s3cret"}
    live = make(root / "home", **{f"TQSTUDIO_{key}": value for key, value in (settings | more).items()})
    live.start()
    live.send(calls.worker_action("cpu-0", "disable"))
    return live


def fails(live: LiveSupervisor, folder: Path, name: str) -> None:
    """A file whose job fails for good, in the hands of a worker that the test plays."""
    path = folder / name
    path.write_bytes(name.encode())
    [added] = live.send(calls.add([paths.encode(path)]))["results"]
    worker = live.worker(f"of-{name}").register()
    claimed = until(worker.claim, "it can be claimed")
    assert claimed["job"] == added["job"]
    worker.post(
        f"jobs/{added['job']}/fail",
        instance=worker.instance,
        epoch=claimed["epoch"],
        code="NO_MEDIA",
        text="x",
    )


@pytest.mark.slow
@pytest.mark.fault(
    "The supervisor is killed between an event and its alert, or while it sends it",
    "The next one makes and sends it; what was sent before has the same key and content",
    area="alerts",
)
@pytest.mark.parametrize("point", ["alert.making", "alert.stored", "alert.begun", "alert.sent"])
def test_a_kill_loses_no_alert(
    make_supervisor: MakeSupervisor, receiver: Receiver, tmp_path: Path, point: str
) -> None:
    live = started(make_supervisor, receiver, tmp_path, FAIL_POINT=point)
    # It may die before it answers.
    with contextlib.suppress(OSError, HTTPException):
        fails(live, tmp_path, "a.mp4")
    assert live.process.wait(WAIT_S) == -signal.SIGKILL
    live = started(make_supervisor, receiver, tmp_path, FAIL_POINT="")
    until(lambda: [a for a in live.send(calls.alerts())["alerts"] if a["state"] == "sent"], "it is sent")
    [alert] = live.send(calls.alerts())["alerts"]
    assert (alert["kind"], alert["error"]) == ("failed", None)
    assert len(receiver.received) == (2 if point == "alert.sent" else 1)
    assert len({request.key for request in receiver.received}) == 1
    assert len({request.raw for request in receiver.received}) == 1
    fails(live, tmp_path, "b.mp4")
    until(lambda: len({request.key for request in receiver.received}) == 2, "the next one has its own")


@pytest.mark.slow
def test_jobs_do_not_wait_for_a_server_that_hangs(
    make_supervisor: MakeSupervisor, receiver: Receiver, tmp_path: Path
) -> None:
    receiver.free.clear()
    live = started(make_supervisor, receiver, tmp_path, ALERT_TIMEOUT_S="60")
    fails(live, tmp_path, "first.mp4")
    until(lambda: receiver.received, "the server has the first alert")
    for number in range(9):
        fails(live, tmp_path, f"{number}.mp4")
    until(lambda: len(live.send(calls.alerts())["alerts"]) == 10, "all are stored")
    assert {alert["state"] for alert in live.send(calls.alerts())["alerts"]} == {"waiting"}
    assert len(receiver.received) == 1, "it still hangs"
    receiver.free.set()
    until(lambda: len(receiver.received) == 10, "all are sent")


@pytest.mark.more
def test_a_shutdown_waits_for_a_hanging_server_no_longer_than_its_timeout(
    make_supervisor: MakeSupervisor, receiver: Receiver, tmp_path: Path
) -> None:
    receiver.free.clear()
    live = started(make_supervisor, receiver, tmp_path, ALERT_TIMEOUT_S="1")
    fails(live, tmp_path, "a.mp4")
    until(lambda: receiver.received, "the server has the alert")
    assert live.stop() == 0
    receiver.free.set()
    started(make_supervisor, receiver, tmp_path)
    until(lambda: len(receiver.received) == 2, "it is sent after the next start")
    assert receiver.received[0].key == receiver.received[1].key


@pytest.mark.more
def test_list_and_test_by_command(
    make_supervisor: MakeSupervisor, receiver: Receiver, tmp_path: Path
) -> None:
    live = started(make_supervisor, receiver, tmp_path, ALERT_APPRISE="nothing://known")
    done = live("alert", "test")
    assert done.code == 1
    assert "webhook: accepted" in done.out
    assert "apprise knows no such service" in done.out
    assert receiver.received[0].body["kind"] == "test"
    receiver.status = lambda _: 500
    fails(live, tmp_path, "a.mp4")
    until(lambda: sum(bool(a["error"]) for a in live.send(calls.alerts())["alerts"]) == 2, "both were tried")
    listed = live("alert", "list")
    assert listed.code == 0
    assert "a.mp4 failed: NO_MEDIA: x – it answered 500" in listed.out
    assert {alert["state"] for alert in live("alert", "list", "--json").json()["alerts"]} == {"waiting"}
    everything = listed.out + done.out + live.home.supervisor_log.read_text() + live.output.read_text()
    assert "s3cret" not in everything
    assert receiver.url not in everything
    for process in live.processes():
        if process.pid != live.process.pid:
            assert "s3cret" not in str(process.environ()) + str(process.cmdline())


def test_without_a_channel_there_is_nothing_to_test(standing: LiveSupervisor) -> None:
    refused = standing("alert", "test")
    assert refused.code == 4
    assert "no channel for alerts" in refused.err
    assert standing.send(calls.alerts()) == {"alerts": []}


def test_a_wrong_setting_is_named_at_the_start(make_supervisor: MakeSupervisor) -> None:
    live = make_supervisor(TQSTUDIO_ALERT_WEBHOOK="s3cret")
    refused = live("up")
    assert refused.code == 2
    assert "the setting alert_webhook is invalid" in refused.err
    assert "s3cret" not in refused.err


@pytest.mark.more
def test_a_lasting_failure_is_in_doctor(
    make_supervisor: MakeSupervisor, receiver: Receiver, tmp_path: Path
) -> None:
    from databases import committed

    receiver.status = lambda _: 500
    live = started(make_supervisor, receiver, tmp_path)
    fails(live, tmp_path, "a.mp4")
    until(lambda: [a for a in live.send(calls.alerts())["alerts"] if a["error"]], "it was tried")
    assert not [c for c in live.send(calls.doctor())["checks"] if c["name"].startswith("alerts")]
    assert live.stop() == 0
    with committed(live.home.database) as db:
        db.execute("UPDATE alert SET due_at = due_at - 3700000000")
    live.start()
    [check] = [c for c in live.send(calls.doctor())["checks"] if c["name"].startswith("alerts")]
    assert (check["name"], check["level"], check["ok"]) == ("alerts webhook", "warn", True)
    assert "it answered 500" in check["detail"]
