"""A real supervisor in a home of its own, started and ended here."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.processes import environment, until
from benchmarks.raw_client import RawClient
from tqstudio.home import Home

_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 20.0


class Studio:
    """A running supervisor with one worker for the CPU."""

    def __init__(self, home: Home, process: subprocess.Popen[bytes]) -> None:
        self.home = home
        self.pid = process.pid
        self.environment = environment({"TQSTUDIO_HOME": str(home.root)})
        self._process = process

    def line(self, token: str | None = None) -> RawClient:
        return RawClient(self.home.socket, token)

    def status(self) -> Any:
        with contextlib.closing(self.line()) as line:
            return line.get("/v1/status")

    def worker_pid(self, other_than: int | None = None) -> int:
        """Of the worker `cpu-0`, once it has registered."""

        def look() -> int | None:
            worker = next((w for w in self.status()["workers"] if w["name"] == "cpu-0"), None)
            pid = worker["pid"] if worker else None
            return pid if pid and pid != other_than else None

        return until(look, "a worker registers") or 0

    def run(self, *arguments: str, check: bool = True) -> str:
        """What a command prints, run as a user does."""
        ended = subprocess.run(
            [*tqstudio(), *arguments],
            env=self.environment,
            cwd=self.home.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and ended.returncode:
            raise RuntimeError(f"tqstudio {arguments[0]} failed: {ended.stderr[-2000:]}")
        return ended.stdout

    def stop(self) -> None:
        """End it with its workers. May be called when it has ended."""
        if self._process.poll() is None:
            with contextlib.suppress(OSError, RuntimeError):
                line = self.line()
                line.post("/v1/shutdown", {})
                line.close()
            try:
                self._process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                # Its workers die with it, and their ffmpeg with them.
                self._process.kill()
                self._process.wait()

    def wait_ended(self) -> None:
        self._process.wait(_STOP_TIMEOUT_S)


def tqstudio() -> list[str]:
    """The command as it is installed beside this Python, else the module."""
    script = Path(sys.executable).with_name("tqstudio")
    return [str(script)] if os.access(script, os.X_OK) else [sys.executable, "-P", "-m", "tqstudio"]


@contextlib.contextmanager
def studio(
    root: Path, flags: Sequence[str] = (), *, keep: bool = False, stands_by: bool = False
) -> Iterator[Studio]:
    """Start a supervisor in the home `root` and wait until it answers; the home is removed at the end.

    Args:
        keep: the home stays.
        stands_by: another one leads its queue, which it has to know.
    """
    home = Home(root)
    root.mkdir(parents=True, exist_ok=True)
    with (root / "output.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tqstudio", "up", "--workers", "1", "--no-gpu", *flags],
            env=environment({"TQSTUDIO_HOME": str(root)}),
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    running = Studio(home, process)
    try:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                home.leader.stat() if stands_by else running.status()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(
                        f"no supervisor: {(root / 'output.log').read_text()[-2000:]}"
                    ) from None
                time.sleep(0.02)
        yield running
    finally:
        running.stop()
        if not keep:
            shutil.rmtree(root, ignore_errors=True)
