"""Which job a worker gets, and what its lease is worth."""

from __future__ import annotations

import pytest
from sqlalchemy import ClauseElement

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs import claims, jobs, operations, progress
from tqstudio.engine.store.jobs.assignments import Assignment, assignment_of
from tqstudio.engine.store.jobs.claims import CANDIDATES, GPU_CANDIDATES, HeldLease, LeaseToken
from tqstudio.engine.store.library import crfs, folders, videos
from tqstudio.engine.store.machine import gates, workers
from tqstudio.errors import ErrorCode
from tqstudio.lifecycle import GateKind, JobKind, JobStatus, Operation
from tqstudio.protocol.worker_answers import DecidedCrf

from .conftest import NOW, SECOND, Plan, Queue, token
from .test_folders import folder


@pytest.mark.parametrize(("statement", "heads"), [(CANDIDATES, 2), (GPU_CANDIDATES, 1)])
def test_a_claim_reads_its_index_and_sorts_nothing(plan: Plan, statement: ClauseElement, heads: int) -> None:
    steps = plan(statement, gpu_jobs=3)
    reads = [step for step in steps if "job" in step]
    assert len(reads) == heads
    assert all("INDEX ix_job_ready (prefer_gpu=?)" in step for step in reads)
    assert not any("TEMP B-TREE" in step for step in steps)


def test_the_order_is_priority_then_age_then_id(queue: Queue) -> None:
    a, b = queue.job(), queue.job()
    queue.wait(1)
    c = queue.job()
    d = queue.job(priority=5)
    queue.wait(-10)
    e = queue.job()
    queue.wait(20)
    got = [queue.claim(queue.worker(f"w{n}")) for n in range(6)]
    assert [lease and lease.job for lease in got] == [d, e, a, b, c, None]


def test_a_worker_is_its_row_not_only_its_process(queue: Queue) -> None:
    queue.job()
    off, on = queue.worker("a", instance="both"), queue.worker("b", instance="both")
    workers.set_intent(queue.db, "a", enabled=False, now=queue.now)
    assert queue.claim(off) is None
    assert queue.claim(on) is not None


def test_a_priority_counts_while_queued(queue: Queue) -> None:
    queue.job()
    late = queue.job()
    operations.set_priority(queue.db, late, value=1, delta=None, now=queue.now, actor="test")
    assert queue.claim().job == late  # type: ignore[union-attr]


def test_a_claim_gives_everything(queue: Queue) -> None:
    job, who = queue.job(), queue.worker()
    queue.wait(3)
    lease = queue.claim(who)
    assert lease is not None
    assert (lease.job, lease.epoch, lease.worker_id) == (job, 1, who.id)
    row = queue.row(job)
    assert (row["status"], row["instance"], row["processed_by"]) == ("in_progress", who.instance, "cpu-0")
    assert row["claimed_at"] == row["started_at"] == row["last_progress_at"] == queue.now
    assert row["supervisor_id"] == queue.supervisor
    assert row["attempts"] == row["crashes"] == 0, "a claim counts nothing"
    [attempt] = queue.attempts(job)
    assert (attempt["number"], attempt["epoch"], attempt["outcome"], attempt["log"]) == (
        1,
        1,
        "running",
        "1.log",
    )
    event = queue.history(job)[-1]
    assert (event["trigger"], event["worker"], event["actor"]) == ("claim", "cpu-0", "cpu-0")


def test_the_first_start_is_kept(queue: Queue) -> None:
    lease = queue.claimed()
    started = queue.row(lease.job)["started_at"]
    queue.release(lease)
    queue.wait(100)
    again = queue.claim()
    assert again is not None
    row = queue.row(lease.job)
    assert (row["started_at"], row["claimed_at"]) == (started, queue.now)
    assert [a["number"] for a in queue.attempts(lease.job)] == [1, 2]


def test_an_answer_that_was_lost_is_given_again(queue: Queue) -> None:
    who = queue.worker()
    queue.job(), queue.job()
    first = queue.claim(who)
    queue.wait(30)
    events = len(queue.history())
    second = queue.claim(who)
    assert first is not None
    assert second is not None
    assert token(second) == token(first)
    assert len(queue.history()) == events
    assert len(queue.attempts(first.job)) == 1


def test_a_lease_is_not_sent_to_another_worker(queue: Queue) -> None:
    mine = queue.worker("cpu-0", instance="the same name")
    other = queue.worker("cpu-1", instance="the same name")
    first = queue.claimed(mine)
    assert queue.claim(other) is None
    assert queue.status(first.job) is JobStatus.IN_PROGRESS


