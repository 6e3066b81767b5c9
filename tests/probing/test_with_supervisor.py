"""What people see of files that wait, through a real supervisor."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness import LiveSupervisor, MakeSupervisor, UnixHTTP
from tqstudio import paths as sources
from tqstudio.protocol import calls
from waiting import until

Copy = Callable[[str], Path]


def add(live: LiveSupervisor, *paths: Path, **options: Any) -> list[int]:
    answer = live.send(calls.add([sources.encode(path) for path in paths], **options))
    return [int(result["job"] or 0) for result in answer["results"]]


def source(live: LiveSupervisor, job: int) -> Any:
    return live.send(calls.job(job))["source"]


def probe_processes(live: LiveSupervisor) -> list[psutil.Process]:
    found = []
    for process in live.processes():
        try:
            if "tqstudio.engine.probing" in process.cmdline():
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def stream(supervisor: LiveSupervisor) -> Iterator[HTTPResponse]:
    """The event stream of a supervisor whose worker takes nothing."""
    supervisor.send(calls.worker_action("cpu-0", "disable"))
    connection = UnixHTTP(supervisor.home.socket)
    connection.request("GET", "/v1/events/stream")
    yield connection.getresponse()
    connection.close()


def next_sources(stream: HTTPResponse) -> Any:
    """What the stream says next of files that were looked at."""
    while (line := stream.readline()) != b"event: sources\n":
        assert line, "the stream has ended"
    return json.loads(stream.readline().removeprefix(b"data: "))["jobs"]


@pytest.mark.slow
def test_waiting_jobs_are_known_and_bad_ones_fail_only_when_they_run(
    supervisor: LiveSupervisor, stream: HTTPResponse, copy: Copy, tmp_path: Path
) -> None:
    text = tmp_path / "text.mp4"
    text.write_text("no video at all")
    good, bad = add(supervisor, copy("good.mp4"), text)
    sent: dict[int, Any] = {}
    while len(sent) < 2:
        sent |= {one["id"]: one["source"] for one in next_sources(stream)}

    listed = {row["id"]: row for row in supervisor.send(calls.jobs())["jobs"]}
    for job in (good, bad):
        assert listed[job]["status"] == "pending"
        assert listed[job]["source"] == source(supervisor, job) == sent[job]
    assert sent[good] | {"duration_s": 2} == {
        "width": 320,
        "height": 180,
        "fps": 25.0,
        "duration_s": 2,
        "size": (tmp_path / "in" / "good.mp4").stat().st_size,
        "problem": None,
    }
    assert sent[good]["duration_s"] == pytest.approx(2, abs=0.2)
    assert (sent[bad]["width"], sent[bad]["problem"]["code"]) == (None, "NO_MEDIA")
    assert sent[bad]["problem"]["hint"]

    supervisor.send(calls.worker_action("cpu-0", "enable"))
    until(lambda: supervisor.send(calls.job(bad))["status"] == "failed", "the job itself finds out")
    failed = supervisor.send(calls.job(bad))
    assert (failed["error"] or {})["code"] == "NO_MEDIA"
    assert failed["source"]["problem"] is None, "reported by the job's own error now"


@pytest.mark.slow
def test_a_killed_supervisor_leaves_no_probe_and_the_next_one_looks_at_what_waits(
    make_supervisor: MakeSupervisor, copy: Copy
) -> None:
    live = make_supervisor().start()
    live.send(calls.worker_action("cpu-0", "disable"))
    [first] = add(live, copy("first.mp4"))
    until(lambda: probe_processes(live), "the probe process runs")
    [second] = add(live, copy("second.mp4"), hold=True)
    live.kill()
    until(lambda: not live.processes(), "no process is left")

    live.start()
    for job in (first, second):
        until(lambda job=job: source(live, job)["width"] == 320, f"job {job} is known")  # type: ignore[misc]


@pytest.mark.slow
def test_the_probe_process_is_let_go_when_nothing_waits(make_supervisor: MakeSupervisor, copy: Copy) -> None:
    live = make_supervisor(TQSTUDIO_PROBE_IDLE_S="0.1").start()
    live.send(calls.worker_action("cpu-0", "disable"))
    [job] = add(live, copy("good.mp4"))
    until(lambda: source(live, job)["width"] == 320, "it is known")
    until(lambda: not probe_processes(live), "the process is gone")
    assert live.stop() == 0
    assert "Traceback" not in live.home.supervisor_log.read_text()
    assert os.path.getsize(live.home.probe_log) == 0
