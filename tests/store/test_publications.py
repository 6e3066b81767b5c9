"""Intents to publish, what is left over of them, and what disk and gates ask of the queue."""

from __future__ import annotations

from dataclasses import replace

from tqstudio.engine.store.db import integrity
from tqstudio.engine.store.jobs.claims import HeldLease
from tqstudio.engine.store.jobs.transitions import job_facts
from tqstudio.engine.store.library import publications
from tqstudio.engine.store.library.publications import PublicationRow
from tqstudio.engine.store.machine import gates
from tqstudio.lifecycle import GateKind

from .conftest import NOW, Queue, supervisor_of
from .test_folders import folder
from .test_videos import record


def begin(queue: Queue, lease: HeldLease, number: int = 1, *, worker: str = "cpu-0") -> PublicationRow:
    row = PublicationRow(
        job=lease.job,
        epoch=lease.epoch,
        instance=lease.instance,
        worker=worker,
        video=lease.video,
        number=number,
        slug="clip",
        manifest="{}",
        full_hash=None,
    )
    publications.begin(queue.db, row, now=NOW)
    return row


def test_an_intent_is_that_of_its_job_and_video(queue: Queue) -> None:
    names = ("cpu-0", "cpu-1")
    rows = [begin(queue, queue.claimed(queue.worker(name)), worker=name) for name in names]
    for row in rows:
        assert publications.of_job(queue.db, row.job) == row
        assert publications.of_video(queue.db, row.video) == [row]


def test_only_an_intent_whose_lease_has_ended_is_left_over(queue: Queue) -> None:
    lease = queue.claimed(queue.worker("cpu-0"))
    row = replace(begin(queue, lease), instance=None)
    begin(queue, queue.claimed(queue.worker("cpu-1")))
    assert publications.abandoned(queue.db) == []
    queue.release(lease)
    assert publications.abandoned(queue.db) == [row]
    assert queue.claim(queue.worker("cpu-0", instance="a new life")) is not None
    assert publications.abandoned(queue.db) == [row], "another lease does not finish it"
    assert publications.of_job(queue.db, lease.job) == row
    assert publications.of_video(queue.db, lease.video) == [row]


def test_a_publish_is_seen_under_its_lease_alone(queue: Queue) -> None:
    lease, other = queue.claimed(queue.worker("cpu-0")), queue.claimed(queue.worker("cpu-1"))
    begin(queue, lease)
    facts, of_other = job_facts(queue.db, lease.job), job_facts(queue.db, other.job)
    assert facts is not None
    assert of_other is not None
    assert (facts.publishes, of_other.publishes) == (True, False)
    assert facts.is_held_by(lease.token)
    assert not facts.is_held_by(other.token)
    queue.release(lease)
    assert queue.claim(queue.worker("cpu-0", instance="a new life")) is not None
    facts = job_facts(queue.db, lease.job)
    assert facts is not None
    assert not facts.publishes, "this lease has not begun one"


def test_room_is_asked_for_by_the_job_and_by_what_runs(queue: Queue) -> None:
    folder(queue, b"/of no job")
    waiting = [queue.job(video=queue.video(f"waits-{number}.mp4")) for number in range(3)]
    lease = queue.claimed()
    need, [running] = gates.need_of(queue.db, waiting[1]), gates.running_needs(queue.db)
    assert need is not None
    assert (need.job, need.name) == (waiting[1], "waits-1.mp4")
    assert (running.job, running.video) == (lease.job, lease.video)
    assert gates.need_of(queue.db, lease.job) == running
    assert running.folder is None
    assert gates.running_needs(queue.db, beside=lease.job) == []
    assert gates.running_needs(queue.db, beside=waiting[1]) == [running]


def test_outputs_at_work_are_those_that_are_written_to_or_waited_for(queue: Queue) -> None:
    queue.job(video=queue.video("next.mp4", out=b"/waits"))
    assert gates.outputs_in_use(queue.db) == set()
    assert queue.claimed(video=queue.video("now.mp4", out=b"/runs"))
    gates.shut(queue.db, GateKind.USER, "why", now=NOW, actor="test")
    gates.shut(queue.db, GateKind.DISK, "why", now=NOW, actor="test", path=b"/holds")
    assert gates.outputs_in_use(queue.db) == {b"/runs", b"/holds"}


