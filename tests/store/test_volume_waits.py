"""Jobs that wait alone: their disk does not answer, or that of their source is away."""

from __future__ import annotations

from tqstudio.engine.store.jobs import volume_waits
from tqstudio.engine.store.library import videos
from tqstudio.engine.store.machine import gates
from tqstudio.errors import ErrorCode
from tqstudio.lifecycle import JobStatus

from .conftest import SECOND, Queue
from .test_folders import folder


def _waiting(queue: Queue, code: ErrorCode = ErrorCode.SOURCE_UNAVAILABLE) -> int:
    lease = queue.claimed()
    queue.fail(lease, code)
    return lease.job


def test_a_job_that_waits_lets_the_next_one_go_and_says_why_once(queue: Queue) -> None:
    first, second = queue.job(), queue.job()

    def wait(why: str) -> None:
        until = queue.now + 15 * SECOND
        volume_waits.begin(
            queue.db, first, now=queue.now, until=until, code="DISK_NOT_RESPONDING", why=why, hint="see"
        )

    before = queue.row(second)
    wait("the disk is silent")
    row = queue.row(first)
    assert (row["status"], row["attempts"], row["crashes"]) == ("pending", 0, 0)
    assert (row["error_code"], row["error_text"]) == ("DISK_NOT_RESPONDING", "the disk is silent")
    assert (row["not_before"], row["ready_at"]) == (queue.now + 15 * SECOND, None)
    assert queue.row(second) == before
    assert queue.claim(queue.worker("one")).job == second  # type: ignore[union-attr]
    assert queue.claim(queue.worker("two")) is None
    for why in ("the disk is silent", "another is"):
        wait(why)
    details = [event["detail"] for event in queue.history(first) if event["trigger"] == "postponed"]
    assert details == ["the disk is silent", "another is"]
    queue.wait(15)
    queue.promote()
    assert queue.claim(queue.worker("two")).job == first  # type: ignore[union-attr]


def test_a_need_names_what_is_read_and_written(queue: Queue) -> None:
    ours = folder(queue, b"/in")
    folder(queue, b"/other")
    alone, dropped = queue.video("a.mp4"), queue.video("b.mp4")
    queue.db.execute(
        "UPDATE video SET folder_id = :folder, created_at = 7 WHERE id = :id", {"folder": ours, "id": dropped}
    )
    other, job = queue.job(video=alone), queue.job(video=dropped)
    need, by_hand = gates.need_of(queue.db, job), gates.need_of(queue.db, other)
    assert need is not None
    assert by_hand is not None
    assert (need.job, need.video, need.name, need.folder, need.added_at) == (job, dropped, "b.mp4", b"/in", 7)
    assert (by_hand.job, by_hand.folder) == (other, None)
    assert gates.need_of(queue.db, 99) is None


def test_those_that_wait_for_a_volume_come_in_turn(queue: Queue) -> None:
    folder(queue, b"/of no job")
    one, two, three, paused = (_waiting(queue) for _ in range(4))
    silent = _waiting(queue, ErrorCode.DISK_NOT_RESPONDING)
    _waiting(queue, ErrorCode.GPU_BUSY)
    queue.db.execute("UPDATE job SET status = 'paused' WHERE id = :id", {"id": paused})
    queue.db.execute("UPDATE job SET error_code = 'SOURCE_UNAVAILABLE' WHERE id = :id", {"id": queue.job()})
    due_at = queue.row(one)["not_before"]
    for job, later in ((one, 3), (two, 0), (three, 2), (silent, 1)):
        at = due_at + later * SECOND
        queue.db.execute("UPDATE job SET not_before = :at WHERE id = :id", {"at": at, "id": job})
    found = volume_waits.waiting(queue.db, limit=9)
    assert [each.need.job for each in found] == [two, silent, three, one]
    assert [each.until - due_at for each in found] == [0, SECOND, 2 * SECOND, 3 * SECOND]
    assert [each.code for each in found[:2]] == ["SOURCE_UNAVAILABLE", "DISK_NOT_RESPONDING"]
    assert found[0].need == gates.need_of(queue.db, two)
    assert volume_waits.waiting(queue.db, limit=2) == found[:2]


def test_jobs_whose_volume_is_back_may_be_claimed_and_the_others_wait(queue: Queue) -> None:
    back, away, other = (_waiting(queue) for _ in range(3))
    others = [other, queue.job(), queue.in_status(JobStatus.DONE)]
    paused = _waiting(queue)
    queue.db.execute("UPDATE job SET status = 'paused' WHERE id = :id", {"id": paused})
    others.append(paused)
    before = [queue.row(job) for job in others]
    events_before = len(queue.history())
    until = queue.now + 5
    volume_waits.update_waits(queue.db, longer=[away, *others[1:]], back=[], now=queue.now, until=until)
    assert queue.row(away)["not_before"] == until
    assert [queue.row(job) for job in others] == before
    volume_waits.update_waits(queue.db, longer=[], back=[back, *others[1:]], now=queue.now + 1, until=until)
    assert (queue.row(back)["not_before"], queue.row(back)["ready_at"]) == (None, queue.now + 1)
    assert queue.row(away)["not_before"] == until
    assert [queue.row(job) for job in others] == before
    assert len(queue.history()) == events_before


def test_those_whose_source_changed_come_in_turn(queue: Queue) -> None:
    ours = folder(queue, b"/in", settle_s=0.5)
    folder(queue, b"/other", settle_s=9.0)
    one, two, paused = (_waiting(queue, ErrorCode.SOURCE_CHANGED) for _ in range(3))
    _waiting(queue)
    queue.db.execute("UPDATE job SET status = 'paused' WHERE id = :id", {"id": paused})
    queue.db.execute("UPDATE job SET error_code = 'SOURCE_CHANGED' WHERE id = :id", {"id": queue.job()})
    video = queue.row(two)["video_id"]
    queue.db.execute("UPDATE video SET folder_id = :folder WHERE id = :id", {"folder": ours, "id": video})
    due_at = queue.row(one)["not_before"]
    queue.db.execute("UPDATE job SET not_before = :at WHERE id = :id", {"at": due_at - 1, "id": two})
    found = volume_waits.changed(queue.db)
    assert [(each.job, each.until, each.settle_s) for each in found] == [
        (two, due_at - 1, 0.5),
        (one, due_at, None),
    ]
    assert found[0].source == videos.get(queue.db, video).source  # type: ignore[union-attr]
    assert volume_waits.changed(queue.db, limit=1) == found[:1]
