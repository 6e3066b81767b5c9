"""How soon the product reacts: to a file, to a user, to the death of a worker."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import clips
from benchmarks.options import Options
from benchmarks.processes import encoders, living, until
from benchmarks.report import Section, at_most
from benchmarks.studio import Studio, studio, tqstudio
from benchmarks.terminal import Terminal
from tqstudio.engine.media.ffmpeg import binary


def measure(options: Options, root: Path) -> Section:
    section = Section(
        "Reactions",
        f"{options.rounds} rounds, each with a new supervisor; a clip of {options.clip_s} s is renamed into a"
        " drop folder that settles in 0 s",
    )
    clip = clips.make(binary.locate().path, root.parent, options.clip_s)
    taken: dict[str, list[float]] = {}
    for number in range(options.rounds):
        work = root / f"round-{number}"
        drop = work / "drop"
        drop.mkdir(parents=True)
        with studio(work / "home") as running:
            running.worker_pid()
            running.run("folder", "add", str(drop), "-o", str(work / "out"), "--settle", "0")
            for what, seconds in _Round(running, clip, drop).run().items():
                taken.setdefault(what, []).append(seconds)
        shutil.rmtree(work)
    floors = {_SETTLED: 1.5, _CANCELLED: 2, _PAUSED: 2, _KILLED: 2, _DOWN: 3, _CALLERS: 1}
    for what, values in taken.items():
        section.add(what, values, "s", at_most(floors[what]) if what in floors else None)
    return section


_SETTLED = "file renamed into place → ffmpeg runs"
_CANCELLED = "cancel → ffmpeg gone"
_PAUSED = "pause → ffmpeg gone"
_RESUMED = "resume → ffmpeg runs"
_KILLED = "kill -9 of the worker → the job's ffmpeg runs again"
_ORPHAN = "kill -9 of the worker → its ffmpeg gone"
_CALLERS = "1 000 callers ask for the status at once → the last one has it"
_DOWN = "`tqstudio down` while a job runs and the UI is open"


@contextlib.contextmanager
def _drained(terminal: Terminal) -> Iterator[None]:
    """Someone reads what the program writes."""
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            terminal.drain(0.05)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        done.set()
        reader.join()


class _Round:
    """All reactions once, in one supervisor."""

    def __init__(self, running: Studio, clip: Path, drop: Path) -> None:
        self._running, self._clip, self._drop = running, clip, drop
        self._line = running.line()

    def run(self) -> dict[str, float]:
        worker = self._running.worker_pid()
        taken = {_CALLERS: asyncio.run(self._callers())}
        taken[_SETTLED] = self._drop_in("first.mp4", worker)
        taken[_CANCELLED] = self._act("cancel", worker)
        self._drop_in("second.mp4", worker)
        taken[_PAUSED] = self._act("pause", worker)
        began = time.perf_counter()
        self._post("resume", self._job("paused"))
        until(lambda: encoders(worker), "the job resumes")
        taken[_RESUMED] = time.perf_counter() - began
        taken |= self._kill(worker)
        taken[_DOWN] = self._down()
        return taken

    async def _callers(self) -> float:
        async def ask() -> None:
            reader, writer = await asyncio.open_unix_connection(str(self._running.home.socket))
            writer.write(b"GET /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
            if not answer.startswith(b"HTTP/1.1 200 "):
                raise RuntimeError(f"a caller was answered {answer[:100]!r}")

        began = time.perf_counter()
        await asyncio.gather(*(ask() for _ in range(1_000)))
        return time.perf_counter() - began

    def _drop_in(self, name: str, worker: int) -> float:
        """Put a copy beside the drop folder, then rename it into place."""
        beside = self._drop.with_name(name)
        shutil.copyfile(self._clip, beside)
        began = time.perf_counter()
        os.replace(beside, self._drop / name)
        until(lambda: encoders(worker), f"{name} is picked up")
        return time.perf_counter() - began

    def _act(self, operation: str, worker: int) -> float:
        """Do it to the running job; until none of its ffmpegs lives."""
        job = self._job("in_progress")
        running = encoders(worker)
        began = time.perf_counter()
        self._post(operation, job)
        until(lambda: not living([*running, *encoders(worker)]), f"{operation} ends ffmpeg")
        took = time.perf_counter() - began
        until(lambda: not self._jobs("in_progress"), f"the job is not {operation}led")
        return took

    def _kill(self, worker: int) -> dict[str, float]:
        running = encoders(worker)
        began = time.perf_counter()
        os.kill(worker, signal.SIGKILL)
        until(lambda: not living(running), "the dead worker's ffmpeg ends")
        orphan = time.perf_counter() - began
        until(lambda: [pid for child in self._children() for pid in encoders(child)], "the job runs again")
        return {_KILLED: time.perf_counter() - began, _ORPHAN: orphan}

    def _children(self) -> list[int]:
        with contextlib.suppress(OSError):
            listed = Path(f"/proc/{self._running.pid}/task/{self._running.pid}/children").read_text()
            return [int(pid) for pid in listed.split()]
        return []

    def _down(self) -> float:
        self._line.close()
        below = [*self._children(), *(pid for child in self._children() for pid in encoders(child))]
        terminal = Terminal(tqstudio(), self._running.environment)
        try:
            terminal.first_paint_s()
            with _drained(terminal):
                began = time.perf_counter()
                self._running.run("down")
                took = time.perf_counter() - began
        finally:
            terminal.close()
        self._running.wait_ended()
        if left := living(below):
            raise RuntimeError(f"{len(left)} processes are left after down")
        return took

    def _jobs(self, status: str) -> list[int]:
        page = json.loads(self._line.ask("GET", f"/v1/jobs?filter=state:{status}&limit=10"))
        return [job["id"] for job in page["jobs"]]

    def _job(self, status: str) -> int:
        return until(lambda: self._jobs(status), f"a job is {status}")[0]

    def _post(self, operation: str, job: int) -> None:
        results = self._line.post("/v1/jobs/actions", {"operation": operation, "ids": [job]})["results"]
        if not results[0]["ok"]:
            raise RuntimeError(f"{operation}: {results[0]['error']}")
