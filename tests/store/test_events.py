"""The history."""

from __future__ import annotations

import asyncio

import pytest

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.jobs import claims
from tqstudio.engine.store.machine import supervisors
from tqstudio.events import EventKind
from tqstudio.lifecycle import Operation

from .conftest import NOW, SECOND, Queue


def note(queue: Queue, number: int) -> None:
    events.append(queue.db, "noted", now=queue.now, actor="test", detail=str(number))


def numbered(queue: Queue, count: int) -> list[int]:
    for number in range(count):
        note(queue, number)
        queue.wait(1)
    return [event["seq"] for event in queue.history()]


def test_pages_of_the_history(queue: Queue) -> None:
    seqs = numbered(queue, 10)
    assert [e.seq for e in events.after(queue.db, seqs[3], limit=3)] == seqs[4:7]
    assert [e.seq for e in events.newest(queue.db, limit=3)] == seqs[:-4:-1]
    assert [e.seq for e in events.newest(queue.db, limit=3, before=seqs[5])] == [seqs[4], seqs[3], seqs[2]]
    assert [e.seq for e in events.newest(queue.db, limit=3, before=seqs[1])] == [seqs[0]]
    since = events.after(queue.db, 0, limit=99, since=NOW + 8_000_000)
    assert [e.detail for e in since] == ["8", "9"]
    assert events.bounds(queue.db) == (seqs[0], seqs[-1])


def test_the_history_of_one_job(queue: Queue) -> None:
    job, _other = queue.job(), queue.job()
    queue.do(job, Operation.PAUSE)
    assert [e.trigger for e in events.after(queue.db, 0, limit=9, job=job)] == ["create", "pause"]
    (last,) = events.newest(queue.db, limit=1, job=job)
    assert last.trigger == "pause"
    queue.do(job, Operation.RESUME)
    assert [e.trigger for e in events.newest(queue.db, limit=9, job=job, before=last.seq)] == ["create"]


def test_events_name_their_video(queue: Queue) -> None:
    queue.db.appended = []
    video = queue.video("film.mp4")
    job = queue.job(video=video)
    note(queue, 1)
    passed_on, stored = queue.db.appended, events.after(queue.db, 0, limit=9)
    assert [(e.job, e.video_name) for e in stored] == [(job, "film.mp4"), (None, None)]
    assert passed_on == stored, "without being read again"
    assert events.newest(queue.db, limit=9) == stored[::-1]


def test_an_empty_history(queue: Queue) -> None:
    assert events.bounds(queue.db) == (0, 0)
    assert events.newest(queue.db, limit=5) == []
    assert events.prune(queue.db, before=NOW, now=NOW) == 0
    assert queue.history() == []


def test_a_long_detail_is_cut(queue: Queue) -> None:
    events.append(queue.db, "noted", now=NOW, actor="test", detail="x" * 501)
    assert queue.history()[0]["detail"] == "x" * 499 + "…"


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT min(seq) FROM event",
        "SELECT * FROM event WHERE seq > 5 ORDER BY seq LIMIT 9",
        "SELECT * FROM event WHERE job_id = 5 ORDER BY seq DESC LIMIT 9",
        "SELECT * FROM event WHERE job_id = 5 AND seq < 5 ORDER BY seq DESC LIMIT 9",
        "SELECT * FROM event WHERE seq < 5 ORDER BY seq DESC LIMIT 9",
        "SELECT 1 FROM event WHERE at < 5 AND trigger <> 'pruned' LIMIT 1",
    ],
)
def test_the_history_is_read_by_index(queue: Queue, statement: str) -> None:
    plan = " ".join(row[3] for row in queue.db.execute(f"EXPLAIN QUERY PLAN {statement}"))
    assert "SEARCH event" in plan
    assert "B-TREE" not in plan


def test_nothing_is_pruned_that_is_not_older(queue: Queue) -> None:
    events.append(queue.db, EventKind.CLAIM, now=NOW, actor="test")
    kept = queue.history()
    assert events.prune(queue.db, before=NOW, now=NOW) == 0
    assert queue.history() == kept


def test_pruning_leaves_one_event_that_reports_it(queue: Queue) -> None:
    numbered(queue, 10)
    for rounds, left in ((7, 3), (9, 1)):
        queue.wait(1)
        events.prune(queue.db, before=NOW + rounds * 1_000_000, now=queue.now)
        kept = queue.history()
        assert [e["detail"] for e in kept if e["trigger"] == "noted"] == [
            str(n) for n in range(10 - left, 10)
        ]
    queue.wait(1)
    assert events.prune(queue.db, before=queue.now, now=queue.now) > 0
    kept = queue.history()
    assert [e["trigger"] for e in kept] == ["pruned"], "it takes the place of the earlier ones"
    queue.wait(1)
    assert events.prune(queue.db, before=queue.now, now=queue.now) == 0, "nothing new: no new event either"
    assert queue.history() == kept


def test_the_history_has_no_hole_behind_its_first_event(queue: Queue) -> None:
    """What a reader takes for the oldest event must be followed by all that came after it."""
    numbered(queue, 10)
    events.prune(queue.db, before=NOW + 3_000_000, now=queue.now)
    numbered(queue, 10)
    events.prune(queue.db, before=queue.now - 5_000_000, now=queue.now)
    oldest, newest = events.bounds(queue.db)
    assert [e["seq"] for e in queue.history()] == list(range(oldest, newest + 1))


