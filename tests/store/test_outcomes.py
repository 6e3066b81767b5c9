"""How a lease ends, what is counted, and what a repeated call is answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tqstudio.engine.store.jobs import claims, progress
from tqstudio.engine.store.jobs.claims import HeldLease
from tqstudio.engine.store.jobs.progress import RenditionRow
from tqstudio.engine.store.jobs.retry_rules import DETERMINISTIC
from tqstudio.errors import ErrorClass, ErrorCode, class_of
from tqstudio.lifecycle import AutorestartRule, Control, JobStatus, Operation, Step

from .conftest import SECOND, Queue, token

P, D, F = JobStatus.PENDING, JobStatus.DONE, JobStatus.FAILED


def first_answer(queue: Queue, lease: HeldLease) -> JobStatus | None:
    return claims.first_answer(queue.db, token(lease))


def at_once(queue: Queue, lease: HeldLease) -> None:
    """Let a job that failed go again now."""
    queue.do(lease.job, Operation.PAUSE)
    queue.do(lease.job, Operation.RESUME)


def again(queue: Queue) -> HeldLease:
    lease = queue.claim()
    assert lease is not None
    return lease


@pytest.mark.parametrize("code", [code for code in ErrorCode if class_of(code) is ErrorClass.FATAL])
def test_a_fatal_error_fails_at_once_and_denies_autorestart(queue: Queue, code: ErrorCode) -> None:
    lease = queue.claimed(autorestart=AutorestartRule(3))
    assert queue.fail(lease, code, "no good") is F
    row = queue.row(lease.job)
    assert (row["status"], row["attempts"], row["exhausted"], row["autorestart"]) == (F, 0, 0, "denied")
    assert (row["error_code"], row["error_text"], row["error_hint"]) == (code, "no good", "mend it")
    assert (row["error_log"], row["completed_at"]) == ("1.log", queue.now)


def test_autorestart_that_was_never_on_is_not_denied(queue: Queue) -> None:
    lease = queue.claimed()
    queue.fail(lease, ErrorCode.NO_MEDIA)
    assert queue.row(lease.job)["autorestart"] == "disabled"


RETRYABLE = [each for each in ErrorCode if class_of(each) is ErrorClass.RETRYABLE]
COUNTED = [each for each in RETRYABLE if each is not ErrorCode.SOURCE_CHANGED]


@pytest.mark.parametrize("code", [c for c in ErrorCode if class_of(c) is ErrorClass.RESOURCE])
def test_a_shortage_costs_nothing(queue: Queue, code: ErrorCode) -> None:
    lease = queue.claimed(max_attempts=1)
    for _ in range(5):
        assert queue.fail(lease, code) is P
        row = queue.row(lease.job)
        assert (row["attempts"], row["crashes"], row["error_code"]) == (0, 0, code)
        assert row["not_before"] > queue.now
        at_once(queue, lease)
        lease = again(queue)


def test_a_changed_source_costs_no_attempt_until_it_has_changed_ten_times(queue: Queue) -> None:
    other = queue.claimed(queue.worker("other"))
    queue.fail(other, ErrorCode.SOURCE_CHANGED)
    lease = queue.claimed(max_attempts=1)
    for _ in range(2):
        for _ in range(9):
            assert queue.fail(lease, ErrorCode.SOURCE_CHANGED) is P
            row = queue.row(lease.job)
            assert (row["attempts"], row["crashes"], row["exhausted"]) == (0, 0, 0)
            assert row["not_before"] == queue.now + 15 * SECOND
            at_once(queue, lease)
            lease = again(queue)
        assert queue.fail(lease, ErrorCode.SOURCE_CHANGED) is F
        row = queue.row(lease.job)
        assert (row["attempts"], row["exhausted"], row["not_before"]) == (1, 1, None)
        assert row["error_hint"] == "make sure that no program writes to it any more, then retry"
        queue.do(lease.job, Operation.RETRY)
        lease = again(queue)


def test_other_failures_are_no_changes_of_the_source(queue: Queue) -> None:
    lease = queue.claimed()
    for _ in range(9):
        queue.fail(lease, ErrorCode.DISK_LOW)
        at_once(queue, lease)
        lease = again(queue)
    assert queue.fail(lease, ErrorCode.SOURCE_CHANGED) is P


def test_process_does_not_wait_for_a_source_that_changes(queue: Queue) -> None:
    lease = queue.claimed(batch="process-1")
    assert queue.fail(lease, ErrorCode.SOURCE_CHANGED) is F


@pytest.mark.parametrize("code", COUNTED)
def test_a_retryable_error_is_counted_until_the_attempts_are_used_up(queue: Queue, code: ErrorCode) -> None:
    lease = queue.claimed(autorestart=AutorestartRule(1))
    waits = []
    for attempts in (1, 2):
        assert queue.fail(lease, code, f"failure {attempts}") is P
        row = queue.row(lease.job)
        assert (row["attempts"], row["exhausted"], row["completed_at"]) == (attempts, 0, None)
        waits.append((row["not_before"] - queue.now) / SECOND)
        at_once(queue, lease)
        lease = again(queue)
    assert waits == [30, 60]
    assert queue.fail(lease, code) is F
    row = queue.row(lease.job)
    assert (row["attempts"], row["exhausted"], row["error_code"]) == (3, 1, code)
    assert row["autorestart"] == "enabled", "only a fatal error denies it"
    outcomes = [(a["outcome"], a["error_code"], a["answer"]) for a in queue.attempts(lease.job)]
    assert outcomes == [("failed", code, "pending")] * 2 + [("failed", code, "failed")]


@pytest.mark.fault(
    "An attempt fails exactly as the one before", "It is not tried a third time", area="workers"
)
@pytest.mark.parametrize("code", COUNTED)
def test_what_fails_twice_in_the_same_way_because_of_its_source_is_not_tried_again(
    queue: Queue, code: ErrorCode
) -> None:
    # What another job failed of does not count.
    queue.fail(queue.claimed(), code, "one reason")
    lease = queue.claimed(max_attempts=9, autorestart=AutorestartRule(1))
    for text in ("one reason", "another"):
        assert queue.fail(lease, code, text) is P
        at_once(queue, lease)
        lease = again(queue)
    deterministic = code in DETERMINISTIC
    assert queue.fail(lease, code, "another") is (F if deterministic else P)
    row = queue.row(lease.job)
    assert (row["attempts"], row["exhausted"]) == (3, 0)
    assert ("failed twice in the same way" in row["error_hint"]) == deterministic
    assert row["autorestart"] == "enabled", "a user has asked for it"


def test_what_failed_before_a_user_let_it_go_again_does_not_count(queue: Queue) -> None:
    lease = queue.claimed(autorestart=AutorestartRule(1))
    for _ in range(2):
        assert queue.fail(lease, ErrorCode.ENCODER_EXIT, "the same") is P
        queue.do(lease.job, Operation.CANCEL)
        queue.do(lease.job, Operation.RETRY)
        lease = again(queue)
    queue.lose(lease)
    lease = again(queue)
    assert queue.fail(lease, ErrorCode.ENCODER_EXIT, "the same") is P, "its worker was lost in between"


def test_a_long_error_is_cut(queue: Queue) -> None:
    lease = queue.claimed()
    queue.fail(lease, ErrorCode.NO_MEDIA, "é" * 2000)
    assert queue.row(lease.job)["error_text"] == "é" * 500
    assert len(queue.history(lease.job)[-1]["detail"]) <= 500


def test_a_job_that_kills_its_workers_is_poison(queue: Queue) -> None:
    lease = queue.claimed(autorestart=AutorestartRule(2))
    for crashes in (1, 2):
        assert queue.lose(lease, "killed by SIGSEGV") is P
        row = queue.row(lease.job)
        assert (row["crashes"], row["attempts"], row["error_code"]) == (crashes, 0, "WORKER_LOST")
        assert row["not_before"] is None, "another worker resumes at once"
        lease = again(queue)
    assert queue.lose(lease) is F
    row = queue.row(lease.job)
    assert (row["crashes"], row["error_code"], row["exhausted"]) == (3, "REPEATED_CRASHES", 1)
    assert row["autorestart"] == "denied"
    assert [a["outcome"] for a in queue.attempts(lease.job)] == ["lost"] * 3


def test_a_job_that_gets_further_outlives_its_workers(queue: Queue) -> None:
    lease = queue.claimed()
    for segments in (3, 4, 9, 10):
        assert save(queue, lease, renditions=[rendition(segments_done=segments)])
        assert queue.lose(lease) is P
        assert queue.row(lease.job)["crashes"] == 1, "the first since it finished a segment"
        lease = again(queue)
    assert save(queue, lease, renditions=[rendition(segments_done=2)])
    assert queue.lose(lease) is P, "what was lost is made again, and that is not further"
    assert queue.row(lease.job)["crashes"] == 2
    lease = again(queue)
    assert save(queue, lease, renditions=[rendition(segments_done=10)])
    assert queue.lose(lease) is F
    assert queue.row(lease.job)["error_code"] == "REPEATED_CRASHES"


@pytest.mark.fault(
    "Workers die again and again while the job advances",
    "Each finished segment or fragment resets the count of crashes; the job ends",
    area="resume",
)
def test_a_job_that_gets_further_within_a_segment_outlives_its_workers(queue: Queue) -> None:
    other, lease = queue.claimed(queue.worker("cpu-1")), queue.claimed()
    assert save(queue, other, resumed_at_s=100.0)
    for resumed_at_s, crashes in ((0.0, 1), (2.0, 2), (4.0, 2), (6.0, 2)):
        assert save(queue, lease, resumed_at_s=resumed_at_s, renditions=[rendition(segments_done=0)])
        assert queue.lose(lease) is P
        assert queue.row(lease.job)["crashes"] == crashes, f"resumed at {resumed_at_s} s"
        lease = again(queue)
    assert save(queue, lease, resumed_at_s=6.0, renditions=[rendition(segments_done=1)])
    assert queue.lose(lease) is P
    assert queue.row(lease.job)["crashes"] == 1, "a whole segment since the last"
    for resumed_at_s in (None, 4.0):
        lease = again(queue)
        assert save(queue, lease, resumed_at_s=resumed_at_s)
        ended = queue.lose(lease)
    assert ended is F, "what was lost is made again, and that is not further"
    assert queue.row(lease.job)["error_code"] == "REPEATED_CRASHES"


@pytest.mark.parametrize(
    ("code", "forgotten"), [(ErrorCode.SOURCE_CHANGED, False), (ErrorCode.ENCODER_EXIT, True)]
)
def test_where_nothing_can_be_used_the_count_of_what_is_made_begins_again(
    queue: Queue, code: ErrorCode, forgotten: bool
) -> None:
    lease = queue.claimed()
    assert save(queue, lease, progress=47.0, resumed_at_s=12.0, renditions=[rendition(segments_done=8)])
    assert queue.lose(lease) is P
    lease = again(queue)
    assert queue.fail(lease, code, forgotten=forgotten) is P
    row = queue.row(lease.job)
    made = (row["progress"], row["segments_at_crash"], row["resumed_at_crash_s"], row["crashes"])
    assert made == (0, 0, 0, 1)
    assert progress.renditions(queue.db, lease.job) == []
    at_once(queue, lease)
    for segments in (2, 4):
        lease = again(queue)
        assert save(queue, lease, renditions=[rendition(segments_done=segments)])
        assert queue.lose(lease) is P
        assert queue.row(lease.job)["crashes"] == 1, "it gets further with the new file"


def test_the_error_of_a_lost_worker_names_the_log_of_its_attempt(queue: Queue) -> None:
    lease = queue.claimed()
    queue.fail(lease, ErrorCode.ENCODER_EXIT)
    first = queue.row(lease.job)["error_log"]
    at_once(queue, lease)
    lease = again(queue)
    queue.lose(lease)
    assert (first, queue.row(lease.job)["error_log"]) == ("1.log", "2.log")


def test_the_segments_of_all_qualities_count(queue: Queue) -> None:
    lease = queue.claimed(max_crashes=2)
    save(queue, lease, renditions=[rendition(segments_done=3), rendition("180p", segments_done=1)])
    queue.lose(lease)
    lease = again(queue)
    save(queue, lease, renditions=[rendition(segments_done=3), rendition("180p", segments_done=2)])
    assert queue.lose(lease) is P


@pytest.mark.parametrize("operation", [Operation.RETRY, Operation.RESTART])
def test_a_job_sent_back_begins_to_count_again(queue: Queue, operation: Operation) -> None:
    lease = queue.claimed(max_crashes=2)
    save(queue, lease, renditions=[rendition(segments_done=9)])
    queue.lose(lease)
    queue.lose(again(queue))
    queue.do(lease.job, operation)
    for segments in (1, 2, 3):
        lease = again(queue)
        save(queue, lease, renditions=[rendition(segments_done=segments)])
        assert queue.lose(lease) is P
        assert queue.row(lease.job)["crashes"] == 1


def test_a_restart_forgets_how_far_the_job_was(queue: Queue) -> None:
    lease = queue.claimed()
    save(queue, lease, renditions=[rendition(segments_done=9)])
    queue.do(lease.job, Operation.PAUSE)
    assert queue.release(lease, Control.PAUSE) is JobStatus.PAUSED
    queue.do(lease.job, Operation.RESTART)
    lease = again(queue)
    assert queue.lose(lease) is P, "before it reported anything"
    for segments in (1, 2, 3):
        lease = again(queue)
        save(queue, lease, renditions=[rendition(segments_done=segments)])
        assert queue.lose(lease) is P, "it gets further, if not yet as far as before"


def test_attempts_and_crashes_are_counted_apart(queue: Queue) -> None:
    lease = queue.claimed(max_attempts=2, max_crashes=2)
    queue.lose(lease)
    lease = again(queue)
    assert queue.fail(lease, ErrorCode.STALLED) is P
    row = queue.row(lease.job)
    assert (row["attempts"], row["crashes"]) == (1, 1)


@pytest.mark.parametrize("times", [1, 4])
def test_a_release_is_not_counted(queue: Queue, times: int) -> None:
    lease = queue.claimed(max_attempts=1, max_crashes=1)
    for _ in range(times):
        assert queue.release(lease) is P
        row = queue.row(lease.job)
        assert (row["attempts"], row["crashes"], row["error_code"]) == (0, 0, None)
        assert queue.history(lease.job)[-1]["trigger"] == "aborted:shutdown"
        lease = again(queue)


def test_a_done_job_forgets_its_earlier_errors(queue: Queue) -> None:
    lease = queue.claimed()
    queue.lose(lease)
    lease = again(queue)
    queue.wait(5)
    assert queue.complete(lease)
    row = queue.row(lease.job)
    assert (row["status"], row["progress"], row["completed_at"]) == (D, 100, queue.now)
    assert (row["error_code"], row["error_text"], row["crashes"]) == (None, None, 1)
    assert (row["processed_by"], row["worker_id"], row["step"]) == ("cpu-0", None, None)


# Repeated calls


def test_a_repeated_complete_is_answered_as_the_first(queue: Queue) -> None:
    lease = queue.claimed()
    assert first_answer(queue, lease) is None
    queue.complete(lease)
    before = queue.row(lease.job)
    assert not queue.complete(lease)
    assert first_answer(queue, lease) is D
    assert queue.row(lease.job) == before


@pytest.mark.parametrize(("code", "answer"), [(ErrorCode.NO_MEDIA, F), (ErrorCode.STALLED, P)])
def test_a_repeated_fail_is_answered_as_the_first(queue: Queue, code: ErrorCode, answer: JobStatus) -> None:
    lease = queue.claimed()
    assert queue.fail(lease, code) is answer
    before = queue.row(lease.job)
    assert queue.fail(lease, code) is None
    assert first_answer(queue, lease) is answer
    assert queue.row(lease.job) == before


def test_the_first_answer_stands_when_the_job_has_moved_on(queue: Queue) -> None:
    lease = queue.claimed()
    queue.fail(lease, ErrorCode.NO_MEDIA)
    queue.do(lease.job, Operation.RETRY)
    assert again(queue).job == lease.job
    assert first_answer(queue, lease) is F


def test_what_a_lost_worker_says_late_is_not_heard(queue: Queue) -> None:
    lease = queue.claimed()
    queue.lose(lease)
    heir = again(queue)
    assert heir.job == lease.job
    before = queue.row(lease.job)
    assert not queue.complete(lease)
    assert queue.fail(lease, ErrorCode.NO_MEDIA) is None
    assert queue.release(lease, Control.PAUSE) is None
    assert queue.lose(lease) is None
    assert first_answer(queue, lease) is None
    assert save(queue, lease, progress=99) is None
    assert queue.row(lease.job) == before


def test_an_instance_cannot_ask_for_the_answer_of_another(queue: Queue) -> None:
    lease = queue.claimed()
    queue.complete(lease)
    other = claims.LeaseToken(lease.job, lease.epoch, "another")
    assert claims.first_answer(queue.db, other) is None


# Progress


def rendition(name: str = "360p", **changes: object) -> RenditionRow:
    values: dict[str, object] = dict.fromkeys(RenditionRow.__annotations__)
    values |= {"name": name, "status": "in_progress", "required": True, "progress": 55.0, "segments_done": 3}
    values |= {"kept": 50.0}
    return RenditionRow(**(values | changes))  # type: ignore[arg-type]


def save(queue: Queue, lease: HeldLease, **changes: object) -> float | None:
    report, at = progress.Report(step="transcode", progress=10.0), changes.pop("at", queue.now)
    return progress.save(queue.db, token(lease), replace(report, **changes), at=at)  # type: ignore[arg-type]


def test_progress_never_goes_back(queue: Queue) -> None:
    lease = queue.claimed()
    for reported, stored in ((10.0, 10), (60.5, 60.5), (20.0, 60.5)):
        assert save(queue, lease, progress=reported) == stored
        assert queue.row(lease.job)["progress"] == stored
    assert queue.row(lease.job)["step"] == "transcode"


def test_warnings_are_those_of_the_newest_report_that_has_any(queue: Queue) -> None:
    lease, one = queue.claimed(), {"code": "POSTER_MISSING", "text": "no poster was made"}
    for reported, stored in (([one], [one]), (None, [one]), ([], [])):
        assert save(queue, lease, warnings=reported) is not None
        assert json.loads(queue.row(lease.job)["warnings"]) == stored


def test_progress_goes_back_when_what_was_made_is_gone(queue: Queue) -> None:
    other, lease = queue.claimed(queue.worker("cpu-1")), queue.claimed()
    assert save(queue, other, renditions=[rendition(segments_done=50)])
    assert save(queue, lease, progress=90.0, renditions=[rendition(segments_done=9)])
    assert save(queue, lease, progress=40.0, renditions=[rendition(segments_done=9)])
    assert queue.row(lease.job)["progress"] == 90, "reports may be late"
    assert save(queue, lease, progress=10.0, renditions=[rendition(segments_done=1)]) == 10
    assert queue.row(lease.job)["progress"] == 10


def test_removed_work_is_reported_no_more(queue: Queue) -> None:
    """By all jobs of its video that could have resumed with it."""
    video = queue.video()

    def made(end: Callable[[HeldLease], object], of: int) -> int:
        lease = queue.claimed(video=of)
        whole, failed = rendition("720p", status="completed"), rendition("360p", status="failed", error="no")
        assert save(queue, lease, progress=40.0, renditions=[whole, failed])
        end(lease)
        return lease.job

    def fail(lease: HeldLease) -> None:
        queue.fail(lease, ErrorCode.NO_MEDIA)

    done = made(queue.complete, video)
    failed = made(fail, video)
    other = made(fail, queue.video())
    nothing = queue.job(video=video)
    queue.do(nothing, Operation.CANCEL)
    running = made(lambda _: None, video)
    left = {job: (queue.row(job), progress.renditions(queue.db, job)) for job in (done, other, running)}
    assert progress.forget_work(queue.db, video) == {failed: 6, nothing: 0}
    assert queue.row(failed)["progress"] == 0
    rows = [
        tuple(r[name] for name in ("name", "status", "progress", "segments_done", "error"))  # type: ignore[literal-required]
        for r in progress.renditions(queue.db, failed)
    ]
    assert rows == [("720p", "pending", 0, 0, None), ("360p", "failed", 0, 0, "no")]
    assert left == {job: (queue.row(job), progress.renditions(queue.db, job)) for job in left}


def test_what_a_report_leaves_out_stays(queue: Queue) -> None:
    lease = queue.claimed()
    found = {"resumed_from": 4, "resumed_at_s": 26.0}
    save(queue, lease, argv=[["ffmpeg", "-i", "x"]], **found, encoder="libx264", steps={"probe": 1.5})
    save(queue, lease, steps={"probe": 1.5, "transcode": 2.0})
    [attempt] = progress.attempts(queue.db, lease.job)
    assert attempt["argv"] == [["ffmpeg", "-i", "x"]]
    assert (attempt["resumed_from"], attempt["resumed_at_s"], attempt["encoder"]) == (4, 26.0, "libx264")
    assert attempt["steps"] == {"probe": 1.5, "transcode": 2.0}


def test_what_the_supervisor_did_of_a_step_is_added(queue: Queue) -> None:
    first = queue.claimed()
    save(queue, first, steps={"probe": 1.0})
    queue.release(first)
    lease = again(queue)
    save(queue, lease, steps={"transcode": 2.0, "finalize": 0.25})
    progress.lengthen(queue.db, token(lease), Step.FINALIZE, 1.5)
    progress.lengthen(queue.db, token(lease), Step.PROBE, 0.5)
    assert [attempt["steps"] for attempt in progress.attempts(queue.db, first.job)] == [
        {"probe": 1.0},
        {"transcode": 2.0, "finalize": 1.75, "probe": 0.5},
    ]


def test_renditions_in_their_order(queue: Queue) -> None:
    lease = queue.claimed()
    save(queue, lease, renditions=[rendition("720p"), rendition("360p", required=False)])
    save(queue, lease, renditions=[rendition("360p", progress=80.0, kept=70.0), rendition("720p")])
    found = progress.renditions(queue.db, lease.job)
    assert [(r["name"], r["kept"], r["required"]) for r in found] == [("360p", 70, True), ("720p", 50, True)]
    assert [r["progress"] for r in found] == [70, 50], "what is in the making will not be found again"
    progress.settle_renditions(queue.db, lease.job, running_becomes="pending", now=queue.now)
    assert {r["status"] for r in progress.renditions(queue.db, lease.job)} == {"pending"}
    progress.reset_renditions(queue.db, lease.job)
    assert progress.renditions(queue.db, lease.job) == []


def test_a_restart_begins_at_nothing(queue: Queue) -> None:
    lease = queue.claimed()
    assert lease.progress == 0
    save(queue, lease, progress=70.0)
    assert (found := claims.held(queue.db, token(lease))) is not None
    assert found.progress == 70
    queue.do(lease.job, Operation.RESTART)
    queue.release(lease, Control.RESTART)
    assert queue.row(lease.job)["progress"] == 0


def test_an_attempt_keeps_the_end_it_had(queue: Queue) -> None:
    first = queue.claimed()
    queue.release(first)
    queue.fail(again(queue), ErrorCode.NO_MEDIA)
    assert [attempt["outcome"] for attempt in queue.attempts(first.job)] == ["released", "failed"]


def test_the_answer_is_that_of_this_job_and_epoch(queue: Queue) -> None:
    who = queue.worker()
    queue.complete(queue.claimed(who))
    lease = queue.claimed(who)
    queue.release(lease)
    later = queue.claim(who)
    assert later is not None
    queue.fail(later, ErrorCode.NO_MEDIA)
    assert (first_answer(queue, lease), first_answer(queue, later)) == (P, F)


def test_only_the_segments_of_the_job_itself_count(queue: Queue) -> None:
    other = queue.claimed(queue.worker("cpu-1"))
    lease = queue.claimed(queue.worker("cpu-0"))
    for number in range(3):
        save(queue, other, renditions=[rendition(segments_done=number + 1)])
        queue.lose(lease)
        if queue.status(lease.job) is P:
            lease = again(queue)
    assert queue.status(lease.job) is F, "it got no further"


@pytest.mark.parametrize("wrong", [{"epoch": 2}, {"instance": "another"}, {"job": 4711}])
def test_a_report_with_half_a_token_is_not_stored(queue: Queue, wrong: dict[str, Any]) -> None:
    lease = queue.claimed()
    before = queue.row(lease.job)
    assert not save(queue, replace(lease, **wrong))
    assert queue.row(lease.job) == before


def test_a_report_after_the_lease_is_not_stored(queue: Queue) -> None:
    lease = queue.claimed()
    queue.release(lease)
    assert not save(queue, lease)


def test_a_report_belongs_to_its_own_attempt(queue: Queue) -> None:
    first = queue.claimed()
    save(queue, first, steps={"probe": 1.0})
    queue.release(first)
    save(queue, again(queue), steps={"probe": 2.0})
    assert [attempt["steps"] for attempt in progress.attempts(queue.db, first.job)] == [
        {"probe": 1.0},
        {"probe": 2.0},
    ]


def test_what_is_read_of_a_job_is_its_own(queue: Queue) -> None:
    for worker in ("cpu-0", "cpu-1"):
        lease = queue.claimed(queue.worker(worker))
        save(queue, lease, renditions=[rendition()])
        assert len(progress.renditions(queue.db, lease.job)) == 1
        assert len(progress.attempts(queue.db, lease.job)) == 1


def test_a_quality_that_is_done_stays_done(queue: Queue) -> None:
    lease = queue.claimed()
    save(queue, lease, renditions=[rendition("720p"), rendition("360p", status="completed")])
    progress.settle_renditions(queue.db, lease.job, running_becomes="pending", now=queue.now)
    assert [r["status"] for r in progress.renditions(queue.db, lease.job)] == ["pending", "completed"]


def _times(queue: Queue, job: int) -> tuple[int | None, int | None]:
    [row] = progress.renditions(queue.db, job)
    return row["started_at"], row["completed_at"]


def test_the_first_start_of_a_quality_stays_and_its_end_follows(queue: Queue) -> None:
    lease = queue.claimed()
    save(queue, lease, renditions=[rendition(started_at=5)])
    save(queue, lease, renditions=[rendition(started_at=5)])
    assert _times(queue, lease.job) == (5, None)
    queue.release(lease)
    second = again(queue)
    save(queue, second, renditions=[rendition(status="pending")])
    save(queue, second, renditions=[rendition(started_at=20)])
    assert _times(queue, lease.job) == (5, None)
    save(queue, second, renditions=[rendition(status="completed", started_at=20, completed_at=30)])
    assert _times(queue, lease.job) == (5, 30)
    queue.release(second)
    third = again(queue)
    save(queue, third, renditions=[rendition(status="completed")])
    assert _times(queue, lease.job) == (5, 30), "it was whole already"
    save(queue, third, renditions=[rendition(started_at=40)])
    assert _times(queue, lease.job) == (5, None), "what was made is gone"


def test_a_quality_found_whole_that_an_attempt_had_begun_was_done_by_then(queue: Queue) -> None:
    lease = queue.claimed()
    save(queue, lease, renditions=[rendition(started_at=5)])
    queue.release(lease)
    save(queue, again(queue), renditions=[rendition(status="completed")], at=50)
    assert _times(queue, lease.job) == (5, 50)


def test_a_quality_that_was_kept_has_no_times(queue: Queue) -> None:
    lease = queue.claimed()
    for _ in range(2):
        save(queue, lease, renditions=[rendition(status="completed")], at=50)
    assert _times(queue, lease.job) == (None, None)


@pytest.mark.parametrize(("becomes", "ended_at"), [("completed", 70), ("pending", None), ("failed", None)])
def test_a_quality_ends_with_its_job(queue: Queue, becomes: str, ended_at: int | None) -> None:
    lease = queue.claimed()
    save(queue, lease, renditions=[rendition(started_at=5)])
    progress.settle_renditions(queue.db, lease.job, running_becomes=becomes, now=70)
    assert _times(queue, lease.job) == (5, ended_at)


def test_a_restart_forgets_when_qualities_were_made(queue: Queue) -> None:
    lease = queue.claimed()
    save(queue, lease, renditions=[rendition(status="completed", started_at=5, completed_at=6)])
    queue.do(lease.job, Operation.PAUSE)
    queue.release(lease, Control.PAUSE)
    queue.do(lease.job, Operation.RESTART)
    save(queue, again(queue), renditions=[rendition(started_at=90)])
    assert _times(queue, lease.job) == (90, None)
