"""What of an action is undone: what its actor changed, where no person changed it since."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tqstudio.engine.store import events
from tqstudio.engine.store.jobs import operations, undo
from tqstudio.engine.store.jobs.undo import LEVELS, UndoStep
from tqstudio.engine.store.library import folders, videos
from tqstudio.events import EventKind
from tqstudio.lifecycle import Control, JobStatus, Operation, Undoable

from .conftest import NOW, Queue
from .test_folders import folder

C, D, H, P = JobStatus.CANCELLED, JobStatus.DONE, JobStatus.PAUSED, JobStatus.PENDING


class Actor:
    """A person whose actions are recorded."""

    def __init__(self, queue: Queue, name: str = "ada") -> None:
        self.queue, self.db, self.name = queue, queue.db, name

    def does(self, operation: Operation, *jobs: int, bulk: str = "") -> list[UndoStep]:
        before = undo.states(self.db, jobs)
        for job in jobs:
            self.queue.do(job, operation)
        steps = undo.changed(self.db, before)
        how = {"actor": self.name, "now": self.queue.now}
        undo.record(self.db, Undoable(operation), steps, bulk=bulk, **how)  # type: ignore[arg-type]
        return steps

    def newest(self, *, since: int = 0, number: int | None = None) -> undo.UndoAction | None:
        return undo.newest(self.db, actor=self.name, since=since, number=number)

    def undoes(self, *, limit: int = 99) -> tuple[list[JobStatus | None], int]:
        """Undo the newest action; returns the status of each of its jobs, None if it was changed since."""
        action = self.newest()
        assert action is not None
        steps, left = undo.take(self.db, action.id, limit=limit)
        back = self.puts_back(action.operation, steps)
        return [self.queue.status(step.subject) if ok else None for step, ok in back], left

    def puts_back(self, operation: Undoable, steps: Sequence[UndoStep]) -> list[tuple[UndoStep, bool]]:
        results = undo.put_back(self.db, operation, steps, now=self.queue.now, actor=self.name)
        return [(step, applied is not None and applied.decision.allowed) for step, applied in results]


@pytest.fixture
def ada(queue: Queue) -> Actor:
    return Actor(queue)


def test_only_what_changed_is_recorded(queue: Queue, ada: Actor) -> None:
    waits, paused, other = queue.job(), queue.in_status(H), queue.job()
    steps = ada.does(Operation.PAUSE, waits, paused)
    assert [step.subject for step in steps] == [waits]
    assert ada.undoes() == ([P], 0)
    assert (queue.status(paused), queue.status(other)) == (H, P)
    assert ada.does(Operation.PAUSE, paused) == []
    assert ada.newest() is None


def test_a_job_that_a_person_changed_since_is_left_alone(queue: Queue, ada: Actor) -> None:
    one, two = queue.job(), queue.job()
    ada.does(Operation.PAUSE, one, two)
    queue.do(two, Operation.RESUME)
    queue.do(two, Operation.PAUSE)
    assert ada.undoes() == ([P, None], 0)
    assert queue.status(two) is H


def test_what_a_worker_did_since_does_not_count(queue: Queue, ada: Actor) -> None:
    """A worker that stops on request writes an event of the same kind, with its name."""
    lease = queue.claimed()
    ada.does(Operation.PAUSE, lease.job)
    assert queue.row(lease.job)["control"] == "pause"
    assert queue.release(lease, Control.PAUSE) is H
    queue.wait(3)
    assert ada.undoes() == ([P], 0)
    assert queue.row(lease.job)["ready_at"] == queue.now, "a worker can claim it"


def test_versions_are_those_of_the_jobs_asked_for(queue: Queue) -> None:
    one, two, three, _ = (queue.job() for _ in range(4))
    for job in (one, two):
        queue.do(job, Operation.PAUSE)
    found = undo.versions(queue.db, [one, three])
    assert found == {one: queue.history(one)[-1]["seq"]}
    queue.do(one, Operation.RESUME)
    assert undo.versions(queue.db, [one]) == {one: queue.history(one)[-1]["seq"]}
    assert undo.versions(queue.db, []) == {}
    assert [*undo.states(queue.db, [two])] == [two]
    assert [*undo.states(queue.db, [one, two, three])] == [one, two, three]
    assert undo.states(queue.db, []) == {}


def test_other_events_are_no_change_by_a_person(queue: Queue, ada: Actor) -> None:
    job = queue.job()
    ada.does(Operation.PAUSE, job)
    seq = queue.history(job)[-1]["seq"]
    queue.db.execute("UPDATE event SET trigger = 'create' WHERE seq = :seq", {"seq": seq})
    assert undo.versions(queue.db, [job]) == {}


def test_each_actor_has_its_own_actions(queue: Queue, ada: Actor) -> None:
    eve, jobs = Actor(queue, "eve"), [queue.job(), queue.job()]
    ada.does(Operation.PAUSE, jobs[0])
    eve.does(Operation.PAUSE, jobs[1])
    mine, hers = ada.newest(), eve.newest()
    assert mine is not None
    assert hers is not None
    assert ada.newest(number=hers.id) is None
    assert eve.newest(number=hers.id) == hers
    assert ada.undoes() == ([P], 0)
    assert ada.newest() is None
    assert eve.newest() == hers


def test_the_newest_is_undone_first_and_one_before_it_can_be_named(queue: Queue, ada: Actor) -> None:
    job = queue.job()
    ada.does(Operation.PAUSE, job)
    first = ada.newest()
    ada.does(Operation.RESUME, job)
    second = ada.newest()
    assert first is not None
    assert second is not None
    assert (first.operation, second.operation) == (Undoable.PAUSE, Undoable.RESUME)
    assert ada.newest(number=first.id) == first
    # Undoing the newer one makes the older one possible: its job is as it left it.
    assert ada.undoes() == ([H], 0)
    assert ada.undoes() == ([P], 0)


def test_undoing_one_action_changes_no_other_step(queue: Queue, ada: Actor) -> None:
    one, two = queue.job(), queue.job()
    ada.does(Operation.PAUSE, one, two)
    earlier = ada.newest()
    assert earlier is not None
    before = {step.subject: step for step in undo.steps(queue.db, earlier.id, limit=9)}
    ada.does(Operation.RESUME, one)
    assert ada.undoes() == ([H], 0)
    after = {step.subject: step for step in undo.steps(queue.db, earlier.id, limit=9)}
    assert after[two] == before[two]
    assert after[one].version > before[one].version
    assert after[one].version == queue.history(one)[-1]["seq"]


def test_undoing_one_action_makes_only_the_one_before_possible(queue: Queue, ada: Actor) -> None:
    job = queue.job()
    ada.does(Operation.PAUSE, job)
    first = ada.newest()
    assert first is not None
    steps = undo.steps(queue.db, first.id, limit=9)
    ada.does(Operation.RESUME, job)
    ada.does(Operation.PAUSE, job)
    assert ada.undoes() == ([P], 0)
    assert undo.steps(queue.db, first.id, limit=9) == steps
    assert ada.undoes() == ([H], 0)


def test_the_oldest_of_an_actor_gives_way_to_the_eleventh(queue: Queue, ada: Actor) -> None:
    eve, jobs = Actor(queue, "eve"), [queue.job() for _ in range(LEVELS + 2)]
    eve.does(Operation.PAUSE, jobs[0])
    for job in jobs[1:]:
        ada.does(Operation.PAUSE, job)
    undone = [ada.undoes() for _ in range(LEVELS)]
    assert undone == [([P], 0)] * LEVELS
    assert ada.newest() is None
    assert queue.status(jobs[1]) is H, "the first one was forgotten"
    assert eve.undoes() == ([P], 0)


def test_actions_of_long_ago_are_not_undone_and_deleted(queue: Queue, ada: Actor) -> None:
    one, two = queue.job(), queue.job()
    ada.does(Operation.PAUSE, one)
    queue.wait(60)
    ada.does(Operation.PAUSE, two)
    assert ada.newest(since=queue.now) is not None
    assert ada.newest(since=queue.now + 1) is None
    undo.prune(queue.db, before=queue.now)
    assert ada.undoes() == ([P], 0)
    assert ada.newest() is None
    assert queue.db.execute("SELECT count(*) FROM undo_step").scalar() == 0


def test_slices_of_one_action_are_undone_together_and_in_parts(queue: Queue, ada: Actor) -> None:
    eve, jobs = Actor(queue, "eve"), [queue.job() for _ in range(6)]
    eve.does(Operation.PAUSE, jobs[5], bulk="a key")
    ada.does(Operation.PAUSE, jobs[0], bulk="another")
    ada.does(Operation.PAUSE, jobs[1], jobs[2], bulk="a key")
    ada.does(Operation.PAUSE, jobs[3], jobs[4], bulk="a key")
    action = ada.newest()
    assert action is not None
    assert [step.subject for step in undo.steps(queue.db, action.id, limit=3)] == jobs[1:4]
    assert ada.undoes(limit=3) == ([P, P, P], 1)
    assert ada.newest() == action
    assert ada.undoes(limit=3) == ([P], 0)
    assert ada.undoes() == ([P], 0)
    assert eve.undoes() == ([P], 0)
    assert [queue.status(job) for job in jobs] == [P] * 6


def test_without_a_key_each_request_is_an_action(queue: Queue, ada: Actor) -> None:
    one, two = queue.job(), queue.job()
    ada.does(Operation.PAUSE, one)
    ada.does(Operation.PAUSE, two)
    assert ada.undoes() == ([P], 0)
    assert (queue.status(one), queue.status(two)) == (H, P)


def test_a_held_job_is_held_again_and_its_neighbour_stays(queue: Queue, ada: Actor) -> None:
    held, other = queue.in_status(H), queue.job()
    before = queue.row(other)
    assert queue.row(held)["ready_at"] is None
    ada.does(Operation.RESUME, held)
    assert queue.row(held)["ready_at"] is not None
    assert ada.undoes() == ([H], 0)
    assert queue.row(held)["ready_at"] is None
    assert queue.row(other) == before


def test_a_cancelled_job_waits_in_its_place_again(queue: Queue, ada: Actor) -> None:
    job, other = queue.job(priority=7), queue.job()
    before, beside = queue.row(job), queue.row(other)
    queue.wait(5)
    ada.does(Operation.CANCEL, job)
    assert queue.row(job)["completed_at"] is not None
    assert ada.undoes() == ([P], 0)
    after = queue.row(job)
    for name in ("priority", "created_at", "ready_at", "completed_at", "status"):
        assert after[name] == before[name], name
    assert queue.row(other) == beside


def test_a_running_job_that_was_cancelled_can_be_claimed_again(queue: Queue, ada: Actor) -> None:
    lease = queue.claimed()
    ada.does(Operation.CANCEL, lease.job)
    assert queue.release(lease, Control.CANCEL) is C
    queue.wait(3)
    assert ada.undoes() == ([P], 0)
    assert queue.row(lease.job)["ready_at"] == queue.now
    again = queue.claim()
    assert again is not None
    assert again.job == lease.job


def test_a_cancel_that_is_not_obeyed_yet_is_withdrawn(queue: Queue, ada: Actor) -> None:
    lease, other = queue.claimed(), queue.claimed(queue.worker("cpu-1"))
    queue.do(other.job, Operation.CANCEL)
    ada.does(Operation.CANCEL, lease.job)
    assert queue.row(lease.job)["control"] == "cancel"
    assert ada.undoes() == ([JobStatus.IN_PROGRESS], 0)
    assert (queue.row(lease.job)["control"], queue.row(other.job)["control"]) == ("none", "cancel")


def test_a_former_priority_is_set_again(queue: Queue, ada: Actor) -> None:
    job = queue.job(priority=3)
    before = undo.states(queue.db, [job])
    operations.set_priority(queue.db, job, value=9, delta=None, now=NOW, actor="ada")
    steps = undo.changed(queue.db, before)
    undo.record(queue.db, Undoable.PRIORITY, steps, actor="ada", now=NOW)
    assert ada.undoes() == ([P], 0)
    assert queue.row(job)["priority"] == 3


def test_a_deleted_job_comes_back(queue: Queue, ada: Actor) -> None:
    job = queue.in_status(D)
    ada.does(Operation.DELETE, job)
    assert queue.row(job)["deleted_at"] is not None
    assert ada.undoes() == ([D], 0)
    assert queue.row(job)["deleted_at"] is None


def test_a_video_with_another_open_job_keeps_that(queue: Queue, ada: Actor) -> None:
    video = queue.video()
    first = queue.job(video=video)
    ada.does(Operation.CANCEL, first)
    second = queue.job(video=video)
    assert ada.undoes() == ([None], 0)
    assert (queue.status(first), queue.status(second)) == (C, P)


PERSONS = (
    *(EventKind.PAUSE, EventKind.RESUME, EventKind.CANCEL, EventKind.RETRY, EventKind.RESTART),
    *(
        EventKind.PAUSE_REQUESTED,
        EventKind.CANCEL_REQUESTED,
        EventKind.RESTART_REQUESTED,
        EventKind.RESUME_REQUESTED,
    ),
    *(EventKind.UNCANCEL, EventKind.UNCANCEL_PAUSED, EventKind.UNCANCEL_FAILED),
    *(
        EventKind.PRIORITY_CHANGED,
        EventKind.PROFILE_CHANGED,
        EventKind.FORCED,
        EventKind.DELETED,
        EventKind.UNDELETED,
    ),
)


@pytest.mark.parametrize("kind", PERSONS)
def test_what_persons_do_makes_a_version(queue: Queue, kind: EventKind) -> None:
    job, others = queue.job(), [queue.job() for _ in range(3)]
    for each in (job, others[2]):
        events.append(queue.db, kind, now=queue.now, actor="ada", job=each)
    seq = queue.history(job)[-1]["seq"]
    assert undo.versions(queue.db, [job]) == {job: seq}
    assert undo.versions(queue.db, [job, *others[:2]]) == {job: seq}


@pytest.mark.parametrize("limit", [1, 2])
def test_only_the_first_steps_are_taken(queue: Queue, ada: Actor, limit: int) -> None:
    jobs = [queue.job() for _ in range(3)]
    ada.does(Operation.PAUSE, *jobs)
    action = ada.newest()
    assert action is not None
    taken, left = undo.take(queue.db, action.id, limit=limit)
    assert [step.subject for step in taken] == jobs[:limit]
    assert left == 3 - limit
    assert [step.subject for step in undo.steps(queue.db, action.id, limit=9)] == jobs[limit:]


def test_the_actions_of_others_push_none_out(queue: Queue, ada: Actor) -> None:
    eve, jobs = Actor(queue, "eve"), [queue.job() for _ in range(LEVELS + 2)]
    ada.does(Operation.PAUSE, jobs[0])
    for job in jobs[1:-1]:
        eve.does(Operation.PAUSE, job)
    ada.does(Operation.PAUSE, jobs[-1])
    assert [ada.undoes(), ada.undoes()] == [([P], 0)] * 2


def undo_folder(queue: Queue, *, actor: str = "ada") -> bool:
    """Undo the newest action of an actor, which is of a drop folder."""
    action = undo.newest(queue.db, actor=actor, since=0)
    assert action is not None
    ((step,), _) = undo.take(queue.db, action.id, limit=9)
    return folders.put_back(queue.db, step.subject, step.former, now=queue.now)


def test_the_edit_of_a_folder_is_undone_unless_it_was_changed_since(queue: Queue) -> None:
    one, two = folder(queue, b"/one"), folder(queue, b"/two")
    rows = {row.id: row for row in folders.listing(queue.db)}
    folders.change(queue.db, two, {"priority": 5}, now=NOW, actor="ada")
    assert undo_folder(queue)
    assert {row.id: row for row in folders.listing(queue.db)} == rows
    folders.change(queue.db, two, {"priority": 5}, now=NOW, actor="ada")
    folders.change(queue.db, two, {"priority": 6}, now=NOW)
    assert not undo_folder(queue)
    assert {row.id: row.priority for row in folders.listing(queue.db)} == {one: 0, two: 6}
    assert folders.change(queue.db, one, {"priority": 0}, now=NOW, actor="ada") is not None
    assert undo.newest(queue.db, actor="ada", since=0) is None, "nothing was changed"


@pytest.mark.parametrize("moves", [False, True])
def test_a_removed_folder_comes_back_with_its_videos(queue: Queue, moves: bool) -> None:
    """Without those that are in another one by now."""
    one, two = folder(queue, b"/one"), folder(queue, b"/two")
    rows = {row.id: row for row in folders.listing(queue.db)}
    mine, others, without = [queue.video() for _ in range(1 if moves else 3)], queue.video(), queue.video()
    videos.adopt(queue.db, others, one)
    for video in mine:
        videos.adopt(queue.db, video, two)
    assert folders.remove(queue.db, two, now=NOW, actor="ada")
    if moves:
        videos.adopt(queue.db, mine[0], one)
    assert undo_folder(queue)
    assert {row.id: row for row in folders.listing(queue.db)} == rows
    found = {row[0]: row[1] for row in queue.db.execute("SELECT id, folder_id FROM video")}
    assert found == dict.fromkeys(mine, one if moves else two) | {others: one, without: None}


def test_a_removed_folder_whose_path_is_watched_again_stays_away(queue: Queue) -> None:
    gone = folder(queue, b"/one")
    assert folders.remove(queue.db, gone, now=NOW, actor="ada")
    again = folder(queue, b"/one")
    assert not undo_folder(queue)
    assert [row.id for row in folders.listing(queue.db)] == [again]