def test_an_expired_lease_is_not_given_again(queue: Queue) -> None:
    who = queue.worker()
    lease = queue.claimed(who)
    assert queue.claim(who, expired={token(lease)}) is None
    assert queue.status(lease.job) is JobStatus.IN_PROGRESS, "until it is taken back"
    job = queue.job()
    other = queue.claim(who, expired={token(lease)})
    assert other is not None
    assert (other.job, other.epoch) == (job, 1)


def test_a_life_that_ended_gets_nothing(queue: Queue) -> None:
    who = queue.worker()
    queue.job()
    workers.ended(queue.db, who.id, instance=who.instance, now=queue.now, why="killed")
    assert queue.claim(who) is None
    reborn = queue.worker(instance="a new life")
    assert queue.claim(who) is None
    assert queue.claim(reborn) is not None


def test_the_end_of_an_old_life_does_not_end_the_new_one(queue: Queue) -> None:
    old = queue.worker(instance="the old life")
    queue.worker(instance="the new life")
    workers.ended(queue.db, old.id, instance=old.instance, now=queue.now, why="killed")
    row = workers.by_id(queue.db, old.id)
    assert row is not None
    assert row.instance == "the new life"


def test_a_new_life_does_not_inherit_the_lease_of_an_old_one(queue: Queue) -> None:
    lease = queue.claimed(queue.worker(instance="the old life"))
    other = queue.job()
    again = queue.claim(queue.worker(instance="the new life"))
    assert again is not None
    assert (again.job, again.epoch) == (other, 1)
    assert queue.row(lease.job)["instance"] == "the old life"


def test_a_deleted_job_is_not_next(queue: Queue) -> None:
    deleted, kept = queue.job(), queue.job()
    queue.do(deleted, Operation.DELETE)
    assert claims.head(queue.db) == kept
    assert not claims.is_ready(queue.db, deleted)
    lease = queue.claim()
    assert lease is not None
    assert lease.job == kept


@pytest.mark.parametrize("gpu", [False, True])
def test_what_cannot_be_claimed_is_not_next(queue: Queue, gpu: bool) -> None:
    running, waiting = queue.job(gpu=gpu), queue.job(gpu=gpu)
    assert (lease := queue.claim(grace_s=0)) is not None
    assert lease.job == running
    failed = queue.claim(queue.worker("cpu-1"), grace_s=0)
    assert failed is not None
    assert failed.job == waiting
    queue.fail(failed, ErrorCode.ENCODER_EXIT)
    queue.do(queue.job(gpu=gpu), Operation.DELETE)
    kept = queue.job(gpu=gpu)
    assert claims.head(queue.db) == kept
    got = queue.claim(queue.worker("cpu-1"), grace_s=0)
    assert got is not None
    assert got.job == kept


def test_an_assignment_says_what_to_make_of_which_file(queue: Queue) -> None:
    queue.claimed()
    video = queue.video("clip.mp4")
    job = queue.job(video=video, kind=JobKind.RETRANSCODE, requested=("720p",), dropped=("360p",))
    videos.set_facts(queue.db, video, {"height": 720}, quick_hash="abc")
    videos.set_full_hash(queue.db, video, "of all")
    decided: DecidedCrf = {"settings_hash": "a", "encoder": "x", "crf": 20, "vmaf": None, "remark": ""}
    crfs.add(queue.db, video, [decided])
    known = videos.get(queue.db, video)
    assert known is not None
    assert assignment_of(queue.db, job) == Assignment(
        attempt=0,
        kind=JobKind.RETRANSCODE,
        profile_json="{}",
        requested=("720p",),
        dropped=("360p",),
        source=known.source,
        folder=None,
        refuses_sound=False,
        size=known.size,
        mtime_ns=known.mtime_ns,
        quick_hash="abc",
        full_hash="of all",
        facts={"height": 720},
        crfs=[decided],
        output_root=known.output_root,
        slug=known.slug,
        generation=None,
        starts_over=False,
    )
    queue.do(job, Operation.PAUSE)
    queue.do(job, Operation.RESTART)
    assert assignment_of(queue.db, job).starts_over


