"""Who owns a job: leases, what renews them, and what becomes of those that no worker renews."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness import LiveSupervisor, MakeSupervisor, Worker
from store.conftest import SECOND, Queue, token
from tqstudio.config import Settings
from tqstudio.engine.access.worker_tokens import WorkerToken
from tqstudio.engine.host.clock import RunningClock, now_us, since_boot
from tqstudio.engine.live.leases import Leases
from tqstudio.engine.live.metrics import Metrics
from tqstudio.engine.live.ranges import Ranges
from tqstudio.engine.live.running_jobs import RunningJobs
from tqstudio.engine.queue.completion import Completion
from tqstudio.engine.queue.lease_end import LeaseEnd
from tqstudio.engine.queue.recovery import Recovery
from tqstudio.engine.queue.reports import Reports
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import claims, outcomes
from tqstudio.engine.store.jobs.claims import Claimant, LeaseToken
from tqstudio.home import Home
from tqstudio.lifecycle import JobStatus
from tqstudio.protocol import calls
from tqstudio.protocol.requests import HeartbeatRequest
from waiting import until

from .conftest import Desk
from .test_api import error_of, report

A, B = LeaseToken(1, 1, "one"), LeaseToken(2, 1, "one")


class Machine:
    """The time since boot, set by a test; a gap above 100 counts as a stop."""

    def __init__(self) -> None:
        self.boot = 0
        self.leases = Leases(1, lease_us=60, heartbeat_us=10, clock=RunningClock(100, lambda: self.boot))

    def at(self, boot: int) -> Leases:
        self.boot = boot
        return self.leases


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_beat_renews_what_it_names(machine: Machine) -> None:
    machine.leases.begin(A)
    machine.leases.begin(B)
    assert machine.at(59).heartbeat("one", [A]) == [A]
    assert machine.at(60).expired_of("one") == {B}
    assert machine.leases.expired_of("another") == set()
    assert not machine.leases.is_live(B)
    assert machine.leases.knows(B)
    assert machine.at(118).is_live(A)
    assert machine.leases.remaining_us(A) == 1
    assert not machine.at(119).is_live(A)
    assert machine.leases.remaining_us(A) == 0


def test_what_ran_out_is_not_revived(machine: Machine) -> None:
    machine.leases.begin(A)
    assert machine.at(60).heartbeat("one", [A]) == []
    assert not machine.leases.is_live(A)


def test_only_the_whole_token_renews(machine: Machine) -> None:
    machine.leases.begin(A)
    for wrong in (LeaseToken(1, 2, "one"), LeaseToken(1, 1, "two"), LeaseToken(2, 1, "one")):
        assert machine.leases.heartbeat(wrong.instance, [wrong]) == []
        assert not machine.leases.is_live(wrong)


def test_a_lease_may_begin_with_another_term(machine: Machine) -> None:
    machine.leases.begin(A, 90)
    assert machine.at(89).is_live(A)
    assert not machine.at(90).is_live(A)


def test_what_two_beats_do_not_name_was_dropped(machine: Machine) -> None:
    machine.leases.begin(A)
    machine.at(1).heartbeat("one", [])
    machine.at(11).heartbeat("another", [])
    assert not machine.leases.is_abandoned(A), (
        "the heartbeat may have been on its way when the claim was answered"
    )
    machine.at(10).heartbeat("one", [])
    assert not machine.leases.is_abandoned(A), "it is younger than a heartbeat"
    assert machine.at(11).is_abandoned(A)
    assert not machine.leases.was_unreachable(A)
    machine.at(12).heartbeat("one", [A])
    assert not machine.leases.is_abandoned(A)


def test_a_stop_of_the_supervisor_takes_nothing_from_a_lease(machine: Machine) -> None:
    machine.leases.begin(A)
    assert machine.at(59).remaining_us(A) == 1
    assert machine.at(1000).remaining_us(A) == 1
    machine.leases.heartbeat("one", [A])
    assert machine.leases.remaining_us(A) == 60
    machine.leases.begin(B)
    for _ in range(2):
        machine.at(1011).heartbeat("one", [])
    assert machine.leases.was_unreachable(A), "its worker had to give it up meanwhile"
    assert not machine.leases.was_unreachable(B)


def test_a_lease_that_ended_is_forgotten(machine: Machine) -> None:
    machine.leases.begin(A)
    machine.leases.end(1)
    machine.leases.end(1)
    assert not machine.leases.knows(A)
    assert not machine.leases.is_live(A)
    assert not machine.leases.is_abandoned(A)
    assert not machine.leases.was_unreachable(A)
    assert machine.leases.heartbeat("one", [A]) == []


# Through the API

QUICK = {"TQSTUDIO_HEARTBEAT_S": "0.3", "TQSTUDIO_LEASE_SCAN_S": "0.2", "TQSTUDIO_OFFLINE_S": "1"}


@contextlib.contextmanager
def quick(make: MakeSupervisor, folder: Path, **settings: str) -> Iterator[Desk]:
    """A desk at a supervisor with short terms, whose own worker takes no jobs."""
    live = make(**(QUICK | settings)).start()
    live.send(calls.worker_action("cpu-0", "disable"))
    yield Desk(live, folder)


def beat(worker: Worker, *jobs: Any) -> Any:
    return worker.send("heartbeat", jobs=[{"job": job["job"], "epoch": job["epoch"]} for job in jobs])


def triggers(live: LiveSupervisor) -> list[str]:
    return [event["trigger"] for event in live.send(calls.events(limit=100))["events"]]


def pass_time(seconds: float) -> None:
    end = since_boot() + seconds
    until(lambda: since_boot() >= end, "time has passed")


def view(live: LiveSupervisor, name: str) -> Any:
    return next(w for w in live.send(calls.workers())["workers"] if w["name"] == name)


@pytest.mark.slow
@pytest.mark.fault(
    "It continues before the job was handed out again",
    "Refused all the same; an expired lease is never revived",
    area="workers",
)
def test_a_late_worker_is_refused_before_anybody_takes_the_job_back(
    make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    settings = {"TQSTUDIO_LEASE_S": "0.6", "TQSTUDIO_LEASE_SCAN_S": "600"}
    with quick(make_supervisor, tmp_path, **settings) as desk:
        worker, job = desk.running()
        until(lambda: desk.show(job["job"])["claim"] == "expired", "the lease has run out")
        before = desk.show(job["job"])
        for path, body in (
            ("progress", {"step": "probe", "progress": 50}),
            ("fail", {"code": "NO_MEDIA", "text": "x"}),
            ("release", {"reason": "shutdown"}),
            ("complete", {"manifest": {"renditions": [], "settings_hash": "x"}}),
        ):
            answer = worker.post(
                f"jobs/{job['job']}/{path}", instance=worker.instance, epoch=job["epoch"], **body
            )
            assert error_of(answer, 409)["code"] == "LOST_LEASE"
        assert beat(worker, job)["lost"] == [job["job"]]
        assert desk.show(job["job"]) == before, "nothing is revived"


@pytest.mark.slow
@pytest.mark.fault(
    "Heartbeats no longer name the job", "The worker dropped it: requeued, counted as a crash", area="workers"
)
def test_a_job_that_its_worker_drops_is_requeued_at_once(
    make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    with quick(make_supervisor, tmp_path, TQSTUDIO_LEASE_S="600") as desk:
        worker, job = desk.running()
        beat(worker)
        beat(worker, job)

        def dropped() -> Any:
            beat(worker)
            row = desk.show(job["job"])
            return row if row["status"] == "pending" else None

        row = until(dropped, "the job is taken back")
        assert row["crashes"] == 1
        assert row["events"][0]["trigger"] == "requeued:abandoned"


@pytest.mark.slow
@pytest.mark.fault(
    "The machine is suspended, or the supervisor stopped",
    "That time does not count against a lease; no job is taken away",
    area="workers",
)
def test_a_supervisor_that_was_stopped_takes_no_job_away(
    make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    """Longer than a lease, it could hear no worker. That is not the workers' fault."""
    with quick(make_supervisor, tmp_path, TQSTUDIO_LEASE_S="2") as desk:
        worker, job = desk.running()
        supervisor = psutil.Process(desk.live.process.pid)
        supervisor.suspend()
        try:
            pass_time(3)
        finally:
            supervisor.resume()
        report(worker, job, 10.0)
        assert beat(worker, job)["lost"] == []
        row = desk.show(job["job"])
        assert (row["status"], row["crashes"], row["claim"]) == ("in_progress", 0, "claimed")
        log = desk.live.home.supervisor_log
        until(lambda: "the process was stopped" in log.read_text(), "the time is left out")
        # A worker that gave up meanwhile is excused.
        until(lambda: beat(worker) and desk.show(job["job"])["status"] == "pending", "it goes again")
        row = desk.show(job["job"])
        assert (row["crashes"], row["attempts"]) == (0, 0)


