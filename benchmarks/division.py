"""What a second worker brings for a single video: both encode segments of one job, each on its own core."""

from __future__ import annotations

import contextlib
import os
import shutil
from datetime import datetime
from pathlib import Path

import psutil

from benchmarks import clips
from benchmarks.options import Options
from benchmarks.processes import until
from benchmarks.report import Section, at_least
from benchmarks.studio import Studio, studio
from tqstudio.engine.media.ffmpeg import binary

_WORKERS = ("cpu-0", "cpu-1")


def measure(options: Options, root: Path) -> Section:
    clip = clips.make(binary.locate().path, root.parent, 2 * options.clip_s)
    with studio(root / "home", ["--workers", str(len(_WORKERS))]) as running:
        until(lambda: all(_pids(running)), "the workers register")
        # What they start inherits it, ffmpeg too.
        for pid, core in zip(_pids(running), sorted(os.sched_getaffinity(0)), strict=False):
            psutil.Process(pid).cpu_affinity([core])
        running.run("worker", "disable", _WORKERS[1])
        alone = _job_s(running, clip, root / "alone")
        running.run("worker", "enable", _WORKERS[1])
        together = _job_s(running, clip, root / "together")
    section = Section(
        "One video on two workers",
        f"{2 * options.clip_s} s of 1080p30, profile fast; each worker pinned to one core; one round",
    )
    section.add("job on one ÷ job on two, wall", [alone / together], "×", at_least(0.85 * len(_WORKERS)))
    section.add("job on one, wall", [alone], "s")
    section.add("job on two, wall", [together], "s")
    return section


def _pids(running: Studio) -> list[int]:
    named = {each["name"]: each["pid"] for each in running.status()["workers"]}
    return [named.get(name) or 0 for name in _WORKERS]


def _job_s(running: Studio, clip: Path, output: Path) -> float:
    """Seconds from the start of a job to `done`."""
    running.run("process", "-i", str(clip), "-o", str(output), "--profile", "fast", "--json")
    with contextlib.closing(running.line()) as line:
        job = line.get("/v1/jobs?sort=newest&limit=1")["jobs"][0]
    shutil.rmtree(output)
    ended, began = (datetime.fromisoformat(job[key]) for key in ("completed_at", "started_at"))
    return (ended - began).total_seconds()