def test_an_assignment_names_the_drop_folder_of_its_file(queue: Queue) -> None:
    theirs, ours = folder(queue, b"/other"), folder(queue, b"/in")
    mine, other = queue.video(), queue.video()
    videos.adopt(queue.db, mine, ours)
    videos.adopt(queue.db, other, theirs)
    job = queue.job(video=mine)
    assert assignment_of(queue.db, job).folder == b"/in"
    folders.remove(queue.db, ours, now=NOW)
    assert assignment_of(queue.db, job).folder is None


@pytest.mark.parametrize(
    ("rule", "from_folder", "refuses"),
    [("skip", True, True), ("skip", False, False), ("encode", True, False)],
)
def test_an_assignment_says_whether_its_drop_folder_refuses_sound(
    queue: Queue, rule: str, from_folder: bool, refuses: bool
) -> None:
    other, ours = folder(queue, b"/other"), folder(queue, b"/in")
    folders.change(queue.db, ours, {"audio": rule}, now=NOW)
    folders.change(queue.db, other, {"audio": "encode" if refuses else "skip"}, now=NOW)
    mine = queue.video()
    videos.adopt(queue.db, mine, ours)
    queue.job(video=queue.video(), from_folder=not from_folder)
    job = queue.job(video=mine, from_folder=from_folder)
    assert assignment_of(queue.db, job).refuses_sound is refuses


def test_attempts_are_counted_whatever_ended_the_one_before(queue: Queue) -> None:
    queue.complete(queue.claimed())
    lease: HeldLease | None = queue.claimed()
    for number, end in enumerate((queue.release, queue.lose, queue.release), 1):
        assert lease is not None
        [*_, attempt] = progress.attempts(queue.db, lease.job)
        assert assignment_of(queue.db, lease.job).attempt == attempt["number"] == number
        assert end(lease) is not None
        lease = queue.claim()


def test_the_head_is_what_a_worker_would_get(queue: Queue) -> None:
    assert claims.head(queue.db) is None
    queue.fail(queue.claimed(), ErrorCode.ENCODER_EXIT)
    queue.claimed()
    assert claims.head(queue.db) is None, "one waits for its time, one runs"
    assert not any(claims.is_ready(queue.db, job) for job in (1, 2, 99))
    assert claims.is_ready(queue.db, queue.job())
    first = queue.job(priority=1, gpu=True)
    assert claims.head(queue.db) == first


@pytest.mark.parametrize(
    "change", ["status = 'paused'", f"not_before = {NOW + SECOND}", f"deleted_at = {NOW}"]
)
def test_a_claim_takes_only_what_can_still_be_claimed_then(queue: Queue, change: str) -> None:
    """Whoever is asked whether a job fits may change the queue."""
    job = queue.job()

    def fits(db: Connection, candidate: int) -> bool:
        db.execute(f"UPDATE job SET {change} WHERE id = :id", {"id": candidate})
        return True

    who = queue.worker()
    lease = claims.claim(
        queue.db,
        who,
        supervisor=queue.supervisor,
        now=queue.now,
        idle_gpus=0,
        gpu_grace_us=0,
        fits=fits,
    )
    assert lease is None
    assert queue.row(job)["epoch"] == 0


def test_attempts_are_numbered_by_job(queue: Queue) -> None:
    queue.claimed(queue.worker("cpu-0"))
    lease = queue.claimed(queue.worker("cpu-1"))
    assert [attempt["number"] for attempt in queue.attempts(lease.job)] == [1]


@pytest.mark.parametrize("intent", [{"enabled": False}, {"draining": True}])
def test_who_shall_not_work_gets_nothing(queue: Queue, intent: dict[str, bool]) -> None:
    who = queue.worker()
    job = queue.job()
    workers.set_intent(queue.db, who.name, now=queue.now, **intent)
    assert queue.claim(who) is None
    workers.set_intent(queue.db, who.name, enabled=True, draining=False, now=queue.now)
    assert queue.claim(who).job == job  # type: ignore[union-attr]


def test_intent_outlives_a_process_and_beats(queue: Queue) -> None:
    who = queue.worker()
    workers.set_intent(queue.db, who.name, enabled=False, now=queue.now)
    workers.store_heartbeats(queue.db, [(who.id, who.instance, queue.now)])
    reborn = queue.worker(instance="a new life")
    row = workers.by_id(queue.db, reborn.id)
    assert row is not None
    assert not row.enabled


