"""Deleted videos, from the request until the ladder is back or removed; always beside another one."""

from __future__ import annotations

import pytest

from tqstudio.engine.store.db import rows, tables
from tqstudio.engine.store.library import deletions, generations, publications, videos
from tqstudio.engine.store.library.publications import PublicationRow
from tqstudio.errors import ErrorCode
from tqstudio.lifecycle import DeletionState, JobStatus, Operation

from .conftest import NOW, Plan, Queue


def delete(queue: Queue, video: int) -> list[int]:
    queue.wait(1)
    return deletions.begin(queue.db, video, now=queue.now, actor="test")


def restore(queue: Queue, video: int) -> bool:
    return deletions.restore(queue.db, video, now=queue.now, actor="test")


def state(queue: Queue, video: int) -> DeletionState | None:
    row = deletions.of_video(queue.db, video)
    return row.state if row else None


def deleted_at(queue: Queue, video: int) -> int | None:
    row = videos.get(queue.db, video)
    assert row is not None
    return row.deleted_at


def test_a_table_with_a_row_is_not_empty(queue: Queue) -> None:
    assert not rows.is_any(queue.db, tables.deletion)
    delete(queue, published(queue)[0])
    assert rows.is_any(queue.db, tables.deletion)


def published(queue: Queue) -> tuple[int, int]:
    """A video with a ladder, and its job."""
    job = queue.in_status(JobStatus.DONE)
    video = queue.row(job)["video_id"]
    number = generations.next_number(queue.db, video)
    generations.record(
        queue.db, video, number, settings_hash="x", poster=None, renditions=(), job=job, now=queue.now
    )
    return video, job


@pytest.fixture
def pair(queue: Queue) -> tuple[int, int]:
    """Two videos with a ladder, of which the second is deleted as far as the first is not."""
    return published(queue)[0], published(queue)[0]


def trashed(queue: Queue, video: int) -> list[int]:
    delete(queue, video)
    return deletions.trashed(queue.db, video)


def test_a_video_is_deleted_once_with_its_jobs(queue: Queue) -> None:
    video, job = published(queue)
    other, kept = published(queue)
    gone = queue.job(video=video)
    queue.do(gone, Operation.DELETE)
    before = queue.row(gone)["deleted_at"]
    assert delete(queue, video) == []
    first = queue.now
    assert (deleted_at(queue, video), queue.row(job)["deleted_at"]) == (first, first)
    assert (deleted_at(queue, other), queue.row(kept)["deleted_at"]) == (None, None)
    assert queue.row(gone)["deleted_at"] == before
    assert delete(queue, video) == []
    assert deleted_at(queue, video) == first
    assert [row.video for row in deletions.moving(queue.db)] == [video]
    assert (state(queue, video), state(queue, other)) == (DeletionState.TRASHING, None)
    row, found = videos.get(queue.db, video), deletions.of_video(queue.db, video)
    assert row is not None
    assert found is not None
    assert (found.slug, found.generation, found.deleted_at) == (row.slug, row.generation, first)
    delete(queue, other)
    second = videos.get(queue.db, other)
    assert second is not None
    assert [each.slug for each in deletions.moving(queue.db)] == [row.slug, second.slug]
    last = deletions.of_video(queue.db, other)
    assert last is not None
    assert last.slug == second.slug


def test_the_open_job_is_cancelled(queue: Queue) -> None:
    job = queue.job()
    delete(queue, queue.row(job)["video_id"])
    assert (queue.row(job)["status"], queue.row(job)["deleted_at"]) == ("cancelled", queue.now)


def test_a_running_job_is_deleted_when_it_has_ended(queue: Queue) -> None:
    lease = queue.claimed()
    other = queue.claimed(queue.worker("cpu-1"))
    assert delete(queue, lease.video) == [lease.job]
    assert (queue.row(lease.job)["control"], queue.row(lease.job)["deleted_at"]) == ("cancel", None)
    assert deletions.is_busy(queue.db, lease.video)
    queue.fail(lease, ErrorCode.ENCODER_EXIT)
    assert not deletions.is_busy(queue.db, lease.video)
    assert deletions.is_busy(queue.db, other.video)
    assert deletions.trashed(queue.db, lease.video) == [lease.job]
    assert queue.row(lease.job)["deleted_at"] == deleted_at(queue, lease.video)
    assert queue.row(other.job)["deleted_at"] is None


def test_a_video_is_busy_while_it_is_published(queue: Queue, pair: tuple[int, int]) -> None:
    video, other = pair
    [job] = [queue.in_status(JobStatus.DONE)]
    row = PublicationRow(job, 1, None, "cpu-0", video, 1, "slug", "{}", None)
    publications.begin(queue.db, row, now=NOW)
    assert deletions.is_busy(queue.db, video)
    assert not deletions.is_busy(queue.db, other)


