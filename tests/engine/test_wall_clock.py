"""The wall clock of a running supervisor is set by days and by fifty years, ahead and back."""

from __future__ import annotations

import http.client
import json
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness import MakeSupervisor
from tqstudio.protocol import calls
from tqstudio.protocol.client import Client
from tqstudio.protocol.remote import Remote
from waiting import until
from wall_clock import YEAR_S, WallClock
from wings.deletion.test_deletions import Library

pytestmark = pytest.mark.slow
DAY_S = 86_400.0
CPU_S = 3.0
"""More than a supervisor uses for a whole round of its periodic work."""

Open = Callable[..., Library]


@pytest.fixture
def clock(tmp_path: Path) -> WallClock:
    return WallClock(tmp_path / "clock")


@pytest.fixture
def open_library(tmp_path: Path, make_supervisor: MakeSupervisor, clock: WallClock) -> Open:
    def make(**settings: str) -> Library:
        library = Library(tmp_path, partial(make_supervisor, **clock.environment, **settings))
        library.start()
        return library

    return make


def view(library: Library) -> Any:
    return library.live.send(calls.status())


def note(library: Library) -> Any:
    file = library.live.home.clock
    return json.loads(file.read_text()) if file.exists() else None


def let_rounds_pass(library: Library, clock: WallClock) -> None:
    """Let all periodic work run, and what it began end: a clock that is an hour ahead makes all of it due."""
    for _ in range(3):
        before = note(library)
        clock.set(clock.ahead_s + 4000)
        until(lambda before=before: note(library) != before, "the round with the note of the clock has run")


class Follower:
    """Follows the event stream with a token until that ends."""

    def __init__(self, library: Library, token: str) -> None:
        self._client = Client(self.remote(library, token))
        self._thread = threading.Thread(target=lambda: list(self._client.stream()), daemon=True)
        self._thread.start()

    @staticmethod
    def remote(library: Library, token: str) -> Remote:
        port = int(view(library)["supervisor"]["listen"].rpartition(":")[2])
        return Remote("nas", "127.0.0.1", port, token, None)

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()


def ask(library: Library, token: str, method: str, path: str, **headers: str) -> http.client.HTTPResponse:
    port = int(view(library)["supervisor"]["listen"].rpartition(":")[2])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    sent = {"Authorization": f"Bearer {token}", "Tus-Resumable": "1.0.0"} | headers
    connection.request(method, path, headers={key.replace("_", "-"): value for key, value in sent.items()})
    return connection.getresponse()


@pytest.mark.fault(
    "The wall clock jumps ahead, by days or fifty years",
    "Nothing is removed or expired by its age for a day of running time, and `status` says so; tokens expire",
    area="supervisor",
)
@pytest.mark.parametrize("ahead_s", [30 * DAY_S, 50 * YEAR_S])
def test_a_jump_ahead_removes_nothing(open_library: Open, clock: WallClock, ahead_s: float) -> None:
    library = open_library(TQSTUDIO_LISTEN="127.0.0.1:0")
    live = library.live
    library.watch("keep")
    film = library.publishes()
    live.send(calls.act("retranscode", [film]))
    library.makes()
    gone = library.show(library.publishes("gone.mp4"))["video"]
    library.delete(gone)
    library.drops("running.mp4")
    worker, running = library.claimed()
    soon = datetime.now(UTC) + timedelta(hours=1)
    token = live.send(calls.create_token("short", "view", expires_at=soon.isoformat()))["token"]
    lasting = live.send(calls.create_token("desk", "operate"))["token"]
    about = {"Upload_Length": "9", "Upload_Metadata": f"filename {b64encode(b'sent.mp4').decode()}"}
    upload = ask(library, lasting, "POST", "/v1/uploads", **about).headers["Location"]
    follower = Follower(library, token)
    assert ask(library, token, "GET", "/v1/status").status == 200
    before, seq = library.files(), live.send(calls.events(limit=1))["last_seq"]
    assert {name.split("/")[0] for name in before} >= {"v1", "v2"}
    assert "clock_jump" not in view(library)["supervisor"]
    process = psutil.Process(live.process.pid)
    used = sum(process.cpu_times()[:2])

    clock.set(ahead_s)
    jump = until(lambda: view(library)["supervisor"].get("clock_jump"), "the status tells of the jump")
    assert jump["ahead_s"] == pytest.approx(ahead_s, abs=60)
    assert DAY_S - 600 < jump["held_s"] <= DAY_S
    let_rounds_pass(library, clock)
    assert sum(process.cpu_times()[:2]) - used < CPU_S, "missed runs are not made up for"

    assert library.files() == before, "the replaced ladder is there"
    library.undelete(gone)
    assert "master.m3u8" in library.files("gone")
    assert ask(library, lasting, "HEAD", upload).status == 200
    assert live.send(calls.events(after=0, limit=1))["events"][0]["seq"] <= seq
    assert ask(library, token, "GET", "/v1/status").status == 401
    until(lambda: follower.ended, "the stream of the expired token ends")
    assert library.publish(worker, running) == running["job"], "its lease is as it was"
    printed = live("status").out
    assert "nothing is removed by its age" in printed
    assert "supervisor.clock_jump.held_s 8" in live("status", "--plain").out

    library.again()
    assert view(library)["supervisor"]["clock_jump"]["held_s"] < DAY_S, "the next supervisor knows"
    clock.set(0)
    assert library.publishes("later.mp4")


