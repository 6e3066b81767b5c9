"""Which published ladders a job may link from."""

from __future__ import annotations

from typing import Any

import pytest

from tqstudio.engine.store.library import folders, generations, videos
from tqstudio.errors import ErrorCode

from .conftest import NOW, Queue
from .test_folders import folder


def published(queue: Queue, out: bytes = b"/out", **more: Any) -> int:
    video = queue.video(out=out)
    found = {"size": 1000, "mtime_ns": 1, "quick_hash": "hash", "full_hash": None, "changed": False} | more
    videos.set_fingerprint(queue.db, video, **found)
    generations.record(queue.db, video, 1, settings_hash="h", poster=None, renditions=[], now=queue.now)
    return video


def linking(queue: Queue, *, rule: str = "link", **more: Any) -> int:
    """A job of a folder with this rule."""
    ours, theirs = folder(queue, b"/ours"), folder(queue, b"/theirs")
    folders.change(queue.db, ours, {"duplicates": rule}, now=NOW)
    folders.change(queue.db, theirs, {"duplicates": "encode" if rule == "link" else "link"}, now=NOW)
    video = queue.video()
    videos.adopt(queue.db, video, ours)
    return queue.job(video=video, **({"from_folder": True} | more))


def duplicates(queue: Queue, job: int) -> list[int]:
    return [duplicate.video for duplicate in generations.duplicates(queue.db, job)]


def test_ladders_of_the_same_size_and_samples_are_duplicates_in_any_output(queue: Queue) -> None:
    published(queue, size=1001)
    published(queue, quick_hash="other")
    queue.video()
    first, second = published(queue), published(queue, b"/elsewhere")
    videos.set_full_hash(queue.db, second, "of all")
    videos.set_slug(queue.db, second, "slug")
    job = linking(queue)
    linking_too = queue.job(video=queue.video(), from_folder=True)
    found = generations.duplicates(queue.db, job)
    assert [duplicate.video for duplicate in found] == [second, first]
    assert (found[0].output_root, found[0].slug, found[0].full_hash) == (b"/elsewhere", "slug", "of all")
    assert found[0].generation == generations.current(queue.db, second)
    assert duplicates(queue, linking_too) == [], "it is in no folder"
    newer = [published(queue), published(queue)]
    assert duplicates(queue, job) == [*newer[::-1], second], "the newest, and not all"


def test_a_video_is_no_duplicate_of_itself(queue: Queue) -> None:
    job = linking(queue)
    [video] = [row["video_id"] for row in [queue.row(job)]]
    generations.record(queue.db, video, 1, settings_hash="h", poster=None, renditions=[], now=queue.now)
    assert duplicates(queue, job) == []


def test_a_deleted_video_is_no_duplicate(queue: Queue) -> None:
    there, deleted = published(queue), published(queue)
    queue.db.execute("UPDATE video SET deleted_at = 1 WHERE id = :id", {"id": deleted})
    assert duplicates(queue, linking(queue)) == [there]


@pytest.mark.parametrize("how", [{"rule": "encode"}, {"rule": "skip"}, {"from_folder": False}])
def test_only_by_the_rule_of_the_folder_that_queued_it(queue: Queue, how: dict[str, Any]) -> None:
    published(queue)
    assert duplicates(queue, linking(queue, **how)) == []


def test_a_job_that_failed_or_crashed_twice_does_without(queue: Queue) -> None:
    [duplicate] = [published(queue)]
    job = linking(queue, priority=999)
    for _ in range(2):
        assert duplicates(queue, job) == [duplicate]
        lease = queue.claim()
        assert lease is not None
        queue.lose(lease)
    assert queue.row(job)["crashes"] == 2
    assert duplicates(queue, job) == []
    lease = queue.claim()
    assert lease is not None
    queue.db.execute("UPDATE job SET crashes = 0")
    assert duplicates(queue, job) == [duplicate]
    queue.fail(lease, ErrorCode.OUTPUT_INVALID)
    assert queue.row(job)["attempts"] == 1
    assert duplicates(queue, job) == []
