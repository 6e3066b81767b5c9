"""What it costs to publish one quality before the others, and how soon it plays."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from benchmarks import clips
from benchmarks.ladder import run_job
from benchmarks.options import Options
from benchmarks.processes import cpu_s
from benchmarks.report import Section, at_most
from benchmarks.studio import Studio, studio
from tqstudio.engine.media.ffmpeg import binary

PROFILE = "web"
FIRST = "480p"
_LOOK_S = 0.1


def measure(options: Options, root: Path) -> Section:
    section = Section(
        "One quality before the others",
        f"{options.clip_s} s of 1080p30, which is not copied; profile {PROFILE}, {FIRST} first, against the"
        f" same without; {options.rounds} rounds, one after the other",
    )
    clip = clips.make(binary.locate().path, root.parent, options.clip_s)
    shares: list[float] = []
    sooner: list[float] = []
    cpu: list[float] = []
    wall: list[float] = []
    with studio(root / "home") as running, ThreadPoolExecutor(1) as pool:
        for number in range(options.rounds):
            costs = []
            for first in ("off", FIRST):
                output, ended = root / f"{first}-{number}", threading.Event()
                plays = pool.submit(_when_it_plays, running, ended)
                chosen = ("--profile", PROFILE, "--set", "video.copy=never", "--set", f"first={first}")
                costs.append(run_job(running, clip, output, *chosen).cost)
                ended.set()
                seen = plays.result()
                shutil.rmtree(output)
            if seen is None:
                raise RuntimeError("the first quality was not published")
            whole, both = costs
            shares.append(seen[0] / whole.cpu_s)
            sooner.append(seen[1] / both.wall_s)
            cpu.append(both.cpu_s / whole.cpu_s)
            wall.append(both.wall_s / whole.wall_s)
    section.add("CPU until it plays ÷ CPU of the ladder without", shares, "×", at_most(0.18))
    section.add("CPU of both ÷ CPU of the ladder without", cpu, "×", at_most(1.07))
    section.add("the same, from queueing to done", wall, "×")
    section.add("time until it plays ÷ time until the ladder does", sooner, "×")
    return section


def _when_it_plays(running: Studio, ended: threading.Event) -> tuple[float, float] | None:
    """CPU and seconds that a job has used when its first quality is published; None if none is."""
    worker, began = running.worker_pid(), time.monotonic()
    before = _used_s(running, worker)
    with contextlib.closing(running.line()) as line:
        seen = line.get("/v1/events?limit=1")["last_seq"]
        while not ended.wait(_LOOK_S):
            for event in line.get(f"/v1/events?after={seen}&limit=200")["events"]:
                seen = event["seq"]
                if event["trigger"] == "viewable":
                    return _used_s(running, worker) - before, time.monotonic() - began
    return None


def _used_s(running: Studio, worker: int) -> float:
    """Processor seconds of supervisor and worker, with what runs below the worker."""
    used = sum(cpu_s(running.pid)) + sum(cpu_s(worker))
    for child in psutil.Process(worker).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            used += sum(cpu_s(child.pid))
    return used
