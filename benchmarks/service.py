"""What each call of a worker on another machine costs the supervisor, and how many such calls a job makes.

The constants of the model of large fleets, `make simulate FLEET=1`.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from blake3 import blake3

from benchmarks import clips
from benchmarks.options import Options
from benchmarks.processes import cpu_s, until
from benchmarks.remote import connected, job_s
from benchmarks.report import Section
from benchmarks.studio import Studio, studio
from tqstudio.engine.media.ffmpeg import binary
from tqstudio.protocol import content_digest

_INSTANCE = "instance-00000001"
_CALLS = 400
_FILES = 60
_SEGMENT_BYTES = 1_000_000
_FLEETS = (1, 8)
_PACED_S = 15
_LISTEN = ("--listen", "127.0.0.1:0")
_RUNGS = ("1080p", "720p", "480p", "360p", "audio")


def measure(options: Options, root: Path) -> Section:
    section = Section(
        "Calls of workers on other machines",
        f"loopback without TLS, one at a time; {options.rounds} rounds of {_CALLS} calls;"
        f" a job of {options.clip_s} s of 1080p30, profile fast",
    )
    clip = clips.make(binary.locate().path, root.parent, options.clip_s)
    costs: dict[str, list[float]] = {}
    waits: dict[str, list[float]] = {}
    with studio(root / "calls", _LISTEN) as running, contextlib.closing(_Worker(running, clip)) as worker:
        for _ in range(options.rounds):
            for what, times, call in worker.calls():
                cpu_ms, wall_ms = _cost(running.pid, times, call)
                costs.setdefault(what, []).append(cpu_ms)
                waits.setdefault(what, []).append(wall_ms)
    for what in costs:
        section.add(f"{what}, processor of the supervisor", costs[what], "ms")
        section.add(f"{what}, until its answer", waits[what], "ms")
    for count in _FLEETS:
        share = _paced(root / f"paced-{count}", clip, count)
        section.add(f"supervisor, {count} of them encode at 1×, of one core", [share], "%")
    for what, per_s in _counted(options, root, clip).items():
        section.add(f"{what}, of a job", [per_s], "per s of the video")
    section.add(
        "a whole job, processor of the supervisor", _whole(options, root, clip), "ms per s of the video"
    )
    return section


class _Worker:
    """One that has a real job, and encodes nothing."""

    def __init__(self, running: Studio, clip: Path, name: str = "far") -> None:
        running.worker_pid()
        running.run("worker", "disable", "cpu-0")
        source = running.home.root / f"{name}.mp4"
        # With content of its own, or its job would wait for the one with the same.
        source.write_bytes(clip.read_bytes() + name.encode())
        running.run("add", str(source), "-o", str(running.home.root / "out"), "--profile", "fast")
        token = running.run("token", "create", name, "--role", "worker").strip()
        port = int(running.status()["supervisor"]["listen"].rpartition(":")[2])
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        about = {"pid": os.getpid(), "pid_started": time.time(), "encoder": "libx264"}
        self._ask("POST", "register", {"instance": _INSTANCE, **about})
        job: Any = None
        while job is None:
            job = json.loads(self._ask("POST", "claim", {"instance": _INSTANCE, "wait_s": 20}))["job"]
        self._epoch, self._job = job["epoch"], job["job"]
        self._token = f"epoch={self._epoch}&instance={_INSTANCE}"
        self._source = json.loads(self._ask("GET", f"jobs/{self._job}/inputs?{self._token}"))["files"][0]
        self._number = 0

    def calls(self) -> Iterator[tuple[str, int, Callable[[], object]]]:
        """What is measured: its name, how often it is called, and one call."""
        yield "heartbeat", _CALLS, self._heartbeat
        yield "progress report", _CALLS, self._progress
        yield f"segment of {_SEGMENT_BYTES / 1e6:.0f} MB", _FILES, lambda: self._store(_SEGMENT_BYTES)
        yield "segment of 100 kB", _FILES, lambda: self._store(100_000)
        yield "part of the log", _FILES, self._log
        yield "removal", _FILES, self._remove
        yield "8 MB of the source", _FILES, self._read

    def pace(self, seconds: float) -> None:
        """Report and send at the pace of an encode at 1×, with two segments a second."""
        began = time.monotonic()
        for half in range(int(2 * seconds)):
            time.sleep(max(0.0, began + half / 2 - time.monotonic()))
            self._progress()
            self._store(700_000)
            if half % 20 == 0:
                self._heartbeat()
            if half % 3 == 0:
                self._log()
            if half % 10 == 0:
                self._remove()

    def close(self) -> None:
        self._connection.close()

    def _heartbeat(self) -> None:
        jobs = [{"job": self._job, "epoch": self._epoch}]
        self._ask("POST", "heartbeat", {"instance": _INSTANCE, "jobs": jobs, "cpu_percent": 200.0})

    def _progress(self) -> None:
        self._number += 1
        share = self._number / (20 * _CALLS)
        rows = [
            {
                "name": name,
                "status": "in_progress",
                "progress": share * 100,
                "segments_done": int(share * 400),
                "segments_total": 400,
                "speed": 2 + share,
            }
            for name in _RUNGS
        ]
        body = {"instance": _INSTANCE, "epoch": self._epoch, "step": "transcode", "progress": share * 100}
        self._ask("POST", f"jobs/{self._job}/progress", body | {"speed": 2 + share, "renditions": rows})

    def _store(self, size: int) -> None:
        self._number += 1
        body = os.urandom(size)
        path = f"1080p/{'0' * 32}/seg_{self._number:05d}.m4s"
        query = f"path={path}&offset=0&size={size}&blake3={blake3(body).hexdigest()}&{self._token}"
        self._ask("PUT", f"jobs/{self._job}/store?{query}", body)

    def _log(self) -> None:
        self._ask("PUT", f"jobs/{self._job}/log?offset=0&{self._token}", b"x" * 200)

    def _remove(self) -> None:
        self._ask(
            "POST", f"jobs/{self._job}/store/remove?{self._token}", {"paths": [f"1080p/{'0' * 32}/none"]}
        )

    def _read(self) -> None:
        name, version = self._source["name_b64"], self._source["version"]
        query = f"name_b64={name}&version={version}&offset=0&length={8 * 1024 * 1024}&{self._token}"
        self._ask("GET", f"jobs/{self._job}/source?{query}")

    def _ask(self, method: str, path: str, body: object = None) -> bytes:
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        digest = {content_digest.HEADER: content_digest.of(content)}
        self._connection.request(method, f"/v1/worker/{path}", content, self._headers | digest)
        answer = self._connection.getresponse()
        found = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {found.decode(errors='replace')}")
        return found


def _cost(pid: int, times: int, call: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds of one call: of the supervisor's processor time, and by the clock."""
    call()
    before, began = cpu_s(pid)[0], time.perf_counter()
    for _ in range(times):
        call()
    used, took = cpu_s(pid)[0] - before, time.perf_counter() - began
    return used / times * 1000, took / times * 1000


