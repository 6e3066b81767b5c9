"""Speeds are kept by what they were measured of; errors are read from the last jobs alone."""

from __future__ import annotations

import pytest

from tqstudio.engine.store.jobs import jobs, outcomes
from tqstudio.engine.store.jobs.claims import HeldLease
from tqstudio.engine.store.library import videos
from tqstudio.engine.store.machine import speeds
from tqstudio.engine.store.machine.speeds import Speed
from tqstudio.errors import ErrorCode
from tqstudio.lifecycle import Control, Operation

from .conftest import SECOND, TV, Plan, Queue, token


def test_a_speed_is_kept_once(queue: Queue) -> None:
    speeds.save(queue.db, [Speed("a", 1.5, 1, 30.0), Speed("b", 2.5, 4, 300.0)], now=queue.now)
    speeds.save(queue.db, [Speed("a", 1.25, 2, 32.0)], now=queue.now)
    assert set(speeds.load(queue.db)) == {Speed("a", 1.25, 2, 32.0), Speed("b", 2.5, 4, 300.0)}


def came_out(queue: Queue, job: int, predicted: float | None) -> None:
    queue.db.execute(
        "UPDATE job SET predicted_s = :predicted, actual_s = 100 WHERE id = :job",
        {"predicted": predicted, "job": job},
    )


def figures(queue: Queue, job: int) -> tuple[float | None, float | None]:
    row = queue.row(job)
    return row["predicted_s"], row["actual_s"]


def moved(queue: Queue, lease: HeldLease) -> None:
    queue.db.execute(
        "UPDATE job SET last_progress_at = :now WHERE id = :job", {"now": queue.now, "job": lease.job}
    )


def test_only_the_first_run_of_a_job_is_predicted(queue: Queue) -> None:
    lease, other = queue.claimed(), queue.job()
    speeds.set_prediction(queue.db, lease.job, 60.0)
    speeds.set_prediction(queue.db, lease.job, 6.0)
    assert figures(queue, lease.job) == (60.0, None)
    assert figures(queue, other) == (None, None)
    late = queue.claimed(queue.worker("cpu-1"))
    queue.wait(5)
    queue.release(late)
    speeds.set_prediction(queue.db, late.job, 6.0)
    assert figures(queue, late.job) == (None, 5.0), "what it left is not the job"


def test_the_prediction_of_a_divided_job_is_forgotten(queue: Queue) -> None:
    lease, other = queue.claimed(), queue.claimed(queue.worker("cpu-1"))
    for each in (lease, other):
        speeds.set_prediction(queue.db, each.job, 60.0)
    speeds.forget_prediction(queue.db, lease.job)
    assert figures(queue, lease.job) == (None, None)
    assert figures(queue, other.job) == (60.0, None)


def test_the_time_of_all_runs_counts_and_that_of_no_process_does_not(queue: Queue) -> None:
    who = queue.worker()
    queue.claimed(queue.worker("cpu-1"))
    queue.wait(100)
    lease = queue.claimed(who)
    speeds.set_prediction(queue.db, lease.job, 30.0)
    queue.wait(7)
    moved(queue, lease)
    queue.wait(50)
    queue.lose(lease)
    assert figures(queue, lease.job) == (30.0, 7.0), (
        "a worker that went offline worked until its work last moved"
    )
    queue.wait(1000)
    lease = queue.claim(who)
    assert lease is not None
    queue.wait(3)
    outcomes.requeue(queue.db, lease, now=queue.now, why="a restart")
    assert figures(queue, lease.job) == (30.0, 7.0), "of this run nothing was heard"
    lease = queue.claim(who)
    assert lease is not None
    queue.wait(2)
    queue.release(lease)
    lease = queue.claim(who)
    assert lease is not None
    assert speeds.outcome(queue.db, lease.job, lease.epoch) is None
    queue.wait(4)
    assert queue.complete(lease)
    assert speeds.outcome(queue.db, lease.job, lease.epoch) == speeds.PredictionOutcome(30.0, 13.0, 4.0)
    assert speeds.outcome(queue.db, lease.job, lease.epoch - 1) == speeds.PredictionOutcome(30.0, 13.0, 2.0)
    assert speeds.outcome(queue.db, queue.claimed(who).job, lease.epoch) is None


