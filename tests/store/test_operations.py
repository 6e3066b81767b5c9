"""What people ask of jobs, on rows that are really in each status; and every way a job may move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tqstudio.engine.store.db.connection import Address
from tqstudio.engine.store.jobs import claims, jobs, operations, outcomes, progress, transitions, undo
from tqstudio.engine.store.jobs.claims import HeldLease
from tqstudio.engine.store.lists import records
from tqstudio.errors import ErrorCode
from tqstudio.events import EventKind
from tqstudio.lifecycle import (
    OPEN,
    TRANSITIONS,
    AutorestartRule,
    Control,
    Effect,
    JobKind,
    JobStatus,
    Operation,
    Transition,
    Trigger,
    Undoable,
    decide,
    sources_of,
)

from .conftest import NOW, TV, Queue, rolled_back, token
from .matrix import MATRIX, NAMES_OF

R, P, H, D, F, C = (
    JobStatus.IN_PROGRESS,
    JobStatus.PENDING,
    JobStatus.PAUSED,
    JobStatus.DONE,
    JobStatus.FAILED,
    JobStatus.CANCELLED,
)


def test_failures_that_nothing_came_after(queue: Queue) -> None:
    alone = queue.in_status(F)
    videos = [queue.video() for _ in range(3)]
    made_up, twice, given_up = (queue.job(video=video) for video in videos)
    for job in (made_up, twice, given_up):
        lease = queue.claim()
        assert lease is not None
        assert lease.job == job
        queue.fail(lease, ErrorCode.NO_MEDIA)
    later = [queue.job(video=video) for video in videos]
    queue.do(later[2], Operation.CANCEL)
    for end in (queue.complete, lambda lease: queue.fail(lease, ErrorCode.NO_MEDIA)):
        lease = queue.claim()
        assert lease is not None
        end(lease)
    deleted = queue.in_status(F)
    queue.do(deleted, Operation.DELETE)

    def failed(**more: Any) -> list[int]:
        return jobs.failed(queue.db, **{"after": 0, "batch": None, "limit": 9} | more)

    assert failed() == [alone, given_up, later[1]], "nothing made up for these, and each video has one"
    assert failed(after=alone, limit=1) == [given_up]
    assert failed(batch="none") == []
    assert jobs.with_status(queue.db, D, after=0, limit=9) == [later[0]]
    assert jobs.with_status(queue.db, F, after=made_up, limit=1) == [twice]


@pytest.mark.parametrize(("operation", "status"), list(MATRIX))
def test_the_matrix(queue: Queue, operation: Operation, status: JobStatus) -> None:
    job = queue.in_status(status)
    before, events = queue.row(job), len(queue.history())
    queue.wait(5)
    if operation is Operation.PRIORITY:
        applied = operations.set_priority(queue.db, job, value=7, delta=None, now=queue.now, actor="test")
        assert applied is not None
    else:
        applied = queue.do(job, operation)
    after = queue.row(job)
    assert applied.decision == decide(status, operation)
    assert (applied.status, applied.control) == (JobStatus(after["status"]), Control(after["control"]))
    changed = {key for key in after if after[key] != before[key]}
    match MATRIX[operation, status]:
        case "no":
            assert not applied.decision.allowed
            assert any(name in applied.decision.reason for name in NAMES_OF[status])
            assert not changed
            assert len(queue.history()) == events
        case "same" | "new" | "given":
            assert not changed
            assert len(queue.history()) == events
        case "asked":
            assert changed == {"control"}
            assert after["control"] == operation.value
            assert queue.history(job)[-1]["trigger"] == f"{operation}_requested"
        case "set":
            assert changed == {"priority"}
            assert queue.history(job)[-1]["detail"] == "priority 7"
        case "gone":
            assert changed == {"deleted_at"}
            assert queue.history(job)[-1]["trigger"] == "deleted"
        case target:
            assert after["status"] == target
            event = queue.history(job)[-1]
            assert (event["trigger"], event["source"], event["target"]) == (operation, status, target)
            assert len(queue.history()) == events + 1


@pytest.mark.parametrize("status", [s for s in JobStatus if s is not R])
def test_a_deleted_job_comes_back_as_it_was(queue: Queue, status: JobStatus) -> None:
    job = queue.in_status(status)
    before = queue.row(job)
    queue.do(job, Operation.DELETE)
    for operation in (Operation.PAUSE, Operation.RESUME, Operation.CANCEL, Operation.RETRY):
        applied = queue.do(job, operation)
        assert "is deleted; undelete it first" in applied.decision.reason
    assert queue.do(job, Operation.DELETE).decision.effect is Effect.NOTHING
    assert queue.claim() is None, "a deleted job is never handed out"
    assert queue.do(job, Operation.UNDELETE).decision.effect is Effect.NOW
    assert queue.row(job) == before
    assert queue.do(job, Operation.UNDELETE).decision.effect is Effect.NOTHING


def test_an_operation_on_nothing(queue: Queue) -> None:
    for operation in (Operation.PAUSE, Operation.DELETE, Operation.UNDELETE):
        assert operations.operate(queue.db, 4711, operation, now=NOW, actor="test") is None
    assert operations.set_priority(queue.db, 4711, value=1, delta=None, now=NOW, actor="test") is None


@pytest.mark.parametrize("operation", [Operation.RETRY, Operation.RESTART])
def test_a_video_gets_no_second_open_job(queue: Queue, operation: Operation) -> None:
    job = queue.in_status(F)
    other = queue.job(video=queue.row(job)["video_id"])
    before = queue.row(job)
    applied = queue.do(job, operation)
    assert f"job {other} has the same video; cancel that first" in applied.decision.reason
    assert queue.row(job) == before
    again = jobs.NewJob(video=before["video_id"], profile="web", profile_json="{}", prefer_gpu=False)
    assert jobs.create(queue.db, again, now=NOW, actor="test") is None


@pytest.mark.parametrize("operation", [Operation.RETRY, Operation.RESTART])
@pytest.mark.parametrize("status", [JobStatus.PENDING, JobStatus.PAUSED, JobStatus.IN_PROGRESS])
def test_an_open_job_keeps_an_ended_one_of_its_video_from_opening(
    queue: Queue, status: JobStatus, operation: Operation
) -> None:
    job = queue.in_status(F)
    other = queue.job(video=queue.row(job)["video_id"], priority=999, hold=status is JobStatus.PAUSED)
    if status is JobStatus.IN_PROGRESS:
        queue.claim()
    assert queue.status(other) is status
    queue.do(job, operation)
    assert queue.status(job) is JobStatus.FAILED


def test_a_deleted_open_job_does_not(queue: Queue) -> None:
    job = queue.in_status(F)
    queue.do(queue.job(video=queue.row(job)["video_id"]), Operation.DELETE)
    queue.do(job, Operation.RETRY)
    assert queue.status(job) is JobStatus.PENDING


def test_a_deleted_job_does_not_come_back_beside_another(queue: Queue) -> None:
    job = queue.job()
    queue.do(job, Operation.DELETE)
    other = queue.job(video=queue.row(job)["video_id"])
    applied = queue.do(job, Operation.UNDELETE)
    assert f"job {other} has the same video; cancel that first" in applied.decision.reason
    queue.do(other, Operation.CANCEL)
    assert queue.do(job, Operation.UNDELETE).decision.allowed


@pytest.mark.parametrize("operation", [Operation.RETRY, Operation.RESTART])
def test_a_user_gives_a_failed_job_all_its_chances_again(queue: Queue, operation: Operation) -> None:
    lease = queue.claimed(max_attempts=1, autorestart=AutorestartRule(2))
    assert queue.fail(lease, ErrorCode.ENCODER_EXIT) is F
    queue.do(lease.job, operation)
    row = queue.row(lease.job)
    assert (row["attempts"], row["crashes"], row["restarts"], row["exhausted"]) == (0, 0, 0, 0)
    assert (row["error_code"], row["completed_at"], row["autorestart"]) == (None, None, "enabled")


def test_priority_is_shifted_within_bounds(queue: Queue) -> None:
    job = queue.job(priority=990)
    for delta, wanted in ((20, 1000), (-5, 995), (-3000, -1000)):
        operations.set_priority(queue.db, job, value=None, delta=delta, now=NOW, actor="test")
        assert queue.row(job)["priority"] == wanted


# What was asked while a job ran, and who answered first.


@pytest.mark.parametrize(
    ("asked", "control", "status"),
    [
        ((Operation.PAUSE,), "pause", H),
        ((Operation.CANCEL,), "cancel", C),
        ((Operation.RESTART,), "restart", P),
        ((Operation.PAUSE, Operation.CANCEL), "cancel", C),
        ((Operation.RESTART, Operation.CANCEL), "cancel", C),
        ((Operation.CANCEL, Operation.PAUSE), "cancel", C),
        ((Operation.CANCEL, Operation.RESUME), "cancel", C),
        ((Operation.PAUSE, Operation.RESTART), "restart", P),
        ((Operation.PAUSE, Operation.RESUME), "none", P),
        ((Operation.PAUSE, Operation.RESUME, Operation.PAUSE), "pause", H),
    ],
)
@pytest.mark.parametrize("end", ["release", "fail", "lose", "requeue"])
def test_a_control_request_is_fulfilled_however_the_worker_ends(
    queue: Queue, asked: tuple[Operation, ...], control: str, status: JobStatus, end: str
) -> None:
    lease = queue.claimed()
    for operation in asked:
        queue.do(lease.job, operation)
    row = queue.row(lease.job)
    assert (row["status"], row["control"]) == (R, control)
    match end:
        case "release":
            answer = queue.release(lease, Control.PAUSE)
        case "fail":
            answer = queue.fail(lease, ErrorCode.ENCODER_SIGNAL)
        case "lose":
            answer = queue.lose(lease)
        case _:
            [fresh] = [held for held in _running(queue) if held.job == lease.job]
            answer = outcomes.requeue(queue.db, fresh, now=queue.now, why="gone")
    row = queue.row(lease.job)
    assert answer is status
    assert (row["status"], row["control"], row["instance"], row["step"]) == (status, "none", None, None)
    if control != "none":
        assert (row["attempts"], row["crashes"]) == (0, 0), "what a user asked costs nothing"


def _running(queue: Queue) -> list[HeldLease]:
    return claims.granted(queue.db, queue.supervisor)


def test_a_control_request_can_be_overtaken_by_the_end(queue: Queue) -> None:
    lease = queue.claimed()
    queue.do(lease.job, Operation.CANCEL)
    assert queue.complete(lease)
    assert queue.row(lease.job)["control"] == "none"
    assert queue.status(lease.job) is D


# Every transition, and no other.


def _moves(queue: Queue) -> dict[tuple[Trigger, JobStatus | None], Callable[[], int]]:
    """How each change of the lifecycle's table comes about through the store; each answers the job."""

    def asked(status: JobStatus, operation: Operation) -> Callable[[], int]:
        def act() -> int:
            job = queue.in_status(status)
            queue.do(job, operation)
            return job

        return act

    def ended(by: Callable[[HeldLease], object], **more: int) -> Callable[[], int]:
        def act() -> int:
            lease = queue.claimed(**more)
            by(lease)
            return lease.job

        return act

    def requested(operation: Operation) -> Callable[[], int]:
        def act() -> int:
            lease = queue.claimed()
            queue.do(lease.job, operation)
            queue.release(lease)
            return lease.job

        return act

    def autorestarted() -> int:
        job = queue.in_status(F)
        assert transitions.move(queue.db, job, EventKind.AUTORESTART, now=queue.now, actor="test")
        return job

    def uncancelled(status: JobStatus) -> Callable[[], int]:
        def act() -> int:
            job = queue.in_status(status)
            before = undo.states(queue.db, [job])
            queue.do(job, Operation.CANCEL)
            steps = undo.changed(queue.db, before)
            undo.put_back(queue.db, Undoable.CANCEL, steps, now=queue.now, actor="test")
            return job

        return act

    return {
        (EventKind.UNCANCEL, C): uncancelled(P),
        (EventKind.UNCANCEL_PAUSED, C): uncancelled(H),
        (EventKind.UNCANCEL_FAILED, C): uncancelled(F),
        (EventKind.CREATE, None): queue.job,
        (EventKind.CREATE_HELD, None): lambda: queue.job(hold=True),
        (EventKind.CLAIM, P): lambda: queue.claimed().job,
        (EventKind.PAUSE, P): asked(P, Operation.PAUSE),
        (EventKind.PAUSE, R): requested(Operation.PAUSE),
        (EventKind.RESUME, H): asked(H, Operation.RESUME),
        (EventKind.CANCEL, P): asked(P, Operation.CANCEL),
        (EventKind.CANCEL, H): asked(H, Operation.CANCEL),
        (EventKind.CANCEL, F): asked(F, Operation.CANCEL),
        (EventKind.CANCEL, R): requested(Operation.CANCEL),
        (EventKind.RETRY, F): asked(F, Operation.RETRY),
        (EventKind.RETRY, C): asked(C, Operation.RETRY),
        (EventKind.RESTART, R): requested(Operation.RESTART),
        (EventKind.RESTART, H): asked(H, Operation.RESTART),
        (EventKind.RESTART, F): asked(F, Operation.RESTART),
        (EventKind.RESTART, C): asked(C, Operation.RESTART),
        (EventKind.COMPLETE, R): ended(queue.complete),
        (EventKind.FAIL_RETRYABLE, R): ended(lambda lease: queue.fail(lease, ErrorCode.STALLED)),
        (EventKind.FAIL_FINAL, R): ended(lambda lease: queue.fail(lease, ErrorCode.NO_MEDIA)),
        (EventKind.WORKER_LOST, R): ended(queue.lose),
        (EventKind.RELEASE, R): ended(queue.release),
        (EventKind.AUTORESTART, F): autorestarted,
    }