def test_what_was_made_at_an_output_is_what_was_begun_and_what_plays(queue: Queue) -> None:
    names = ("waits.mp4", "c.mp4", "a.mp4", "b.mp4")
    first, *_ = [queue.job(video=queue.video(name, out=b"/out")) for name in names]
    elsewhere = queue.job(video=queue.video("begun.mp4", out=b"/begun"))
    queue.db.execute("UPDATE job SET progress = 1 WHERE id = :id", {"id": elsewhere})
    assert gates.work_at(queue.db, b"/out") == (False, [])
    queue.db.execute("UPDATE job SET progress = 1 WHERE id = :id", {"id": first})
    assert gates.work_at(queue.db, b"/out") == (True, [])
    queue.db.execute("UPDATE job SET status = 'done' WHERE id = :id", {"id": first})
    assert gates.work_at(queue.db, b"/out") == (False, []), "its ladder is looked for, if it has one"
    queue.db.execute("UPDATE job SET status = 'pending' WHERE id = :id", {"id": first})
    assert gates.work_at(queue.db, b"/other") == (False, [])
    queue.db.execute("UPDATE job SET progress = 0")
    plays = "UPDATE video SET generation_id = id, slug = substr(name, 1, 1) WHERE name <> 'waits.mp4'"
    queue.db.execute(plays)
    assert gates.work_at(queue.db, b"/out") == (False, ["a", "b", "c"])
    assert gates.work_at(queue.db, b"/out", limit=2) == (False, ["a", "b"])
    assert gates.work_at(queue.db, b"/other") == (False, [])


def test_gates_are_distinguished(queue: Queue) -> None:
    for kind in (GateKind.USER, GateKind.DISK):
        assert gates.shut(queue.db, kind, "why", now=NOW, actor="test")
        assert not gates.shut(queue.db, kind, "why", now=NOW, actor="test")
    assert gates.reopen(queue.db, GateKind.USER, now=NOW, actor="test")
    assert not gates.reopen(queue.db, GateKind.USER, now=NOW, actor="test")
    assert [gate.kind for gate in gates.listing(queue.db)] == [GateKind.DISK]


# What doctor asks


def test_a_lease_runs_under_its_epoch(queue: Queue) -> None:
    lease = queue.claimed(queue.worker("cpu-0"))
    waiting = queue.job()
    assert integrity.runs(queue.db, lease.job, lease.epoch)
    assert not integrity.runs(queue.db, lease.job, lease.epoch + 1)
    assert not integrity.runs(queue.db, waiting, lease.epoch)
    queue.release(lease)
    assert not integrity.runs(queue.db, lease.job, lease.epoch)


def test_the_numbers_of_a_video_are_those_that_may_be_on_disk(queue: Queue) -> None:
    lease = queue.claimed(video=queue.video(slug="a"))
    queue.video(slug="a", out=b"/there")
    first, _ = record(queue, lease.video, 1), record(queue, lease.video, 2)
    queue.db.execute("UPDATE generation SET removed_at = 1 WHERE id = :id", {"id": first})
    begin(queue, lease, 3)
    other = queue.claimed(queue.worker("cpu-1"), video=queue.video(slug="b"))
    record(queue, other.video, 7)
    begin(queue, other, 8)
    assert integrity.numbers_at(queue.db, b"/out", "a") == {2, 3}
    assert integrity.numbers_at(queue.db, b"/out", "b") == {7, 8}
    assert integrity.numbers_at(queue.db, b"/there", "a") == frozenset()
    assert integrity.numbers_at(queue.db, b"/there", "b") is None


def test_the_counts_are_those_of_jobs_that_are_not_deleted(queue: Queue) -> None:
    queue.job()
    deleted = queue.job()
    assert integrity.miscounted(queue.db) == ([], [])
    queue.db.execute("UPDATE job SET deleted_at = 1 WHERE id = :id", {"id": deleted})
    assert integrity.miscounted(queue.db) == ([], [])
    queue.db.execute("UPDATE job_count SET n = 5 WHERE status = 'pending'")
    assert integrity.miscounted(queue.db) == (["pending"], [])


def test_what_the_database_says_of_itself(queue: Queue) -> None:
    assert integrity.foreign_key_problems(queue.db) == 0
    assert integrity.newest_event_at(queue.db) == 0
    assert integrity.store_uuid(queue.db) is not None
    queue.db.execute("DELETE FROM supervisor")
    assert integrity.store_uuid(queue.db) is None
    queue.supervisor = supervisor_of(queue.db)
    video = queue.row(queue.job())["video_id"]
    assert integrity.newest_event_at(queue.db) == NOW
    assert integrity.has_video(queue.db, video)
    assert not integrity.has_video(queue.db, 4711)