def test_a_run_that_another_supervisor_finishes_counts_until_it_was_last_heard(queue: Queue) -> None:
    lease = queue.claimed()
    queue.wait(9)
    moved(queue, lease)
    queue.wait(5)
    before = queue.now - 60 * SECOND
    speeds.add_work(queue.db, lease.job, lease.epoch, now=before, until_last_progress=True)
    assert figures(queue, lease.job) == (None, 0.0), "never before it began"
    assert outcomes.complete(
        queue.db, token(lease), now=queue.now, worker="cpu-0", detail="", until_last_progress=True
    )
    assert figures(queue, lease.job) == (None, 9.0)


@pytest.mark.parametrize("how", ["restart", "profile", "source"])
def test_work_that_begins_from_nothing_is_predicted_again(queue: Queue, how: str) -> None:
    lease = queue.claimed(max_attempts=9)
    speeds.set_prediction(queue.db, lease.job, 30.0)
    queue.wait(5)
    if how == "source":
        queue.fail(lease, ErrorCode.SOURCE_CHANGED)
    elif how == "profile":
        queue.release(lease)
        assert jobs.set_settings(queue.db, lease.job, TV, now=queue.now, actor="user")
    else:
        queue.do(lease.job, Operation.RESTART)
        queue.release(lease, Control.RESTART)
    assert figures(queue, lease.job) == (None, None)


def test_a_failure_that_keeps_what_is_made_keeps_the_forecast(queue: Queue) -> None:
    lease = queue.claimed(max_attempts=9)
    speeds.set_prediction(queue.db, lease.job, 30.0)
    queue.wait(5)
    queue.fail(lease, ErrorCode.ENCODER_EXIT)
    assert figures(queue, lease.job) == (30.0, 5.0)


def test_errors_are_those_of_the_last_jobs(queue: Queue, plan: Plan) -> None:
    who = queue.worker()
    for number in range(speeds.LAST_JOBS + 2):
        queue.wait(1)
        lease = queue.claimed(who)
        assert queue.complete(lease)
        predicted = None if number == 51 else 100.0 + number
        came_out(queue, lease.job, predicted)
    found = speeds.last_outcomes(queue.db)
    assert len(found) == speeds.LAST_JOBS
    assert found[0] == (150.0, 100.0), "newest first; what was not predicted does not count"
    assert found[-1] == (101.0, 100.0)
    steps = plan(speeds.LAST, limit=1)
    assert not [step for step in steps if "B-TREE" in step], steps


def test_what_waits_is_read_in_the_order_of_claims(queue: Queue) -> None:
    low, high = queue.job(), queue.job(priority=5)
    del low
    outlines = speeds.waiting(queue.db, limit=10)
    assert [outline.profile_json for outline in outlines] == ["{}", "{}"]
    assert speeds.outline(queue.db, high) == outlines[0]
    assert speeds.outline(queue.db, 999) is None


@pytest.mark.parametrize("change", ["actual_s = 0", "deleted_at = 1", "status = 'failed'"])
def test_only_finished_jobs_that_took_time_count(queue: Queue, change: str) -> None:
    who = queue.worker()
    for predicted in (150.0, 120.0):
        lease = queue.claimed(who)
        assert queue.complete(lease)
        came_out(queue, lease.job, predicted)
    queue.db.execute(f"UPDATE job SET {change} WHERE id = :id", {"id": lease.job})
    assert speeds.last_outcomes(queue.db) == [(150.0, 100.0)]


def test_an_outline_is_of_the_jobs_own_video(queue: Queue) -> None:
    for number in (1, 2):
        job = queue.job()
        videos.set_facts(queue.db, queue.row(job)["video_id"], {"n": number}, quick_hash=None)
    outline = speeds.outline(queue.db, job)
    assert outline is not None
    assert outline.facts == {"n": 2}


def test_what_does_not_wait_is_not_estimated(queue: Queue) -> None:
    queue.claimed()
    queue.do(queue.job(), Operation.DELETE)
    assert speeds.waiting(queue.db, limit=9) == []
