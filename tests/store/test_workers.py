"""Workers: whose heartbeat counts, who is offline, and what the end of a process changes."""

from __future__ import annotations

import pytest

from tqstudio.engine.store.machine import quarantine, workers
from tqstudio.engine.store.machine.workers import WorkerRow
from tqstudio.errors import ErrorCode

from .conftest import NOW, SECOND, Queue


def row(queue: Queue, worker: int) -> WorkerRow:
    found = workers.by_id(queue.db, worker)
    assert found is not None
    return found


def offline(queue: Queue) -> list[int]:
    found = queue.db.execute("SELECT id FROM worker WHERE offline_at IS NOT NULL ORDER BY id")
    return list(found.scalars())


def words(queue: Queue) -> list[tuple[str, str]]:
    return [(event["trigger"], event["worker"]) for event in queue.history()]


def test_a_worker_is_found_by_name_and_by_id(queue: Queue) -> None:
    made = [queue.worker(name) for name in ("cpu-0", "cpu-1")]
    for who in made:
        found = workers.by_name(queue.db, who.name)
        assert found is not None
        assert (found.id, row(queue, who.id).name) == (who.id, who.name)
    assert workers.by_name(queue.db, "cpu-2") is None
    assert [found.name for found in workers.listing(queue.db)] == ["cpu-0", "cpu-1"]


def test_only_the_life_that_beats_is_heard(queue: Queue) -> None:
    one = queue.worker("cpu-0", instance="the same")
    two = queue.worker("cpu-1", instance="the same")
    workers.store_heartbeats(queue.db, [(one.id, "an earlier life", NOW)])
    assert row(queue, one.id).last_heartbeat_at is None
    workers.store_heartbeats(queue.db, [(one.id, "the same", NOW)])
    assert (row(queue, one.id).last_heartbeat_at, row(queue, two.id).last_heartbeat_at) == (NOW, None)


def test_when_a_worker_was_last_switched_off(queue: Queue) -> None:
    assert workers.last_off(queue.db) is None
    queue.worker("cpu-0")
    assert workers.last_off(queue.db) is None
    for passed, intent in enumerate(({"enabled": False}, {"draining": True}), 1):
        workers.set_intent(queue.db, "cpu-0", **intent, now=NOW + passed)
        assert workers.last_off(queue.db) == NOW + passed
    workers.set_intent(queue.db, "cpu-0", enabled=True, now=NOW + 3)
    assert workers.last_off(queue.db) == NOW + 2
    lease = queue.claimed(queue.worker("cpu-0"))
    queue.fail(lease, ErrorCode.ENCODER_EXIT)
    assert quarantine.failed(queue.db, lease.job, lease.epoch, ErrorCode.ENCODER_EXIT, after=1, now=NOW)
    who = queue.worker("cpu-0")
    assert quarantine.tested(queue.db, who.id, instance=who.instance, problem="no driver", now=NOW + 4)
    assert workers.last_off(queue.db) == NOW + 4
    queue.job()
    assert workers.last_off(queue.db, limit=1) is None, "it is too long ago"


def test_silence_is_reported_once_and_a_later_beat_takes_it_back(queue: Queue) -> None:
    silent, other = queue.worker("cpu-0", instance="the same"), queue.worker("cpu-1", instance="the same")
    workers.ensure(queue.db, "cpu-2", "cpu", device=None)
    workers.store_heartbeats(queue.db, [(other.id, other.instance, NOW + SECOND)])
    assert workers.mark_offline(queue.db, [], now=NOW + 9) == []
    assert workers.mark_offline(queue.db, [silent.id], now=NOW + 9) == [(silent.id, "cpu-0")]
    assert workers.mark_offline(queue.db, [silent.id], now=NOW + 10) == [], "it is known by now"
    assert workers.mark_offline(queue.db, [silent.id, other.id], now=NOW + 11) == [(other.id, "cpu-1")]
    for worker, instance, at in (
        (silent.id, "an earlier life", NOW + 99),
        (silent.id, silent.instance, NOW + 9),
    ):
        workers.store_heartbeats(queue.db, [(worker, instance, at)])
        assert offline(queue) == [silent.id, other.id], "nothing was heard of this life since"
    workers.store_heartbeats(queue.db, [(silent.id, silent.instance, NOW + 12)])
    assert offline(queue) == [other.id]
    assert words(queue)[-1] == ("worker_online", "cpu-0")


def test_those_that_are_silent_are_marked_alone(queue: Queue) -> None:
    first, second, heard = (queue.worker(f"cpu-{number}") for number in range(3))
    marked = workers.mark_offline(queue.db, [first.id, second.id], now=NOW)
    assert sorted(marked) == [(first.id, "cpu-0"), (second.id, "cpu-1")]
    assert workers.mark_offline(queue.db, [heard.id], now=NOW) == [(heard.id, "cpu-2")]


def test_a_worker_whose_process_ended_is_not_silent(queue: Queue) -> None:
    who = queue.worker()
    workers.store_heartbeats(queue.db, [(who.id, who.instance, NOW)])
    workers.ended(queue.db, who.id, instance=who.instance, now=NOW, why="killed")
    assert workers.mark_offline(queue.db, [who.id], now=NOW + SECOND) == []


@pytest.mark.parametrize("registered", [True, False])
def test_the_end_of_a_process_is_reported_whether_it_registered_or_not(
    queue: Queue, registered: bool
) -> None:
    queue.worker("cpu-1")
    workers.ensure(queue.db, "cpu-2", "cpu", device=None)
    made = workers.ensure(queue.db, "cpu-0", "cpu", device=None)
    if registered:
        queue.worker("cpu-0", instance="its life")
    workers.ended(queue.db, made.id, instance="its life" if registered else None, now=NOW, why="killed")
    assert [name for word, name in words(queue) if word == "worker_ended"] == ["cpu-0"]
    workers.ended(queue.db, made.id, instance="its life", now=NOW, why="killed")
    assert [name for word, name in words(queue) if word == "worker_ended"] == ["cpu-0", "cpu-0"]
    assert [found.instance for found in workers.listing(queue.db)] == [None, "instance of cpu-1", None]


def test_a_new_supervisor_knows_no_process_of_an_earlier_one(queue: Queue) -> None:
    local, remote = queue.worker("cpu-0"), queue.worker("far-0")
    queue.db.execute("UPDATE worker SET type = 'remote' WHERE id = :id", {"id": remote.id})
    workers.forget_processes(queue.db)
    assert (row(queue, local.id).instance, row(queue, local.id).registered_at) == (None, None)
    assert row(queue, remote.id).instance == remote.instance


def test_an_intent_is_for_the_worker_of_that_name(queue: Queue) -> None:
    one, two = queue.worker("cpu-0"), queue.worker("cpu-1")
    assert workers.set_intent(queue.db, "cpu-0", enabled=False, now=NOW) is not None
    assert (row(queue, one.id).enabled, row(queue, two.id).enabled) == (False, True)
    assert workers.set_intent(queue.db, "cpu-2", enabled=False, now=NOW) is None