@pytest.mark.parametrize("transition", TRANSITIONS, ids=lambda t: f"{t.source}-{t.trigger}-{t.target}")
def test_every_transition_can_be_made(queue: Queue, transition: Transition) -> None:
    job = _moves(queue)[transition.trigger, transition.source]()
    assert queue.status(job) is transition.target
    event = queue.history(job)[-1]
    assert (event["source"], event["target"]) == (transition.source, transition.target)
    trigger = "aborted:shutdown" if transition.trigger is EventKind.RELEASE else transition.trigger
    assert event["trigger"] == trigger


MOVES = [t for t in get_args(Trigger) if t not in (EventKind.CREATE, EventKind.CREATE_HELD, EventKind.CLAIM)]
"""What `move` makes; the others have statements of their own."""


@pytest.mark.parametrize("trigger", MOVES)
def test_a_deleted_job_is_not_moved(queue: Queue, trigger: Trigger) -> None:
    for status in sources_of(trigger):
        job = queue.in_status(status)
        queue.db.execute("UPDATE job SET deleted_at = 1 WHERE id = :id", {"id": job})
        assert not transitions.move(queue.db, job, trigger, now=queue.now, actor="test")
        assert queue.status(job) is status


@pytest.mark.parametrize("status", list(JobStatus))
@pytest.mark.parametrize("trigger", MOVES)
def test_no_other_transition_can_be_made(queue: Queue, trigger: Trigger, status: JobStatus) -> None:
    if status in sources_of(trigger):
        return
    job = queue.in_status(status)
    before, events = queue.row(job), len(queue.history())
    assert not transitions.move(queue.db, job, trigger, now=queue.now, actor="test")
    assert queue.row(job) == before
    assert len(queue.history()) == events


