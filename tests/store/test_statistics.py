"""The figures of ended attempts, and their sums, held against sums of the rows themselves."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import insert

from tqstudio.engine.store import events
from tqstudio.engine.store.db import tables
from tqstudio.engine.store.jobs import outcomes
from tqstudio.engine.store.jobs.claims import HeldLease
from tqstudio.engine.store.library import videos
from tqstudio.engine.store.lists import pages
from tqstudio.engine.store.machine import statistics
from tqstudio.engine.store.machine.statistics import Figures
from tqstudio.errors import ErrorCode
from tqstudio.events import EventKind
from tqstudio.lifecycle import OPEN, Control, Operation

from .conftest import NOW, SECOND, Plan, Queue, token

DAY = 86_400 * SECOND
GROUPS: tuple[statistics.Group, ...] = ("worker", "batch")


def rows(queue: Queue) -> list[dict[str, Any]]:
    return [dict(row) for row in queue.db.execute("SELECT * FROM statistic ORDER BY at, job_id").mappings()]


def row(queue: Queue) -> dict[str, Any]:
    [only] = rows(queue)
    return only


def used(queue: Queue, lease: HeldLease, cpu_s: float) -> None:
    """It has reported its progress."""
    queue.db.execute(
        "UPDATE attempt SET cpu_s = :cpu, last_progress_at = :now WHERE job_id = :job AND epoch = :epoch",
        {"cpu": cpu_s, "now": queue.now, "job": lease.job, "epoch": lease.epoch},
    )


def test_a_job_that_is_done_counts_its_media_and_bytes(queue: Queue) -> None:
    lease, other = queue.claimed(batch="tonight"), queue.claimed(queue.worker("cpu-1"))
    videos.set_facts(queue.db, lease.video, {"duration_s": 120.5}, quick_hash="hash")
    queue.db.execute("UPDATE job SET predicted_s = 30 WHERE id = :id", {"id": lease.job})
    queue.wait(40)
    used(queue, lease, 99.5)
    used(queue, other, 1.0)
    queue.wait(10)
    assert outcomes.complete(queue.db, token(lease), now=queue.now, worker="cpu-0", detail="", bytes_out=700)
    assert row(queue) == {
        "at": queue.now,
        "job_id": lease.job,
        "epoch": lease.epoch,
        "status": "done",
        "worker": "cpu-0",
        "batch": "tonight",
        "wall_s": 50.0,
        "cpu_s": 99.5,
        "media_s": 120.5,
        "bytes_in": 1000,
        "bytes_out": 700,
        "eta_error_percent": 40,
    }


def test_an_attempt_that_does_not_complete_its_job_counts_only_its_time(queue: Queue) -> None:
    lease = queue.claimed()
    videos.set_facts(queue.db, lease.video, {"duration_s": 120.5}, quick_hash="hash")
    queue.db.execute("UPDATE job SET predicted_s = 30 WHERE id = :id", {"id": lease.job})
    used(queue, lease, 7.5)
    queue.wait(20)
    queue.fail(lease, ErrorCode.NO_MEDIA)
    found = row(queue)
    assert (found["status"], found["wall_s"], found["cpu_s"]) == ("failed", 20.0, 7.5)
    assert (found["media_s"], found["bytes_in"], found["bytes_out"], found["eta_error_percent"]) == (
        0,
        0,
        0,
        None,
    )


@pytest.mark.parametrize("how", ["lost", "requeued", "settled", "paused"])
def test_a_silent_worker_counts_until_its_last_progress(queue: Queue, how: str) -> None:
    lease = queue.claimed()
    queue.wait(20)
    used(queue, lease, 7.5)
    if how == "paused":
        queue.do(lease.job, Operation.PAUSE)
    queue.wait(3600)
    if how == "settled":
        assert outcomes.complete(
            queue.db, token(lease), now=queue.now, worker="w", detail="", until_last_progress=True
        )
    elif how == "requeued":
        outcomes.requeue(queue.db, lease, now=queue.now, why="a restart")
    else:
        queue.lose(lease)
    assert row(queue)["wall_s"] == 20.0


def test_a_worker_that_was_never_heard_has_not_worked(queue: Queue) -> None:
    lease = queue.claimed()
    queue.wait(3600)
    queue.lose(lease)
    assert (row(queue)["wall_s"], row(queue)["cpu_s"]) == (0.0, 0.0)


def test_each_attempt_of_a_job_counts_for_itself(queue: Queue) -> None:
    first = queue.claimed()
    queue.wait(5)
    used(queue, first, 3.0)
    queue.do(first.job, Operation.PAUSE)
    queue.release(first, Control.PAUSE)
    queue.do(first.job, Operation.RESUME)
    second = queue.claim(queue.worker("cpu-1"))
    assert second is not None
    queue.wait(9)
    used(queue, second, 4.0)
    assert queue.complete(second)
    assert [(each["worker"], each["wall_s"], each["cpu_s"], each["status"]) for each in rows(queue)] == [
        ("cpu-0", 5.0, 3.0, "paused"),
        ("cpu-1", 9.0, 4.0, "done"),
    ]


def several(queue: Queue) -> list[dict[str, Any]]:
    """Rows of ten days, stored in no order."""
    chosen = random.Random(7)
    made = []
    for number in range(400):
        status = chosen.choice(["done", "done", "done", "failed", "pending"])
        done = status == "done"
        made.append(
            {
                "at": NOW - chosen.randrange(10 * DAY),
                "job_id": number,
                "epoch": 1,
                "status": status,
                "worker": f"cpu-{chosen.randrange(3)}",
                "batch": chosen.choice(["one", "two", None]),
                "wall_s": float(chosen.randrange(100)),
                "cpu_s": float(chosen.randrange(400)),
                "media_s": float(chosen.randrange(900)) if done else 0.0,
                "bytes_in": chosen.randrange(10**12) if done else 0,
                "bytes_out": chosen.randrange(10**12) if done else 0,
                "eta_error_percent": chosen.randrange(60) if done and chosen.random() < 0.8 else None,
            }
        )
    queue.db.execute(insert(tables.statistic), made)
    return made


def expected(made: Iterable[dict[str, Any]]) -> dict[str, Any]:
    of = list(made)
    off = sorted(each["eta_error_percent"] for each in of if each["eta_error_percent"] is not None)
    sums: dict[str, Any] = {
        name: sum(each[name] for each in of)
        for name in ("wall_s", "cpu_s", "media_s", "bytes_in", "bytes_out")
    }
    return sums | {
        "done": sum(each["status"] == "done" for each in of),
        "failed": sum(each["status"] == "failed" for each in of),
        "attempts": len(of),
        "speed": sums["media_s"] / sums["wall_s"],
        "median": off[(len(off) + 1) // 2 - 1] / 100,
        "p90": off[-(-len(off) * 9 // 10) - 1] / 100,
    }


def shown(figures: Figures) -> dict[str, Any]:
    names = ("wall_s", "cpu_s", "media_s", "bytes_in", "bytes_out", "done", "failed", "attempts", "speed")
    return {name: getattr(figures, name) for name in names} | {
        "median": figures.off_by(0.5),
        "p90": figures.off_by(0.9),
    }


def test_sums_are_those_of_the_rows(queue: Queue) -> None:
    made = several(queue)
    since, until = NOW - 7 * DAY, NOW - 2 * DAY
    within = [each for each in made if since <= each["at"] < until]
    assert 0 < len(within) < len(made)
    assert shown(statistics.between(queue.db, since, until)) == expected(within)
    days = [statistics.between(queue.db, since + at * DAY, since + (at + 1) * DAY) for at in range(5)]
    assert shown(statistics.total(days)) == expected(within)
    for by in GROUPS:
        groups = statistics.grouped(queue.db, by, since, until, limit=10)
        newest_first = sorted(within, key=lambda each: -each["at"])
        assert list(groups) == list(dict.fromkeys(each[by] or "" for each in newest_first))
        for name, figures in groups.items():
            assert shown(figures) == expected(each for each in within if (each[by] or "") == name)


@pytest.mark.parametrize("by", GROUPS)
def test_only_the_latest_groups_are_added_up(queue: Queue, by: statistics.Group) -> None:
    made = several(queue)
    [(name, figures)] = statistics.grouped(queue.db, by, 0, NOW + 1, limit=1).items()
    assert name == (max(made, key=lambda each: each["at"])[by] or "")
    assert shown(figures) == expected(each for each in made if (each[by] or "") == name)


def test_the_ends_of_a_time_belong_to_one_part_each(queue: Queue) -> None:
    made = several(queue)
    at = made[0]["at"]
    assert statistics.between(queue.db, at, at + 1).attempts == 1
    assert statistics.between(queue.db, at - 5, at).attempts == 0
    for by in GROUPS:
        assert list(statistics.grouped(queue.db, by, at, at + 1, limit=9)) == [made[0][by] or ""]
        assert statistics.grouped(queue.db, by, at - 5, at, limit=9) == {}


def test_batches_are_described_by_their_first_job(queue: Queue) -> None:
    first, *_, other = (queue.job(batch=name) for name in ("one", "one", "not asked for", "two"))
    names = queue.db.execute("SELECT job.id, name FROM video JOIN job ON job.video_id = video.id").all()
    of = {row[0]: row[1] for row in names}
    assert statistics.batches(queue.db, ["one", "two"]) == {
        "one": statistics.BatchLabel(2, of[first], NOW),
        "two": statistics.BatchLabel(1, of[other], NOW),
    }
    assert statistics.batches(queue.db, ["gone"]) == {}


def test_nothing_has_no_speed(queue: Queue) -> None:
    nothing = statistics.between(queue.db, 0, NOW)
    assert (nothing, nothing.speed, nothing.off_by(0.5)) == (Figures(), None, None)


def test_a_time_is_read_from_the_rows_in_order(plan: Plan) -> None:
    search = "SEARCH statistic USING PRIMARY KEY (at>? AND at<?)"
    assert search in plan(statistics._WHOLE, since=1, until=2)
    for by in GROUPS:
        assert search in plan(statistics._BY[by], since=1, until=2, limit=9)


def test_the_change_of_the_queue_is_the_difference_of_its_lengths(queue: Queue) -> None:
    """After each of many operations, whatever moves jobs in and out: held against the counts themselves."""

    def length() -> int:
        return sum(pages.counts_by_status(queue.db)[status] for status in OPEN)

    chosen, marks = random.Random(11), [(queue.now, length())]
    operations_of = (Operation.PAUSE, Operation.RESUME, Operation.CANCEL, Operation.RETRY, Operation.RESTART)
    others = (Operation.DELETE, Operation.UNDELETE, Operation.PRIORITY)
    jobs = [queue.job() for _ in range(4)]
    for _ in range(200):
        queue.wait(1)
        match chosen.randrange(5):
            case 0:
                jobs.append(queue.job())
            case 1 if (lease := queue.claim(queue.worker(f"cpu-{len(marks)}"))) is not None:
                end = chosen.choice(
                    [queue.complete, queue.lose, lambda it: queue.fail(it, ErrorCode.NO_MEDIA)]
                )
                end(lease)
            case _:
                queue.do(chosen.choice(jobs), chosen.choice((*operations_of, *others)))
        queue.wait(1)
        marks.append((queue.now, length()))
    assert len({each for _, each in marks}) > 3
    for (since, before), (until, after) in pairwise(marks):
        assert statistics.queue_change(queue.db, since, until) == after - before
    (since, before), (until, after) = marks[0], marks[-1]
    assert statistics.queue_change(queue.db, since, until) == after - before
    assert statistics.queue_change(queue.db, until, until + DAY) == 0


COMINGS_AND_GOINGS = [
    (EventKind.CREATE, None, "pending", 1),
    (EventKind.CREATE_HELD, None, "paused", 1),
    (EventKind.CLAIM, None, "in_progress", 1),
    (EventKind.RETRY, "failed", "pending", 1),
    (EventKind.RESUME, "cancelled", "paused", 1),
    (EventKind.CLAIM, "done", "in_progress", 1),
    (EventKind.UNDELETED, "pending", "pending", 1),
    (EventKind.UNDELETED, "paused", "paused", 1),
    (EventKind.UNDELETED, "done", "done", 0),
    (EventKind.CLAIM, "pending", "in_progress", 0),
    (EventKind.PAUSE, "in_progress", "paused", 0),
    (EventKind.RESUME, "paused", "pending", 0),
    (EventKind.RELEASE, "in_progress", "pending", 0),
    (EventKind.PRIORITY_CHANGED, "pending", None, 0),
    (EventKind.COMPLETE, "in_progress", "done", -1),
    (EventKind.CANCEL, "pending", "cancelled", -1),
    (EventKind.CANCEL, "paused", "cancelled", -1),
    (EventKind.DELETED, "pending", "pending", -1),
    (EventKind.DELETED, "paused", "paused", -1),
    (EventKind.DELETED, "failed", "failed", 0),
    (EventKind.DELETED, "pending", None, 0),
]


@pytest.mark.parametrize(("kind", "source", "target", "change"), COMINGS_AND_GOINGS)
def test_what_comes_into_the_queue_and_what_leaves_it(
    queue: Queue, kind: EventKind, source: str | None, target: str | None, change: int
) -> None:
    at = NOW + 10 * DAY
    events.append(queue.db, kind, now=at, actor="test", source=source, target=target)
    assert statistics.queue_change(queue.db, at, at + 1) == change
    assert statistics.queue_change(queue.db, at + 1, at + 2) == 0
    assert statistics.queue_change(queue.db, at - 1, at) == 0
