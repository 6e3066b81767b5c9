"""Small parts of the engine by themselves: backoff, running jobs, the lock, the pool's patience."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tqstudio.engine.access.worker_tokens import WorkerTokens
from tqstudio.engine.api.views import iso, parse_time
from tqstudio.engine.host import home_lock, restart_delay
from tqstudio.engine.host.clock import RunningClock
from tqstudio.engine.live.leases import Leases
from tqstudio.engine.live.running_jobs import Heartbeat, LiveJob, RunningJobs
from tqstudio.engine.queue import worker_pool
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.engine.store.jobs.progress import RenditionRow
from tqstudio.engine.store.jobs.retry_rules import (
    RESOURCE_WAIT_S,
    RetryRules,
    judge_failure,
    judge_loss,
    longest_wait_s,
)
from tqstudio.errors import ErrorCode, TqError
from tqstudio.events import EventKind
from tqstudio.home import Home
from tqstudio.lifecycle import Control

# When a job runs again


@pytest.mark.parametrize(("failures", "seconds"), [(1, 30), (2, 60), (3, 120), (5, 480), (6, 600), (99, 600)])
def test_the_backoff_doubles_up_to_its_bound(failures: int, seconds: float) -> None:
    for jitter, factor in ((0.0, 0.9), (0.5, 1.0), (1.0, 1.1)):
        rules = RetryRules(30, 600, lambda jitter=jitter: jitter)  # type: ignore[misc]
        assert rules.wait_s(failures) == pytest.approx(seconds * factor)


@given(st.integers(1, 40), st.floats(0, 1), st.floats(1, 1000), st.floats(1, 10_000))
def test_no_wait_is_longer_than_the_longest(failures: int, jitter: float, base: float, most: float) -> None:
    rules = RetryRules(base, most, lambda: jitter)
    assert max(rules.wait_s(failures), RESOURCE_WAIT_S) <= longest_wait_s(most) + 1e-6


@given(
    code=st.sampled_from(list(ErrorCode)),
    maximum=st.integers(1, 5),
    used=st.integers(0, 4),
    crashes=st.integers(0, 4),
    got_further=st.booleans(),
    had_got_further=st.booleans(),
)
def test_a_verdict_keeps_the_counters_in_their_bounds(
    code: ErrorCode, maximum: int, used: int, crashes: int, got_further: bool, had_got_further: bool
) -> None:
    used, crashes = min(used, maximum - 1), min(crashes, maximum - 1)
    failed = judge_failure(
        code, attempts=used, crashes=crashes, max_attempts=maximum, rules=RetryRules(1, 2, lambda: 0.5)
    )
    lost = judge_loss(
        attempts=used,
        crashes=crashes,
        max_crashes=maximum,
        got_further=got_further,
        had_got_further=had_got_further,
    )
    for verdict in (failed, lost):
        assert used <= verdict.attempts <= maximum
        assert 0 <= verdict.crashes <= maximum
        assert verdict.exhausted <= (verdict.trigger is EventKind.FAIL_FINAL)
        assert (verdict.wait_s is None) or verdict.trigger is not EventKind.FAIL_FINAL
    assert lost.crashes == (1 if got_further else min(crashes, 1) + 1 if had_got_further else crashes + 1)
    assert lost.exhausted == (lost.crashes == maximum) == (lost.code is ErrorCode.REPEATED_CRASHES)


# Running jobs

A, B = LeaseToken(1, 1, "one"), LeaseToken(1, 2, "two")


def progress(token: LeaseToken = A, **changes: object) -> LiveJob:
    return replace(LiveJob(token, "cpu-0", step="transcode", progress=10.0, at=5), **changes)  # type: ignore[arg-type]


def quality(status: str) -> RenditionRow:
    values = dict.fromkeys(RenditionRow.__annotations__)
    return RenditionRow(**(values | {"name": "360p", "status": status}))  # type: ignore[arg-type]


def new_board() -> RunningJobs:
    return RunningJobs(Leases(1, 60, 10, RunningClock(1000)))


def test_the_board_keeps_what_a_report_leaves_out() -> None:
    running_jobs = new_board()
    running_jobs.begin(A, "cpu-0", 0)
    resumed = {"resumed_from": 0, "resumed_at_s": 4.0}
    full = progress(renditions=(quality("pending"),), argv=(("ffmpeg",),), encoder="libx264", **resumed)
    running_jobs.report(A, full, significant=True)
    merged = running_jobs.report(A, progress(progress=5.0), significant=False)
    assert (merged.progress, merged.renditions, merged.argv) == (10.0, full.renditions, full.argv)
    assert (merged.resumed_from, merged.resumed_at_s, merged.encoder) == (0, 4.0, "libx264")
    assert merged.unsaved


def _times(running_jobs: RunningJobs, at: int, *rows: RenditionRow) -> list[tuple[int | None, int | None]]:
    merged = running_jobs.report(A, progress(renditions=rows, at=at), significant=False)
    return [(row["started_at"], row["completed_at"]) for row in merged.renditions or ()]


def test_the_board_knows_when_this_run_began_and_completed_a_quality() -> None:
    running_jobs = new_board()
    running_jobs.begin(A, "cpu-0", 0)
    assert _times(running_jobs, 1, quality("pending")) == [(None, None)]
    assert _times(running_jobs, 2, quality("in_progress")) == [(2, None)]
    running_jobs.report(A, progress(at=3), significant=False)
    assert _times(running_jobs, 4, quality("in_progress")) == [(2, None)]
    assert _times(running_jobs, 5, quality("completed")) == [(2, 5)]
    assert _times(running_jobs, 6, quality("completed")) == [(2, 5)]
    assert _times(running_jobs, 7, quality("in_progress")) == [(2, None)]


def test_a_quality_that_begins_and_ends_between_two_reports_has_both_times() -> None:
    running_jobs = new_board()
    running_jobs.begin(A, "cpu-0", 0)
    _times(running_jobs, 3, quality("pending"))
    assert _times(running_jobs, 9, quality("completed")) == [(3, 9)]


@pytest.mark.parametrize("status", ["completed", "skipped", "failed"])
def test_a_quality_that_this_run_did_not_make_has_no_times(status: str) -> None:
    running_jobs = new_board()
    running_jobs.begin(A, "cpu-0", 0)
    for at in (1, 2):
        assert _times(running_jobs, at, quality(status)) == [(None, None)]


def test_another_lease_inherits_nothing() -> None:
    running_jobs = new_board()
    running_jobs.report(A, progress(progress=80.0), significant=False)
    running_jobs.control(1, Control.PAUSE)
    merged = running_jobs.report(B, progress(B, progress=5.0), significant=False)
    assert (merged.progress, merged.control) == (5.0, Control.NONE)


def test_a_control_request_outlives_reports() -> None:
    running_jobs = new_board()
    running_jobs.begin(A, "cpu-0", 0)
    running_jobs.control(1, Control.CANCEL)
    running_jobs.control(99, Control.CANCEL)
    assert running_jobs.report(A, progress(), significant=False).control is Control.CANCEL


def test_at_most_one_write_per_second() -> None:
    running_jobs = new_board()
    running_jobs.begin(A, "cpu-0", 0)
    running_jobs.report(A, progress(), significant=True)
    assert running_jobs.due(999_999) == []
    assert [live.token for live in running_jobs.due(1_000_000)] == [A]
    running_jobs.saved(1, 1_000_000, 10.0)
    running_jobs.report(A, progress(at=1_000_001), significant=False)
    assert running_jobs.due(9_000_000) == [], "nothing a database must know"
    assert [live.token for live in running_jobs.due(9_000_000, everything=True)] == [A]


def test_what_is_reported_while_it_is_stored_is_stored_too() -> None:
    running_jobs = new_board()
    running_jobs.begin(A, "cpu-0", 0)
    running_jobs.report(A, progress(at=2_000_001), significant=True)
    running_jobs.saved(1, 2_000_000, 10.0)
    assert [live.token for live in running_jobs.due(3_000_000)] == [A]


def test_what_moved_is_reported_once() -> None:
    running_jobs = new_board()
    running_jobs.begin(A, "cpu-0", 0)
    assert [live.token for live in running_jobs.take_touched()] == [A]
    assert running_jobs.take_touched() == []
    running_jobs.report(A, progress(), significant=False)
    assert running_jobs.end(1) is not None
    assert running_jobs.end(1) is None
    assert running_jobs.take_touched() == []


def test_reports_without_an_advance_do_not_count_as_movement() -> None:
    running_jobs = new_board()
    running_jobs.begin(A, "cpu-0", 0)
    for at, progressed, moved_at in ((5, 10.0, 5), (6, 10.0, 5), (7, 9.0, 5), (8, 10.1, 8)):
        merged = running_jobs.report(A, progress(at=at, progress=progressed), significant=False)
        assert (merged.at, merged.moved_at) == (at, moved_at)
    assert running_jobs.report(A, progress(at=9, step="finalize"), significant=False).moved_at == 9


def test_a_beat_is_stored_once() -> None:
    running_jobs = new_board()
    running_jobs.record_heartbeat(Heartbeat(7, 5, "one"))
    running_jobs.record_heartbeat(Heartbeat(7, 6, "one"))
    assert [beat.at for beat in running_jobs.take_heartbeats()] == [6]
    assert running_jobs.take_heartbeats() == []
    assert running_jobs.heartbeats[7].at == 6


# The lock and the socket


def test_one_holds_the_lock(home: Home) -> None:
    first, second = home_lock.HomeLock(home), home_lock.HomeLock(home)
    first.acquire()
    with pytest.raises(TqError) as caught:
        second.acquire()
    assert caught.value.code is ErrorCode.ALREADY_RUNNING
    assert f"pid {os.getpid()}" in caught.value.message
    second.release()
    first.release()
    first.release()
    second.acquire()
    second.release()


def test_the_lock_of_a_dead_process_is_free(home: Home) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom tqstudio.engine.host.home_lock import HomeLock\n"
        "from tqstudio.home import Home\nHomeLock(Home(Path(sys.argv[1]))).acquire()\nos._exit(9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(home.root)], timeout=60)
    assert done.returncode == 9
    assert home.lock.read_text().strip().isdigit()
    mine = home_lock.HomeLock(home)
    mine.acquire()
    assert home.lock.read_text() == f"{os.getpid()}\n"
    mine.release()


def test_a_stale_socket_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    stale = home_lock.bind(path)
    stale.close()
    assert path.exists()
    before = os.umask(0)
    try:
        listener = home_lock.bind(path)
        assert os.umask(0) == 0, "the umask is put back"
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(path))
    listener.close()
    assert [p.name for p in tmp_path.iterdir()] == ["s.sock"]


def test_a_socket_that_cannot_be_bound_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        home_lock.bind(tmp_path / "none" / "s.sock")
    assert list(tmp_path.iterdir()) == []


# The pool


def test_a_worker_that_keeps_dying_waits_longer_and_longer() -> None:
    assert [restart_delay.restart_wait_s(n, 0.0) for n in range(1, 10)] == [0, 0, 0.5, 1, 2, 4, 8, 16, 30]


def test_a_worker_that_lived_longer_than_that_is_replaced_at_once() -> None:
    assert [restart_delay.restart_wait_s(n, 4.0) for n in range(3, 9)] == [0, 0, 0, 0, 4, 12]


@pytest.mark.parametrize(
    ("processors", "memory", "workers"),
    [(1, 1, 1), (2, 64, 1), (8, 64, 1), (16, 64, 2), (64, 8, 2), (64, 64, 8)],
)
def test_workers_that_a_machine_carries(processors: int, memory: int, workers: int) -> None:
    assert worker_pool.default_cpu_workers(processors, memory * 10**9) == workers


def test_a_token_is_one_identity() -> None:
    worker_tokens = WorkerTokens()
    first, other = worker_tokens.issue(1, "cpu-0", "cpu"), worker_tokens.issue(2, "cpu-1", "cpu")
    assert first != other
    found = worker_tokens.of(first)
    assert found is not None
    assert (found.worker, found.name, found.kind) == (1, "cpu-0", "cpu")
    again = worker_tokens.issue(1, "cpu-0", "cpu")
    assert worker_tokens.of(first) is None, "a new life ends the token of the one before"
    worker_tokens.revoke(again)
    worker_tokens.revoke("unknown")
    assert worker_tokens.of(again) is None
    assert worker_tokens.of(other) is not None


# Times and places


@given(st.integers(0, 4_000_000_000_000))
def test_times_survive_the_way_to_a_screen_and_back(milliseconds: int) -> None:
    assert parse_time(str(iso(milliseconds * 1000))) == milliseconds * 1000


def test_times_without_a_zone_are_utc() -> None:
    assert parse_time("2026-01-31T18:00:00") == parse_time("2026-01-31T18:00:00+00:00")
    assert parse_time("2026-01-31T18:00:00+02:00") == parse_time("2026-01-31T16:00:00Z")
    assert iso(None) is None
