"""Videos: their names on disk, their newest job, what is known of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tqstudio.engine.media.segments.checked import IFrame
from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Address
from tqstudio.engine.store.jobs import jobs
from tqstudio.engine.store.library import crfs, generations, videos
from tqstudio.engine.store.library.generations import PublishedFile, PublishedRow
from tqstudio.engine.store.lists import pages
from tqstudio.engine.store.lists.orders import PageQuery
from tqstudio.errors import ErrorCode
from tqstudio.lifecycle import JobStatus, Operation
from tqstudio.protocol.filters import parse
from tqstudio.protocol.worker_answers import DecidedCrf

from .conftest import Queue, rolled_back


def source(queue: Queue, video: int) -> bytes:
    row = videos.get(queue.db, video)
    assert row is not None
    return row.source


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
def test_slugs_never_clash(address: Address, wanted: list[str]) -> None:
    with rolled_back(address) as queue:
        made = [queue.video(slug=name) for name in wanted]
        found = [slug(queue, video) for video in made]
        assert len(set(found)) == len(found)
        assert all(found)


def test_a_folder_of_another_owner_changes_the_slug(queue: Queue) -> None:
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


def test_the_job_that_made_a_ladder_is_the_one_that_was_done_last(queue: Queue) -> None:
    first = queue.in_status(JobStatus.FAILED)
    video = queue.row(first)["video_id"]
    assert jobs.creator_of(queue.db, video) is None
    second = queue.job(video=video, priority=999)
    for job in (second, first):
        if job == first:
            queue.do(first, Operation.RETRY)
            queue.db.execute("UPDATE job SET priority = 999 WHERE id = :job", {"job": first})
        queue.now += 1
        lease = queue.claim()
        assert lease is not None
        assert lease.job == job
        assert queue.complete(lease)
        assert jobs.creator_of(queue.db, video) == job
        queue.do(job, Operation.DELETE)
        assert jobs.creator_of(queue.db, video) == job, "off the list"
    queue.now += 1
    queue.in_status(JobStatus.DONE)
    assert jobs.creator_of(queue.db, video) == first


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


def test_a_renamed_video_is_found_by_its_new_name(queue: Queue) -> None:
    job = queue.job(video=(video := queue.video("Summer.mp4")))

    def found(text: str) -> list[int]:
        return pages.page(queue.db, PageQuery(parse(text)), limit=9).ids

    assert (found("SUMMER"), found("été")) == ([job], [])
    before = videos.get(queue.db, video)
    assert before is not None
    more = {"name": "ÉTÉ.mp4", "title": "", "job": job, "now": queue.now, "actor": "intake"}
    assert videos.rename(queue.db, before, b"/in/b", **more)  # type: ignore[arg-type]
    assert (found("summer"), found("été")) == ([], [job])


def test_a_video_is_found_by_its_source_and_its_output(queue: Queue) -> None:
    here, there = queue.video(out=b"/out"), queue.video(out=b"/there")
    row = videos.get(queue.db, there)
    assert row is not None
    assert videos.find(queue.db, row.source, b"/there") == row
    assert videos.find(queue.db, row.source, b"/out") is None
    other = videos.get(queue.db, here)
    assert other is not None
    assert videos.find(queue.db, other.source, b"/out") == other


def test_a_slug_is_taken_in_the_output_of_the_video(queue: Queue) -> None:
    queue.video(slug="a", out=b"/first")
    mine, holder = queue.video(slug="b", out=b"/second"), queue.video(slug="c", out=b"/second")
    videos.set_slug(queue.db, mine, "c")
    assert (slug(queue, mine), slug(queue, holder)) == ("c", f"c-{holder}")


def test_a_slug_is_taken_from_no_video_in_another_output(queue: Queue) -> None:
    mine, same, other = queue.video(slug="a"), queue.video(slug="b"), queue.video(slug="c", out=b"/there")
    videos.set_slug(queue.db, mine, "c")
    assert [slug(queue, video) for video in (mine, same, other)] == ["c", "b", "c"]


@pytest.mark.parametrize("change", [{"size": 2}, {"mtime_ns": 2}, {"path": b"/in/before.mp4"}])
def test_a_probe_of_an_earlier_file_is_not_recorded(queue: Queue, change: dict[str, Any]) -> None:
    video = queue.video()
    at = {"path": source(queue, video), "size": 1000, "mtime_ns": 1} | change
    seen = videos.Unprobed(0, video, **at)
    assert not videos.set_probed(queue.db, seen, facts={"duration_s": 5}, error=None)
    row = videos.get(queue.db, seen.video)
    assert row is not None
    assert row.facts is None


@pytest.mark.parametrize("change", [{}, {"size": 2}, {"mtime_ns": 2}])
def test_an_error_of_the_probe_is_that_of_the_file_as_it_is(queue: Queue, change: dict[str, int]) -> None:
    at = {"size": 1000, "mtime_ns": 1}
    video = queue.video()
    error = {"code": "NO_MEDIA", "message": "no video in it", "hint": "remove it"}
    seen = videos.Unprobed(0, video, source(queue, video), **at)
    videos.set_probed(queue.db, seen, facts=None, error=error)  # type: ignore[arg-type]
    videos.set_fingerprint(queue.db, video, **(at | change), quick_hash=None, changed=False)
    [kept] = queue.db.execute("SELECT probe_error FROM video WHERE id = :id", {"id": video}).one()
    assert (kept is None) == bool(change)


def test_that_a_file_was_not_there_is_forgotten_when_it_is(queue: Queue) -> None:
    at = {"size": 1000, "mtime_ns": 1}
    video = queue.video()
    error = {"code": "SOURCE_MISSING", "message": "it is gone", "hint": "put it back"}
    seen = videos.Unprobed(0, video, source(queue, video), **at)
    assert videos.set_probed(queue.db, seen, facts=None, error=error)  # type: ignore[arg-type]
    videos.set_fingerprint(queue.db, video, **at, quick_hash=None, changed=False)
    [kept] = queue.db.execute("SELECT probe_error FROM video WHERE id = :id", {"id": video}).one()
    assert kept is None


FILE: dict[str, int] = {"inode": 7, "size": 1000, "mtime_ns": 1}


@pytest.mark.parametrize("other", [{}, {"inode": 8}, {"size": 1001}, {"mtime_ns": 2}, {"out": b"/there"}])
def test_a_source_is_known_by_its_inode_size_and_time(queue: Queue, other: dict[str, Any]) -> None:
    wanted, unseen = queue.video(), queue.video()
    videos.set_fingerprint(queue.db, wanted, **FILE, quick_hash=None, changed=False)
    out = other.pop("out", b"/out")
    found = videos.with_inode(queue.db, out, **(FILE | other))
    assert [row.id for row in found] == ([] if other or out != b"/out" else [wanted])
    assert videos.with_inode(queue.db, b"/out", **(FILE | {"inode": 0})) == []
    assert unseen not in [row.id for row in found]
    # A look that does not report the inode takes nothing away.
    videos.set_fingerprint(queue.db, wanted, size=1000, mtime_ns=1, quick_hash=None, changed=False)
    assert videos.with_inode(queue.db, b"/out", **FILE)


LIKE: dict[str, Any] = {"size": 1000, "samples": "hash"}


@pytest.mark.parametrize("other", [{}, {"size": 1001}, {"samples": "other"}, {"out": b"/there"}])
def test_a_ladder_is_known_by_the_size_and_samples_of_its_source(queue: Queue, other: dict[str, Any]) -> None:
    one, two, deleted, removed, _unpublished = (queue.video() for _ in range(5))
    for video in (two, one, deleted, removed):
        queue.db.execute("UPDATE video SET generation_id = 1 WHERE id = :id", {"id": video})
    queue.db.execute("UPDATE video SET deleted_at = 1 WHERE id = :id", {"id": deleted})
    queue.db.execute("UPDATE video SET source_deleted_at = 1 WHERE id = :id", {"id": removed})
    out = other.get("out", b"/out")
    given = {name: value for name, value in (LIKE | other).items() if name != "out"}
    found = videos.published_like(queue.db, out, **given)
    assert [row.id for row in found] == ([] if other else [one, two])


def test_a_video_follows_its_source_once(queue: Queue) -> None:
    other = queue.video()
    job = queue.job(video=(video := queue.video()))
    before = videos.get(queue.db, video)
    assert before is not None

    def rename(path: bytes) -> bool:
        return videos.rename(
            queue.db, before, path, name="b.mp4", title="b", job=job, now=queue.now, actor="intake"
        )

    assert rename(b"/in/b.mp4")
    after = videos.get(queue.db, video)
    assert after is not None
    assert (after.source, after.name, after.title, after.slug) == (b"/in/b.mp4", "b.mp4", "b", before.slug)
    assert not rename(b"/in/c.mp4"), "it is somewhere else by now"
    stored = [(event["trigger"], event["detail"]) for event in queue.history(job)]
    assert stored[1:] == [("renamed", f"{before.source.decode()} is now /in/b.mp4")]
    assert source(queue, video) == b"/in/b.mp4"
    assert source(queue, other) != b"/in/b.mp4"


def test_a_renamed_video_wants_the_slug_of_its_new_name(queue: Queue) -> None:
    first, second = queue.video(slug="a"), queue.video(slug="b")
    videos.want_slug(queue.db, second, b"/out", "c")
    assert (slug(queue, first), slug(queue, second)) == ("a", "c")
    videos.want_slug(queue.db, second, b"/out", "a")
    assert slug(queue, second) == f"a-{second}"
    videos.want_slug(queue.db, second, b"/out", "")
    assert slug(queue, second) == f"video-{second}"


@pytest.mark.parametrize("how", ["failed", "cancelled", "another failure", "deleted", "made up for"])
def test_a_job_that_missed_its_file(queue: Queue, how: str) -> None:
    """The folder takes its file for new, unless it was cancelled, failed otherwise, or another one came."""
    lease = queue.claimed(video=(video := queue.video()))
    queue.fail(lease, ErrorCode.NO_MEDIA if how == "another failure" else ErrorCode.SOURCE_MISSING)
    queue.in_status(JobStatus.FAILED)
    queue.fail(queue.claimed(), ErrorCode.SOURCE_MISSING)
    if how == "cancelled":
        queue.do(lease.job, Operation.CANCEL)
    if how == "deleted":
        queue.do(lease.job, Operation.DELETE)
    if how == "made up for":
        newer = queue.job(video=video)
        assert newer > lease.job
    [folder] = queue.db.execute(
        "INSERT INTO folder (path, output_root, profile, created_at) VALUES (:path, :output, 'web', 1)"
        " RETURNING id",
        {"path": b"/i", "output": b"/o"},
    ).one()
    videos.adopt(queue.db, video, folder)
    known = list(videos.known_sources(queue.db, folder))
    assert known == ([] if how == "failed" else [source(queue, video)])
    missed = how in ("failed", "deleted", "made up for")
    assert jobs.failed_source_missing(queue.db, lease.job) is missed
    if how == "made up for":
        queue.do(newer, Operation.CANCEL)
        queue.do(newer, Operation.DELETE)
        assert videos.known_sources(queue.db, folder) == {}, "that one counts no more"


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


def test_the_iframes_of_a_file_are_stored_and_files_of_earlier_versions_have_none(queue: Queue) -> None:
    video = queue.video()
    iframes = (IFrame(44, 900, 2.0), IFrame(5000, 800, 2.002))
    files = (PublishedFile("seg_00000.m4s", 9000, 4.002, "0" * 64, iframes),)
    row = replace(published("360p"), files=files)
    generations.record(queue.db, video, 1, settings_hash="h", poster=None, renditions=[row], now=queue.now)
    found = generations.current(queue.db, video)
    assert found is not None
    assert found.renditions == (row,)
    queue.db.execute(
        """UPDATE published_rendition SET files = '[["a.m4s", 3, 6.0], ["b.m4s", 3, 6.0, null]]'"""
    )
    found = generations.current(queue.db, video)
    assert found is not None
    assert found.renditions[0].files == (PublishedFile("a.m4s", 3, 6.0), PublishedFile("b.m4s", 3, 6.0))


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


def test_the_same_file_of_another_output_is_a_video_of_its_own(queue: Queue) -> None:
    here, there = queue.video(out=b"/out"), queue.video(out=b"/there")
    queue.db.execute("UPDATE video SET source = :source", {"source": b"/in/a"})
    seen = videos.Unprobed(0, here, b"/in/a", size=1000, mtime_ns=1)
    assert videos.set_probed(queue.db, seen, facts={"duration_s": 5}, error=None)
    before, other = videos.get(queue.db, here), videos.get(queue.db, there)
    assert before is not None
    assert other is not None
    assert other.facts is None
    job = queue.job(video=here)
    more = {"name": "b", "title": "b", "job": job, "now": queue.now, "actor": "intake"}
    assert videos.rename(queue.db, before, b"/in/b", **more)  # type: ignore[arg-type]
    assert (source(queue, here), source(queue, there)) == (b"/in/b", b"/in/a")


def test_published_videos_of_a_size_are_found_in_their_output(queue: Queue) -> None:
    first, second, waiting = (queue.video(out=b"/out") for _ in range(3))
    other_size, elsewhere = queue.video(out=b"/out"), queue.video(out=b"/elsewhere")
    for video in (first, second, waiting, other_size, elsewhere):
        size = 7 if video == other_size else 5
        videos.set_fingerprint(
            queue.db, video, size=size, mtime_ns=1, quick_hash="q", full_hash=None, inode=1, changed=False
        )
        if video != waiting:
            generations.record(
                queue.db, video, 1, settings_hash="h", poster=None, renditions=[], now=queue.now
            )
    found = videos.published_with_size(queue.db, b"/out", 5)
    assert [row.id for row in found] == [first, second]


def test_a_video_is_pointed_to_another_output_unless_its_slug_is_taken_there(queue: Queue) -> None:
    first, other = queue.video(), queue.video(out=b"/elsewhere")
    row, there = videos.get(queue.db, first), videos.get(queue.db, other)
    assert row is not None
    assert there is not None
    assert not videos.relocate(queue.db, first, b"/elsewhere", there.slug)
    assert videos.get(queue.db, first) == row
    assert videos.relocate(queue.db, first, b"/elsewhere", "free")
    moved = videos.get(queue.db, first)
    assert moved is not None
    assert (moved.output_root, moved.slug) == (b"/elsewhere", row.slug)


def _decided(settings: str, encoder: str = "libx264", crf: int = 20) -> DecidedCrf:
    return {"settings_hash": settings, "encoder": encoder, "crf": crf, "vmaf": 93.1, "remark": ""}


def test_decided_crfs_are_kept_by_settings_and_encoder(queue: Queue) -> None:
    video, other = queue.video(), queue.video()
    assert crfs.of_video(queue.db, video) == []
    first, hevc = _decided("a"), _decided("a", "libx265", 24)
    crfs.add(queue.db, video, [first, hevc])
    again, new = _decided("a", crf=21), _decided("b")
    crfs.add(queue.db, video, [again, new])
    assert crfs.of_video(queue.db, video) == [hevc, again, new]
    assert crfs.of_video(queue.db, other) == []

    crfs.add(queue.db, video, [_decided(str(number)) for number in range(64)])
    kept = crfs.of_video(queue.db, video)
    assert [each["settings_hash"] for each in kept] == [str(number) for number in range(64)]


def test_the_length_of_a_source_is_that_of_its_facts(queue: Queue) -> None:
    job = queue.job(video=(video := queue.video()))

    def longer(than: str) -> list[int]:
        return pages.page(queue.db, PageQuery(parse(f"longer:{than}")), limit=9).ids

    assert longer("0.001s") == [], "unknown"
    [seen] = videos.unprobed(queue.db, limit=1)
    assert videos.set_probed(queue.db, seen, facts={"duration_s": 61.5}, error=None)
    assert (longer("61.499s"), longer("61.5s")) == ([job], [])
    assert videos.set_probed(queue.db, seen, facts={"duration_s": 5}, error=None), "the first facts stay"
    assert longer("1m") == [job]
    videos.set_facts(queue.db, video, {"duration_s": 7200}, quick_hash=None)
    assert longer("1h") == [job]
    videos.set_fingerprint(queue.db, video, size=9, mtime_ns=9, quick_hash=None, changed=True)
    assert longer("0.001s") == []
