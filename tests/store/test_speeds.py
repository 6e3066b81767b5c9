"""Speeds are kept by what they were measured of; errors are read from the last jobs alone."""

from __future__ import annotations

import pytest

from tqstudio.engine.store import speeds, videos
from tqstudio.engine.store.speeds import Speed
from tqstudio.lifecycle import Operation

from .conftest import Queue


def test_a_speed_is_kept_once(queue: Queue) -> None:
    speeds.save(queue.db, [Speed("a", 1.5, 1), Speed("b", 2.5, 4)], now=queue.now)
    speeds.save(queue.db, [Speed("a", 1.25, 2)], now=queue.now)
    assert set(speeds.load(queue.db)) == {Speed("a", 1.25, 2), Speed("b", 2.5, 4)}


def test_errors_are_those_of_the_last_jobs(queue: Queue) -> None:
    who = queue.worker()
    for number in range(speeds.LAST_JOBS + 2):
        queue.wait(1)
        lease = queue.claimed(who)
        assert queue.complete(lease)
        predicted = None if number == 51 else 100.0 + number
        speeds.record(queue.db, lease.job, predicted_s=predicted, actual_s=100.0)
    found = speeds.last_errors(queue.db)
    assert len(found) == speeds.LAST_JOBS
    assert found[0] == pytest.approx(0.5), "newest first; what was not foretold does not count"
    assert found[-1] == pytest.approx(0.01)
    plan = [row[3] for row in queue.db.execute(f"EXPLAIN QUERY PLAN {speeds.LAST_SQL}", {"limit": 1})]
    assert not [line for line in plan if "B-TREE" in line], plan


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
        speeds.record(queue.db, lease.job, predicted_s=predicted, actual_s=100.0)
    queue.db.execute(f"UPDATE job SET {change} WHERE id = :id", {"id": lease.job})
    assert speeds.last_errors(queue.db) == [pytest.approx(0.5)]


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
