"""Which failures count against a worker, when it is tested, and when it takes no more."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tqstudio.engine.store.jobs.claims import Claimant, HeldLease
from tqstudio.engine.store.machine import quarantine, workers
from tqstudio.engine.store.machine.quarantine import BLAMES
from tqstudio.errors import ErrorClass, ErrorCode, class_of

from .conftest import Queue


def fail(queue: Queue, who: Claimant, code: ErrorCode = ErrorCode.ENCODER_EXIT, **more: int) -> HeldLease:
    lease = queue.claimed(who, **more)
    queue.fail(lease, code)
    blame(queue, lease, code)
    return lease


def blame(queue: Queue, lease: HeldLease, code: ErrorCode = ErrorCode.ENCODER_EXIT, after: int = 3) -> bool:
    return quarantine.failed(queue.db, lease.job, lease.epoch, code, after=after, now=queue.now)


def reason(queue: Queue, who: Claimant) -> str | None:
    row = workers.by_id(queue.db, who.id)
    assert row is not None
    return row.quarantine_reason


def needs_test(queue: Queue, who: Claimant) -> bool:
    row = workers.by_id(queue.db, who.id)
    assert row is not None
    return row.needs_test


def report(queue: Queue, who: Claimant, problem: str) -> bool:
    return quarantine.tested(queue.db, who.id, instance=who.instance, problem=problem, now=queue.now)


def test_three_different_jobs_in_a_row_have_to_be_explained_by_a_test_encode(queue: Queue) -> None:
    who, other = queue.worker("cpu-0"), queue.worker("cpu-1")
    failed = [fail(queue, who).job for _ in range(3)]
    queue.job()
    assert queue.claim(who) is None, "not before it is tested"
    assert (needs_test(queue, who), needs_test(queue, other)) == (True, False)
    assert not report(queue, replace(who, instance="an earlier life"), ""), (
        "its result says nothing of this one"
    )
    assert report(queue, who, "")
    [event] = [e for e in queue.history() if e["trigger"] == "worker_tested"]
    assert (event["worker"], str(failed)[1:-1] in event["detail"]) == ("cpu-0", True)
    assert not report(queue, who, "late"), "it was not asked again"
    assert (reason(queue, who), needs_test(queue, who)) == (None, False)
    lease = queue.claim(who)
    assert lease is not None, "bad files stop no worker"
    queue.fail(lease, ErrorCode.NO_MEDIA)
    for _ in range(2):
        fail(queue, who)
    assert not needs_test(queue, who), "it counts from the test"


def test_one_that_fails_its_test_encode_takes_no_more(queue: Queue) -> None:
    who, other = queue.worker("cpu-0"), queue.worker("cpu-1")
    failed = [fail(queue, who).job for _ in range(3)]
    assert report(queue, who, "no driver")
    expected = "it failed 3 different jobs in a row and a test encode: no driver"
    assert reason(queue, who) == expected
    [event] = [e for e in queue.history() if e["trigger"] == "worker_quarantined"]
    assert (event["worker"], event["detail"]) == ("cpu-0", f"{expected} (jobs {str(failed)[1:-1]})")
    queue.job()
    assert queue.claim(who) is None, "it takes no more"
    assert not needs_test(queue, who)
    assert queue.claim(other) is not None, "another one does"


@pytest.mark.parametrize("intent", [{"enabled": False}, {"draining": True}])
def test_one_that_may_not_work_is_not_tested(queue: Queue, intent: dict[str, bool]) -> None:
    who = queue.worker()
    for _ in range(3):
        fail(queue, who)
    workers.set_intent(queue.db, who.name, **intent, now=queue.now)
    assert not needs_test(queue, who)


def quarantined(queue: Queue, who: Claimant) -> None:
    for _ in range(3):
        fail(queue, who)
    assert report(queue, who, "no driver")


def test_one_bad_file_stops_no_worker(queue: Queue) -> None:
    """Two bad files that are tried in turn are two jobs, however often."""
    who = queue.worker()
    leases = [queue.claimed(who, max_attempts=9), None]
    one = leases[0]
    assert one is not None
    queue.fail(one, ErrorCode.ENCODER_EXIT)
    two = queue.claimed(who, max_attempts=9)
    for _ in range(5):
        assert not blame(queue, one)
        assert not blame(queue, two)
    assert not needs_test(queue, who)


def test_a_job_that_is_done_shows_that_it_is_sound(queue: Queue) -> None:
    who = queue.worker()
    for _ in range(2):
        fail(queue, who)
    queue.complete(queue.claimed(who))
    for _ in range(2):
        fail(queue, who)
    assert not needs_test(queue, who)
    fail(queue, who)
    assert needs_test(queue, who)


def test_a_publish_that_is_finished_late_shows_it_too(queue: Queue) -> None:
    who = queue.worker()
    for _ in range(3):
        fail(queue, who)
    quarantine.succeeded(queue.db, who.id)
    assert not needs_test(queue, who)


@pytest.mark.parametrize("code", [code for code in ErrorCode if class_of(code) is not ErrorClass.REQUEST])
def test_what_is_wrong_with_a_source_a_setting_or_the_disk_does_not_count(
    queue: Queue, code: ErrorCode
) -> None:
    lease = queue.claimed()
    assert blame(queue, lease, code, after=1) == (code in BLAMES)
    if code.value.startswith("SOURCE_") or code in (
        ErrorCode.NO_MEDIA,
        ErrorCode.PERMISSION,
        ErrorCode.BAD_CONFIG,
        ErrorCode.UNSUPPORTED,
        ErrorCode.DISK_LOW,
        ErrorCode.GPU_BUSY,
        ErrorCode.PUBLISH_FAILED,
        ErrorCode.OUTPUT_UNAVAILABLE,
        ErrorCode.SYSTEM_LIMIT,
        ErrorCode.IO_ERROR,
    ):
        assert code not in BLAMES


def test_never_is_never(queue: Queue) -> None:
    assert not blame(queue, queue.claimed(), after=0)


def test_a_user_lifts_it_and_a_new_life_does_not(queue: Queue) -> None:
    who = queue.worker()
    quarantined(queue, who)
    again = queue.worker(instance="another life")
    queue.job()
    assert queue.claim(again) is None
    workers.set_intent(queue.db, who.name, draining=True, now=queue.now)
    workers.set_intent(queue.db, who.name, enabled=False, now=queue.now)
    assert reason(queue, who) is not None
    workers.set_intent(queue.db, who.name, enabled=True, draining=False, now=queue.now)
    assert reason(queue, who) is None
    assert queue.claim(again) is not None
    row = queue.db.execute("SELECT failed_jobs, quarantined_at, suspected_at FROM worker").one()
    assert (json.loads(row[0]), *row[1:]) == ([], None, None)


def test_a_user_spares_it_the_test_and_a_new_life_does_not(queue: Queue) -> None:
    who = queue.worker()
    for _ in range(3):
        fail(queue, who)
    again = queue.worker(instance="another life")
    assert needs_test(queue, again)
    workers.set_intent(queue.db, who.name, enabled=True, now=queue.now)
    assert not needs_test(queue, again)


def test_a_failure_is_held_against_the_worker_of_its_own_lease(queue: Queue) -> None:
    one, two, three = (queue.worker(f"cpu-{number}") for number in range(3))
    lease = queue.claimed(one)
    queue.release(lease)
    assert queue.claim(two) is not None
    queue.claimed(three)
    assert quarantine.failed(queue.db, lease.job, 1, ErrorCode.STALLED, after=1, now=queue.now)
    assert [needs_test(queue, who) for who in (one, two, three)] == [True, False, False]
    assert quarantine.failed(queue.db, lease.job, 2, ErrorCode.STALLED, after=1, now=queue.now)
    assert [needs_test(queue, who) for who in (one, two, three)] == [True, True, False]


def test_what_one_worker_gets_done_says_nothing_of_another(queue: Queue) -> None:
    bad, good = queue.worker("cpu-0"), queue.worker("cpu-1")
    for _ in range(3):
        queue.complete(queue.claimed(good))
        fail(queue, bad)
    assert needs_test(queue, bad)


def test_a_test_says_nothing_of_another_worker(queue: Queue) -> None:
    one, two = queue.worker("cpu-0"), queue.worker("cpu-1")
    for who in (one, two):
        for _ in range(3):
            fail(queue, who)
    assert report(queue, one, "no driver")
    assert (reason(queue, two), needs_test(queue, two)) == (None, True)
    assert report(queue, two, "")
    assert reason(queue, one) is not None