def test_pruning_goes_in_steps(queue: Queue) -> None:
    numbered(queue, 10)
    assert events.prune(queue.db, before=queue.now, now=queue.now, limit=4) == 4
    assert [e["detail"] for e in queue.history()][:6] == ["4", "5", "6", "7", "8", "9"]


def test_forgetting_goes_in_steps_up_to_an_event(queue: Queue) -> None:
    seqs = numbered(queue, 10)
    assert events.forget(queue.db, through=seqs[6], limit=4) == 4
    assert events.forget(queue.db, through=seqs[6], limit=4) == 3
    assert events.forget(queue.db, through=seqs[6], limit=4) == 0
    assert [e["detail"] for e in queue.history()] == ["7", "8", "9"]


def test_answers_are_kept_by_key(queue: Queue) -> None:
    assert supervisors.stored_answer(queue.db, "key") is None
    supervisors.store_answer(queue.db, "key", "first", now=NOW)
    supervisors.store_answer(queue.db, "key", "second", now=NOW + 1)
    assert supervisors.stored_answer(queue.db, "key") == "first"
    supervisors.store_answer(queue.db, "other", "another", now=NOW + 1)
    supervisors.complete_answer(queue.db, "key", "first, whole")
    assert supervisors.stored_answer(queue.db, "other") == "another"
    supervisors.complete_answer(queue.db, "key", "first")
    supervisors.prune_answers(queue.db, before=NOW)
    assert supervisors.stored_answer(queue.db, "key") == "first"
    supervisors.prune_answers(queue.db, before=NOW + 1)
    assert supervisors.stored_answer(queue.db, "key") is None
    assert supervisors.stored_answer(queue.db, "other") == "another"


def begin(queue: Queue) -> tuple[int, str]:
    return supervisors.begin(queue.db, pid=1, version="1", now=NOW, lease_us=60 * SECOND)


def test_the_store_keeps_its_name(queue: Queue) -> None:
    first, second = begin(queue), begin(queue)
    assert first[0] < second[0]
    assert first[1] == second[1]
    leases = queue.db.execute("SELECT expires_at FROM supervisor ORDER BY id").scalars()
    assert list(leases)[-2:] == [0, NOW + 60 * SECOND], "the lease of the first has run out"


def test_watchers_hear_of_committed_events_alone_and_in_order(opened: Database) -> None:
    heard: list[EventRow] = []

    def write(connection: Connection, detail: str, *, fails: bool = False) -> None:
        for part in "ab":
            events.append(connection, "noted", now=NOW, actor="test", detail=detail + part)
        if fails:
            raise RuntimeError(detail)

    async def main() -> None:
        opened.bind(heard.extend)
        writes = [opened.write(write, str(n), fails=n == 1) for n in range(4)]
        answers = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(a).__name__ for a in answers] == ["NoneType", "RuntimeError", "NoneType", "NoneType"]

    asyncio.run(main())
    assert [event.detail for event in heard] == ["0a", "0b", "2a", "2b", "3a", "3b"]
    stored = opened.read_now(lambda c: events.after(c, 0, limit=99))
    assert stored == heard


def test_a_write_outlives_the_one_who_asked(opened: Database) -> None:
    async def main() -> None:
        asked = asyncio.create_task(
            opened.write(lambda c: events.append(c, "noted", now=NOW, actor="test", detail="kept"))
        )
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await opened.read(events.bounds)
        await opened.write(events.bounds)

    asyncio.run(main())
    assert [e.detail for e in opened.read_now(lambda c: events.newest(c, limit=9))] == ["kept"]


def test_the_newest_events_of_one_job(queue: Queue) -> None:
    job = queue.job()
    queue.job()
    assert [event.job for event in events.newest(queue.db, limit=9, job=job)] == [job]


def test_an_answer_is_that_of_its_key(queue: Queue) -> None:
    supervisors.store_answer(queue.db, "first", "one", now=NOW)
    supervisors.store_answer(queue.db, "second", "two", now=NOW)
    assert supervisors.stored_answer(queue.db, "second") == "two"


def test_jobs_are_taken_over_from_supervisors_whose_lease_ran_out(queue: Queue) -> None:
    lease, waiting = queue.claimed(), queue.row(queue.job())
    assert claims.granted(queue.db, queue.supervisor) == [lease]
    assert claims.take_over(queue.db, queue.supervisor, now=NOW + 600 * SECOND) == [], "it is its own"
    other = queue.db.execute(
        "INSERT INTO supervisor (store_uuid, expires_at) VALUES ('x', 0) RETURNING id"
    ).scalar()
    assert claims.take_over(queue.db, other, now=NOW + 60 * SECOND - 1) == []
    supervisors.renew(queue.db, queue.supervisor, now=NOW + 5, lease_us=60 * SECOND)
    assert claims.take_over(queue.db, other, now=NOW + 60 * SECOND + 4) == []
    assert queue.db.execute("SELECT expires_at FROM supervisor ORDER BY id DESC").scalar() == 0, "the other's"
    assert claims.take_over(queue.db, other, now=NOW + 60 * SECOND + 5) == [lease]
    assert claims.granted(queue.db, queue.supervisor) == []
    assert claims.granted(queue.db, other) == [lease]
    assert queue.row(waiting["id"]) == waiting
    assert queue.complete(lease), "its worker still owns it"


def test_the_next_supervisor_takes_over_at_once(queue: Queue) -> None:
    lease = queue.claimed()
    begun, _ = begin(queue)
    assert claims.take_over(queue.db, begun, now=0) == [lease]
    assert claims.granted(queue.db, begun) == [lease]
