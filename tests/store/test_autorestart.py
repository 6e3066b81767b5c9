"""Failed jobs that start again by themselves: the five states, and when."""

from __future__ import annotations

import pytest

from tqstudio.engine.store.jobs import autorestart
from tqstudio.engine.store.jobs.claims import HeldLease
from tqstudio.errors import ErrorCode
from tqstudio.lifecycle import AutorestartRule, JobStatus, Operation

from .conftest import Plan, Queue

TWICE = AutorestartRule(2, delay_s=60)


def failed(queue: Queue, lease: HeldLease | None = None, *, attempts: int = 1) -> HeldLease:
    """A job that has used up its attempts."""
    lease = lease or queue.claimed(max_attempts=1, autorestart=TWICE)
    for _ in range(attempts - 1):
        assert queue.fail(lease, ErrorCode.ENCODER_EXIT) is JobStatus.PENDING
        queue.wait(600)
        queue.promote()
        lease = again(queue)
    assert queue.fail(lease, ErrorCode.ENCODER_EXIT) is JobStatus.FAILED
    return lease


def restart_due(queue: Queue) -> list[int]:
    due = autorestart.is_any_due(queue.db, now=queue.now)
    restarted = autorestart.restart_due(queue.db, now=queue.now)
    assert due == bool(restarted)
    return restarted


def again(queue: Queue) -> HeldLease:
    lease = queue.claim()
    assert lease is not None
    return lease


def state(queue: Queue, job: int) -> tuple[str, int]:
    row = queue.row(job)
    return row["autorestart"], row["restarts"]


def test_a_failed_job_is_retried_after_its_delay_until_its_restarts_are_used_up(queue: Queue) -> None:
    job = failed(queue).job
    assert state(queue, job) == ("enabled", 0)
    for restart in (1, 2):
        queue.wait(59)
        assert restart_due(queue) == []
        queue.wait(1)
        assert restart_due(queue) == [job]
        row = queue.row(job)
        assert state(queue, job) == ("in_progress", restart)
        assert (row["status"], row["attempts"], row["crashes"], row["exhausted"]) == ("pending", 0, 0, 0)
        assert (row["completed_at"], row["last_restart_at"]) == (None, queue.now)
        [*_, event] = queue.history(job)
        assert (event["trigger"], event["actor"]) == ("autorestart", "autorestart")
        assert event["detail"] == f"restart {restart} of 2"
        failed(queue, again(queue))
    assert state(queue, job) == ("failed", 2)
    queue.wait(10_000)
    assert restart_due(queue) == []


def test_the_delay_counts_from_the_later_of_failure_and_restart(queue: Queue) -> None:
    job = failed(queue).job
    queue.wait(60)
    assert restart_due(queue) == [job]
    lease = again(queue)
    queue.wait(59)
    failed(queue, lease)
    queue.wait(1)
    assert restart_due(queue) == [], "a minute after the restart, a second after the failure"
    queue.wait(59)
    assert restart_due(queue) == [job]


@pytest.mark.parametrize("code", [ErrorCode.NO_MEDIA, ErrorCode.SOURCE_TRUNCATED, ErrorCode.PERMISSION])
def test_what_no_restart_mends_denies_it(queue: Queue, code: ErrorCode) -> None:
    lease = queue.claimed(autorestart=TWICE)
    queue.fail(lease, code)
    queue.wait(1000)
    assert (state(queue, lease.job), restart_due(queue)) == (("denied", 0), [])


def test_poison_denies_it(queue: Queue) -> None:
    lease = queue.claimed(autorestart=TWICE, max_crashes=1)
    queue.lose(lease)
    queue.wait(1000)
    assert (state(queue, lease.job), restart_due(queue)) == (("denied", 0), [])


def test_crashes_before_the_last_deny_nothing(queue: Queue) -> None:
    lease = queue.claimed(autorestart=TWICE)
    queue.lose(lease)
    assert state(queue, lease.job) == ("enabled", 0)


def test_done_gives_all_restarts_back(queue: Queue) -> None:
    job = failed(queue).job
    queue.wait(60)
    restart_due(queue)
    assert queue.complete(again(queue))
    assert state(queue, job) == ("enabled", 0)


@pytest.mark.parametrize("code", [ErrorCode.ENCODER_EXIT, ErrorCode.NO_MEDIA])
def test_a_users_retry_gives_all_restarts_back(queue: Queue, code: ErrorCode) -> None:
    job = failed(queue).job
    queue.wait(60)
    restart_due(queue)
    queue.fail(again(queue), code)
    queue.do(job, Operation.RETRY)
    assert state(queue, job) == ("enabled", 0)


def test_off_is_off(queue: Queue) -> None:
    lease = queue.claimed(max_attempts=1)
    failed(queue, lease)
    queue.wait(10_000)
    assert (state(queue, lease.job), restart_due(queue)) == (("disabled", 0), [])


def test_a_video_that_has_another_job_is_left_to_it(queue: Queue) -> None:
    video = queue.video()
    failed(queue, queue.claimed(video=video, max_attempts=1, autorestart=TWICE))
    newer = queue.job(video=video)
    queue.wait(60)
    assert restart_due(queue) == [], "it has an open job"
    queue.do(newer, Operation.CANCEL)
    assert restart_due(queue) == [], "the newer one stands for it"
    queue.do(newer, Operation.DELETE)
    assert len(restart_due(queue)) == 1


