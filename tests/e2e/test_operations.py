"""What people do to jobs, while they wait and while ffmpeg works on them."""

from __future__ import annotations

import os
import signal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from harness import lives, until_ended
from tqstudio.protocol import calls
from waiting import until

from .conftest import MakeClip
from .ladder import check_ladder
from .studio import Studio, marks, published_marks, seconds_between, video_runs

RUNGS = ("180p", "120p", "90p")


@pytest.fixture
def long(clip: MakeClip, copy) -> Path:
    return copy(clip(seconds=12), "long.mp4")


def _whole(shared: Studio, job: int, seconds: int = 12) -> None:
    master = Path(shared.video_of(job)["generation"]["master"])
    check_ladder(master, frames=25 * seconds, fps=Fraction(25), names=RUNGS)


def _begun(job: Any) -> str:
    """When the first of a job's qualities began; empty before that."""
    return min((row["started_at"] for row in job["renditions"] if row["started_at"]), default="")


def test_a_running_job_is_paused_and_resumes(shared: Studio, long: Path) -> None:
    with shared.paced(2):
        job = shared.add(long)
        encoders = shared.running(job)
        assert shared.do("pause", job)["word"] in ("pausing…", "paused")
        paused = shared.wait(job, "paused")
    assert not [pid for pid in encoders if lives(pid)], "ffmpeg is dead before the job counts as paused"
    begun = _begun(paused)
    assert begun
    assert not [row["name"] for row in paused["renditions"] if row["completed_at"]]
    kept = shared.stored_segments(paused["video"])
    assert kept, "finished segments stay"
    before = marks(kept)
    assert shared.video_of(job)["status"] == "pending"
    assert shared.worker()["job"] is None

    shared.do("resume", job)
    done = shared.done(job)
    assert (done["attempts"], done["crashes"]) == (0, 0)
    assert [attempt["outcome"] for attempt in done["attempts_log"]] == ["paused", "done"]
    spans = [seconds_between(each["started_at"], each["ended_at"]) for each in done["attempts_log"]]
    assert done["actual_s"] == pytest.approx(sum(spans), abs=0.01)
    assert before <= published_marks(done), "what was finished is what is published"
    assert [len(video_runs(attempt)) for attempt in done["attempts_log"]] == [1, 1], "one run for all"
    assert _begun(done) == begun, "when it began first"
    resumed_at = done["attempts_log"][1]["started_at"]
    made = [row for row in done["renditions"] if row["status"] == "completed"]
    assert made
    assert all(resumed_at < row["completed_at"] <= done["completed_at"] for row in made)
    assert all(
        row["started_at"] is row["completed_at"] is None for row in done["renditions"] if row not in made
    )
    _whole(shared, job)


@pytest.mark.more
def test_pausing_can_be_taken_back_and_asked_twice(shared: Studio, long: Path) -> None:
    with shared.paced(2):
        job = shared.add(long)
        shared.running(job)
        shared.do("pause", job)
        assert shared.do("pause", job)["ok"]
        shared.wait(job, "paused", "in_progress")
        assert shared.do("resume", job)["ok"]
    shared.done(job)
    _whole(shared, job)


def test_a_waiting_job_is_paused_resumed_and_cancelled(shared: Studio, clip: MakeClip, copy) -> None:
    shared.client.send(calls.pause_queue("a test"))
    try:
        job = shared.add(copy(clip(), "waiting.mp4"))
        assert shared.job(job)["status"] == "pending"
        assert shared.do("pause", job)["status"] == "paused"
        assert shared.do("resume", job)["status"] == "pending"
        assert shared.do("cancel", job)["status"] == "cancelled"
        assert shared.act("pause", job)["error"]["code"] == "REFUSED"
        assert shared.do("retry", job)["status"] == "pending"
    finally:
        shared.client.send(calls.resume_queue())
    shared.done(job)


@pytest.mark.slow
def test_a_running_job_is_cancelled_and_tried_again(shared: Studio, long: Path) -> None:
    with shared.paced(2):
        job = shared.add(long)
        encoders = shared.running(job)
        shared.do("cancel", job)
        cancelled = shared.wait(job, "cancelled")
    assert not [pid for pid in encoders if lives(pid)]
    before = marks(shared.stored_segments(cancelled["video"]))
    assert before, "finished segments stay"
    assert cancelled["video_view"]["status"] == "idle"
    assert not (shared.out / cancelled["video_view"]["slug"] / "master.m3u8").exists()

    shared.do("retry", job)
    done = shared.done(job)
    assert [attempt["outcome"] for attempt in done["attempts_log"]] == ["cancelled", "done"]
    assert before <= published_marks(done)
    _whole(shared, job)


