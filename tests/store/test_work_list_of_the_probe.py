"""What the background probe has still to look at, and what may be recorded of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tqstudio.engine.store.db.connection import Address
from tqstudio.engine.store.jobs import jobs
from tqstudio.engine.store.library import videos
from tqstudio.engine.store.library.videos import Unprobed
from tqstudio.engine.store.lists import records
from tqstudio.errors import ErrorCode
from tqstudio.lifecycle import JobStatus, Operation
from tqstudio.protocol.answers import ErrorView

from .conftest import Plan, Queue, rolled_back

FACTS = {"duration_s": 5.0, "video": {"width": 640, "height": 360, "fps": "25"}}
ERROR: ErrorView = {"code": "NO_MEDIA", "message": "no video in it", "hint": "remove it"}


def wanted(queue: Queue, limit: int = 100) -> list[int]:
    return [one.job for one in videos.unprobed(queue.db, limit=limit)]


def only(queue: Queue) -> Unprobed:
    [one] = videos.unprobed(queue.db, limit=2)
    return one


def video_of(queue: Queue, job: int) -> int:
    return int(queue.row(job)["video_id"])


def settle(queue: Queue, video: int, *, mtime_ns: int, changed: bool = False) -> None:
    videos.set_fingerprint(queue.db, video, size=1000, mtime_ns=mtime_ns, quick_hash="hash", changed=changed)


def test_it_is_the_queue_of_waiting_jobs_in_its_order(queue: Queue) -> None:
    plain, held = queue.job(), queue.job(hold=True)
    urgent = queue.job(priority=5)
    queue.in_status(JobStatus.DONE)
    queue.in_status(JobStatus.FAILED)
    queue.in_status(JobStatus.CANCELLED)
    queue.do(queue.job(), Operation.DELETE)
    queue.claimed()
    assert wanted(queue) == [urgent, plain, held]
    assert wanted(queue, limit=1) == [urgent]


def test_it_reads_its_index_and_sorts_nothing(plan: Plan) -> None:
    assert plan(videos.UNPROBED, limit=1) == [
        "SCAN job USING INDEX ix_job_unprobed",
        "SEARCH video USING INTEGER PRIMARY KEY (rowid=?)",
    ]


@pytest.mark.parametrize(("facts", "error"), [(FACTS, None), (None, ERROR)])
def test_what_was_looked_at_is_not_looked_at_again(
    queue: Queue, facts: dict[str, Any] | None, error: ErrorView | None
) -> None:
    job = queue.job()
    assert videos.set_probed(queue.db, only(queue), facts=facts, error=error)
    assert wanted(queue) == []
    record = records.one(queue.db, job)
    assert record is not None
    assert (record["facts"], record["probe_error"]) == (facts, error)
    queue.do(job, Operation.CANCEL)
    queue.do(job, Operation.RETRY)
    assert wanted(queue) == []
    queue.do(job, Operation.CANCEL)
    queue.job(video=record["video"])
    assert wanted(queue) == [], "another job of the same file"


def test_a_file_that_was_touched_gets_another_chance(queue: Queue) -> None:
    job = queue.job()
    videos.set_probed(queue.db, only(queue), facts=None, error=ERROR)
    settle(queue, video_of(queue, job), mtime_ns=1)
    assert wanted(queue) == []
    settle(queue, video_of(queue, job), mtime_ns=2)
    assert wanted(queue) == [job]
    record = records.one(queue.db, job)
    assert record is not None
    assert record["probe_error"] is None


def test_changed_content_is_looked_at_again_and_the_same_content_is_not(queue: Queue) -> None:
    job = queue.job()
    videos.set_probed(queue.db, only(queue), facts=FACTS, error=None)
    settle(queue, video_of(queue, job), mtime_ns=2)
    assert wanted(queue) == []
    settle(queue, video_of(queue, job), mtime_ns=3, changed=True)
    assert wanted(queue) == [job]


@pytest.mark.parametrize("facts", [FACTS, None])
def test_what_was_found_of_an_earlier_file_is_dropped(queue: Queue, facts: dict[str, Any] | None) -> None:
    job = queue.job()
    seen = only(queue)
    settle(queue, seen.video, mtime_ns=2)
    assert not videos.set_probed(queue.db, seen, facts=facts, error=None if facts else ERROR)
    row = videos.get(queue.db, seen.video)
    assert row is not None
    assert row.facts is None
    assert wanted(queue) == [job]


@pytest.mark.parametrize(("facts", "error"), [({"duration_s": 1}, None), (None, ERROR)])
def test_what_a_worker_found_stays(
    queue: Queue, facts: dict[str, Any] | None, error: ErrorView | None
) -> None:
    job = queue.job()
    seen = only(queue)
    videos.set_facts(queue.db, seen.video, FACTS, quick_hash=None)
    assert wanted(queue) == []
    assert videos.set_probed(queue.db, seen, facts=facts, error=error)
    record = records.one(queue.db, job)
    assert record is not None
    assert (record["facts"], record["probe_error"]) == (FACTS, None)


def test_a_worker_ends_a_doubt(queue: Queue) -> None:
    job = queue.job()
    videos.set_probed(queue.db, only(queue), facts=None, error=ERROR)
    videos.set_facts(queue.db, video_of(queue, job), FACTS, quick_hash=None)
    record = records.one(queue.db, job)
    assert record is not None
    assert (record["facts"], record["probe_error"]) == (FACTS, None)


def test_a_job_that_comes_back_from_a_worker_waits_for_a_look(queue: Queue) -> None:
    lease = queue.claimed()
    assert wanted(queue) == []
    queue.fail(lease, ErrorCode.ENCODER_EXIT)
    assert wanted(queue) == [lease.job]


_steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "found", "bad", "late", "facts", "touch", "change", "cancel", "retry"]),
        st.integers(0, 3),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_steps)
def test_the_list_is_what_nothing_is_known_of(address: Address, steps: list[tuple[str, int]]) -> None:
    with rolled_back(address) as queue:
        made = [queue.job() for _ in range(2)]
        earlier = videos.unprobed(queue.db, limit=10)
        for time, (step, number) in enumerate(steps, start=2):
            job = made[number % len(made)]
            video = video_of(queue, job)
            seen = next((one for one in videos.unprobed(queue.db, limit=10) if one.job == job), None)
            if step == "add" and jobs.open_job_of(queue.db, video) is None:
                made.append(queue.job(video=video))
            elif step == "found" and seen is not None:
                videos.set_probed(queue.db, seen, facts=FACTS, error=None)
            elif step == "bad" and seen is not None:
                videos.set_probed(queue.db, seen, facts=None, error=ERROR)
            elif step == "late":
                videos.set_probed(queue.db, earlier[number % 2], facts=FACTS, error=None)
            elif step == "facts":
                videos.set_facts(queue.db, video, FACTS, quick_hash=None)
            elif step in ("touch", "change"):
                settle(queue, video, mtime_ns=time, changed=step == "change")
            elif step in ("cancel", "retry"):
                queue.do(job, Operation(step))
            true = queue.db.execute(
                "SELECT job.id FROM job JOIN video ON video.id = video_id WHERE facts IS NULL"
                " AND probe_error IS NULL AND status IN ('pending', 'paused')"
                " ORDER BY priority DESC, job.created_at, job.id"
            )
            assert wanted(queue) == [row[0] for row in true]
