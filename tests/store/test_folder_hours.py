"""Jobs that wait for the hours of their drop folder."""

from __future__ import annotations

from tqstudio.engine.store.jobs import folder_hours, jobs, volume_waits
from tqstudio.engine.store.jobs.folder_hours import FOREVER
from tqstudio.engine.store.library import folders
from tqstudio.engine.store.machine import gates
from tqstudio.errors import ErrorCode
from tqstudio.lifecycle import JobStatus

from .conftest import SECOND, Queue
from .test_folders import folder

LONGEST_US = 660 * SECOND


def dropped(queue: Queue, folder_id: int) -> int:
    video = queue.video()
    queue.db.execute(
        "UPDATE video SET folder_id = :folder WHERE id = :id", {"folder": folder_id, "id": video}
    )
    return queue.job(video=video)


def wait(queue: Queue, job: int, *, until: int = FOREVER, code: str = ErrorCode.OUTSIDE_HOURS) -> None:
    volume_waits.begin(queue.db, job, now=queue.now, until=until, code=code, why="closed", hint="")


def test_a_wait_ends_when_its_folder_is_open_or_gone(queue: Queue) -> None:
    closed, opened = folder(queue, b"/closed"), folder(queue, b"/open")
    shut, free, alone = dropped(queue, closed), dropped(queue, opened), queue.job()
    for job in (shut, free, alone):
        wait(queue, job)
    queue.wait(7)
    assert folder_hours.is_any_over(queue.db, {closed})
    assert folder_hours.is_any_over(queue.db, {closed, opened}), "one belongs to no folder"
    assert folder_hours.end_waits(queue.db, {closed}, now=queue.now) == 2
    assert not folder_hours.is_any_over(queue.db, {closed})
    assert folder_hours.is_any_over(queue.db, {opened})
    assert folder_hours.is_any_over(queue.db, set())
    assert queue.row(shut)["not_before"] == FOREVER
    for job in (free, alone):
        row = queue.row(job)
        assert (row["not_before"], row["ready_at"], row["error_code"]) == (None, queue.now, None)
        assert (row["status"], row["attempts"]) == (JobStatus.PENDING, 0)
    wait(queue, free)
    assert not folder_hours.is_any_over(queue.db, {closed, opened})
    assert folder_hours.end_waits(queue.db, {closed, opened}, now=queue.now) == 0
    third = dropped(queue, folder(queue, b"/third"))
    wait(queue, third)
    assert folder_hours.is_any_over(queue.db, {closed, opened})
    assert folder_hours.end_waits(queue.db, {closed, opened}, now=queue.now) == 1
    folders.remove(queue.db, closed, now=queue.now)
    assert folder_hours.end_waits(queue.db, set(), now=queue.now) == 2
    assert folder_hours.end_waits(queue.db, set(), now=queue.now) == 0


def test_other_waits_are_left_alone(queue: Queue) -> None:
    away, paused = queue.job(), queue.job()
    wait(queue, away, until=queue.now + 15 * SECOND, code=ErrorCode.SOURCE_UNAVAILABLE)
    wait(queue, paused)
    queue.db.execute("UPDATE job SET status = 'paused' WHERE id = :id", {"id": paused})
    assert not folder_hours.is_any_over(queue.db, set())
    before = [queue.row(job) for job in (away, paused)]
    assert folder_hours.end_waits(queue.db, set(), now=queue.now) == 0
    assert [queue.row(job) for job in (away, paused)] == before


def test_neither_the_clock_nor_a_look_at_volumes_ends_it(queue: Queue) -> None:
    job, retried = dropped(queue, folder(queue)), queue.job()
    wait(queue, job)
    assert not jobs.is_any_due(queue.db, now=queue.now, longest_us=LONGEST_US)
    assert volume_waits.waiting(queue.db, limit=9) == []
    wait(queue, retried, until=queue.now + 2 * LONGEST_US, code=ErrorCode.SOURCE_UNAVAILABLE)
    assert jobs.is_any_due(queue.db, now=queue.now, longest_us=LONGEST_US), "the clock was set back"
    assert jobs.promote_due(queue.db, now=queue.now, longest_us=LONGEST_US) == 1
    assert queue.row(retried)["not_before"] is None
    assert queue.row(job)["not_before"] == FOREVER


def test_the_hours_of_a_folder_are_part_of_a_need(queue: Queue) -> None:
    ours = folder(queue)
    folder(queue, b"/other")
    job, alone = dropped(queue, ours), queue.job()
    assert folder_hours.closing(queue.db) == {}
    folders.change(queue.db, ours, {"hours": "22:00-06:00"}, now=queue.now)
    assert folder_hours.closing(queue.db) == {ours: "22:00-06:00"}
    need, other = gates.need_of(queue.db, job), gates.need_of(queue.db, alone)
    assert need is not None
    assert other is not None
    assert (need.hours, other.hours) == ("22:00-06:00", None)
