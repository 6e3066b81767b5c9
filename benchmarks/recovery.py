"""What a death costs: time until the work resumes, media that is made again, and the scans for it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import clips
from benchmarks.options import Options
from benchmarks.processes import encoders, living, until
from benchmarks.report import Section, at_most, count, percentile
from benchmarks.seeding import seed
from benchmarks.studio import Studio, studio
from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.media.ffmpeg import binary
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import claims
from tqstudio.engine.store.jobs.claims import Claimant
from tqstudio.engine.store.machine import supervisors, workers
from tqstudio.home import Home

BATCH = 64
"""Workers whose beats are stored in one transaction."""
_SEGMENT_S = 6.0
_GOP_S = 2.0
_ORPHAN_S = 2.0
_DEATHS_BEFORE_BACKOFF = 2
"""A third death within a minute is waited for, as it should be; so many are measured in each supervisor."""
_JOB_TIMEOUT_S = 1800.0
_SELDOM_S = 0.2
"""Between two looks at a job whose time is taken: with one every 2 ms it took a third longer, and a job with
several attempts, of which there is more to report, longer still."""


def measure(options: Options, root: Path) -> Section:
    section = Section(
        "Recovery",
        f"{options.deaths} deaths of a worker that encodes {options.clip_s} s of 1080p;"
        f" {options.rounds} rounds of a job killed three times and one left alone;"
        f" {count(options.list_jobs)} jobs in the table",
    )
    clip = clips.make(binary.locate().path, root.parent, options.clip_s)
    _deaths(section, options, root, clip)
    _killed_thrice(section, options, root, clip)
    _scans(section, options, root)
    return section


def _deaths(section: Section, options: Options, root: Path, clip: Path) -> None:
    again, made_again = list[float](), list[float]()
    orphans = 0
    number = 0
    while len(again) < options.deaths:
        number += 1
        home = root / f"deaths-{number}"
        with studio(home) as running:
            worker = running.worker_pid()
            job = _add(running, clip, home)
            for _ in range(_DEATHS_BEFORE_BACKOFF):
                _until_it_moves(running, job)
                lost_s, took = _kill_worker(running, job, worker)
                made_again.append(lost_s)
                again.append(took)
                worker = running.worker_pid(other_than=worker)
            orphans += _kill_supervisor(running, worker)
    section.add("kill -9 of the worker → its job runs again, p50", [percentile(again, 50)], "s", at_most(2))
    section.add("the same, longest of all", [max(again)], "s", at_most(2))
    section.add("media of each quality that is made again", made_again, "s", at_most(_SEGMENT_S))
    section.add("processes that live 2 s after kill -9 of the supervisor", [orphans], "", at_most(0))


def _add(running: Studio, clip: Path, home: Path) -> int:
    # A file of its own: what was made of it before must not be found again.
    source = home / "source.mp4"
    source.write_bytes(clip.read_bytes())
    answer = json.loads(running.run("add", str(source), "--profile", "fast", "--json"))
    job: int = answer["results"][0]["job"]
    return job


def _job(running: Studio, job: int) -> Any:
    with contextlib.closing(running.line()) as line:
        return line.get(f"/v1/jobs/{job}")


def _until_it_moves(running: Studio, job: int) -> None:
    """Until something would be lost: a segment is being made."""
    before = _encoded_s(_job(running, job))
    until(lambda: _encoded_s(_job(running, job)) > before + 0.5, "the encode moves", 120)


def _encoded_s(job: Any) -> float:
    """Seconds of media that are encoded, of the quality that is furthest."""
    length = job["source"]["duration_s"] or 0.0
    return max((row["progress"] / 100 * length for row in job["renditions"]), default=0.0)


def _began_at_s(job: Any) -> float | None:
    """Seconds of media that lie before the video that the newest attempt makes; None before it reported."""
    for argv in job["attempts_log"][-1]["argv"] or []:
        if "-c:v" in argv and "-start_number" in argv:
            return int(argv[argv.index("-start_number") + 1]) * _GOP_S
    return None


def _kill_worker(running: Studio, job: int, worker: int) -> tuple[float, float]:
    """Seconds of media that are made again, and seconds until the job's ffmpeg runs again."""
    seen = _job(running, job)
    began = time.perf_counter()
    os.kill(worker, signal.SIGKILL)
    before = set(encoders(worker))

    def runs_again() -> bool:
        return any(set(encoders(child)) - before for child in _children(running.pid) if child != worker)

    until(runs_again, "the job runs again", 60)
    took = time.perf_counter() - began
    attempts = len(seen["attempts_log"])

    def begun_at() -> float | None:
        job_now = _job(running, job)
        return _began_at_s(job_now) if len(job_now["attempts_log"]) > attempts else None

    until(lambda: begun_at() is not None, "it reports where it resumes", 60)
    return max(0.0, _encoded_s(seen) - (begun_at() or 0.0)), took


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _kill_supervisor(running: Studio, worker: int) -> int:
    below = [*_children(running.pid), *encoders(worker)]
    os.kill(running.pid, signal.SIGKILL)
    running.wait_ended()
    deadline = time.monotonic() + _ORPHAN_S
    while living(below) and time.monotonic() < deadline:
        time.sleep(0.02)
    return len(living(below))


