"""Runs the command `tqstudio`, and a supervisor in a home of its own, as real processes."""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, TypeVar

import psutil

from tqstudio import paths
from tqstudio.engine.host import orphan_processes
from tqstudio.engine.store.db import schema
from tqstudio.errors import TqError
from tqstudio.home import Home
from tqstudio.protocol import calls
from tqstudio.protocol.calls import Call
from tqstudio.protocol.client import Client
from waiting import WAIT_S, until

T = TypeVar("T")

COMMAND_TIMEOUT_S = 170.0
"""Generous, but within the limit of a test: its ffmpeg is niced and may wait for a busy machine."""

PROGRAM = (sys.executable, "-P", "-m", "tqstudio")

QUICK = {
    "TQSTUDIO_SETTLE_S": "0.2",
    "TQSTUDIO_DISK_RESERVE_BYTES": "1000000",
    "TQSTUDIO_WORKERS": "1",
    "TQSTUDIO_GPU": "false",
}
"""Settings of a supervisor under test, unless a test sets others."""


@dataclass(frozen=True)
class Answer:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    def last_line(self) -> Any:
        return json.loads(self.out.splitlines()[-1])


class Program:
    """Runs `tqstudio` in one home.

    Args:
        before: words before the command, such as a `setpriv`.
        environment: replaces the inherited variables of tqstudio.
    """

    def __init__(self, home: Path, *, before: Sequence[str] = (), **environment: str) -> None:
        self.home = Home(home)
        self._before = before
        self.environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("TQSTUDIO_", "XDG_"))
        } | {"TQSTUDIO_HOME": str(home), **environment}

    def command(self, *arguments: str | bytes | Path) -> list[str | bytes | Path]:
        return [*self._before, *PROGRAM, *arguments]

    def __call__(
        self,
        *arguments: str | bytes | Path,
        timeout_s: float = COMMAND_TIMEOUT_S,
        cwd: Path | None = None,
        **environment: str,
    ) -> Answer:
        """Run a command until it exits."""
        return answer_of(
            self.command(*arguments), self.environment | environment, timeout_s=timeout_s, cwd=cwd
        )

    def spawn(self, *arguments: str | bytes | Path, **environment: str) -> subprocess.Popen[bytes]:
        """Start a command whose output the test reads."""
        return subprocess.Popen(
            self.command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment | environment,
        )


class ProgramInside(Program):
    """Runs commands within this process, where they are as in one of their own but for the start of Python.

    For commands that end soon; `spawn` starts a process as ever.
    """

    def __call__(
        self,
        *arguments: str | bytes | Path,
        timeout_s: float = COMMAND_TIMEOUT_S,  # noqa: ARG002 - the limit of the test holds
        cwd: Path | None = None,
        **environment: str,
    ) -> Answer:
        from tqstudio.cli import main

        kept = dict(os.environ), {number: signal.getsignal(number) for number in _SIGNALS}
        written = io.BytesIO(), io.BytesIO()
        out, err = (io.TextIOWrapper(each, "utf-8", "backslashreplace") for each in written)
        os.environ.clear()
        os.environ.update(self.environment | environment)
        try:
            with contextlib.chdir(cwd or Path.cwd()), redirect_stdout(out), redirect_stderr(err):
                code = main([os.fsdecode(argument) for argument in arguments])
                sys.stdout.flush()
                sys.stderr.flush()
                # The command may have put streams of its own in place, which close these when they go.
                return Answer(code, *(each.getvalue().decode() for each in written))
        finally:
            os.environ.clear()
            os.environ.update(kept[0])
            for number, handler in kept[1].items():
                signal.signal(number, handler)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def answer_of(
    command: Sequence[str | bytes | Path],
    environment: dict[str, str],
    *,
    timeout_s: float = COMMAND_TIMEOUT_S,
    cwd: Path | None = None,
) -> Answer:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout_s,
        env=environment,
        cwd=cwd,
        check=False,
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