def _paced(root: Path, clip: Path, count: int) -> float:
    """Percent of one core that the supervisor uses while so many workers encode."""
    with studio(root, _LISTEN) as running, contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(contextlib.closing(_Worker(running, clip, f"far-{number}")))
            for number in range(count)
        ]
        before = cpu_s(running.pid)[0]
        threads = [threading.Thread(target=each.pace, args=(_PACED_S,)) for each in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (cpu_s(running.pid)[0] - before) / _PACED_S * 100


def _counted(options: Options, root: Path, clip: Path) -> dict[str, float]:
    """Calls of one real job, per second of its video; by the supervisor's log, which a real run has not."""
    with _fleet(root / "counted", ("--log-level", "debug")) as running:
        job_s(running, clip, root / "counted-out")
        lines = (running.home.root / "logs" / "supervisor.log").read_text().splitlines()
    asked = (re.search(r"/v1/worker/(?:jobs/\d+/)?([\w/]+)", line) for line in lines if "request" in line)
    return {
        what: number / options.clip_s for what, number in Counter(each[1] for each in asked if each).items()
    }


def _whole(options: Options, root: Path, clip: Path) -> list[float]:
    """Processor time of the supervisor for a job, per second of its video, from the claim to `done`."""
    found = []
    with _fleet(root / "whole") as running:
        for number in range(options.rounds):
            before = cpu_s(running.pid)[0]
            job_s(running, clip, root / f"whole-{number}")
            found.append((cpu_s(running.pid)[0] - before) / options.clip_s * 1000)
    return found


@contextlib.contextmanager
def _fleet(root: Path, flags: tuple[str, ...] = ()) -> Iterator[Studio]:
    """A supervisor whose only worker is on another machine."""
    root.mkdir()
    with studio(root / "home", (*_LISTEN, *flags)) as running, connected(running, root):
        until(lambda: running.worker_pid(), "the local worker registers")
        running.run("worker", "disable", "cpu-0")
        yield running
