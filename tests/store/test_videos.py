"""Videos: their names on disk, their newest job, what is known of them."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tqstudio.engine.store import events, generations, jobs, videos
from tqstudio.engine.store.generations import PublishedFile, PublishedRow
from tqstudio.errors import ErrorCode
from tqstudio.lifecycle import JobStatus, Operation

from .conftest import Queue, rolled_back


def slug(queue: Queue, video: int) -> str:
    row = videos.get(queue.db, video)
    assert row is not None
    return row.slug


def test_a_free_slug_is_taken_as_it_is(queue: Queue) -> None:
    assert slug(queue, queue.video(slug="holiday")) == "holiday"


def test_a_clash_or_nothing_gets_the_id(queue: Queue) -> None:
    queue.video(slug="holiday")
    second, nameless = queue.video(slug="holiday"), queue.video(slug="")
    assert slug(queue, second) == f"holiday-{second}"
    assert slug(queue, nameless) == f"video-{nameless}"


def test_another_output_may_have_the_same_slug(queue: Queue) -> None:
    assert slug(queue, queue.video(slug="holiday", out=b"/a")) == "holiday"
    assert slug(queue, queue.video(slug="holiday", out=b"/b")) == "holiday"


@pytest.mark.parametrize("wanted", ["holiday", ""])
def test_even_the_name_with_the_id_may_be_taken(queue: Queue, wanted: str) -> None:
    first = queue.video(slug="holiday")
    stem = wanted or "video"
    for ahead in (1, 2, 3):
        queue.video(slug=f"{stem}-{first + 4}" if ahead < 3 else f"{stem}-{first + 4}-2")
    clash = queue.video(slug=wanted)
    assert clash == first + 4
    assert slug(queue, clash).startswith(f"{stem}-{clash}-")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=st.lists(st.sampled_from(["", "a", "a-2", "a-3", "a-3-2", "video-1", "video-2"]), max_size=12))
def test_slugs_never_clash(database: object, wanted: list[str]) -> None:
    with rolled_back(database) as queue:  # type: ignore[arg-type]
        made = [queue.video(slug=name) for name in wanted]
        found = [slug(queue, video) for video in made]
        assert len(set(found)) == len(found)
        assert all(found)


def test_a_folder_that_was_somebody_elses_changes_the_slug(queue: Queue) -> None:
    first, second = queue.video(slug="a"), queue.video(slug="a-2")
    videos.set_slug(queue.db, first, "a-2")
    assert slug(queue, first) == "a-2"
    assert slug(queue, second) == f"a-2-{second}"
    videos.set_slug(queue.db, first, "a-2")
    assert slug(queue, first) == "a-2"


def test_the_open_job_counts_before_a_newer_failure(queue: Queue) -> None:
    old = queue.in_status(JobStatus.FAILED)
    video = queue.row(old)["video_id"]
    queue.job(video=video, priority=999)
    lease = queue.claim()
    assert lease is not None
    queue.fail(lease, ErrorCode.NO_MEDIA)
    assert jobs.newest_job_of(queue.db, video) == (lease.job, JobStatus.FAILED)
    queue.do(old, Operation.RETRY)
    assert jobs.newest_job_of(queue.db, video) == (old, JobStatus.PENDING)
    queue.do(old, Operation.DELETE)
    assert jobs.newest_job_of(queue.db, video) == (lease.job, JobStatus.FAILED)
    assert jobs.newest_job_of(queue.db, 4711) is None


def test_changed_content_forgets_what_was_found_in_it(queue: Queue) -> None:
    video = queue.video()
    videos.set_facts(queue.db, video, {"duration_s": 5}, quick_hash=None)
    videos.set_full_hash(queue.db, video, "full")
    videos.set_fingerprint(queue.db, video, size=1, mtime_ns=2, quick_hash=None, changed=False)
    row = videos.get(queue.db, video)
    assert row is not None
    assert (row.facts, row.full_hash, row.quick_hash) == ({"duration_s": 5}, "full", "hash")
    videos.set_fingerprint(queue.db, video, size=1, mtime_ns=3, quick_hash="other", changed=True)
    row = videos.get(queue.db, video)
    assert row is not None
    assert (row.facts, row.full_hash, row.quick_hash, row.mtime_ns) == (None, None, "other", 3)
    videos.set_fingerprint(
        queue.db, video, size=1, mtime_ns=4, quick_hash="third", full_hash="of it", changed=True
    )
    row = videos.get(queue.db, video)
    assert row is not None
    assert row.full_hash == "of it"


def test_pages_of_videos(queue: Queue) -> None:
    made = [queue.video() for _ in range(5)]
    assert [row.id for row in videos.page(queue.db, after=made[1], limit=2)] == made[2:4]
    earlier = videos.page_before(queue.db, before=made[3], limit=2)
    assert [row.id for row in earlier] == [made[2], made[1]]


def test_a_generation_retires_the_one_before(queue: Queue) -> None:
    video = queue.video()
    for number in (1, 2):
        assert generations.next_number(queue.db, video) == number
        generations.record(
            queue.db, video, number, settings_hash=f"h{number}", poster=None, renditions=[], now=queue.now
        )
        queue.wait(100)
    current = generations.current(queue.db, video)
    assert current is not None
    assert (current.number, current.settings_hash) == (2, "h2")
    assert generations.retired_before(queue.db, queue.now - 100_000_000) == []
    [retired] = generations.retired_before(queue.db, queue.now)
    assert (retired.video, retired.number) == (video, 1)
    generations.removed(queue.db, retired.id, video, 1, now=queue.now)
    assert generations.retired_before(queue.db, queue.now) == []


def test_names_are_found_by_their_index_after_a_change(queue: Queue) -> None:
    video = queue.video("summer.mp4")
    queue.db.execute("UPDATE video SET name = 'winter.mp4' WHERE id = :id", {"id": video})

    def found(name: str) -> list[int]:
        rows = queue.db.execute("SELECT rowid FROM video_name WHERE video_name MATCH :n", {"n": name})
        return [row[0] for row in rows]

    assert (found("summer"), found("winter")) == ([], [video])
    queue.db.execute("DELETE FROM video WHERE id = :id", {"id": video})
    assert found("winter") == []


def test_a_video_is_found_by_its_source_and_its_output(queue: Queue) -> None:
    here, there = queue.video(out=b"/out"), queue.video(out=b"/there")
    row = videos.get(queue.db, there)
    assert row is not None
    assert videos.find(queue.db, row.source, b"/there") == row
    assert videos.find(queue.db, row.source, b"/out") is None
    other = videos.get(queue.db, here)
    assert other is not None
    assert videos.find(queue.db, other.source, b"/out") == other


def test_a_slug_is_taken_from_nobody_in_another_output(queue: Queue) -> None:
    mine, same, other = queue.video(slug="a"), queue.video(slug="b"), queue.video(slug="c", out=b"/there")
    videos.set_slug(queue.db, mine, "c")
    assert [slug(queue, video) for video in (mine, same, other)] == ["c", "b", "c"]


@pytest.mark.parametrize("change", [{"size": 2}, {"mtime_ns": 2}])
def test_a_probe_of_an_earlier_file_is_not_recorded(queue: Queue, change: dict[str, int]) -> None:
    seen = videos.Unprobed(0, queue.video(), b"", **({"size": 1000, "mtime_ns": 1} | change))
    assert not videos.set_probed(queue.db, seen, facts={"duration_s": 5}, error=None)
    row = videos.get(queue.db, seen.video)
    assert row is not None
    assert row.facts is None


@pytest.mark.parametrize("change", [{}, {"size": 2}, {"mtime_ns": 2}])
def test_an_error_of_the_probe_is_that_of_the_file_as_it_is(queue: Queue, change: dict[str, int]) -> None:
    at = {"size": 1000, "mtime_ns": 1}
    video = queue.video()
    error = {"code": "NO_MEDIA", "message": "no video in it", "hint": "remove it"}
    videos.set_probed(queue.db, videos.Unprobed(0, video, b"", **at), facts=None, error=error)  # type: ignore[arg-type]
    videos.set_fingerprint(queue.db, video, **(at | change), quick_hash=None, changed=False)
    [kept] = queue.db.execute("SELECT probe_error FROM video WHERE id = :id", {"id": video}).one()
    assert (kept is None) == bool(change)


def test_a_new_job_asks_what_is_known_of_its_own_video(queue: Queue) -> None:
    videos.set_facts(queue.db, queue.video(), {"duration_s": 5}, quick_hash=None)
    assert queue.row(queue.job())["unprobed"] == 1


def test_outputs_are_listed_once(queue: Queue) -> None:
    for out in (b"/b", b"/a", b"/b"):
        queue.video(out=out)
    assert videos.output_roots(queue.db) == [b"/a", b"/b"]


def test_a_generation_is_read_with_its_own_renditions(queue: Queue) -> None:
    first, second = queue.video(), queue.video()
    for video, number in ((first, 1), (first, 2), (second, 1)):
        generations.record(
            queue.db,
            video,
            number,
            settings_hash="h",
            poster=None,
            renditions=[published(f"{video}-{number}")],
            now=queue.now,
        )
    found = [generations.current(queue.db, video) for video in (first, second)]
    assert [row and [rendition.name for rendition in row.renditions] for row in found] == [
        [f"{first}-2"],
        [f"{second}-1"],
    ]
    assert generations.next_number(queue.db, second) == 2
    assert generations.exists(queue.db, first, 2)
    assert not generations.exists(queue.db, second, 2)
    assert not generations.exists(queue.db, 4711, 1)


def published(name: str) -> PublishedRow:
    return PublishedRow(
        name=name,
        kind="video",
        width=640,
        height=360,
        frame_rate=25.0,
        codecs="avc1",
        duration_s=6.0,
        average_bps=1,
        peak_bps=2,
        size=3,
        settings_hash="h",
        stream_key="k",
        language=None,
        title=None,
        channels=None,
        is_default=True,
        files=(PublishedFile("seg_00000.m4s", 3, 6.0, "0" * 64), PublishedFile("seg_00001.m4s", 3, 6.0)),
    )


def record(queue: Queue, video: int, number: int) -> int:
    return generations.record(
        queue.db, video, number, settings_hash="h", poster=None, renditions=[], now=queue.now
    )


def test_the_event_of_a_generation_names_its_job(queue: Queue) -> None:
    job = queue.job(video=(video := queue.video()))
    generations.record(
        queue.db, video, 1, settings_hash="h", poster=None, renditions=[], job=job, now=queue.now
    )
    (event,) = [e for e in events.newest(queue.db, limit=9, job=job) if e.trigger == "published"]
    assert (event.video, event.detail) == (video, "generation 1")


def test_the_time_of_a_generation_begins_when_it_is_replaced_first(queue: Queue) -> None:
    video = queue.video()
    first, second = record(queue, video, 1), record(queue, video, 2)
    queue.wait(100)
    record(queue, video, 3)
    due = generations.retired_before(queue.db, queue.now)
    assert [retired.id for retired in due] == [first], "the second one has only just been replaced"
    due = generations.retired_before(queue.db, queue.now + 1)
    assert [retired.id for retired in due] == [first, second]
    due = generations.retired_before(queue.db, queue.now + 1, after=first)
    assert [retired.id for retired in due] == [second]


def test_what_is_removed_is_named_by_its_own_video(queue: Queue) -> None:
    videos_ = [queue.video(slug=name) for name in ("a", "b")]
    for video in videos_:
        record(queue, video, 1), record(queue, video, 2)
    found = generations.retired_before(queue.db, queue.now + 1)
    assert [(retired.video, retired.slug) for retired in found] == list(zip(videos_, "ab", strict=True))


def test_what_plays_is_never_removed_whatever_its_row_says(queue: Queue) -> None:
    record(queue, queue.video(), 1)
    queue.db.execute("UPDATE generation SET retired_at = 1")
    assert generations.retired_before(queue.db, queue.now) == []