def test_nothing_moves_a_job_that_is_not_there(queue: Queue) -> None:
    assert not transitions.move(queue.db, 4711, EventKind.PAUSE, now=NOW, actor="test")


_KNOWN = {(t.source, t.target) for t in TRANSITIONS}


class Lives(RuleBasedStateMachine):
    """Jobs in the hands of workers and people that do anything at any time."""

    job_ids = Bundle("job_ids")
    leases = Bundle("leases")
    address: Address

    def __init__(self) -> None:
        super().__init__()
        self._context = rolled_back(self.address)
        self.queue = self._context.__enter__()
        self.worker = self.queue.worker()

    def teardown(self) -> None:
        self._context.__exit__(None, None, None)

    @rule(target=job_ids, hold=st.booleans(), priority=st.integers(-2, 2))
    def add(self, hold: bool, priority: int) -> int:
        return self.queue.job(hold=hold, priority=priority, max_attempts=2, max_crashes=2)

    @rule(job=job_ids, operation=st.sampled_from([o for o in Operation if o is not Operation.PRIORITY]))
    def ask(self, job: int, operation: Operation) -> None:
        self.queue.do(job, operation)

    @rule(target=leases)
    def claim(self) -> HeldLease | None:
        held = next(iter(_running(self.queue)), None)
        lease = self.queue.claim(self.worker)
        if held is not None:
            assert lease is not None
            assert (lease.job, lease.epoch) == (held.job, held.epoch)
        return lease

    @rule(lease=leases, code=st.sampled_from([ErrorCode.NO_MEDIA, ErrorCode.STALLED, ErrorCode.DISK_LOW]))
    def fail(self, lease: HeldLease | None, code: ErrorCode) -> None:
        if lease is not None:
            self.queue.fail(lease, code)

    @rule(lease=leases)
    def complete(self, lease: HeldLease | None) -> None:
        if lease is not None:
            self.queue.complete(lease)

    @rule(lease=leases, reason=st.sampled_from([None, Control.PAUSE, Control.CANCEL]))
    def release(self, lease: HeldLease | None, reason: Control | None) -> None:
        if lease is not None:
            self.queue.release(lease, reason)

    @rule(lease=leases)
    def lose(self, lease: HeldLease | None) -> None:
        if lease is not None:
            self.queue.lose(lease)

    @rule(seconds=st.sampled_from([1, 40, 700]))
    def wait(self, seconds: int) -> None:
        self.queue.wait(seconds)
        self.queue.promote()

    @invariant()
    def the_history_reports_every_status(self) -> None:
        reported: dict[int, str] = {}
        for event in self.queue.history():
            job, source, target = event["job_id"], event["source"], event["target"]
            if job is None or target is None:
                continue
            if event["trigger"] not in ("deleted", "undeleted"):
                assert reported.get(job) == source
                assert (source and JobStatus(source), JobStatus(target)) in _KNOWN
            reported[job] = target
        stored = self.queue.db.execute("SELECT id, status FROM job")
        assert reported == {row[0]: row[1] for row in stored}

    @invariant()
    def at_most_one_attempt_is_running(self) -> None:
        running = self.queue.db.execute(
            "SELECT (SELECT count(*) FROM attempt WHERE outcome = 'running'),"
            " (SELECT count(*) FROM job WHERE status = 'in_progress')"
        ).one()
        assert running[0] == running[1] <= 1

    @invariant()
    def only_a_pending_job_waits_for_a_time(self) -> None:
        found = self.queue.db.execute("SELECT status FROM job WHERE not_before IS NOT NULL")
        assert {row[0] for row in found} <= {P}

    @invariant()
    def counts_are_true(self) -> None:
        assert_counts_are_true(self.queue)