def _killed_thrice(section: Section, options: Options, root: Path, clip: Path) -> None:
    def seconds(name: str, kills: int) -> float:
        home = root / name
        with studio(home) as running:
            running.worker_pid()
            return _run_job(running, _add(running, clip, home), kills)

    # The machine's speed may change from minute to minute: each is compared with the mean of its neighbours.
    alone = [seconds("alone", 0)]
    killed = []
    for number in range(options.rounds):
        killed.append(seconds(f"killed-{number}", 3))
        alone.append(seconds(f"alone-{number}", 0))
    ratios = [
        took / ((before + after) / 2)
        for took, before, after in zip(killed, alone[:-1], alone[1:], strict=True)
    ]
    section.add("a job whose worker is killed three times ÷ left alone", ratios, "×", at_most(1.25))


def _run_job(running: Studio, job: int, kills: int) -> float:
    """Seconds until it is done; the worker is killed at even distances."""
    began = time.perf_counter()
    for number in range(kills):
        _until_progress(running, job, (number + 1) / (kills + 1) * 100)
        os.kill(running.worker_pid(), signal.SIGKILL)
    until(lambda: _job(running, job)["status"] == "done", "the job is done", _JOB_TIMEOUT_S, _SELDOM_S)
    return time.perf_counter() - began


def _until_progress(running: Studio, job: int, percent: float) -> None:
    until(lambda: _job(running, job)["progress"] >= percent, "the job continues", _JOB_TIMEOUT_S, _SELDOM_S)


def _scans(section: Section, options: Options, root: Path) -> None:
    home = Home(root / "scans")
    seed(home, options.list_jobs)
    database = Database(home.database)
    database.open()
    try:
        supervisor, beats = database.write_now(_hand_out)
        # The first look after opening reads the disk.
        database.write_now(claims.granted, supervisor)
        scans = _timed(lambda: database.write_now(claims.granted, supervisor), options.claims)
        flushes = _timed(lambda: database.write_now(workers.store_heartbeats, beats), options.claims // 4)
    finally:
        database.close()
    section.add(f"scan of {BATCH} leases, p50", [percentile(scans, 50)], "ms", at_most(1))
    section.add("the same, p99", [percentile(scans, 99)], "ms")
    section.add(f"beats of {BATCH} workers, one transaction, p50", [percentile(flushes, 50)], "ms")
    section.add("the same, p99", [percentile(flushes, 99)], "ms")
    _starts(section, home)


def _starts(section: Section, home: Home) -> None:
    """Seconds until a supervisor answers, its database in the page cache and on the disk alone."""
    warm, cold = list[float](), list[float]()
    for is_cold, taken in ((False, warm), (True, cold)) * 3:
        if is_cold:
            _forget_cached(home.database)
        began = time.perf_counter()
        with studio(home.root, keep=True):
            taken.append(time.perf_counter() - began)
    section.add("supervisor starts with them", warm, "s", at_most(2))
    section.add("the same after a boot: nothing of the database is in memory", cold, "s")


def _forget_cached(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _timed(what: Callable[[], object], times: int) -> list[float]:
    """Milliseconds of each of so many calls."""
    taken = []
    for _ in range(max(10, times)):
        began = time.perf_counter()
        what()
        taken.append((time.perf_counter() - began) * 1000)
    return taken


def _hand_out(db: Connection) -> tuple[int, list[tuple[int, str, int]]]:
    """A job for each of many workers; returns the supervisor, and a heartbeat of each."""
    supervisor, _ = supervisors.begin(
        db, pid=os.getpid(), version="", now=now_us(), lease_us=3600 * MICROSECOND
    )
    beats = []
    for number in range(BATCH):
        row = workers.ensure(db, f"batch-{number}", "cpu", device=None)
        instance = f"instance-{number}"
        workers.register(
            db,
            row.id,
            instance=instance,
            pid=os.getpid(),
            pid_started=0.0,
            encoder="libx264",
            capabilities={},
            metadata={},
            now=now_us(),
        )
        lease = claims.claim(
            db,
            Claimant(row.id, row.name, row.kind, instance),
            supervisor=supervisor,
            now=now_us(),
            idle_gpus=0,
            gpu_grace_us=0,
        )
        if lease is None:
            raise RuntimeError("the queue is empty")
        beats.append((row.id, instance, now_us()))
    return supervisor, beats
