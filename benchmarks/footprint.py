"""What tqstudio costs at rest, and the terminal UI: its first picture, its keys, its moving bars."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.claim_client import register
from benchmarks.options import Options
from benchmarks.processes import cpu_s, memory_mb
from benchmarks.raw_client import RawClient
from benchmarks.report import Section, at_most, count, percentile
from benchmarks.seeding import seed
from benchmarks.studio import Studio, studio, tqstudio
from benchmarks.terminal import Terminal
from tqstudio.engine.store.jobs.undo import SLICE
from tqstudio.home import Home

_SETTLE_S = 2.0
_LOADED_S = 8.0
"""Until a UI has loaded the views that are not shown yet."""
_KEYS = 20
_RUNNING = 8
"""Jobs that run at once."""
_REPORT_S = 0.25
_BEAT_S = 10.0
_RUNGS = ("1080p", "720p", "480p", "360p")
_SEGMENTS = 400


def measure(options: Options, root: Path) -> Section:
    section = Section(
        "At rest",
        f"a supervisor with one worker and an empty queue; {options.rounds} rounds of {options.idle_s:.0f} s;"
        " the UI on a terminal of 100×30",
    )
    memory: dict[str, list[float]] = {"supervisor": [], "worker": [], "UI": []}
    idle: dict[str, list[float]] = {"supervisor": [], "worker": [], "UI": []}
    yardstick: list[float] = []
    paints: list[float] = []
    for number in range(options.rounds):
        with studio(root / f"home-{number}") as running:
            pids = {"supervisor": running.pid, "worker": running.worker_pid()}
            time.sleep(_SETTLE_S)
            _rest(pids, options.idle_s, idle, memory)
            yardstick.append(_python_paint_s(running))
            terminal = Terminal(tqstudio(), running.environment)
            try:
                paints.append(terminal.first_paint_s())
                terminal.drain(_LOADED_S)
                before = sum(cpu_s(terminal.pid))
                terminal.drain(options.idle_s / 2)
                used = sum(cpu_s(terminal.pid)) - before
                idle["UI"].append(used / (options.idle_s / 2) * 100)
                memory["UI"].append(memory_mb(terminal.pid))
            finally:
                terminal.close()
    section.add("supervisor, memory", memory["supervisor"], "MB", at_most(100))
    section.add("worker without ffmpeg, memory", memory["worker"], "MB", at_most(90))
    section.add("UI, memory", memory["UI"], "MB", at_most(80))
    section.add("supervisor, of one core", idle["supervisor"], "%", at_most(0.5))
    section.add("worker, of one core", idle["worker"], "%")
    section.add("UI, of one core", idle["UI"], "%", at_most(1))
    section.add("UI, exec to first picture", paints, "s", at_most(0.5))
    section.add("a Python that fills the screen and nothing else", yardstick, "s")
    _keys(section, options, root)
    _moving(section, options, root)
    _pages(section, options, root)
    return section


def _rest(
    pids: dict[str, int], seconds: float, idle: dict[str, list[float]], memory: dict[str, list[float]]
) -> None:
    before = {name: cpu_s(pid)[0] for name, pid in pids.items()}
    began = time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - began
    for name, pid in pids.items():
        idle[name].append((cpu_s(pid)[0] - before[name]) / elapsed * 100)
        memory[name].append(memory_mb(pid))


def _python_paint_s(running: Studio) -> float:
    """Of a program that writes a screen and waits: what no UI in Python can beat."""
    code = "import sys, time; sys.stdout.write('x' * 3000); sys.stdout.flush(); time.sleep(60)"
    terminal = Terminal([sys.executable, "-c", code], running.environment)
    try:
        return terminal.first_paint_s()
    finally:
        terminal.close()


def _keys(section: Section, options: Options, root: Path) -> None:
    """From a key to its picture, in a long queue; the first job of it, and an action on all."""
    home = Home(root / "long")
    seed(home, options.ui_jobs)
    p50, p95 = [], []
    shown, marked, slices = [], [], []
    with studio(home.root) as running:
        for _ in range(options.rounds):
            terminal = Terminal(tqstudio(), running.environment)
            try:
                shown.append(terminal.shows_s(".mp4"))
                terminal.drain(_SETTLE_S)
                seconds = [terminal.answer_s(key) for key in [b"j"] * _KEYS + [b"\x1b[6~"] * _KEYS]
                marked.append(terminal.shows_s("marked", b"a"))
                terminal.shows_s("Cancel all", b"x")
                # The count of the first slice comes with the second; escape stops that.
                slices.append(terminal.shows_s(f"{SLICE} of", b"y"))
                terminal.shows_s("stopped", b"\x1b")
                terminal.shows_s("undone", b"z")
            finally:
                terminal.close()
            p50.append(percentile(seconds, 50) * 1000)
            p95.append(percentile(seconds, 95) * 1000)
    queue = f"{count(options.ui_jobs)} jobs"
    section.add(f"UI with {queue}, exec to first job", shown, "s", at_most(0.8))
    section.add(f"UI with {queue}, key to picture, p50", p50, "ms")
    section.add(f"UI with {queue}, key to picture, p95", p95, "ms", at_most(50))
    section.add(f"UI with {queue}, all marked", marked, "s", at_most(0.3))
    section.add(f"the first {SLICE} of them cancelled", slices, "s", at_most(1))


def _moving(section: Section, options: Options, root: Path) -> None:
    """The UI while the bars of many jobs move: what it and the supervisor need for it."""
    home = Home(root / "moving")
    seed(home, 100 * _RUNNING)
    share: dict[str, list[float]] = {"UI": [], "supervisor": []}
    traffic: dict[str, list[float]] = {"list": [], "wall": []}
    with studio(home.root) as running, _reporting(running):
        for _ in range(options.rounds):
            terminal = Terminal(tqstudio(), running.environment)
            try:
                terminal.first_paint_s()
                terminal.drain(_SETTLE_S)
                pids = {"UI": terminal.pid, "supervisor": running.pid}
                before = {name: cpu_s(pid)[0] for name, pid in pids.items()}
                began = time.monotonic()
                written = terminal.drain(options.idle_s / 2)
                elapsed = time.monotonic() - began
                for name, pid in pids.items():
                    share[name].append((cpu_s(pid)[0] - before[name]) / elapsed * 100)
                traffic["list"].append(written / elapsed / 1000)
                terminal.shows_s(_RUNGS[0], b"w")
                traffic["wall"].append(terminal.drain(options.idle_s / 2) / (options.idle_s / 2) / 1000)
            finally:
                terminal.close()
    what = f"{_RUNNING} running jobs reported {1 / _REPORT_S:.0f} times a second"
    section.add(f"UI with {what}, of one core", share["UI"], "%", at_most(5))
    section.add("supervisor meanwhile, of one core", share["supervisor"], "%")
    section.add("what the list writes to its terminal", traffic["list"], "kB/s", at_most(2))
    section.add("what the wall writes", traffic["wall"], "kB/s", at_most(10))


def _pages(section: Section, options: Options, root: Path) -> None:
    """What the UI holds after many job pages, on a large terminal."""
    home = Home(root / "read")
    seed(home, 2_000)
    with studio(home.root) as running:
        terminal = Terminal(tqstudio(), running.environment, 160, 50)
        try:
            terminal.first_paint_s()
            terminal.drain(_SETTLE_S)
            if "Attempts" not in terminal.press(b"\r", 0.3):
                raise RuntimeError("enter opens no job page")
            for _ in range(options.ui_pages - 1):
                for key in (b"1", b"j", b"\r"):
                    terminal.press(key)
            memory = memory_mb(terminal.pid)
        finally:
            terminal.close()
    section.add(f"UI after {count(options.ui_pages)} job pages, memory", [memory], "MB", at_most(100))


@contextlib.contextmanager
def _reporting(running: Studio) -> Iterator[None]:
    """Workers that say they get on, as the real ones do, and encode nothing."""
    jobs = []
    for number in range(_RUNNING):
        with contextlib.closing(running.line()) as line:
            name = f"bench-{number}"
            token = line.post("/v1/workers/tokens", {"name": name, "kind": "cpu"})["token"]
        line, instance = running.line(token), f"instance-{number:08d}"
        register(line, instance)
        lease = line.post("/v1/worker/claim", {"instance": instance, "wait_s": 0})["job"]
        jobs.append((line, f"/v1/worker/jobs/{lease['job']}/progress", instance, lease["epoch"]))
    ended = threading.Event()
    reporter = threading.Thread(target=_report, args=(jobs, ended))
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()
        for line, *_ in jobs:
            line.close()


def _report(jobs: list[tuple[RawClient, str, str, int]], ended: threading.Event) -> None:
    began = beat = time.monotonic()
    while not ended.wait(_REPORT_S):
        share = (time.monotonic() - began) / 600 % 1
        renditions = [
            {
                "name": name,
                "status": "in_progress",
                "progress": share * 100,
                "segments_done": int(share * _SEGMENTS),
                "segments_total": _SEGMENTS,
                "speed": 2 + share,
            }
            for name in _RUNGS
        ]
        body = {"step": "transcode", "progress": share * 100, "speed": 2 + share, "renditions": renditions}
        for line, path, instance, epoch in jobs:
            line.post(path, {"instance": instance, "epoch": epoch, **body})
        if time.monotonic() > beat:
            beat += _BEAT_S
            for line, path, instance, epoch in jobs:
                beats = [{"job": int(path.split("/")[4]), "epoch": epoch}]
                line.post("/v1/worker/heartbeat", {"instance": instance, "jobs": beats})
