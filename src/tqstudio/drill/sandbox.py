"""Runs a studio in its own folder, started and shut down through the usual interfaces."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import psutil

from tqstudio.drill.clips import PROFILE, PROFILE_NAME
from tqstudio.engine.host.failpoints import VARIABLE as FAIL_POINT
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.protocol import calls
from tqstudio.protocol.answers import JobDetail, StatusView
from tqstudio.protocol.client import Client

T = TypeVar("T")

WAIT_S = 90.0
"""Timeout for conditions that must become true."""
_POLL_S = 0.02

_SETTINGS = {
    "PROFILE": PROFILE_NAME,
    "GPU": "false",
    "HEARTBEAT_S": "0.5",
    "LEASE_S": "3",
    "LEASE_SCAN_S": "1",
    "OFFLINE_S": "3",
    "BACKOFF_S": "0.05",
    "BACKOFF_MAX_S": "0.2",
    "DRAIN_S": "0.5",
    # Every kill counts against a job, but here all must be survived.
    "MAX_ATTEMPTS": "100",
    "MAX_CRASHES": "100",
    # Faults hit different jobs in a row, which would quarantine the worker.
    "QUARANTINE_AFTER": "0",
    "KEEP_OLD_S": "0",
    "DISK_RESERVE_BYTES": "1000000",
}


class Sandbox:
    """A home, an output and a supervisor that may die at any time.

    Args:
        root: an empty folder with a short path, because of the socket's limit.
        ffmpeg: the program that workers use.
        environment: variables of the supervisor added to those of this process.
        settings: more settings of the supervisor, without their prefix.
    """

    def __init__(
        self,
        root: Path,
        ffmpeg: str,
        workers: int = 1,
        *,
        environment: Mapping[str, str] | None = None,
        **settings: str,
    ) -> None:
        self.root = root
        self.home = Home(root / "home")
        self.output = root / "out"
        self.output.mkdir(parents=True, exist_ok=True)
        self.home.create()
        (self.home.root / "profiles").mkdir(exist_ok=True)
        (self.home.root / "profiles" / f"{PROFILE_NAME}.toml").write_text(PROFILE)
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("TQSTUDIO_")}
        given = _SETTINGS | {"FFMPEG": ffmpeg, "OUTPUT": str(self.output), "WORKERS": str(workers)} | settings
        self._environment = (
            inherited
            | dict(environment or {})
            | {f"TQSTUDIO_{key}": value for key, value in given.items()}
            | {"TQSTUDIO_HOME": str(self.home.root)}
        )
        self._client = Client(self.home.socket)
        self._process: subprocess.Popen[bytes] | None = None
        self.orphans = 0
        """Processes that outlived their killed supervisor; see `faults.ORPHAN_S`."""

    # Processes

    def start(self, fail_point: str | None = None) -> None:
        """Start a supervisor, optionally with a fail point at which it kills itself."""
        more = {} if fail_point is None else {FAIL_POINT: fail_point}
        with (self.root / "supervisor.out").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tqstudio", "up"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment | more,
                cwd=self.root,
                start_new_session=True,
            )

    @property
    def pid(self) -> int | None:
        """The pid of the supervisor while it runs."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the last supervisor; None while it runs, negative after a signal."""
        return None if self._process is None else self._process.poll()

    def until_up(self) -> bool:
        """Wait until the supervisor answers; False if it exited instead."""
        deadline = time.monotonic() + WAIT_S
        while self.pid is not None:
            with contextlib.suppress(TqError):
                self.status()
                return True
            if time.monotonic() > deadline:
                raise _timed_out("the supervisor answers")
            time.sleep(_POLL_S)
        return False

    def wait_ended(self, timeout_s: float = WAIT_S) -> None:
        if self._process is not None:
            self._process.wait(timeout_s)

    def kill(self) -> None:
        """Kill all processes of this home."""
        while running := list(self.processes()):
            for process in running:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            if self._process is not None:
                self._process.wait(WAIT_S)
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Shut the supervisor down as `tqstudio down` does."""
        with contextlib.suppress(TqError):
            self.send(calls.shutdown())
        if self._process is not None:
            try:
                self._process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    # Calls

    def send(self, call: calls.Call[T]) -> T:
        return self._client.send(call)

    def status(self) -> StatusView:
        return self.send(calls.status())

    def job(self, job: int) -> JobDetail:
        return self.send(calls.job(job))

    def add(self, path: Path) -> int:
        from tqstudio.paths import encode

        result = self.send(calls.add([encode(path)]))["results"][0]
        if result["error"] is not None or result["job"] is None:
            raise TqError(ErrorCode.INTERNAL, f"{path.name} was not queued: {result['error']}")
        return result["job"]

    def worker_pids(self) -> list[int]:
        return [worker["pid"] for worker in self.status()["workers"] if worker["pid"]]

    def encoders(self) -> list[psutil.Process]:
        """The ffmpeg processes of this sandbox."""
        return [process for process in self.processes() if _name(process).startswith("ffmpeg")]

    def processes(self) -> Iterator[psutil.Process]:
        """All processes of this home: they inherit its variable, even if their parent is dead."""
        wanted = f"TQSTUDIO_HOME={self.home.root}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError, psutil.Error):
                    if wanted in (entry / "environ").read_bytes().split(b"\0"):
                        yield psutil.Process(int(entry.name))


def until(condition: Callable[[], T], what: str, timeout_s: float = WAIT_S, poll_s: float = _POLL_S) -> T:
    """Wait for a condition and return its value; raise TIMEOUT, naming it, if it does not come true."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise _timed_out(what, timeout_s)
        time.sleep(poll_s)
    return value


def _timed_out(what: str, timeout_s: float = WAIT_S) -> TqError:
    return TqError(ErrorCode.TIMEOUT, f"timed out after {timeout_s:.0f} s: {what}")


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.Error:
        return ""