def assert_counts_are_true(queue: Queue) -> None:
    real = dict.fromkeys((status.value for status in JobStatus), 0)
    rows = queue.db.execute("SELECT status, count(*) FROM job WHERE deleted_at IS NULL GROUP BY status")
    real |= {row[0]: row[1] for row in rows}
    kept = queue.db.execute("SELECT status, n FROM job_count")
    assert {row[0]: row[1] for row in kept} == real


def test_lives(address: Address) -> None:
    machine = type("TheLives", (Lives,), {"address": address})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_a_token_speaks_for_one_epoch(queue: Queue) -> None:
    first = queue.claimed()
    queue.release(first)
    second = queue.claim()
    assert second is not None
    assert (second.job, second.epoch) == (first.job, first.epoch + 1)
    assert not queue.complete(first)
    assert queue.fail(first, ErrorCode.NO_MEDIA) is None
    assert token(first) != token(second)
    assert queue.status(first.job) is R


@pytest.mark.parametrize("status", sorted(OPEN))
def test_an_open_job_is_found_whatever_it_does(queue: Queue, status: JobStatus) -> None:
    job = queue.in_status(status)
    video = queue.row(job)["video_id"]
    assert jobs.open_job_of(queue.db, video) == job
    assert jobs.newest_job_of(queue.db, video) == (job, status)


