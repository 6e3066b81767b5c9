"""Drop folders, and what of them is known to the store."""

from __future__ import annotations

from typing import Any

from tqstudio.engine.store import events
from tqstudio.engine.store.library import folders, videos
from tqstudio.errors import ErrorCode
from tqstudio.lifecycle import JobStatus, Operation

from .conftest import NOW, Queue

RULES: dict[str, Any] = {
    "output_root": b"/out",
    "profile": "web",
    "watch": "auto",
    "recursive": 1,
    "patterns": ["*.mp4"],
    "settle_s": None,
    "priority": 0,
    "autorestart_limit": 0,
    "autorestart_delay_s": 0,
    "exclude": [],
    "after_done": "keep",
    "done_dir": None,
    "duplicates": "encode",
    "template": "{slug}",
    "audio": "skip",
}


def folder(queue: Queue, path: bytes = b"/in", **rules: Any) -> int:
    row = folders.add(queue.db, RULES | rules | {"path": path}, now=NOW)
    assert row is not None
    return row.id


def ended(queue: Queue, home: int, status: JobStatus) -> int:
    video = queue.video()
    videos.adopt(queue.db, video, home)
    lease = queue.claimed(queue.worker(f"worker-{video}"), video=video)
    if status is JobStatus.DONE:
        queue.complete(lease)
    if status is JobStatus.FAILED:
        queue.fail(lease, ErrorCode.NO_MEDIA)
    return lease.job


def test_a_path_is_watched_once(queue: Queue) -> None:
    made = folder(queue)
    assert folders.add(queue.db, RULES | {"path": b"/in"}, now=NOW) is None
    assert [row.id for row in folders.listing(queue.db)] == [made]
    assert folders.paths(queue.db) == [b"/in"]
    other = folder(queue, b"/in/2")
    assert folders.remove(queue.db, made, now=NOW)
    assert (folders.exists(queue.db, made), folders.exists(queue.db, other)) == (False, True)
    assert not folders.remove(queue.db, made, now=NOW)
    assert folders.change(queue.db, made, {"priority": 1}, now=NOW) is None


def test_the_history_names_the_folder(queue: Queue) -> None:
    made = folder(queue)
    folders.change(queue.db, made, {"priority": 1}, now=NOW)
    folders.remove(queue.db, made, now=NOW)
    stored = [(event.trigger, event.detail) for event in reversed(events.newest(queue.db, limit=3))]
    assert stored == [
        ("folder_added", "/in"),
        ("folder_changed", "/in: priority = 1"),
        ("folder_removed", "/in"),
    ]


def test_what_ended_is_counted_by_folder(queue: Queue) -> None:
    one, two, three = (folder(queue, b"/in/%d" % number) for number in range(3))
    for home, status in (
        (one, JobStatus.DONE),
        (one, JobStatus.FAILED),
        (two, JobStatus.DONE),
        (two, JobStatus.IN_PROGRESS),
    ):
        ended(queue, home, status)
    queue.do(ended(queue, two, JobStatus.FAILED), Operation.DELETE)
    queue.do(ended(queue, three, JobStatus.FAILED), Operation.CANCEL)
    queue.in_status(JobStatus.DONE)
    assert folders.ended_since(queue.db, NOW) == {one: (1, 1), two: (1, 0)}
    assert folders.ended_since(queue.db, NOW + 1) == {}


def test_the_lengths_of_some_sources(queue: Queue) -> None:
    first, unknown, other = queue.video("a.mp4"), queue.video("b.mp4"), queue.video("c.mp4")
    paths = []
    for video, facts in ((first, {"duration_s": 5}), (unknown, {}), (other, {"duration_s": 7})):
        videos.set_facts(queue.db, video, facts, quick_hash=None)
        row = videos.get(queue.db, video)
        assert row is not None
        paths.append(row.source)
    assert folders.lengths(queue.db, paths[:2]) == {paths[0]: 5000, paths[1]: 0}
    assert folders.lengths(queue.db, [b"/in/never"]) == folders.lengths(queue.db, []) == {}


def test_the_sources_of_a_folder_are_its_own_also_of_deleted_videos(queue: Queue) -> None:
    one, two = folder(queue, b"/in/1"), folder(queue, b"/in/2")
    mine, other = queue.video(), queue.video()
    videos.adopt(queue.db, mine, one)
    videos.adopt(queue.db, other, two)
    queue.db.execute("UPDATE video SET deleted_at = 1 WHERE id = :id", {"id": mine})
    row = videos.get(queue.db, mine)
    assert row is not None
    assert videos.known_sources(queue.db, one) == {row.source: (mine, 1000, 1)}