def test_a_ladder_is_trashed_once_it_has_moved(queue: Queue, pair: tuple[int, int]) -> None:
    one, two = pair
    delete(queue, two)
    assert trashed(queue, one) != []
    assert (state(queue, one), state(queue, two)) == (DeletionState.TRASHED, DeletionState.TRASHING)
    assert [row.video for row in deletions.moving(queue.db)] == [two]
    assert deletions.trashed(queue.db, one) == []
    restore(queue, two)
    assert deletions.trashed(queue.db, two) == []
    assert state(queue, two) is DeletionState.RESTORING


def test_only_the_jobs_deleted_with_a_video_lose_their_work(queue: Queue) -> None:
    video, job = published(queue)
    other, _ = published(queue)
    queue.do(queue.job(video=video), Operation.DELETE)
    queue.wait(1)
    for each in (video, other):
        deletions.begin(queue.db, each, now=queue.now, actor="test")
    assert deletions.trashed(queue.db, video) == [job]


def test_a_video_comes_back_with_the_jobs_deleted_with_it(queue: Queue) -> None:
    video, job = published(queue)
    other, others = published(queue)
    gone = queue.job(video=video)
    queue.do(gone, Operation.DELETE)
    delete(queue, other)
    trashed(queue, video)
    queue.db.execute(f"UPDATE video SET deleted_at = {deleted_at(queue, video)} WHERE id = {other}")
    queue.db.execute(f"UPDATE job SET deleted_at = {deleted_at(queue, video)} WHERE id = {others}")
    assert restore(queue, video)
    assert (deleted_at(queue, video), queue.row(job)["deleted_at"]) == (None, None)
    assert queue.row(gone)["deleted_at"] is not None
    assert deleted_at(queue, other) is not None
    assert queue.row(others)["deleted_at"] is not None
    assert (state(queue, video), state(queue, other)) == (DeletionState.RESTORING, DeletionState.TRASHING)
    assert not restore(queue, video), "it is not deleted"
    assert not restore(queue, 4711)


def test_it_may_be_deleted_again_on_its_way_back(queue: Queue, pair: tuple[int, int]) -> None:
    one, two = pair
    trashed(queue, one)
    trashed(queue, two)
    restore(queue, one)
    delete(queue, one)
    assert (state(queue, one), state(queue, two)) == (DeletionState.TRASHING, DeletionState.TRASHED)
    deletions.restored(queue.db, one, url=None)
    assert state(queue, one) is DeletionState.TRASHING


def test_it_is_back_once_it_is_restored(queue: Queue, pair: tuple[int, int]) -> None:
    for video in pair:
        trashed(queue, video)
        restore(queue, video)
    deletions.restored(queue.db, pair[0], url=None)
    assert [state(queue, video) for video in pair] == [None, DeletionState.RESTORING]


def test_a_ladder_is_removed_when_its_time_is_over(queue: Queue, pair: tuple[int, int]) -> None:
    one, two = pair
    trashed(queue, one)
    trashed(queue, two)
    assert deletions.due(queue.db, queue.now) == [one]
    assert deletions.due(queue.db, queue.now + 1) == [one, two]
    assert deletions.due(queue.db, queue.now + 1, limit=1) == [one]
    assert deletions.purge(queue.db, one)
    assert not deletions.purge(queue.db, one)
    assert (state(queue, one), state(queue, two)) == (DeletionState.PURGING, DeletionState.TRASHED)
    assert deletions.due(queue.db, queue.now + 1) == [two]
    assert not restore(queue, one)
    assert deleted_at(queue, one) is not None

    deletions.purged(queue.db, two, now=queue.now)
    assert state(queue, two) is DeletionState.TRASHED
    assert generations.current(queue.db, two) is not None
    deletions.purged(queue.db, one, now=queue.now)
    assert (state(queue, one), generations.current(queue.db, one)) == (None, None)
    assert generations.current(queue.db, two) is not None
    ends = queue.db.execute("SELECT video_id, removed_at, retired_at FROM generation ORDER BY id").all()
    assert [tuple(row) for row in ends] == [(one, queue.now, queue.now), (two, None, None)]
    assert restore(queue, one)


def test_what_was_removed_before_keeps_its_time(queue: Queue) -> None:
    video, _ = published(queue)
    [first] = queue.db.execute("SELECT id FROM generation").scalars()
    generations.record(queue.db, video, 2, settings_hash="x", poster=None, renditions=(), now=queue.now)
    generations.removed(queue.db, first, video, 1, now=NOW)
    assert generations.retired_before(queue.db, queue.now + 1) == []
    queue.wait(9)
    trashed(queue, video)
    deletions.purge(queue.db, video)
    deletions.purged(queue.db, video, now=queue.now)
    ends = queue.db.execute("SELECT number, removed_at, retired_at FROM generation ORDER BY id").all()
    assert [tuple(row) for row in ends] == [(1, NOW, NOW), (2, queue.now, queue.now)]