@pytest.mark.parametrize("status", sorted(OPEN))
def test_an_older_job_that_is_open_again_counts_before_a_newer_failure(
    queue: Queue, status: JobStatus
) -> None:
    older = queue.in_status(F)
    video = queue.row(older)["video_id"]
    queue.fail(queue.claimed(queue.worker("cpu-9"), video=video), ErrorCode.NO_MEDIA)
    queue.do(older, Operation.RETRY)
    if status is H:
        queue.do(older, Operation.PAUSE)
    if status is R:
        queue.claim()
    assert jobs.newest_job_of(queue.db, video) == (older, status)


def test_a_deleted_success_makes_up_for_nothing(queue: Queue) -> None:
    failed = queue.in_status(F)
    lease = queue.claimed(video=queue.row(failed)["video_id"])
    queue.complete(lease)
    assert jobs.failed(queue.db, after=0, batch=None, limit=9) == []
    queue.do(lease.job, Operation.DELETE)
    assert jobs.failed(queue.db, after=0, batch=None, limit=9) == [failed]


def test_a_deleted_job_is_not_among_those_of_its_status(queue: Queue) -> None:
    deleted, kept = queue.in_status(F), queue.in_status(F)
    queue.do(deleted, Operation.DELETE)
    assert jobs.with_status(queue.db, F, after=0, limit=9) == [kept]


