"""A supervisor reports to systemd's socket, which is a real datagram socket here."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import LiveSupervisor, MakeSupervisor
from tqstudio.config import STOP_MARGIN_S
from tqstudio.protocol import calls
from waiting import WAIT_S, until

INTERVAL_S = 0.2
DRAIN_S = 7


class Manager:
    """What systemd does with the socket."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(WAIT_S)

    def next(self, timeout_s: float = WAIT_S) -> dict[str, str]:
        self._socket.settimeout(timeout_s)
        lines = self._socket.recv(4096).decode().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def wait_for(self, key: str) -> dict[str, str]:
        while key not in (states := self.next()):
            pass
        return states

    def discard(self) -> None:
        while True:
            try:
                self.next(0.001)
            except TimeoutError:
                return

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    of_systemd = Manager(tmp_path / "notify")
    yield of_systemd
    of_systemd.close()


@pytest.fixture
def service(make_supervisor: MakeSupervisor, manager: Manager) -> LiveSupervisor:
    supervisor = make_supervisor(
        TQSTUDIO_DRAIN_S=str(DRAIN_S),
        NOTIFY_SOCKET=str(manager.path),
        WATCHDOG_USEC=str(int(2 * INTERVAL_S * 1_000_000)),
    )
    supervisor.launch()
    return supervisor


@pytest.mark.slow
def test_it_is_ready_once_the_api_answers(service: LiveSupervisor, manager: Manager) -> None:
    states = manager.next()
    assert states == {"READY": "1", "STATUS": "ready, 0 running"}, "nothing is reported before"
    assert service.send(calls.status())["supervisor"]["pid"] == service.process.pid


@pytest.mark.slow
@pytest.mark.fault(
    "The supervisor hangs, as a systemd service",
    "Its event loop no longer reports; systemd restarts it after `WatchdogSec`",
    area="supervisor",
)
def test_a_supervisor_that_hangs_sends_nothing(service: LiveSupervisor, manager: Manager) -> None:
    for _ in range(3):
        assert manager.wait_for("WATCHDOG")["WATCHDOG"] == "1"
    service.process.send_signal(signal.SIGSTOP)
    try:
        manager.discard()
        with pytest.raises(TimeoutError):
            manager.next(10 * INTERVAL_S)
    finally:
        service.process.send_signal(signal.SIGCONT)
    manager.wait_for("WATCHDOG")


def test_a_shutdown_is_reported_with_the_time_it_may_take(service: LiveSupervisor, manager: Manager) -> None:
    manager.wait_for("READY")
    service.process.send_signal(signal.SIGTERM)
    allowed_us = manager.wait_for("EXTEND_TIMEOUT_USEC")["EXTEND_TIMEOUT_USEC"]
    assert int(allowed_us) == (DRAIN_S + STOP_MARGIN_S) * 1_000_000
    manager.wait_for("STOPPING")
    assert service.ended() == 0


@pytest.mark.slow
def test_workers_cannot_report_in_its_name(service: LiveSupervisor, manager: Manager) -> None:
    manager.wait_for("READY")
    [worker] = service.send(calls.status())["workers"]
    pids = until(lambda: {each.pid for each in service.processes()} - {service.process.pid}, worker["name"])
    variables = [name for pid in pids for name in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")]
    assert not [name for name in variables if name.startswith((b"NOTIFY_SOCKET", b"WATCHDOG_"))]


@pytest.mark.more
def test_a_watchdog_of_another_process_is_not_answered(
    make_supervisor: MakeSupervisor, manager: Manager
) -> None:
    supervisor = make_supervisor(
        NOTIFY_SOCKET=str(manager.path), WATCHDOG_USEC="200000", WATCHDOG_PID="1"
    ).start()
    manager.wait_for("WATCHDOG")
    with pytest.raises(TimeoutError):
        manager.next(1)
    assert supervisor.stop() == 0


@pytest.mark.more
def test_a_socket_that_is_gone_changes_nothing(make_supervisor: MakeSupervisor, tmp_path: Path) -> None:
    supervisor = make_supervisor(NOTIFY_SOCKET=str(tmp_path / "none"), WATCHDOG_USEC="100000").start()
    assert supervisor.stop() == 0
