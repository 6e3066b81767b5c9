"""Jobs that wait because the disk of their source is away."""

from __future__ import annotations

from tqstudio.engine.store.jobs import absent_sources
from tqstudio.engine.store.jobs.absent_sources import AbsentSource
from tqstudio.errors import ErrorCode
from tqstudio.lifecycle import JobStatus

from .conftest import SECOND, Queue


def _waiting(queue: Queue, code: ErrorCode = ErrorCode.SOURCE_AWAY) -> int:
    lease = queue.claimed()
    queue.fail(lease, code)
    return lease.job


def test_where_a_source_was(queue: Queue) -> None:
    queue.db.execute(
        "INSERT INTO folder (id, path, output_root, profile, watch, enabled, recursive, patterns, priority,"
        " autorestart_limit, autorestart_delay_s, created_at)"
        " VALUES (5, x'2f696e', x'2f6f7574', 'web', 'auto', 1, 1, '[]', 0, 0, 0, 1)"
    )
    alone, dropped = queue.video("a.mp4"), queue.video("b.mp4")
    queue.db.execute("UPDATE video SET folder_id = 5, created_at = 7 WHERE id = :id", {"id": dropped})
    source = queue.db.execute("SELECT source FROM video WHERE id = :id", {"id": dropped}).scalar()
    other, job = queue.job(video=alone), queue.job(video=dropped)
    assert absent_sources.of_job(queue.db, job) == AbsentSource(job, source, b"/in", 7)
    found = absent_sources.of_job(queue.db, other)
    assert found is not None
    assert (found.job, found.folder) == (other, None)
    assert absent_sources.of_job(queue.db, 99) is None


def test_those_that_wait_for_their_source_are_due_in_turn(queue: Queue) -> None:
    one, two, three, paused = (_waiting(queue) for _ in range(4))
    _waiting(queue, ErrorCode.GPU_SESSION)
    queue.db.execute("UPDATE job SET status = 'paused' WHERE id = :id", {"id": paused})
    due_at = queue.row(one)["not_before"]
    for job, later in ((one, 2), (two, 0), (three, 1)):
        at = due_at + later * SECOND
        queue.db.execute("UPDATE job SET not_before = :at WHERE id = :id", {"at": at, "id": job})

    def due(now: int, limit: int = 1000) -> list[int]:
        return [absentee.job for absentee in absent_sources.due(queue.db, now=now, limit=limit)]

    queue.db.execute(
        "INSERT INTO folder (id, path, output_root, profile, watch, enabled, recursive, patterns, priority,"
        " autorestart_limit, autorestart_delay_s, created_at)"
        " VALUES (5, x'2f696e', x'2f6f7574', 'web', 'auto', 1, 1, '[]', 0, 0, 0, 1)"
    )
    [first] = absent_sources.due(queue.db, now=due_at)
    assert first.folder is None, "it was added by hand, whatever folders there are"
    assert due(due_at - 1) == []
    assert due(due_at) == [two]
    assert due(due_at + 2 * SECOND) == [two, three, one]
    assert due(due_at + 2 * SECOND, limit=2) == [two, three]


def test_who_is_back_may_be_claimed_and_who_is_not_waits_on(queue: Queue) -> None:
    back, away, other = (_waiting(queue) for _ in range(3))
    others = [other, queue.job(), queue.in_status(JobStatus.DONE)]
    paused = _waiting(queue)
    queue.db.execute("UPDATE job SET status = 'paused' WHERE id = :id", {"id": paused})
    others.append(paused)
    before = [queue.row(job) for job in others]
    told = len(queue.history())
    until = queue.now + 5
    absent_sources.settle(queue.db, away=[away, *others[1:]], back=[], now=queue.now, until=until)
    assert queue.row(away)["not_before"] == until
    assert [queue.row(job) for job in others] == before
    absent_sources.settle(queue.db, away=[], back=[back, *others[1:]], now=queue.now + 1, until=until)
    assert (queue.row(back)["not_before"], queue.row(back)["ready_at"]) == (None, queue.now + 1)
    assert queue.row(away)["not_before"] == until
    assert [queue.row(job) for job in others] == before
    assert len(queue.history()) == told