@pytest.mark.more
def test_restart_begins_a_running_job_again(shared: Studio, long: Path) -> None:
    with shared.paced(2):
        job = shared.add(long)
        encoders = shared.running(job)
        before = marks(shared.stored_segments(shared.job(job)["video"]))
        begun = until(lambda: _begun(shared.job(job)), "its qualities are worked on")
        shared.do("restart", job)
        until(lambda: len(shared.job(job)["attempts_log"]) == 2, "the second attempt began")
        until_ended(encoders)
    done = shared.done(job)
    assert (done["attempts"], done["crashes"]) == (0, 0)
    assert before
    assert not before & published_marks(done), "nothing of the first attempt is used"
    assert begun < _begun(done), "its qualities begin again too"
    assert "restart" in [event["trigger"] for event in shared.events(job)]
    _whole(shared, job)


def test_a_failed_job_is_tried_again(shared: Studio, clip: MakeClip, copy) -> None:
    source = copy(clip(), "comes-back.mp4")
    content = source.read_bytes()
    shared.client.send(calls.pause_queue("a test"))
    try:
        job = shared.add(source)
        source.unlink()
    finally:
        shared.client.send(calls.resume_queue())
    failed = shared.wait(job, "failed")
    assert failed["error"]["code"] == "SOURCE_MISSING"
    assert "comes-back.mp4" in failed["error"]["message"]
    assert failed["error"]["hint"]
    assert Path(failed["error"]["log"]).is_file()
    assert failed["video_view"]["status"] == "failed"
    source.write_bytes(content)
    shared.do("retry", job)
    done = shared.done(job)
    assert done["error"] is None
    assert done["video_view"]["status"] == "ready"


def test_a_deleted_job_comes_back(shared: Studio, clip: MakeClip, copy) -> None:
    job = shared.add(copy(clip(), "deleted.mp4"), hold=True)
    shared.do("delete", job)
    listed = [row["id"] for row in shared.client.send(calls.jobs(limit=500))["jobs"]]
    assert job not in listed
    assert shared.act("resume", job)["error"]["code"] == "REFUSED"
    shared.do("undelete", job)
    shared.do("resume", job)
    shared.done(job)
    assert [event["trigger"] for event in shared.events(job)][:3] == ["create_held", "deleted", "undeleted"]


def test_a_running_job_cannot_be_deleted(shared: Studio, long: Path) -> None:
    with shared.paced(2):
        job = shared.add(long)
        shared.running(job)
        refused = shared.act("delete", job)
        assert refused["error"]["code"] == "REFUSED"
        assert "cancel" in refused["error"]["message"]
        shared.do("cancel", job)
        shared.wait(job, "cancelled")


@pytest.mark.more
def test_priority_decides_what_is_next(shared: Studio, clip: MakeClip, copy) -> None:
    shared.client.send(calls.pause_queue("a test"))
    try:
        first, second, third = (
            shared.add(copy(clip(channels=0), f"in-line-{n}.mp4"), priority=p)
            for n, p in enumerate((0, 0, 1))
        )
        shared.do("priority", second, priority=5)
        after = shared.last_seq()
    finally:
        shared.client.send(calls.resume_queue())
    for job in (first, second, third):
        shared.done(job)
    later = shared.client.send(calls.events(after=after, limit=200))["events"]
    claimed = [event["job"] for event in later if event["trigger"] == "claim"]
    assert claimed == [second, third, first]


@pytest.mark.slow
def test_a_paused_queue_changes_no_job(shared: Studio, clip: MakeClip, copy, long: Path) -> None:
    with shared.paced(2):
        running = shared.add(long)
        shared.running(running)
        gate = shared.client.send(calls.pause_queue("lunch"))
        assert gate["kind"] == "user"
        waiting = shared.add(copy(clip(), "after-lunch.mp4"))
        assert [g["reason"] for g in shared.status()["gates"]] == ["lunch"]
    shared.done(running)
    until(lambda: shared.worker()["status"] == "idle", "the worker is idle")
    assert shared.job(waiting)["status"] == "pending"
    assert shared.job(waiting)["attempts_log"] == []
    shared.client.send(calls.resume_queue())
    shared.done(waiting)
    assert shared.status()["gates"] == []


def test_one_of_two_running_things_ends_no_other(shared: Studio, clip: MakeClip, copy) -> None:
    """An operation on many jobs answers each for itself."""
    done = shared.add(copy(clip(channels=0), "finished.mp4"))
    shared.done(done)
    held = shared.add(copy(clip(channels=0), "held.mp4"), hold=True)
    results = shared.client.send(calls.act("cancel", [done, held, 999_999]))["results"]
    assert [result["ok"] for result in results] == [False, True, False]
    assert results[0]["error"]["code"] == "REFUSED"
    assert results[2]["error"]["code"] == "NOT_FOUND"


@pytest.mark.slow
def test_a_killed_ffmpeg_ends_no_worker(shared: Studio, long: Path) -> None:
    worker = shared.worker()["pid"]
    with shared.paced(2):
        job = shared.add(long)
        for pid in shared.running(job):
            os.kill(pid, signal.SIGKILL)
    done = shared.done(job)
    assert done["crashes"] == 0
    assert shared.worker()["pid"] == worker
    _whole(shared, job)