def test_the_replaced_ladders_of_a_deleted_video_are_trashed_too(queue: Queue, pair: tuple[int, int]) -> None:
    for video in pair:
        generations.record(queue.db, video, 2, settings_hash="x", poster=None, renditions=(), now=queue.now)
    delete(queue, pair[0])
    assert [row.video for row in generations.retired_before(queue.db, queue.now + 1)] == [pair[1]]
    assert restore(queue, pair[0])
    assert [row.video for row in generations.retired_before(queue.db, queue.now + 1)] == [pair[1]]
    deletions.restored(queue.db, pair[0], url=None)
    assert len(generations.retired_before(queue.db, queue.now + 1)) == 2


def test_a_deleted_video_has_no_duplicates(queue: Queue, pair: tuple[int, int]) -> None:
    delete(queue, pair[0])
    assert [row.id for row in videos.published_with_size(queue.db, b"/out", 1000)] == [pair[1]]


@pytest.mark.parametrize("operation", [Operation.RETRY, Operation.RESTART, Operation.UNDELETE])
def test_the_jobs_of_a_deleted_video_stay_as_they_are(queue: Queue, operation: Operation) -> None:
    job, other = queue.in_status(JobStatus.FAILED), queue.in_status(JobStatus.FAILED)
    video = queue.row(job)["video_id"]
    queue.db.execute(f"UPDATE video SET deleted_at = 1 WHERE id = {video}")
    refused = queue.do(job, operation).decision
    assert not refused.allowed
    assert f"tqstudio video undelete {video}" in refused.reason
    assert queue.do(other, operation).decision.allowed


def test_the_videos_of_a_source(queue: Queue, pair: tuple[int, int]) -> None:
    row = videos.get(queue.db, pair[0])
    assert row is not None
    assert [each.id for each in videos.with_source(queue.db, row.source)] == [pair[0]]
    assert videos.with_source(queue.db, b"/none") == []


def test_all_is_forgotten_of_files_that_nothing_needs(queue: Queue) -> None:
    kept = [published(queue)[0] for _ in range(5)]
    lease = queue.claimed(video=kept[0])
    row = PublicationRow(queue.in_status(JobStatus.DONE), 1, None, "cpu-0", kept[1], 1, "slug", "{}", None)
    publications.begin(queue.db, row, now=NOW)
    queue.db.execute(
        "INSERT INTO source_removal (job_id, video_id, size, mtime_ns, inode, ctime_ns)"
        f" VALUES ({row.job}, {kept[2]}, 1, 1, 1, 1)"
    )
    trashed(queue, kept[3])
    generations.record(queue.db, kept[4], 2, settings_hash="x", poster=None, renditions=(), now=queue.now)
    kept.append(queue.row(row.job)["video_id"])
    video, job = published(queue)
    gone = queue.job(video=queue.video())
    queue.do(gone, Operation.DELETE)
    queue.fail(queue.claimed(queue.worker("cpu-1")), ErrorCode.NO_MEDIA)
    queue.db.execute(f"UPDATE job SET status = 'pending', completed_at = NULL WHERE id = {row.job}")
    queue.db.execute(
        "INSERT INTO published_rendition"
        " (generation_id, name, kind, codecs, size, settings_hash, stream_key, files)"
        " SELECT id, '360p', 'video', '', 1, '', '', '[]' FROM generation"
    )
    attempts = set(queue.db.execute("SELECT job_id FROM attempt").scalars())
    kept.append(queue.row(queue.job(hold=True))["video_id"])
    assert deletions.forget(queue.db, limit=1) == 1
    assert deletions.forget(queue.db, limit=9) == 2
    assert deletions.forget(queue.db, limit=9) == 0
    assert [each.id for each in videos.page(queue.db, after=0, limit=99)] == kept
    for table in ("job", "generation"):
        left = queue.db.execute(f"SELECT DISTINCT video_id FROM {table}").scalars()
        assert set(left) <= set(kept)
    jobs = set(queue.db.execute("SELECT id FROM job").scalars())
    assert job not in jobs
    assert set(queue.db.execute("SELECT job_id FROM attempt").scalars()) == attempts & jobs
    assert attempts - jobs
    assert queue.db.execute("SELECT count(*) FROM published_rendition").scalar() == 6
    assert queue.row(lease.job)["status"] == "in_progress"
    assert len(jobs) == 8
    assert queue.db.execute("SELECT count(*) FROM generation").scalar() == 6
    assert video not in kept


def test_a_replaced_ladder_that_was_removed_is_forgotten_too(queue: Queue) -> None:
    video, _ = published(queue)
    [first] = queue.db.execute("SELECT id FROM generation").scalars()
    generations.record(queue.db, video, 2, settings_hash="x", poster=None, renditions=(), now=queue.now)
    assert deletions.forget(queue.db, limit=9) == 0
    generations.removed(queue.db, first, video, 1, now=NOW)
    assert deletions.forget(queue.db, limit=9) == 1


def test_what_is_due_reads_no_other_videos(plan: Plan) -> None:
    steps = plan(deletions.DUE, before=1, limit=1)
    assert not [step for step in steps if step.startswith("SCAN video") or "B-TREE" in step], steps