@pytest.mark.parametrize("status", ["pending", "in_progress", "paused"])
def test_a_video_whose_older_job_is_open_holds_up_no_other(queue: Queue, status: str) -> None:
    video = queue.video()
    older = failed(queue, queue.claimed(video=video, max_attempts=1)).job
    # One before it and one after it: in either order, it would be among the first two.
    first = failed(queue).job
    failed(queue, queue.claimed(video=video, max_attempts=1, autorestart=TWICE))
    last = failed(queue).job
    queue.do(older, Operation.RETRY)
    if status == "in_progress":
        assert again(queue).job == older
    elif status == "paused":
        queue.do(older, Operation.PAUSE)
    assert queue.row(older)["status"] == status
    queue.wait(60)
    assert sorted(autorestart.restart_due(queue.db, now=queue.now, limit=2)) == [first, last]
    assert restart_due(queue) == []


def test_what_a_user_ended_stays_ended(queue: Queue) -> None:
    cancelled, deleted = failed(queue).job, failed(queue).job
    queue.do(cancelled, Operation.CANCEL)
    queue.do(deleted, Operation.DELETE)
    queue.wait(10_000)
    assert restart_due(queue) == []


def test_the_rule_of_a_job_can_be_changed(queue: Queue) -> None:
    job = failed(queue, queue.claimed(max_attempts=1)).job
    assert autorestart.set_rule(queue.db, job, AutorestartRule(1, 0))
    assert not autorestart.set_rule(queue.db, job, AutorestartRule(1, 0))
    assert restart_due(queue) == [job]
    assert autorestart.set_rule(queue.db, job, AutorestartRule(0, 0))
    assert state(queue, job) == ("disabled", 1)
    failed(queue, again(queue))
    assert restart_due(queue) == []


def test_what_is_due_goes_by_index(plan: Plan) -> None:
    steps = " / ".join(plan(autorestart.DUE, now=5, limit=9))
    assert "ix_job_autorestart" in steps
    assert "SEARCH other USING INDEX ix_job_video" in steps


def test_the_job_of_another_video_is_nothing_to_it(queue: Queue) -> None:
    job = failed(queue).job
    queue.job()
    queue.wait(60)
    assert restart_due(queue) == [job]


@pytest.mark.parametrize("status", [JobStatus.PENDING, JobStatus.IN_PROGRESS, JobStatus.PAUSED])
def test_beside_an_older_job_that_is_open_again_there_is_no_room(queue: Queue, status: JobStatus) -> None:
    video = queue.video()
    older = failed(queue, queue.claimed(video=video, max_attempts=1)).job
    failed(queue, queue.claimed(video=video, max_attempts=1, autorestart=TWICE))
    queue.wait(30)
    due = failed(queue).job
    queue.do(older, Operation.RETRY)
    if status is JobStatus.IN_PROGRESS:
        assert again(queue).job == older
    if status is JobStatus.PAUSED:
        queue.do(older, Operation.PAUSE)
    queue.wait(30)
    assert not autorestart.is_any_due(queue.db, now=queue.now)
    queue.wait(30)
    assert autorestart.restart_due(queue.db, now=queue.now, limit=1) == [due], "it takes no place either"


def test_what_may_not_start_again_takes_no_place_among_those_that_may(queue: Queue) -> None:
    done = queue.claimed(autorestart=AutorestartRule(2))
    queue.complete(done)
    queue.do(failed(queue).job, Operation.DELETE)
    due = failed(queue).job
    queue.wait(60)
    assert autorestart.restart_due(queue.db, now=queue.now, limit=1) == [due]


def test_restarts_that_a_new_rule_does_not_leave_are_not_made(queue: Queue) -> None:
    job = failed(queue).job
    queue.wait(60)
    assert restart_due(queue) == [job]
    failed(queue, again(queue))
    assert autorestart.set_rule(queue.db, job, AutorestartRule(1, TWICE.delay_s))
    queue.wait(10_000)
    assert restart_due(queue) == []


def test_a_new_rule_does_not_undo_a_denial(queue: Queue) -> None:
    lease = queue.claimed(autorestart=TWICE)
    queue.fail(lease, ErrorCode.NO_MEDIA)
    assert autorestart.set_rule(queue.db, lease.job, AutorestartRule(2, 5)), "the delay alone is a change"
    assert state(queue, lease.job) == ("denied", 0)


def test_a_failure_in_the_last_restart_that_is_tried_again_ends_nothing(queue: Queue) -> None:
    job = failed(queue, queue.claimed(max_attempts=2, autorestart=AutorestartRule(1, 0)), attempts=2).job
    assert restart_due(queue) == [job]
    assert queue.fail(again(queue), ErrorCode.ENCODER_EXIT) is JobStatus.PENDING
    assert state(queue, job) == ("in_progress", 1)


def test_a_delay_of_before_the_clock_was_set_back_is_over(queue: Queue) -> None:
    job = failed(queue).job
    queue.wait(-60)
    assert restart_due(queue) == [], "it may be the slower clock of another supervisor"
    queue.wait(-1e-6)
    assert restart_due(queue) == [job]
