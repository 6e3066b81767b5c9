"""Names of videos for reports."""

from __future__ import annotations

from tqstudio.engine.store.library import names
from tqstudio.engine.store.library.names import VideoNames

from .conftest import Queue


def test_names_are_those_of_the_newest_videos_and_of_some_jobs(queue: Queue) -> None:
    of_job, _, newest = (queue.video(name) for name in ("old.mp4", "other.mp4", "new.mp4"))
    job = queue.job(video=of_job)
    found = names.of_videos(queue.db, [job], newest=1)
    assert sorted(found, key=lambda each: each.id) == [
        VideoNames(of_job, b"/in/1/old.mp4", "old.mp4", "old.mp4", "clip-1"),
        VideoNames(newest, b"/in/3/new.mp4", "new.mp4", "new.mp4", "clip-3"),
    ]
    assert [each.id for each in names.of_videos(queue.db, [job + 1], newest=1)] == [newest]
    assert [each.id for each in names.of_videos(queue.db, [job + 1], newest=0)] == []
