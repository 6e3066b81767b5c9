"""Drop folders: a burst of files that are renamed into one, a start with many queued, a hundred idle ones."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.options import Options
from benchmarks.processes import cpu_s, until
from benchmarks.report import Section, at_most, count
from benchmarks.studio import Studio, studio
from tqstudio.paths import encode

_FOLDERS = 100
_FILES = 10
"""In each idle folder."""
_QUEUED = 3
"""Bursts that are queued before a start."""
_REST_S = 5.0
_AT_REST = 0.02
"""Of a core: what a start has begun is done."""


def measure(options: Options, root: Path) -> Section:
    section = Section(
        "Drop folders",
        f"{count(options.burst)} small files renamed into a folder that settles in 0 s; {_FOLDERS} folders"
        f" with {_FILES} known files each, at rest for {options.watch_s:.0f} s; {options.rounds} rounds",
    )
    queued: list[float] = []
    answers: list[float] = []
    idle: list[float] = []
    for number in range(options.rounds):
        work = root / f"round-{number}"
        work.mkdir(parents=True)
        with _quiet(work / "home") as running:
            took, slowest = _burst(running, work, options.burst)
            queued.append(took)
            answers.append(slowest * 1000)
        with _quiet(work / "home") as running:
            idle.append(_rest(running, work, options.watch_s))
        shutil.rmtree(work)
    empty, full = (_start(root / f"start-{files}", files) for files in (0, _QUEUED * options.burst))
    section.add(f"burst of {count(options.burst)} files → a job for each", queued, "s", at_most(20))
    section.add("slowest answer of the status meanwhile", answers, "ms")
    queued_files = count(_QUEUED * options.burst)
    section.add(f"start with {queued_files} queued files, CPU until it rests", [full], "s", at_most(3))
    section.add("the same with none", [empty], "s")
    section.add(f"supervisor with {_FOLDERS} idle folders, of one core", idle, "%", at_most(0.5))
    return section


def _start(work: Path, files: int) -> float:
    """Processor seconds of a supervisor from its start until it rests, which finds so many files queued."""
    work.mkdir(parents=True)
    with _quiet(work / "home", keep=True) as running:
        _burst(running, work, files)
        until(
            lambda: not _ask(running, "SELECT count(*) FROM job WHERE unprobed")[0], "all are looked at", 3600
        )
    with studio(work / "home") as running:
        used = 0.0
        while (now := cpu_s(running.pid)[0]) - used > _AT_REST * _REST_S:
            used = now
            time.sleep(_REST_S)
    shutil.rmtree(work)
    return now


@contextlib.contextmanager
def _quiet(home: Path, *, keep: bool = False) -> Iterator[Studio]:
    """A supervisor whose worker takes no jobs."""
    with studio(home, keep=keep) as running:
        running.worker_pid()
        running.run("worker", "disable", "cpu-0")
        yield running


def _burst(running: Studio, work: Path, files: int) -> tuple[float, float]:
    """Seconds until every file has its job, and the slowest answer meanwhile."""
    drop, beside = work / "drop", work / "beside"
    for folder in (drop, beside):
        folder.mkdir()
    names = [f"{number:05d}.mp4" for number in range(files)]
    for name in names:
        (beside / name).write_text(name)
    running.run("folder", "add", str(drop), "-o", str(work / "out"), "--settle", "0")
    slowest = 0.0
    began = time.perf_counter()
    for name in names:
        os.rename(beside / name, drop / name)
    with contextlib.closing(running.line()) as line:
        while True:
            asked = time.perf_counter()
            status = line.get("/v1/status")
            slowest = max(slowest, time.perf_counter() - asked)
            if sum(status["jobs"].values()) >= files:
                break
            time.sleep(0.05)
    took = time.perf_counter() - began
    _require_one_each(running, files)
    return took, slowest


def _require_one_each(running: Studio, files: int) -> None:
    made = _ask(running, "SELECT count(*), count(DISTINCT source) FROM job JOIN video ON video.id = video_id")
    if made != (files, files):
        raise RuntimeError(f"{files} files became {made[0]} jobs of {made[1]} sources")


def _ask(running: Studio, query: str) -> tuple[int, ...]:
    with contextlib.closing(sqlite3.connect(f"file:{running.home.database}?mode=ro", uri=True)) as db:
        answer: tuple[int, ...] = db.execute(query).fetchone()
    return answer


def _rest(running: Studio, work: Path, seconds: float) -> float:
    """Percent of a core."""
    with contextlib.closing(running.line()) as line:
        for number in range(_FOLDERS):
            folder = work / f"idle-{number}"
            folder.mkdir()
            for name in range(_FILES):
                (folder / f"{name}.mp4").write_text(f"{number} {name}")
            line.post("/v1/folders", {"path_b64": encode(folder), "settle_s": 0})
    # All are queued, and the background probe has looked at them.
    wanted = (_FOLDERS * _FILES, 0)
    until(lambda: _ask(running, "SELECT count(*), sum(unprobed) FROM job") == wanted, "all files are known")
    time.sleep(_REST_S)
    before, began = cpu_s(running.pid)[0], time.monotonic()
    time.sleep(seconds)
    return (cpu_s(running.pid)[0] - before) / (time.monotonic() - began) * 100