@pytest.mark.parametrize("kind", list(GateKind))
def test_a_shut_gate_stops_claims_and_changes_no_job(queue: Queue, kind: GateKind) -> None:
    who, job = queue.worker(), queue.job()
    before = queue.row(job)
    assert gates.shut(queue.db, kind, "because", now=queue.now, actor="test")
    assert not gates.shut(queue.db, kind, "again", now=queue.now, actor="test")
    assert queue.claim(who) is None
    assert queue.row(job) == before
    assert gates.reopen(queue.db, kind, now=queue.now, actor="test")
    assert not gates.reopen(queue.db, kind, now=queue.now, actor="test")
    assert queue.claim(who).job == job  # type: ignore[union-attr]
    assert [e["trigger"] for e in queue.history() if e["code"] == kind] == ["gate_closed", "gate_opened"]


def test_a_gate_does_not_hide_a_lost_answer(queue: Queue) -> None:
    who = queue.worker()
    first = queue.claimed(who)
    gates.shut(queue.db, GateKind.USER, "paused", now=queue.now, actor="test")
    again = queue.claim(who)
    assert again is not None
    assert token(again) == token(first)


# GPU first


@pytest.fixture
def cpu(queue: Queue) -> claims.Claimant:
    return queue.worker("cpu-0")


@pytest.fixture
def gpu(queue: Queue) -> claims.Claimant:
    return queue.worker("gpu-0", "gpu")


def test_a_gpu_takes_only_what_prefers_it(queue: Queue, gpu: claims.Claimant) -> None:
    queue.job(priority=9)
    assert queue.claim(gpu) is None
    wanted = queue.job(gpu=True)
    assert queue.claim(gpu).job == wanted  # type: ignore[union-attr]


def test_without_an_idle_gpu_a_cpu_takes_the_first_job(queue: Queue, cpu: claims.Claimant) -> None:
    first = queue.job(gpu=True)
    queue.job()
    assert queue.claim(cpu).job == first  # type: ignore[union-attr]


def test_an_idle_gpu_keeps_a_cpu_off_its_job_and_no_other(queue: Queue, cpu: claims.Claimant) -> None:
    queue.job(gpu=True, priority=9)
    behind = queue.job()
    assert queue.claim(cpu, idle_gpus=1).job == behind  # type: ignore[union-attr]


def test_a_cpu_takes_the_gpu_jobs_behind_those_the_idle_gpus_take(queue: Queue, cpu: claims.Claimant) -> None:
    for _ in range(2):
        queue.job(gpu=True, priority=9)
    third = queue.job(gpu=True, priority=9)
    queue.job()
    assert queue.claim(cpu, idle_gpus=2).job == third  # type: ignore[union-attr]
    other = queue.worker("cpu-1")
    assert queue.claim(other, idle_gpus=3).job > third  # type: ignore[union-attr]


def test_a_gpu_job_is_not_kept_for_ever(queue: Queue, cpu: claims.Claimant) -> None:
    job = queue.job(gpu=True)
    queue.wait(59)
    assert queue.claim(cpu, idle_gpus=1) is None
    queue.wait(1)
    assert queue.claim(cpu, idle_gpus=1).job == job  # type: ignore[union-attr]


def test_the_wait_for_a_gpu_begins_when_a_job_becomes_claimable(queue: Queue, cpu: claims.Claimant) -> None:
    job = queue.job(gpu=True, hold=True)
    queue.wait(3600)
    queue.do(job, Operation.RESUME)
    queue.wait(30)
    assert queue.claim(cpu, idle_gpus=1) is None
    queue.wait(30)
    assert queue.claim(cpu, idle_gpus=1).job == job  # type: ignore[union-attr]


def test_no_grace_means_no_wait(queue: Queue, cpu: claims.Claimant) -> None:
    job = queue.job(gpu=True)
    assert queue.claim(cpu, idle_gpus=1, grace_s=0).job == job  # type: ignore[union-attr]


# Leases


@pytest.mark.parametrize("wrong", [{"epoch": 2}, {"instance": "another"}, {"job": 4711}])
def test_only_the_whole_token_counts(queue: Queue, wrong: dict[str, object]) -> None:
    lease = queue.claimed()
    good = {"job": lease.job, "epoch": lease.epoch, "instance": lease.instance}
    assert claims.held(queue.db, LeaseToken(**good)) is not None  # type: ignore[arg-type]
    assert claims.held(queue.db, LeaseToken(**(good | wrong))) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_a_claim_knows_how_long_its_job_was_claimable(queue: Queue, kind: str) -> None:
    who = queue.worker(f"{kind}-0", kind)
    queue.job(gpu=kind == "gpu")
    queue.now += 3 * SECOND
    lease = queue.claim(who)
    assert lease is not None
    assert lease.waited_us == 3 * SECOND
    again = queue.claim(who)
    assert again == lease
    assert again.waited_us is None, "it is counted once"
    queue.now += 100 * SECOND
    queue.release(lease)
    queue.now += SECOND
    lease = queue.claim(who)
    assert lease is not None
    assert lease.waited_us == SECOND, "not the time in which it ran"