@pytest.mark.parametrize("status", list(JobStatus))
def test_only_what_waits_is_made_otherwise(queue: Queue, status: JobStatus) -> None:
    job = queue.in_status(status)
    queue.db.execute("UPDATE job SET kind = 'changed' WHERE id = :id", {"id": job})

    def changes() -> list[bool]:
        return [
            jobs.set_settings(queue.db, job, TV, now=NOW, actor="test"),
            jobs.encode_all(queue.db, job, now=NOW, actor="test"),
        ]

    assert changes() == [status in (P, H)] * 2
    if status in (P, H):
        queue.do(job, Operation.DELETE)
        queue.db.execute("UPDATE job SET kind = 'changed' WHERE id = :id", {"id": job})
        assert changes() == [False, False], "it is deleted"


def test_other_settings_keep_what_is_named(queue: Queue) -> None:
    job, other = (queue.claimed(queue.worker(f"worker {number}")).job for number in range(2))
    for each in (job, other):
        for position, name in enumerate(("720p", "480p", "360p")):
            values = {"job": each, "name": name, "position": position}
            queue.db.execute(
                "INSERT INTO rendition (job_id, name, position, status, required, progress, segments_done)"
                " VALUES (:job, :name, :position, 'pending', 1, 50, 3)",
                values,
            )
    queue.release(claims.granted(queue.db, queue.supervisor)[0])
    new = replace(TV, requested=("480p",), dropped=("audio-en",), kind=JobKind.CHANGED, priority=9)
    assert jobs.set_settings(queue.db, job, new, keep=["480p", "360p"], now=queue.now, actor="test")
    names = [[row["name"] for row in progress.renditions(queue.db, each)] for each in (job, other)]
    assert names == [["480p", "360p"], ["720p", "480p", "360p"]]
    spec = jobs.spec_of(queue.db, job)
    assert (spec.profile, spec.prefer_gpu, spec.requested, spec.dropped) == (
        "tv",
        True,
        ("480p",),
        ("audio-en",),
    )
    assert (spec.kind, spec.priority) == (JobKind.NEW, 999), "these are not of the settings"
    assert queue.history(job)[-1]["detail"] == "profile tv, 480p"