@pytest.mark.fault(
    "The wall clock is set back, by days or fifty years",
    "Work, backoffs and leases continue; nothing is removed",
    area="supervisor",
)
@pytest.mark.parametrize("back_s", [30 * DAY_S, 50 * YEAR_S])
def test_a_clock_that_is_set_back_stops_nothing(open_library: Open, clock: WallClock, back_s: float) -> None:
    library = open_library(TQSTUDIO_BACKOFF_S="3600", TQSTUDIO_BACKOFF_MAX_S="3600", TQSTUDIO_LEASE_S="3600")
    library.watch("keep")
    film = library.publishes()
    library.live.send(calls.act("retranscode", [film]))
    library.makes()
    gone = library.show(library.publishes("gone.mp4"))["video"]
    library.delete(gone)
    library.drops("running.mp4")
    worker, running = library.claimed()
    library.drops("waits.mp4")
    other = library.live.worker("another").register()
    waits = until(other.claim, "the file is queued")
    failure = {"epoch": waits["epoch"], "code": "ENCODER_EXIT", "text": "it ended with 1"}
    other.send(f"jobs/{waits['job']}/fail", **failure)
    assert library.show(waits["job"])["not_before"] is not None
    assert other.claim() is None
    before = library.files()

    clock.set(-back_s)
    again = until(other.claim, "its backoff is over")
    assert again["job"] == waits["job"]
    let_rounds_pass(library, clock)
    assert "clock_jump" not in view(library)["supervisor"]
    assert library.files() == before
    library.undelete(gone)
    assert library.publish(worker, running) == running["job"], "its lease is as it was"
    library.publish(other, again)
    assert library.publishes("later.mp4")

    clock.set(0)
    until(lambda: view(library)["supervisor"].get("clock_jump"), "to the right time is a jump ahead")
    let_rounds_pass(library, clock)
    assert library.files() == before


@pytest.mark.parametrize("years", [-50, 50])
def test_hours_follow_the_clock(open_library: Open, clock: WallClock, years: int) -> None:
    noon = datetime(2026, 11, 25, 12, tzinfo=UTC)
    today = noon.timestamp() - time.time()
    clock.set(today)
    library = open_library(TQSTUDIO_HOURS="wed")

    def shut() -> bool:
        return "hours" in [gate["kind"] for gate in view(library)["gates"]]

    assert not shut()
    other_day = datetime(2026 + years, 11, 26, 12, tzinfo=UTC)
    assert other_day.weekday() != noon.weekday()
    clock.set(other_day.timestamp() - time.time())
    until(shut, "it is another day of the week")
    clock.set(today + 7 * DAY_S)
    until(lambda: not shut(), "it is Wednesday")
