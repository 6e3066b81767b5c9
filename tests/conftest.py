"""A real supervisor in a home of its own, as a process, and a door to it."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest
import structlog

from tqstudio import paths
from tqstudio.engine.host import orphan_processes
from tqstudio.engine.store.db import schema
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.protocol import calls
from tqstudio.protocol.calls import Call
from tqstudio.protocol.client import Client
from waiting import until

# What a shell starts in the background ignores Ctrl-C, and so would everything the tests start: to some of it
# they send that signal.
signal.signal(signal.SIGINT, signal.default_int_handler)

T = TypeVar("T")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name the simulated worlds of this run: whoever reads its log can run one of them again."""
    properties = [each for report in terminalreporter.getreports("passed") for each in report.user_properties]
    if worlds := [value for name, value in properties if name == "simulated"]:
        steps = sum(steps for _, _, steps in worlds)
        listed = ", ".join(sorted(f"{fault_profile} {seed}" for fault_profile, seed, _ in worlds))
        terminalreporter.write_line(f"simulated {steps} steps in the worlds {listed}")


START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0

QUICK = {
    "TQSTUDIO_SETTLE_S": "0.2",
    "TQSTUDIO_DISK_RESERVE_BYTES": "1000000",
    "TQSTUDIO_WORKERS": "1",
    "TQSTUDIO_GPU": "false",
}
"""Settings of a supervisor under test; a test may say otherwise."""


def new_home(root: Path) -> Home:
    """A home; a new one has the database already that its first start makes, in most of that start's time."""
    home = Home(root)
    if not root.exists() or not any(root.iterdir()):
        home.create()
        shutil.copyfile(_first_database(), home.database)
    return home


@functools.cache
def _first_database() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tqstudio-first-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    subprocess.run([sys.executable, "-P", "-m", schema.__name__, str(folder / "tqstudio.db")], check=True)
    return folder / "tqstudio.db"


class UnixHTTP(HTTPConnection):
    """http.client over a unix socket, for requests that a well-behaved client would not send."""

    def __init__(self, path: Path, timeout_s: float = 30) -> None:
        super().__init__("tqstudio", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        import socket

        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class LiveSupervisor:
    """`tqstudio up` in the foreground, with its home and its process.

    Args:
        environment: TQSTUDIO_* settings; they win over `QUICK`.
    """

    def __init__(self, root: Path, **environment: str) -> None:
        self.home = new_home(root)
        inherited = {
            key: value for key, value in os.environ.items() if not key.startswith(("TQSTUDIO_", "XDG_"))
        }
        self.environment = inherited | QUICK | environment | {"TQSTUDIO_HOME": str(root)}
        self._process: subprocess.Popen[bytes] | None = None
        self._client = Client(self.home.socket)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was not started"
        return self._process

    @property
    def output(self) -> Path:
        """What the process printed."""
        return self.home.root / "printed.txt"

    def start(self) -> LiveSupervisor:
        """Start it and wait until it answers."""
        self.launch()
        until(self._answers, "the supervisor answers", START_TIMEOUT_S)
        return self

    def launch(self) -> None:
        """Start it and wait for nothing."""
        self.home.create()
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tqstudio", "up"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.environment,
                # Ctrl-C at the tests is not for the supervisor.
                start_new_session=True,
            )

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"the supervisor ended: {self.output.read_text()}")
        try:
            return self.send(calls.status())["supervisor"]["pid"] == self.process.pid
        except TqError as error:
            if error.code is not ErrorCode.NO_SUPERVISOR:
                raise
            return False

    def send(self, call: Call[T], *, timeout_s: float = 30.0) -> T:
        return self._client.send(call, timeout_s=timeout_s)

    def raw(
        self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send what a test likes (bytes as they are, other bodies as JSON); status and decoded answer."""
        connection = UnixHTTP(self.home.socket)
        try:
            content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            sent = {"Content-Type": "application/json"} if body is not None else {}
            connection.request(method, path, content, sent | (headers or {}))
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def worker(self, name: str, kind: str = "cpu") -> Worker:
        """A worker that the test plays itself, registered."""
        return Worker(self, self.send(calls.new_worker(name, kind))["token"], name)

    def processes(self) -> list[psutil.Process]:
        """Every process that runs for this home: the supervisor, its workers, their ffmpegs."""
        found = []
        for process in psutil.process_iter():
            try:
                homes = process.environ().get("TQSTUDIO_HOME"), orphan_processes.home_of(process.pid)
                if str(self.home.root) in homes and process.is_running():
                    found.append(process)
            except psutil.Error:
                continue
        return [process for process in found if process.pid != os.getpid()]

    def stop(self) -> int:
        """Shut it down as `tqstudio down` does, and see that nothing of it is left. Answers its exit code."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self.send(calls.shutdown())
        code = self._process.wait(STOP_TIMEOUT_S)
        until(lambda: not self.processes(), "no process is left", STOP_TIMEOUT_S)
        self._process = None
        return code

    def kill(self) -> None:
        """End the supervisor without a word."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_TIMEOUT_S)
        self._process = None

    def clear_away(self) -> None:
        """Whatever became of the test, leave no process."""
        try:
            if self._process is not None:
                self.stop()
        except (TqError, AssertionError, subprocess.TimeoutExpired):
            for process in self.processes():
                process.kill()
            raise
        finally:
            if self._process is not None:
                self._process.kill()
                self._process.wait()


class Worker:
    """The worker's side of the API, in the test's hands."""

    def __init__(self, supervisor: LiveSupervisor, token: str, name: str) -> None:
        self.name, self.token = name, token
        self.instance = f"instance-of-{name}"
        self._supervisor = supervisor

    def post(self, path: str, **body: Any) -> tuple[int, Any]:
        return self._supervisor.raw(
            "POST", f"/v1/worker/{path}", body, headers={"Authorization": f"Bearer {self.token}"}
        )

    def tell(self, path: str, **body: Any) -> Any:
        """Post with this worker's instance; the answer must be good."""
        status, answer = self.post(path, **({"instance": self.instance} | body))
        assert status == 200, answer
        return answer

    def register(self) -> Worker:
        self.tell("register", pid=os.getpid(), pid_started=1.0, encoder="libx264")
        return self

    def claim(self, wait_s: float = 0) -> Any:
        """The next job; its work folder is made, as a worker begins with that."""
        job = self.tell("claim", wait_s=wait_s)["job"]
        if job is not None:
            os.makedirs(paths.decode(job["sink"]["path_b64"]), exist_ok=True)
        return job


MakeSupervisor = Callable[..., LiveSupervisor]


@pytest.fixture
def make_supervisor(tmp_path: Path) -> Iterator[MakeSupervisor]:
    """Makes supervisors, not started yet: `make_supervisor(TQSTUDIO_LEASE_S="2").start()`.

    With one `root` given twice they share a home. All are ended after the test, by force if need be.
    """
    made: list[LiveSupervisor] = []

    def make(root: Path | None = None, **environment: str) -> LiveSupervisor:
        made.append(LiveSupervisor(root or tmp_path / "home", **environment))
        return made[-1]

    yield make
    for supervisor in made[::-1]:
        supervisor.clear_away()


@pytest.fixture
def supervisor(make_supervisor: MakeSupervisor) -> LiveSupervisor:
    """A running supervisor in an empty home."""
    return make_supervisor().start()


@pytest.fixture(autouse=True)
def logs_go_nowhere_else() -> Iterator[None]:
    """A test that sets up logging writes into what pytest captures; the next test has another capture."""
    yield
    structlog.reset_defaults()