def test_the_leases_of_a_process_are_found(queue: Queue) -> None:
    first, second = queue.claimed(queue.worker("cpu-0")), queue.claimed(queue.worker("cpu-1"))
    assert claims.granted(queue.db, queue.supervisor) == [first, second]
    assert [lease.job for lease in claims.of_instance(queue.db, second.instance)] == [second.job]
    assert queue.release(first) is JobStatus.PENDING
    assert claims.granted(queue.db, queue.supervisor) == [second]
    assert claims.held(queue.db, token(first)) is None


# Backoff


def is_any_due(queue: Queue) -> bool:
    return jobs.is_any_due(queue.db, now=queue.now, longest_us=660 * SECOND)


def test_a_job_in_backoff_waits_for_its_promotion(queue: Queue) -> None:
    lease = queue.claimed()
    queue.fail(lease, ErrorCode.ENCODER_EXIT)
    due = queue.row(lease.job)["not_before"]
    assert due == queue.now + 30 * SECOND
    queue.wait(29)
    assert not is_any_due(queue)
    assert queue.promote() == 0
    queue.wait(1)
    assert queue.claim() is None, "due, but not promoted"
    assert is_any_due(queue)
    assert queue.promote() == 1
    assert not is_any_due(queue)
    again = queue.claim()
    assert again is not None
    assert again.job == lease.job
    assert again.attempts == 1


def test_the_longest_backoff_is_waited_out(queue: Queue) -> None:
    lease = queue.claimed()
    queue.fail(lease, ErrorCode.ENCODER_EXIT)
    assert jobs.promote_due(queue.db, now=queue.now, longest_us=30 * SECOND) == 0
    assert jobs.promote_due(queue.db, now=queue.now, longest_us=30 * SECOND - 1) == 1


def test_no_backoff_outlasts_a_clock_that_was_set_back(queue: Queue) -> None:
    def waiting() -> int:
        lease = queue.claimed()
        queue.fail(lease, ErrorCode.ENCODER_EXIT)
        return lease.job

    long, paused = waiting(), waiting()
    queue.do(paused, Operation.PAUSE)
    queue.wait(-630)
    assert not is_any_due(queue), "it may have been set to wait so long"
    short, other = waiting(), queue.row(queue.job())
    queue.wait(-1)
    assert is_any_due(queue)
    assert queue.promote() == 1
    row = queue.row(long)
    assert (row["not_before"], row["ready_at"]) == (None, queue.now)
    assert queue.row(short)["not_before"] == queue.now + 31 * SECOND
    assert queue.status(paused) is JobStatus.PAUSED
    assert queue.row(other["id"]) == other
    assert not is_any_due(queue)


def test_a_paused_job_leaves_its_backoff(queue: Queue) -> None:
    lease = queue.claimed()
    queue.fail(lease, ErrorCode.ENCODER_EXIT)
    queue.do(lease.job, Operation.PAUSE)
    queue.do(lease.job, Operation.RESUME)
    assert queue.claim().job == lease.job  # type: ignore[union-attr]


def test_only_the_gate_that_is_named_gets_another_end(queue: Queue) -> None:
    for kind in (GateKind.USER, GateKind.HOURS):
        gates.shut(queue.db, kind, "because", now=queue.now, actor="test", until=7)

    def change(reason: str, until: int | None) -> None:
        gates.open_until(
            queue.db, GateKind.USER, reason=reason, until=until, now=queue.now, actor=f"to {until}"
        )

    for until in (7, None, None, 9, 9):
        change("because", until)
    for until in (9, 9):
        change("lunch", until)
    changes = [(event["actor"], event["detail"]) for event in queue.history()][2:]
    assert changes == [("to None", "because"), ("to 9", "because"), ("to 9", "lunch")]
    found = {row.kind: (row.reason, row.until, row.since) for row in gates.listing(queue.db)}
    assert found == {GateKind.USER: ("lunch", 9, queue.now), GateKind.HOURS: ("because", 7, queue.now)}