@pytest.mark.slow
@pytest.mark.fault(
    "The disk of the database hangs for longer than a lease",
    "Heartbeats are received all the time; no job is taken away",
    area="workers",
)
def test_a_database_that_hangs_takes_no_job_away(make_supervisor: MakeSupervisor, tmp_path: Path) -> None:
    """Longer than a lease nothing can be written, while the worker is heard all the time."""
    with quick(make_supervisor, tmp_path, TQSTUDIO_LEASE_S="3") as desk:
        worker, job = desk.running()
        with contextlib.closing(sqlite3.connect(desk.live.home.database, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            end = since_boot() + 5
            until(lambda: beat(worker, job)["lost"] or since_boot() >= end, "longer than a lease")
            assert beat(worker, job)["lost"] == []
            other.execute("ROLLBACK")
        report(worker, job, 10.0)
        row = desk.show(job["job"])
        assert (row["status"], row["crashes"], row["claim"]) == ("in_progress", 0, "claimed")
        answer = worker.send(f"jobs/{job['job']}/release", epoch=job["epoch"], reason="shutdown")
        assert answer["status"] == "pending", "it is still his"


@pytest.mark.more
@pytest.mark.fault(
    "Heartbeats stop while the lease is live",
    "The worker is shown as offline and keeps its job",
    area="workers",
)
def test_a_silent_worker_is_offline_until_it_is_heard(
    make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    with quick(make_supervisor, tmp_path, TQSTUDIO_LEASE_S="600", TQSTUDIO_OFFLINE_S="3") as desk:
        worker, job = desk.running()
        never = desk.worker()
        desk.live.send(calls.worker_action(never.name, "disable"))

        def offline(name: str) -> list[Any]:
            events = desk.live.send(calls.events(limit=100))["events"]
            return [e["trigger"] for e in events if e["worker"] == name and e["trigger"].endswith("line")]

        until(lambda: offline(worker.name) and offline(never.name), "both are missed")
        assert view(desk.live, worker.name)["status"] == "offline"
        assert view(desk.live, never.name)["status"] == "disabled"
        beat(worker, job)
        assert view(desk.live, worker.name)["status"] == "busy"
        beat(never)
        until(lambda: offline(never.name)[:2] == ["worker_offline", "worker_online"], "it is reported once")
        assert view(desk.live, never.name)["status"] == "disabled", "no heartbeat changes what a user wants"
        assert desk.show(job["job"])["status"] == "in_progress", "the lease has its own time"


@pytest.mark.slow
@pytest.mark.fault(
    "A worker process hangs for good", "Offline after `offline_s`, then killed and replaced", area="workers"
)
def test_a_worker_process_that_hangs_is_replaced(make_supervisor: MakeSupervisor) -> None:
    live = make_supervisor(**QUICK, TQSTUDIO_LEASE_S="3").start()
    first = until(lambda: view(live, "cpu-0")["pid"], "the worker is there")
    os.kill(first, signal.SIGSTOP)
    until(lambda: view(live, "cpu-0")["pid"] not in (None, first), "another has its place")
    until(lambda: view(live, "cpu-0")["status"] == "idle", "it works")
    until(lambda: not psutil.pid_exists(first), "the one that hung is gone")
    assert "worker_offline" in triggers(live)


@pytest.mark.more
@pytest.mark.fault(
    "The supervisor dies and its remote workers live",
    "They have `reconnect_s` to find the next one",
    area="workers",
)
def test_a_remote_worker_has_time_to_find_a_new_supervisor(
    make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    with quick(make_supervisor, tmp_path, TQSTUDIO_LEASE_S="1", TQSTUDIO_LEASE_SCAN_S="600") as desk:
        job = desk.job(priority=1000)
        lasting = desk.live.send(calls.create_token("far", "worker"))["token"]
        assert Worker(desk.live, lasting, "far").register().claim()["job"] == job
        _, local_job = desk.running()
        desk.live.kill()
        again = make_supervisor(desk.live.home.root, **QUICK, TQSTUDIO_LEASE_S="1", TQSTUDIO_RECONNECT_S="4")
        again.start()
        assert again.send(calls.job(local_job["job"]))["status"] != "in_progress", "its worker died with it"
        assert again.send(calls.job(job))["claim"] == "claimed"
        until(lambda: again.send(calls.job(job))["crashes"] == 1, "no worker came")
        assert "requeued:stale" in triggers(again)


@dataclass
class Parts:
    """What keeps and ends leases, without workers and outputs."""

    db: Database
    running_jobs: RunningJobs
    reports: Reports
    lease_end: LeaseEnd
    recovery: Recovery
    boot: list[int]
    """The time since boot, set by a test."""


@pytest.fixture
def parts(home: Home, opened: Database, settings: Settings) -> Parts:
    boot = [0]
    clock = RunningClock(100 * SECOND, lambda: boot[0])
    running_jobs = RunningJobs(Leases(1, 60 * SECOND, 10 * SECOND, clock))
    ranges = Ranges(running_jobs, enabled=True, lease_us=60 * SECOND)
    # What looks at files is left out.
    nothing: Any = None
    lease_end = LeaseEnd(opened, running_jobs, nothing, quarantine_after=0)
    completion = Completion(
        settings, opened, nothing, lease_end, nothing, nothing, nothing, Metrics(), nothing
    )
    recovery = Recovery(home, settings, opened, running_jobs, lease_end, completion)
    return Parts(
        opened,
        running_jobs,
        Reports(opened, running_jobs, ranges, nothing, Metrics(), 10),
        lease_end,
        recovery,
        boot,
    )


def begin(parts: Parts) -> list[tuple[LeaseToken, Claimant]]:
    held = parts.db.write_now(sixty_four_running)
    for held_token, worker in held:
        parts.running_jobs.begin(held_token, worker.name, now_us())
    return held


def test_the_beats_of_64_workers_are_one_transaction(parts: Parts) -> None:
    held = begin(parts)
    statements: list[str] = []
    parts.db.write_now(lambda db: db.raw.set_trace_callback(statements.append))
    statements.clear()

    async def beat_and_flush() -> None:
        for held_token, worker in held:
            beat = HeartbeatRequest(
                instance=worker.instance, jobs=[{"job": held_token.job, "epoch": held_token.epoch}]
            )
            answer = await parts.reports.heartbeat(WorkerToken(worker.id, worker.name, worker.kind), beat)
            assert answer["lost"] == []
        await parts.reports.flush_heartbeats()

    asyncio.run(beat_and_flush())
    assert statements.count("COMMIT") == 1
    assert len([s for s in statements if s.startswith("UPDATE worker SET last_heartbeat_at")]) == 64
    assert not [s for s in statements if s.startswith("UPDATE job")]


def test_a_scan_takes_what_has_expired_and_nothing_else(parts: Parts) -> None:
    (unheard, _), *heard = begin(parts)
    parts.boot[0] = 30 * SECOND
    for held_token, worker in heard:
        assert parts.running_jobs.leases.heartbeat(worker.instance, [held_token]) == [held_token]
    parts.boot[0] = 60 * SECOND
    assert asyncio.run(parts.recovery.scan()) == 1
    assert {lease.token for lease in parts.db.read_now(claims.granted, 1)} == {held for held, _ in heard}
    assert not parts.running_jobs.leases.knows(unheard)
    assert asyncio.run(parts.recovery.scan()) == 0


def test_a_claim_that_was_never_answered_has_a_lease_too(parts: Parts) -> None:
    """It was committed, and what was to answer it was cancelled."""
    (unanswered, _), *_ = parts.db.write_now(sixty_four_running)
    assert asyncio.run(parts.recovery.scan()) == 0
    assert parts.running_jobs.leases.remaining_us(unanswered) == 60 * SECOND
    parts.boot[0] = 60 * SECOND
    assert asyncio.run(parts.recovery.scan()) == 64


@pytest.mark.fault("The wall clock is set", "No lease depends on it", area="workers")
@pytest.mark.parametrize("jump_s", [7200, -7200, 61])
def test_a_wall_clock_that_is_set_takes_no_job_away(
    parts: Parts, jump_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (dead, _), *live = begin(parts)
    parts.boot[0] = 30 * SECOND
    for held_token, worker in live:
        parts.running_jobs.leases.heartbeat(worker.instance, [held_token])
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + jump_s * 10**9)
    assert asyncio.run(parts.recovery.scan()) == 0
    assert asyncio.run(parts.recovery.offline_workers()) == []
    parts.boot[0] = 60 * SECOND
    assert asyncio.run(parts.recovery.scan()) == 1
    assert not parts.running_jobs.leases.knows(dead)


@pytest.mark.fault("A report arrives in time and is stored late", "It counts", area="workers")
def test_an_end_that_was_reported_in_time_counts_however_late_it_is_written(parts: Parts) -> None:
    (reported, worker), (taken, _), *_ = begin(parts)

    async def end_late() -> JobStatus | None:
        def end(db: Connection) -> JobStatus | None:
            parts.boot[0] = 61 * SECOND
            return outcomes.release(db, reported, None, now=now_us(), worker=worker.name)

        return await parts.lease_end.end(reported, end)

    assert asyncio.run(end_late()) is JobStatus.PENDING
    assert not parts.running_jobs.leases.is_live(taken)


def sixty_four_running(db: Connection) -> list[tuple[LeaseToken, Claimant]]:
    queue, held = Queue(db), []
    queue.now = now_us() - 30 * SECOND
    for number in range(64):
        worker = queue.worker(f"w-{number}")
        held.append((token(queue.claimed(worker)), worker))
    return held


# Stuck jobs, and workers that fail one after another


@pytest.mark.slow
@pytest.mark.fault(
    "The worker is alive and the work does not advance",
    "The job shows for how long; pausing frees it",
    area="workers",
)
def test_a_stuck_job_is_seen_with_its_age_and_can_be_freed(
    make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    """Its worker reports, but nothing moves; then it says nothing at all."""
    settings = {"TQSTUDIO_STALL_S": "1", "TQSTUDIO_LEASE_S": "4", "TQSTUDIO_OFFLINE_S": "60"}
    with quick(make_supervisor, tmp_path, **settings) as desk:
        worker, job = desk.running()
        moved = desk.show(job["job"])["last_progress_at"]

        def idle() -> Any:
            report(worker, job, 0.0)
            beat(worker, job)
            return desk.show(job["job"])["idle_s"]

        first = until(idle, "it stands still")
        until(lambda: idle() > first, "its age grows")
        report(worker, job, 5.0)
        row = desk.show(job["job"])
        assert row["idle_s"] is None, "it moves again"
        assert row["last_progress_at"] > moved
        [asked] = desk.act("restart", job["job"])
        assert asked["word"] == "restarting…"
        # The worker never receives it: its lease runs out.
        row = until(
            lambda: row if (row := desk.show(job["job"]))["status"] == "pending" else None, "it is free"
        )
        assert (row["crashes"], row["attempts"], row["progress"]) == (0, 0, 0), "a user asked for it"
        heir = desk.worker()
        assert until(heir.claim, "another takes it")["epoch"] == 2


@pytest.mark.more
@pytest.mark.parametrize("verb", ["disable", "drain"])
def test_a_worker_that_hangs_can_be_taken_out(
    make_supervisor: MakeSupervisor, tmp_path: Path, verb: str
) -> None:
    with quick(make_supervisor, tmp_path, TQSTUDIO_LEASE_S="2", TQSTUDIO_OFFLINE_S="60") as desk:
        hung, job = desk.running()
        assert desk.live.send(calls.worker_action(hung.name, verb))["status"] == "draining"
        until(lambda: desk.show(job["job"])["status"] == "pending", "its job is free")
        assert hung.claim() is None, "it takes no other"
        assert desk.worker().claim()["job"] == job["job"]


@pytest.mark.slow
def test_a_worker_that_fails_one_job_after_another_is_quarantined(
    make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    with quick(make_supervisor, tmp_path, TQSTUDIO_LEASE_S="60", TQSTUDIO_OFFLINE_S="60") as desk:
        live = desk.live
        worker = desk.worker()
        jobs = [desk.job() for _ in range(4)]
        for job in jobs[:3]:
            claimed = worker.claim()
            assert claimed["job"] == job
            worker.send(f"jobs/{job}/fail", epoch=claimed["epoch"], code="ENCODER_EXIT", text="no driver")
        assert worker.send("claim", wait_s=5) == {"job": None, "test": True}, (
            "at once: it does not wait for work"
        )
        assert view(live, worker.name)["status"] == "idle"
        assert worker.send("tested", problem="no driver") == {"accepted": True}
        shown = view(live, worker.name)
        assert (shown["status"], shown["enabled"]) == ("disabled", False)
        assert "3 different jobs in a row and a test encode: no driver" in shown["quarantine"]
        assert shown["quarantine"] in shown["note"]
        assert f"tqstudio worker enable {worker.name}" in shown["note"]
        assert worker.claim() is None
        [gate] = live.send(calls.status())["gates"]
        assert (gate["kind"], worker.name in gate["reason"]) == ("workers", True)
        events = live.send(calls.events(after=0, limit=500))["events"]
        [quarantined] = [each for each in events if each["trigger"] == "worker_quarantined"]
        assert gate["since"] == quarantined["at"], "not since the supervisor runs"
        assert gate["hint"] == f"enable one with: tqstudio worker enable {worker.name}"
        assert "worker_quarantined" in triggers(live)
        # A user has looked.
        shown = live.send(calls.worker_action(worker.name, "enable"))
        assert (shown["status"], shown["note"], shown["quarantine"]) == ("idle", None, None)
        assert worker.claim()["job"] == jobs[3]