@pytest.mark.parametrize(
    ("requested", "dropped", "kind", "changes"),
    [
        (None, (), JobKind.NEW, False),
        (("360p",), (), JobKind.NEW, True),
        (None, (), JobKind.CHANGED, True),
        (None, (), JobKind.RETRANSCODE, False),
        (None, ("360p",), JobKind.RETRANSCODE, True),
    ],
)
def test_what_makes_all_already_is_left_alone(
    queue: Queue, requested: tuple[str, ...] | None, dropped: tuple[str, ...], kind: JobKind, changes: bool
) -> None:
    other, job = queue.job(kind=JobKind.CHANGED), queue.job(kind=kind, requested=requested, dropped=dropped)
    assert jobs.spec_of(queue.db, job).encodes_all is not changes
    assert jobs.encode_all(queue.db, job, now=NOW, actor="test") == changes
    assert jobs.spec_of(queue.db, job).encodes_all
    assert not jobs.spec_of(queue.db, other).encodes_all


@pytest.mark.parametrize("status", list(JobStatus))
def test_only_a_pending_job_joins_a_newer_batch(queue: Queue, status: JobStatus) -> None:
    job = queue.in_status(status)
    jobs.join_batch(queue.db, job, "newer")
    assert queue.row(job)["batch"] == ("newer" if status is P else None)


@pytest.mark.parametrize("status", list(JobStatus))
def test_an_open_job_of_the_same_file_for_another_output_is_found(queue: Queue, status: JobStatus) -> None:
    job = queue.in_status(status)
    queue.job()
    [source] = queue.db.execute(
        "SELECT source FROM video WHERE id = :id", {"id": queue.row(job)["video_id"]}
    ).one()
    assert jobs.open_job_elsewhere(queue.db, source, b"/other") == (job if status in OPEN else None)
    assert jobs.open_job_elsewhere(queue.db, source, b"/out") is None
    assert jobs.open_job_elsewhere(queue.db, b"/in/other", b"/other") is None
    if status in (P, H):
        queue.do(job, Operation.DELETE)
        assert jobs.open_job_elsewhere(queue.db, source, b"/other") is None


def test_work_ends_with_the_last_job_that_can_still_run(queue: Queue) -> None:
    video = queue.video()
    queue.job()
    assert jobs.work_ended_at(queue.db, video) == 0
    job = queue.job(video=video)
    queue.wait(5)
    queue.do(job, Operation.DELETE)
    assert jobs.work_ended_at(queue.db, video) == queue.now
    for status in JobStatus:
        job = queue.in_status(status)
        ended = jobs.work_ended_at(queue.db, queue.row(job)["video_id"])
        assert ended == (None if status in OPEN else queue.now), status


def test_a_job_on_the_list_may_be_retried(queue: Queue) -> None:
    other = queue.in_status(JobStatus.FAILED)
    for status in JobStatus:
        job = queue.in_status(status)
        video = queue.row(job)["video_id"]
        retried = status in (JobStatus.FAILED, JobStatus.CANCELLED)
        assert jobs.may_be_retried(queue.db, video) is retried, status
        if status is not JobStatus.IN_PROGRESS:
            queue.do(job, Operation.DELETE)
            assert not jobs.may_be_retried(queue.db, video)
    assert jobs.may_be_retried(queue.db, queue.row(other)["video_id"])


