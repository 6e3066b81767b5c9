"""A supervisor whose lock, socket, home or database is removed while it runs."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness import LiveSupervisor, MakeSupervisor
from tqstudio.config import Settings
from tqstudio.engine.host import home_lock
from tqstudio.engine.monitoring.doctor import examine
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.protocol import calls, launch, running
from tqstudio.protocol.answers import CheckView
from waiting import until

_TAKE = """
import sys
from pathlib import Path
from tqstudio.engine.host.home_lock import HomeLock
from tqstudio.errors import TqError
from tqstudio.home import Home
try:
    HomeLock(Home(Path(sys.argv[1]))).acquire()
except TqError as error:
    sys.exit(f"{error.code}: {error.message}")
"""


def test_a_lock_that_is_removed_is_still_held_and_created_again(tmp_path: Path) -> None:
    home = Home(tmp_path)
    mine = home_lock.HomeLock(home)
    mine.acquire()
    for trouble in (home.lock.unlink, lambda: home.lock.rename(tmp_path / "aside")):
        trouble()
        assert running.holder(home) == 0
        assert mine.keep()
        assert running.holder(home) is not None
        second = home_lock.HomeLock(home)
        with pytest.raises(TqError) as caught:
            second.acquire()
        assert caught.value.code is ErrorCode.ALREADY_RUNNING
    mine.release()
    assert running.holder(home) is None


def test_a_lock_file_that_another_holds_is_lost(tmp_path: Path) -> None:
    """As it happens where the file system locks no folders."""
    home = Home(tmp_path)
    mine, other = home_lock.HomeLock(home), home_lock.HomeLock(home)
    mine.acquire()
    home.lock.unlink()
    assert other._take_file()
    assert not mine.keep()
    other.release()
    assert mine.keep()
    mine.release()


@pytest.mark.more
@pytest.mark.fault(
    "Lock file and socket are removed while it runs",
    "No second one starts; both are created again within 2 s",
    area="supervisor",
)
def test_no_second_one_starts_when_lock_and_socket_are_removed(make_supervisor: MakeSupervisor) -> None:
    live = make_supervisor().start()
    pid = live.process.pid
    live.home.lock.unlink()
    live.home.socket.unlink()
    second = subprocess.run(
        [sys.executable, "-c", _TAKE, str(live.home.root)], capture_output=True, timeout=60
    )
    refused = f"ALREADY_RUNNING: a supervisor (pid {pid}) already runs in {live.home.root}\n"
    assert second.stderr.decode() == refused
    view = launch.join(live.home)
    assert view is not None
    assert view["pid"] == pid
    assert running.holder(live.home) == pid
    # What was created again is as good as what was there: it is removed again and serves to the end.
    live.home.socket.unlink()
    until(live.home.socket.exists, "the socket is there again")
    assert live.stop() == 0
    assert not live.home.socket.exists()


@pytest.mark.more
def test_doctor_forgets_a_worker_that_was_announced_by_hand(make_supervisor: MakeSupervisor) -> None:
    live = make_supervisor(TQSTUDIO_HEARTBEAT_S="0.5", TQSTUDIO_OFFLINE_S="1", TQSTUDIO_LEASE_S="3").start()
    live.worker("visitor").register()

    def visitor() -> Any:
        checks = {check["name"]: check for check in live.send(calls.doctor())["checks"]}
        return checks.get("worker visitor")

    gone = until(lambda: (check := visitor()) and check["level"] != "ok" and check, "it is offline")
    assert (gone["level"], gone["ok"]) == ("warn", True), "nothing of the studio's own is broken"
    assert "start its program again" in gone["hint"]
    assert live.stop() == 0
    live = make_supervisor().start()
    assert visitor() is None
    assert "visitor" not in [worker["name"] for worker in live.send(calls.workers())["workers"]]


@pytest.mark.slow
def test_doctor_advises_no_kill_of_a_supervisors_worker(make_supervisor: MakeSupervisor) -> None:
    live = make_supervisor().start()
    until(lambda: len(live.processes()) > 1, "its worker runs")
    live.home.lock.unlink()
    check = _processes(live.home)
    assert (check["level"], check["detail"]) == ("ok", "those of the running supervisor")


@pytest.mark.slow
@pytest.mark.fault(
    "Its home is replaced while it runs",
    "It ends and leaves the socket of the next one alone",
    area="supervisor",
)
def test_who_loses_its_home_ends_and_leaves_the_next_one_alone(
    make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    first = make_supervisor().start()
    until(lambda: len(first.processes()) > 1, "its worker runs")
    theirs = [process.pid for process in first.processes()]
    first.home.root.rename(tmp_path / "moved")
    second = LiveSupervisor(first.home.root).start()
    try:
        assert first.ended() != 0
        printed = first.output.read_text()
        root = first.home.root
        assert f"lost its home or database and shut down: {root} was replaced by another" in printed
        assert "home or database lost" in (tmp_path / "moved" / "logs" / "supervisor.log").read_text()
        assert second.send(calls.status())["supervisor"]["pid"] == second.process.pid
        until(lambda: not set(theirs) & {each.pid for each in second.processes()}, "its worker has ended")
    finally:
        second.clear_away()


@pytest.mark.slow
@pytest.mark.fault(
    "Its home or database is removed while it runs",
    "It ends with its workers and says why",
    area="supervisor",
)
@pytest.mark.parametrize("what", ["home", "database"])
def test_without_its_home_or_its_database_it_ends(make_supervisor: MakeSupervisor, what: str) -> None:
    live = make_supervisor().start()
    if what == "home":
        shutil.rmtree(live.home.root)
    else:
        live.home.database.unlink()
    assert live.ended() != 0
    live.until_gone()
    assert not live.home.socket.exists()


@pytest.mark.more
def test_doctor_names_a_supervisor_whose_home_is_gone(make_supervisor: MakeSupervisor) -> None:
    live = make_supervisor().start()
    until(lambda: len(live.processes()) > 1, "its worker runs")
    live.process.send_signal(signal.SIGSTOP)
    try:
        until(lambda: _is_removed(live.home.root), "it is removed, though its worker still writes there")
        check = _processes(live.home)
        assert check["level"] == "warn"
        assert f"a supervisor (pid {live.process.pid}) still runs for an earlier" in check["detail"]
        assert check["hint"].endswith(f"kill -9 {live.process.pid}")
    finally:
        live.process.send_signal(signal.SIGCONT)
        live.ended()


def _is_removed(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def _processes(home: Home) -> CheckView:
    return next(check for check in examine(home, Settings()) if check["name"] == "processes")
