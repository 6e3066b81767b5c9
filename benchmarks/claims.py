"""How fast jobs are handed out: in the store, through the API, and by many clients at once.

Every job is claimed and then failed for good; only the claim is timed. The database is durable
(synchronous=FULL), an ffmpeg encodes beside.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import clips
from benchmarks.claim_client import register, work
from benchmarks.machine import fsyncs, handed_fsyncs
from benchmarks.options import Options
from benchmarks.processes import beside, cpu_s
from benchmarks.report import Floor, Section, at_least, at_most, count, percentile
from benchmarks.seeding import seed
from benchmarks.studio import Studio, studio
from tqstudio.config import Settings
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.media.ffmpeg import binary
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import claims, outcomes
from tqstudio.engine.store.jobs.claims import Claimant, LeaseToken
from tqstudio.engine.store.jobs.retry_rules import RetryRules
from tqstudio.engine.store.machine import supervisors, workers
from tqstudio.errors import ErrorCode
from tqstudio.home import Home

CLIENTS = 8
STEADY = 11
"""So many times as many claims where nothing runs beside: of a second much is the start of eight programs.
All rounds together are 100 000 jobs, and each must have been claimed once."""
REPEATS = 3
"""So often in each round, for no other figure differs as much from one time to the next."""


@dataclass(slots=True)
class _Latency:
    """Percentiles of each round, in ms."""

    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)

    def add(self, seconds: list[float]) -> None:
        self.p50.append(percentile(seconds, 50) * 1000)
        self.p99.append(percentile(seconds, 99) * 1000)

    def report(self, section: Section, what: str, floor: Floor | None) -> None:
        section.add(f"{what}, p50", self.p50, "ms")
        section.add(f"{what}, p99", self.p99, "ms", floor)


def measure(options: Options, root: Path) -> Section:
    section = Section(
        "Claims",
        f"{count(options.jobs)} jobs in the table; {options.rounds} rounds of {options.claims} claims each,"
        " an ffmpeg encoding beside where nothing else is specified",
    )
    plain, behind = Home(root / "plain"), Home(root / "behind")
    # Two thirds of them wait.
    seed(plain, max(options.jobs, 2 * options.rounds * options.claims * (4 + REPEATS * STEADY)))
    seed(behind, options.jobs, options.backoff)
    load = clips.endless(binary.locate().path)
    nice = Settings().ffmpeg_nice
    disk, handed, one, two = _Latency(), _Latency(), _Latency(), _Latency()
    with beside(load, root, nice):
        for _ in range(options.rounds):
            disk.add(fsyncs(root))
            handed.add(handed_fsyncs(root))
            one.add(_claim_in_store(plain, options.claims))
            two.add(_claim_in_store(behind, options.claims))
    disk.report(section, "fsync of 4 kB, to read the others by", None)
    handed.report(section, "the same on another thread, and its answer awaited", None)
    one.report(section, "claim in the store", at_most(5))
    two.report(section, f"with {count(options.backoff)} in backoff", at_most(5))
    with studio(plain.root) as running:
        _through_the_api(section, running, options, load, nice)
    return section


def _claim_in_store(home: Home, claimed: int) -> list[float]:
    """Seconds of each claim; the thread that owns the connection is part of it."""
    database = Database(home.database)
    database.open()
    try:
        row = database.write_now(workers.ensure, "bench", "cpu", device=None)
        who = Claimant(row.id, row.name, row.kind, "bench-instance")
        supervisor, _ = database.write_now(
            supervisors.begin, pid=os.getpid(), version="", now=now_us(), lease_us=60_000_000
        )
        database.write_now(
            workers.register,
            row.id,
            instance=who.instance,
            pid=os.getpid(),
            pid_started=0.0,
            encoder="libx264",
            capabilities={},
            metadata={},
            now=now_us(),
        )
        return [_claim_and_fail(database, who, supervisor) for _ in range(claimed)]
    finally:
        database.close()


def _claim_and_fail(database: Database, who: Claimant, supervisor: int) -> float:
    began = time.perf_counter()
    lease = database.write_now(
        claims.claim, who, supervisor=supervisor, now=now_us(), idle_gpus=0, gpu_grace_us=0
    )
    took = time.perf_counter() - began
    if lease is None:
        raise RuntimeError("the queue is empty")
    token = LeaseToken(lease.job, lease.epoch, who.instance)
    failure = outcomes.Failure(ErrorCode.SOURCE_MISSING, "the benchmark's source is not there")
    rules = RetryRules(30, 600, lambda: 0.5)
    database.write_now(outcomes.fail, token, failure, now=now_us(), rules=rules, worker=who.name)
    return took


def _through_the_api(section: Section, running: Studio, options: Options, load: list[str], nice: int) -> None:
    one, many = _Latency(), _Latency()
    loaded: list[float] = []
    rates: list[float] = []
    share: list[float] = []
    claimed: list[int] = []
    for number in range(options.rounds):
        with beside(load, running.home.root, nice):
            one.add(_one_client(running, number, options.claims))
            loaded.append(clients(running, f"l{number}", options.claims, claimed)[0])
        for again in range(REPEATS):
            before, began = cpu_s(running.pid)[0], time.monotonic()
            name = f"m{number}-{again}"
            rate, latencies = clients(running, name, STEADY * options.claims, claimed)
            share.append((cpu_s(running.pid)[0] - before) / (time.monotonic() - began) * 100)
            rates.append(rate)
            many.add(latencies)
    if len(set(claimed)) != len(claimed):
        raise RuntimeError("two clients had the same job")
    one.report(section, "claim through the API, one client", at_most(15))
    section.add(f"{CLIENTS} clients that claim and fail, nothing beside", rates, "claims/s", at_least(300))
    many.report(section, f"claim, {CLIENTS} clients at once", None)
    section.add("supervisor meanwhile, of one core", share, "%")
    section.add(f"{CLIENTS} clients, ffmpeg beside", loaded, "claims/s")


def _token(running: Studio, name: str) -> str:
    line = running.line()
    token: str = line.post("/v1/workers/tokens", {"name": name, "kind": "cpu"})["token"]
    line.close()
    return token


def _one_client(running: Studio, number: int, claimed: int) -> list[float]:
    line = running.line(_token(running, f"one-{number}"))
    register(line, f"bench-one-{number}")
    seconds: list[float] = work(line, f"bench-one-{number}", claimed)["claims"]
    line.close()
    return seconds


def clients(running: Studio, name: str, claimed: int, jobs: list[int]) -> tuple[float, list[float]]:
    """Claims per second of all clients together, and the seconds of each; `jobs` receives what they had."""
    started: list[subprocess.Popen[str]] = []
    try:
        for number in range(CLIENTS):
            token = _token(running, f"{name}-{number}")
            words = [str(running.home.socket), token, str(max(1, claimed // CLIENTS))]
            started.append(
                subprocess.Popen(
                    [sys.executable, "-m", "benchmarks.claim_client", *words],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        answers = _answers(started)
    finally:
        for process in started:
            process.kill()
            process.wait()
    jobs += [job for answer in answers for job in answer["jobs"]]
    began = min(answer["began"] for answer in answers)
    ended = max(answer["ended"] for answer in answers)
    seconds = [taken for answer in answers for taken in answer["claims"]]
    return len(seconds) / (ended - began), seconds


def _answers(clients: list[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    """Let all go at once when all are ready; what they say when they are done."""
    for process in clients:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise RuntimeError("a client did not start")
    for process in clients:
        if process.stdin is not None:
            process.stdin.write("go\n")
            process.stdin.flush()
    answers = []
    for process in clients:
        printed = process.stdout.readline() if process.stdout is not None else ""
        if not printed:
            raise RuntimeError("a client ended without an answer")
        answers.append(json.loads(printed))
    return answers