class LiveSupervisor(Program):
    """Runs `tqstudio up` in the foreground.

    Args:
        before: words before each command.
        environment: TQSTUDIO_* settings; they win over `QUICK`.
    """

    def __init__(self, root: Path, *, before: Sequence[str] = (), **environment: str) -> None:
        new_home(root)
        super().__init__(root, before=before, **QUICK | environment)
        self.output = root.with_name(f"{root.name}.printed")
        """What all supervisors of this home printed."""
        self.client = Client(self.home.socket)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process of the supervisor that was started last."""
        assert self._process is not None, "it was not started"
        return self._process

    @property
    def started(self) -> bool:
        """Whether it was started and its end was not waited for."""
        return self._process is not None

    # Life

    def start(self) -> LiveSupervisor:
        """Start it and wait until it answers."""
        self.launch()
        until(self._answers, "the supervisor answers")
        return self

    def launch(self, **environment: str) -> subprocess.Popen[bytes]:
        """Start it without waiting."""
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                self.command("up"),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.environment | environment,
                # Ctrl-C at the tests must not reach the supervisor.
                start_new_session=True,
            )
        return self._process

    def _answers(self) -> bool:
        assert self.process.poll() is None, f"the supervisor ended: {self.output.read_text()}"
        with suppress(TqError):
            return self.send(calls.status())["supervisor"]["pid"] == self.process.pid
        return False

    def stop(self) -> int:
        """Shut it down as `tqstudio down` does; nothing of it may be left. Returns its exit code."""
        if self._process is None:
            return 0
        until(self._is_asked_to_stop, "it takes the request")
        code = self.ended()
        self.until_gone()
        return code

    def _is_asked_to_stop(self) -> bool:
        """Ask it to shut down, unless it has ended; between two of its sockets it has none for a moment."""
        if self.process.poll() is not None:
            return True
        with suppress(TqError):
            self.send(calls.shutdown())
            return True
        return False

    def kill(self) -> None:
        self.process.kill()
        self.ended()

    def terminate(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End the supervisor by a signal. Returns its exit code."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """Wait until the supervisor has exited. Returns its exit code; `process` is gone then."""
        code = self.process.wait(WAIT_S)
        self._process = None
        return code

    def until_gone(self) -> None:
        until(lambda: not self.processes(), f"no process of {self.home.root} is left")

    def clear_away(self) -> None:
        """Leave no process, whatever the result of the test."""
        try:
            self.stop()
        except BaseException:
            for process in self.processes():
                process.kill()
            raise
        finally:
            if self._process is not None:
                self._process.kill()
                self._process.wait()

    def processes(self) -> list[psutil.Process]:
        """Every process that runs for this home: the supervisor, its workers, their ffmpegs."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                homes = process.environ().get("TQSTUDIO_HOME"), orphan_processes.home_of(process.pid)
                if str(self.home.root) in homes and process.is_running() and process.pid != os.getpid():
                    found.append(process)
        return found

    # Calls

    def send(self, call: Call[T], *, timeout_s: float = 30.0) -> T:
        return self.client.send(call, timeout_s=timeout_s)

    def raw(
        self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send any request (bytes as they are, other bodies as JSON); returns status and decoded answer."""
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
        return Worker(self, self.send(calls.worker_token(name, kind))["token"], name)


MakeSupervisor = Callable[..., LiveSupervisor]
"""See the fixture `make_supervisor`."""


class Worker:
    """The worker's side of the API, played by the test."""

    def __init__(self, supervisor: LiveSupervisor, token: str, name: str) -> None:
        self.name, self.token = name, token
        self.instance = f"instance-of-{name}"
        self._supervisor = supervisor

    def post(self, path: str, **body: Any) -> tuple[int, Any]:
        return self._supervisor.raw(
            "POST", f"/v1/worker/{path}", body, headers={"Authorization": f"Bearer {self.token}"}
        )

    def send(self, path: str, **body: Any) -> Any:
        """Post with this worker's instance; the answer must be good."""
        status, answer = self.post(path, **({"instance": self.instance} | body))
        assert status == 200, answer
        return answer

    def register(self) -> Worker:
        self.send("register", pid=os.getpid(), pid_started=1.0, encoder="libx264")
        return self

    def claim(self, wait_s: float = 0) -> Any:
        """The next job; creates its work folder, as a worker does first."""
        job = self.send("claim", wait_s=wait_s)["job"]
        if job is not None:
            os.makedirs(paths.decode(job["work_dir"]["path_b64"]), exist_ok=True)
        return job


class UnixHTTP(HTTPConnection):
    """Speaks HTTP over a unix socket, for requests that a well-behaved client would not send."""

    def __init__(self, path: Path, timeout_s: float = 30) -> None:
        super().__init__("tqstudio", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def new_home(root: Path) -> Home:
    """Create a home; a new one gets a copy of an empty database, which is most of a first start."""
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


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until_ended(pids: Sequence[int]) -> None:
    """Wait until none of the processes runs."""
    until(lambda: not [pid for pid in pids if lives(pid)], f"the processes {list(pids)} have ended")