def test_a_restart_is_owed_until_what_was_made_is_removed(queue: Queue) -> None:
    waiting, restarted = queue.in_status(H), queue.in_status(H)
    queue.do(restarted, Operation.RESTART)
    assert [jobs.starts_over(queue.db, job) for job in (waiting, restarted)] == [False, True]
    jobs.has_started_over(queue.db, waiting)
    assert jobs.starts_over(queue.db, restarted), "another's"
    jobs.has_started_over(queue.db, restarted)
    assert not jobs.starts_over(queue.db, restarted)


def test_a_batch_is_its_own_jobs_without_the_deleted(queue: Queue) -> None:
    left, deleted = queue.job(batch="one"), queue.job(batch="one")
    queue.job(batch="two")
    queue.do(deleted, Operation.DELETE)
    assert records.batch_counts(queue.db, "one") == {"pending": 1}
    queue.do(left, Operation.DELETE)
    assert records.batch_counts(queue.db, "one") == {}
    assert records.batch_counts(queue.db, "three") is None


def test_a_job_is_shown_with_its_own_video(queue: Queue) -> None:
    made = [queue.job(video=queue.video(f"{number}.mp4")) for number in range(3)]
    assert [record["name"] for record in records.by_ids(queue.db, made[::-1])] == ["2.mp4", "1.mp4", "0.mp4"]
    assert records.one(queue.db, 4711) is None


def test_what_is_noted_with_a_job_is_its_own(queue: Queue) -> None:
    first, second = queue.job(), queue.job()
    jobs.set_metadata(queue.db, second, {"client": "acme"})
    assert jobs.metadata_of(queue.db, first) == {}
    assert jobs.metadata_of(queue.db, second) == {"client": "acme"}


def test_a_waiting_job_may_fail_and_crash_more_often(queue: Queue) -> None:
    job, other = queue.job(), queue.job()
    assert jobs.set_limits(queue.db, job, {"max_attempts": 5, "max_crashes": 3}) == {"max_attempts": 5}
    assert (queue.row(job)["max_attempts"], queue.row(job)["max_crashes"]) == (5, 3)
    assert queue.row(other)["max_attempts"] == 3
    assert jobs.set_limits(queue.db, job, {"max_attempts": 5}) == {}
    held = queue.in_status(JobStatus.PAUSED)
    assert jobs.set_limits(queue.db, held, {"max_attempts": 7}) == {"max_attempts": 7}
    assert jobs.set_limits(queue.db, held, {"max_attempts": 7, "max_crashes": 8}) == {"max_crashes": 8}


def test_what_a_job_has_used_up_stays_allowed(queue: Queue) -> None:
    lease = queue.claimed()
    assert jobs.set_limits(queue.db, lease.job, {"max_crashes": 9}) == {}, "it runs"
    queue.fail(lease, ErrorCode.ENCODER_EXIT)
    assert queue.row(lease.job)["attempts"] == 1
    assert jobs.set_limits(queue.db, lease.job, {"max_attempts": 1, "max_crashes": 1}) == {
        "max_attempts": 1,
        "max_crashes": 1,
    }
    deleted = queue.job()
    queue.do(deleted, Operation.CANCEL)
    assert jobs.set_limits(queue.db, deleted, {"max_attempts": 9}) == {}, "it has ended"
    deleted = queue.job()
    queue.db.execute(f"UPDATE job SET deleted_at = 1 WHERE id = {deleted}")
    assert jobs.set_limits(queue.db, deleted, {"max_attempts": 9}) == {}, "it is deleted"


@pytest.mark.parametrize("column", ["attempts", "crashes"])
def test_limits_are_not_below_what_was_used(queue: Queue, column: str) -> None:
    job = queue.job()
    queue.db.execute(f"UPDATE job SET {column} = 2 WHERE id = {job}")
    assert jobs.set_limits(queue.db, job, {f"max_{column}": 1}) == {f"max_{column}": 2}
