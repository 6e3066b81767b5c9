"""Sources that are to be moved or deleted: which, when, and what is recorded of it."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
from sqlalchemy import update

from tqstudio.engine.store.db.tables import job, video
from tqstudio.engine.store.library import folders, removals, videos
from tqstudio.engine.store.library.removals import MAX_INODE, Removal
from tqstudio.lifecycle import JobStatus, Operation
from tqstudio.protocol.requests import SourceIdentity

from .conftest import NOW, Plan, Queue
from .test_folders import RULES

IDENTITY = SourceIdentity(size=1000, mtime_ns=-5, inode=(1 << 64) - 1, ctime_ns=7)


def folder(queue: Queue, after_done: str = "delete", path: bytes = b"/in") -> int:
    row = folders.add(queue.db, RULES | {"path": path, "after_done": after_done}, now=NOW)
    assert row is not None
    return row.id


def done(queue: Queue, home: int | None, *, from_folder: bool = True) -> int:
    """A job that is done, of a folder or of none."""
    video = queue.video()
    if home is not None:
        videos.adopt(queue.db, video, home)
    lease = queue.claimed(queue.worker(f"w-{video}"), video=video, from_folder=from_folder)
    assert queue.complete(lease)
    removals.plan(queue.db, lease.job, IDENTITY)
    return lease.job


def due(queue: Queue) -> list[int]:
    return [row.job for row in removals.due(queue.db, after=0, limit=9)]


def removal(queue: Queue) -> Removal:
    done(queue, folder(queue))
    [row] = removals.due(queue.db, after=0, limit=9)
    return row


def needed_by_a_job(queue: Queue, row: Removal) -> bool:
    """Whether the only source that is due waits for a job."""
    needed = not due(queue)
    assert removals.begin(queue.db, row, None, now=NOW) is not needed
    return needed


def duplicate(queue: Queue, row: Removal, out: bytes = b"/elsewhere") -> int:
    """A video of the same source for another output."""
    new = videos.NewVideo(row.source, out, "duplicate", "duplicate", "duplicate", 1000, 1, "hash")
    return videos.create(queue.db, new, now=NOW)


def test_only_sources_of_folders_with_a_rule_are_due(queue: Queue) -> None:
    one = done(queue, folder(queue, "delete", b"/in/1"))
    two = done(queue, folder(queue, "move", b"/in/2"))
    done(queue, folder(queue, "keep", b"/in/3"))
    done(queue, folder(queue, "delete", b"/in/4"), from_folder=False)
    done(queue, None)
    assert due(queue) == [one, two]
    [row] = removals.due(queue.db, after=0, limit=1)
    assert (row.job, row.after_done, row.folder_path, row.begun_at) == (one, "delete", b"/in/1", None)
    assert (row.size, row.mtime_ns, row.inode, row.ctime_ns) == (1000, -5, MAX_INODE, 7)
    assert [each.job for each in removals.due(queue.db, after=one, limit=1)] == [two]
    folders.remove(queue.db, row.folder or 0, now=NOW)
    assert removals.due(queue.db, after=0, limit=1)[0].after_done is None


@pytest.mark.parametrize(
    ("status", "needed"),
    [
        (JobStatus.PENDING, True),
        (JobStatus.PAUSED, True),
        (JobStatus.IN_PROGRESS, True),
        (JobStatus.FAILED, True),
        (JobStatus.CANCELLED, False),
        (JobStatus.DONE, False),
    ],
)
def test_which_jobs_need_a_source(queue: Queue, status: JobStatus, needed: bool) -> None:
    row = removal(queue)
    other = queue.in_status(status)
    assert not needed_by_a_job(queue, row), "it is of another source"
    queue.db.execute(
        "UPDATE job SET video_id = :video WHERE id = :job", {"video": duplicate(queue, row), "job": other}
    )
    assert needed_by_a_job(queue, row) is needed
    assert not removals.begin(queue.db, replace(row, job=0), None, now=NOW)
    queue.db.execute("UPDATE job SET deleted_at = 1 WHERE id = :job", {"job": other})
    assert not needed_by_a_job(queue, row)


@pytest.mark.parametrize(
    ("status", "deleted", "needed"),
    [
        (JobStatus.DONE, False, False),
        (JobStatus.CANCELLED, False, True),
        (JobStatus.DONE, True, True),
    ],
)
def test_a_failed_job_needs_it_unless_a_later_one_replaced_it(
    queue: Queue, status: JobStatus, deleted: bool, needed: bool
) -> None:
    row = removal(queue)
    video = duplicate(queue, row)
    before, failed, later = queue.in_status(JobStatus.DONE), queue.in_status(JobStatus.FAILED), queue.job()
    assert before < failed < later
    queue.do(later, Operation.CANCEL)
    queue.in_status(JobStatus.DONE)
    queue.db.execute(update(job).where(job.c.id.in_([before, failed, later])).values(video_id=video))
    queue.db.execute(
        "UPDATE job SET status = :status, deleted_at = :deleted WHERE id = :job",
        {"status": status.value, "deleted": 1 if deleted else None, "job": later},
    )
    assert needed_by_a_job(queue, row) is needed


def test_a_path_that_a_video_has_is_no_target(queue: Queue) -> None:
    row = removal(queue)
    other = done(queue, row.folder)
    taken = videos.get(queue.db, queue.video())
    assert taken is not None
    assert removals.is_taken(queue.db, taken.source)
    assert not removals.is_taken(queue.db, b"/done/a")
    assert removals.begin(queue.db, row, b"/done/a", now=NOW + 1)
    begun = {each.job: (each.target, each.begun_at) for each in removals.due(queue.db, after=0, limit=9)}
    assert begun == {row.job: (b"/done/a", NOW + 1), other: (None, None)}
    removals.forget(queue.db, row)
    assert not removals.begin(queue.db, row, b"/done/a", now=NOW)


def test_a_source_that_keeps_its_file_name_keeps_its_name(queue: Queue) -> None:
    row = removal(queue)
    before = videos.get(queue.db, row.video)
    target = b"/done/" + os.path.basename(row.source)
    queue.db.execute(update(video).values(name="Alps film.mp4"))
    removals.moved(queue.db, row, target, os.stat(__file__), now=NOW)
    found = videos.get(queue.db, row.video)
    assert before is not None
    assert found is not None
    assert (found.source, found.name) == (target, "Alps film.mp4")


def test_every_video_follows_a_moved_source(queue: Queue) -> None:
    row, other, elsewhere = removal(queue), queue.video(), queue.video(out=b"/elsewhere-2")
    video = duplicate(queue, row)
    removals.record_failure(queue.db, row, "for a test", now=NOW)
    taken = videos.NewVideo(b"/done/New.MP4", b"/third", "x", "x", "x", 1, 1, None)
    videos.create(queue.db, taken, now=NOW)
    left = duplicate(queue, row, b"/third")
    removals.moved(queue.db, row, b"/done/New.MP4", os.stat(__file__), now=NOW)
    for number in (row.video, video):
        found = videos.get(queue.db, number)
        assert found is not None
        assert (found.source, found.name) == (b"/done/New.MP4", "New.MP4")
    for number in (other, elsewhere, left):
        stays = videos.get(queue.db, number)
        assert stays is not None
        assert stays.source != b"/done/New.MP4"
    there = os.stat(__file__)
    found_again = {"inode": there.st_ino, "size": 1000, "mtime_ns": there.st_mtime_ns}
    assert [each.id for each in videos.with_inode(queue.db, b"/out", **found_again)] == [row.video]
    assert (
        queue.db.execute("SELECT name_lower FROM video WHERE id = :id", {"id": video}).scalar() == "new.mp4"
    )
    event = queue.history(row.job)[-1]
    assert (event["trigger"], event["detail"]) == (
        "source_moved",
        f"{row.source.decode()} is now /done/New.MP4",
    )
    assert (due(queue), json.loads(queue.row(row.job)["warnings"])) == ([], [])


def test_a_deleted_source_is_marked_until_it_is_back(queue: Queue) -> None:
    row, other = removal(queue), queue.video()
    video = duplicate(queue, row)
    removals.deleted(queue.db, row, now=NOW)
    stored = queue.db.execute("SELECT id, source_deleted_at FROM video").all()
    marks = dict(tuple(each) for each in stored)
    assert (marks[row.video], marks[video], marks[other]) == (NOW, NOW, None)
    assert queue.history(row.job)[-1]["trigger"] == "source_deleted"
    assert due(queue) == []
    assert videos.known_sources(queue.db, row.folder or 0) == {}
    videos.set_fingerprint(queue.db, row.video, size=1000, mtime_ns=1, quick_hash=None, changed=False)
    assert row.source in videos.known_sources(queue.db, row.folder or 0)


def test_a_job_has_one_warning_about_its_source(queue: Queue) -> None:
    row = removal(queue)
    beside = queue.in_status(JobStatus.DONE)
    other = [{"code": "GPU_FAILED", "text": "it failed"}]
    queue.db.execute("UPDATE job SET warnings = :text", {"text": json.dumps(other)})
    for why in ("first", "first", "second"):
        removals.record_failure(queue.db, row, why, now=NOW)
    kept = {"code": "SOURCE_KEPT", "text": "second"}
    assert json.loads(queue.row(row.job)["warnings"]) == [*other, kept]
    assert json.loads(queue.row(beside)["warnings"]) == other
    warnings = [event["detail"] for event in queue.history(row.job) if event["trigger"] == "warning"]
    assert warnings == ["first", "second"]
    [stored] = removals.due(queue.db, after=0, limit=9)
    assert stored.warnings == {"GPU_FAILED", "SOURCE_KEPT"}


def test_sources_are_found_by_indexes(plan: Plan) -> None:
    lines = plan(removals.DUE, after=0, limit=1)
    assert not [line for line in lines if line.startswith("SCAN") and "removal" not in line]
