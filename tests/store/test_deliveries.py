"""Copies of ladders in buckets: what is due, and what becomes of it; always beside another video."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tqstudio.engine.store import events
from tqstudio.engine.store.library import deletions, deliveries, generations
from tqstudio.engine.store.library.deliveries import DeliveryRow
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import DeliveryState

from .conftest import NOW, SECOND, Queue

HOUR = 3600 * SECOND
ERROR = TqError(ErrorCode.UPSTREAM, "s3://films does not work: SlowDown", "wait")


def begin(queue: Queue, video: int, number: int = 1, url: str = "") -> DeliveryRow:
    deliveries.begin(queue.db, video, number, url or f"s3://films/{video}", job=7)
    return newest(queue, video)


def newest(queue: Queue, video: int) -> DeliveryRow:
    row = deliveries.of_video(queue.db, video)
    assert row is not None
    return row


def delivered(queue: Queue, row: DeliveryRow) -> bool:
    return deliveries.delivered(queue.db, row, now=queue.now, remove_at=queue.now + HOUR, is_evicted=False)


def states(queue: Queue, video: int) -> list[tuple[int, str, int | None]]:
    """Number, state and the time of the next step of each copy."""
    found = queue.db.execute(
        "SELECT number, state, next_at FROM delivery WHERE video_id = :video ORDER BY number",
        {"video": video},
    )
    return [(row.number, row.state, row.next_at) for row in found]


def due(queue: Queue, now: int, *, old: int | None = None) -> DeliveryRow | None:
    return deliveries.due(queue.db, now=now, old=now if old is None else old, longest_us=HOUR)


def reported(queue: Queue) -> list[str]:
    return [event.trigger for event in events.after(queue.db, 0, limit=99) if event.trigger.startswith("del")]


@pytest.fixture
def pair(queue: Queue) -> tuple[DeliveryRow, DeliveryRow]:
    """The first ladders of two videos, which wait to be uploaded, the second a second later."""
    one = begin(queue, queue.video())
    queue.wait(1)
    return one, begin(queue, queue.video())


def test_the_first_one_is_due_first_by_any_clock(queue: Queue, pair: tuple[DeliveryRow, DeliveryRow]) -> None:
    one, two = pair
    assert due(queue, 1) == one
    assert (one.job, one.number, one.url, one.files) == (7, 1, f"s3://films/{one.video}", 0)
    deliveries.failed(queue.db, one, ERROR, now=NOW, next_at=NOW + SECOND)
    assert deliveries.next_at(queue.db) == 0
    assert delivered(queue, two)
    assert due(queue, NOW) is None
    assert due(queue, NOW + SECOND) == newest(queue, one.video)
    assert deliveries.next_at(queue.db) == NOW + SECOND
    assert delivered(queue, newest(queue, one.video))
    assert deliveries.next_at(queue.db) is None


def test_what_waits_and_what_fails_is_counted(queue: Queue, pair: tuple[DeliveryRow, DeliveryRow]) -> None:
    one, two = pair
    third = begin(queue, queue.video())
    assert deliveries.waiting_and_failing(queue.db) == (3, 0)
    deliveries.failed(queue.db, one, ERROR, now=queue.now, next_at=queue.now + HOUR)
    assert deliveries.waiting_and_failing(queue.db) == (2, 1)
    assert delivered(queue, two)
    assert deliveries.waiting_and_failing(queue.db) == (1, 1)
    deliveries.unpublish(queue.db, third.video)
    assert deliveries.waiting_and_failing(queue.db) == (0, 1), "its removal is no upload"
    deliveries.failed(queue.db, newest(queue, third.video), ERROR, now=queue.now, next_at=queue.now + HOUR)
    assert deliveries.waiting_and_failing(queue.db) == (0, 2)
    queue.db.execute("UPDATE delivery SET next_at = NULL")
    assert deliveries.waiting_and_failing(queue.db) == (0, 0)


def test_removals_come_first_and_failures_last(queue: Queue, pair: tuple[DeliveryRow, DeliveryRow]) -> None:
    one, two = pair
    deliveries.failed(queue.db, one, ERROR, now=queue.now, next_at=queue.now - HOUR)
    assert due(queue, queue.now) == two, "the other one has failed"
    deleted = begin(queue, queue.video())
    queue.wait(1)
    deliveries.unpublish(queue.db, deleted.video)
    deleted = newest(queue, deleted.video)
    assert due(queue, queue.now) == deleted
    deliveries.failed(queue.db, deleted, ERROR, now=queue.now, next_at=queue.now)
    assert due(queue, queue.now) == two


def test_a_retry_of_before_the_clock_was_set_back_is_due(
    queue: Queue, pair: tuple[DeliveryRow, DeliveryRow]
) -> None:
    one, two = pair
    assert delivered(queue, two)
    deliveries.failed(queue.db, one, ERROR, now=queue.now, next_at=queue.now)
    failed = newest(queue, one.video)
    assert due(queue, queue.now - HOUR) is None, "it may be a wait"
    assert due(queue, queue.now - HOUR - 1) == failed
    assert delivered(queue, failed)
    begin(queue, one.video, 2)
    assert delivered(queue, newest(queue, one.video))
    assert due(queue, queue.now - 9 * HOUR) is None, "what was replaced keeps its time"


def test_what_is_replaced_after_a_failed_upload_keeps_its_time(
    queue: Queue, pair: tuple[DeliveryRow, DeliveryRow]
) -> None:
    """Players that read the copy of before are served for as long as other ones."""
    one, two = pair
    assert delivered(queue, two)
    assert delivered(queue, one)
    assert deliveries.requeue(queue.db, one.video)
    deliveries.failed(queue.db, newest(queue, one.video), ERROR, now=queue.now, next_at=queue.now)
    begin(queue, one.video, 2)
    assert delivered(queue, newest(queue, one.video))
    assert due(queue, queue.now - 9 * HOUR) is None
    assert due(queue, queue.now + HOUR - 1) is None
    assert due(queue, queue.now + HOUR) is not None


def test_what_is_removed_by_its_age_waits_after_a_jump_of_the_clock(
    queue: Queue, pair: tuple[DeliveryRow, DeliveryRow]
) -> None:
    one, two = pair
    assert delivered(queue, one)
    begin(queue, one.video, 2)
    assert delivered(queue, newest(queue, one.video))
    queue.wait(3600)
    assert due(queue, queue.now, old=0) == two, "uploads do not"
    deliveries.failed(queue.db, two, ERROR, now=queue.now, next_at=queue.now)
    assert due(queue, queue.now, old=0) == newest(queue, two.video)
    assert delivered(queue, newest(queue, two.video))
    assert due(queue, queue.now, old=0) is None
    assert due(queue, queue.now, old=queue.now - 1) is None
    removed = due(queue, queue.now)
    assert removed is not None
    assert (removed.video, removed.number) == (one.video, 1)
    deliveries.unpublish(queue.db, two.video)
    hidden = due(queue, queue.now, old=0)
    assert hidden is not None, "a person asked for that"
    assert hidden.video == two.video


def test_a_ladder_waits_for_that_of_another_video_at_its_address(
    queue: Queue, pair: tuple[DeliveryRow, DeliveryRow]
) -> None:
    one, two = pair
    assert deliveries.other_video_at_url(queue.db, two) is None
    assert deliveries.other_video_at_url(queue.db, begin(queue, one.video, 2)) is None, "that is its own one"
    later = begin(queue, two.video, 2, one.url)
    assert deliveries.other_video_at_url(queue.db, later) == one.video
    assert deliveries.other_video_at_url(queue.db, one) is None, "it was there first"
    deliveries.unpublish(queue.db, one.video)
    assert deliveries.other_video_at_url(queue.db, later) == one.video, "it is not removed yet"
    for number in (1, 2):
        row = due(queue, queue.now)
        assert row is not None
        assert (row.video, row.number) == (one.video, number)
        deliveries.removed(queue.db, row, now=queue.now)
    assert deliveries.other_video_at_url(queue.db, later) is None


def test_uploads_are_under_way_until_they_fail_again_and_again(
    queue: Queue, pair: tuple[DeliveryRow, DeliveryRow]
) -> None:
    one, two = pair
    assert delivered(queue, one)
    for _ in range(3):
        assert deliveries.are_uploaded(queue.db)
        deliveries.failed(queue.db, newest(queue, two.video), ERROR, now=queue.now, next_at=queue.now)
    assert not deliveries.are_uploaded(queue.db)
    deliveries.unpublish(queue.db, one.video)
    assert not deliveries.are_uploaded(queue.db), "it is removed"


def test_progress_is_stored_while_the_ladder_is_wanted(
    queue: Queue, pair: tuple[DeliveryRow, DeliveryRow]
) -> None:
    one, two = pair
    assert deliveries.advance(queue.db, one, files=9, done=4)
    assert (newest(queue, one.video).files_done, newest(queue, two.video).files_done) == (4, 0)
    deliveries.unpublish(queue.db, one.video)
    assert not deliveries.advance(queue.db, one, files=9, done=5)
    assert not delivered(queue, one)
    assert newest(queue, two.video) == two


def test_a_delivered_ladder_replaces_those_before_it(
    queue: Queue, pair: tuple[DeliveryRow, DeliveryRow]
) -> None:
    one, two = pair
    assert delivered(queue, one)
    assert delivered(queue, two)
    later = begin(queue, one.video, 2)
    assert states(queue, one.video) == [(1, "delivered", None), (2, "waiting", 0)]
    last = begin(queue, one.video, 3)
    assert states(queue, one.video)[1] == (2, "removing", None), "it is removed once the third is there"
    assert not delivered(queue, later)
    assert delivered(queue, last)
    gone = queue.now + HOUR
    assert states(queue, one.video) == [(1, "removing", gone), (2, "removing", gone), (3, "delivered", None)]
    assert states(queue, two.video) == [(1, "delivered", None)]
    assert reported(queue) == ["delivered"] * 3
    queue.wait(60)
    assert delivered(queue, begin(queue, one.video, 4))
    assert [at for *_, at in states(queue, one.video)] == [gone, gone, queue.now + HOUR, None]


def test_a_master_is_replaced_by_a_newer_ladder_in_the_same_folder(
    queue: Queue, pair: tuple[DeliveryRow, DeliveryRow]
) -> None:
    one, two = pair
    assert delivered(queue, one)
    later = begin(queue, one.video, 2)
    assert not deliveries.is_replaced(queue.db, one), "it is not there yet"
    assert delivered(queue, later)
    assert deliveries.is_replaced(queue.db, one)
    assert not deliveries.is_replaced(queue.db, later)
    assert not deliveries.is_replaced(queue.db, two)
    begin(queue, two.video, 3, one.url)
    assert delivered(queue, newest(queue, two.video))
    assert not deliveries.is_replaced(queue.db, later), "the other one is that of another video"
    assert not deliveries.is_replaced(queue.db, replace(one, url="s3://films/elsewhere"))


def test_a_failure_is_tried_again_and_reported_once(
    queue: Queue, pair: tuple[DeliveryRow, DeliveryRow]
) -> None:
    one, two = pair
    assert deliveries.unfinished(queue.db) == (2, None)
    for number in range(1, 5):
        row = newest(queue, one.video)
        deliveries.failed(queue.db, row, ERROR, now=queue.now, next_at=queue.now + number * SECOND)
        assert reported(queue) == ["delivery_failed"] * (number >= 3)
    failing = newest(queue, one.video)
    assert (failing.code, failing.error, failing.hint) == ("UPSTREAM", ERROR.message, "wait")
    assert (failing.tries, failing.next_at) == (4, queue.now + 4 * SECOND)
    deliveries.failed(queue.db, two, ERROR, now=queue.now, next_at=queue.now)
    assert deliveries.unfinished(queue.db) == (2, failing)
    assert delivered(queue, failing)
    assert (newest(queue, one.video).tries, newest(queue, one.video).code) == (0, None)
    assert deliveries.unfinished(queue.db) == (1, newest(queue, two.video))
    deliveries.failed(queue.db, one, ERROR, now=queue.now, next_at=queue.now)
    assert newest(queue, one.video).tries == 0, "it was delivered meanwhile"


def test_a_deleted_ladder_is_removed_and_may_return(
    queue: Queue, pair: tuple[DeliveryRow, DeliveryRow]
) -> None:
    one, two = pair
    for row in pair:
        generations.record(
            queue.db, row.video, 1, settings_hash="x", poster=None, renditions=(), now=queue.now
        )
        assert delivered(queue, row)
    deletions.begin(queue.db, one.video, now=queue.now, actor="test")
    gone = newest(queue, one.video)
    assert (gone.state, gone.next_at) == (DeliveryState.UNPUBLISHING, 0)
    assert newest(queue, two.video).state is DeliveryState.DELIVERED
    deliveries.removed(queue.db, one, now=queue.now)
    assert newest(queue, one.video) == gone, "it was read before it was deleted"
    deletions.restore(queue.db, one.video, now=queue.now, actor="test")
    deletions.restored(queue.db, one.video, url=None)
    assert newest(queue, one.video) == gone

    deletions.begin(queue.db, one.video, now=queue.now, actor="test")
    deletions.restore(queue.db, one.video, now=queue.now, actor="test")
    deletions.restored(queue.db, one.video, url="s3://films/back")
    back = newest(queue, one.video)
    assert (back.state, back.url, back.number) == (DeliveryState.WAITING, "s3://films/back", 1)
    deliveries.removed(queue.db, gone, now=queue.now)
    assert newest(queue, one.video) == back

    deliveries.unpublish(queue.db, one.video)
    deliveries.unpublish(queue.db, two.video)
    deliveries.record_unpublished(queue.db, newest(queue, one.video), remove_at=queue.now + HOUR)
    hidden = newest(queue, one.video)
    assert (hidden.state, hidden.next_at) == (DeliveryState.REMOVING, queue.now + HOUR)
    assert newest(queue, two.video).state is DeliveryState.UNPUBLISHING
    deliveries.record_unpublished(queue.db, newest(queue, two.video), remove_at=queue.now)
    deliveries.removed(queue.db, hidden, now=queue.now)
    assert deliveries.of_video(queue.db, one.video) is None
    assert newest(queue, two.video).state is DeliveryState.REMOVING
    deliveries.record_unpublished(queue.db, two, remove_at=0)
    assert newest(queue, two.video).next_at == queue.now, "it was read before it was deleted"
    assert reported(queue) == ["delivered"] * 2 + ["delivery_removed"]


@pytest.mark.parametrize(("done", "kept"), [(9, True), (8, False)])
def test_a_ladder_that_is_whole_in_its_bucket_returns_at_once(
    queue: Queue, pair: tuple[DeliveryRow, DeliveryRow], done: int, kept: bool
) -> None:
    one, two = pair
    for row in pair:
        generations.record(
            queue.db, row.video, 1, settings_hash="x", poster=None, renditions=(), now=queue.now
        )
        assert deliveries.advance(queue.db, row, files=9, done=done)
        deliveries.unpublish(queue.db, row.video)
    deliveries.restore(queue.db, one.video, one.url)
    back = newest(queue, one.video)
    assert (back.state, back.next_at) == (DeliveryState.WAITING, 0)
    assert back.files_done == (9 if kept else 0)
    assert newest(queue, two.video).state is DeliveryState.UNPUBLISHING
    deliveries.restore(queue.db, two.video, "s3://films/elsewhere")
    other = begin(queue, queue.video(), 1, one.url)
    assert delivered(queue, other)
    deliveries.restore(queue.db, one.video, one.url)
    assert newest(queue, other.video).state is DeliveryState.DELIVERED
    assert newest(queue, two.video).files_done == 0, "it was in another place"
    begin(queue, one.video, 2)
    assert deliveries.advance(queue.db, newest(queue, one.video), files=9, done=9)
    deliveries.unpublish(queue.db, one.video)
    deliveries.restore(queue.db, one.video, one.url)
    assert states(queue, one.video)[1][1] == "unpublishing", "the first is the one that is published"


def test_an_evicted_copy_is_recorded(queue: Queue, pair: tuple[DeliveryRow, DeliveryRow]) -> None:
    one, two = pair
    assert deliveries.delivered(queue.db, one, now=5, remove_at=9, is_evicted=True)
    assert (newest(queue, one.video).evicted_at, newest(queue, two.video).evicted_at) == (5, None)


def test_a_video_without_a_ladder_returns_without_one(queue: Queue) -> None:
    other = queue.video()
    generations.record(queue.db, other, 1, settings_hash="x", poster=None, renditions=(), now=queue.now)
    video = queue.video()
    deliveries.restore(queue.db, video, "s3://films/x")
    assert deliveries.of_video(queue.db, video) is None


def test_only_a_video_whose_copy_is_settled_is_forgotten(
    queue: Queue, pair: tuple[DeliveryRow, DeliveryRow]
) -> None:
    one, two = pair
    assert deletions.forget(queue.db, limit=9) == 0
    others = [begin(queue, queue.video()) for _ in range(2)]
    for row in (one, *others):
        assert delivered(queue, row)
    assert deletions.forget(queue.db, limit=1) == 1
    assert deletions.forget(queue.db, limit=9) == 2
    assert deliveries.of_video(queue.db, one.video) is None
    assert newest(queue, two.video) == two


def test_a_hidden_ladder_makes_room_for_another_video(
    queue: Queue, pair: tuple[DeliveryRow, DeliveryRow]
) -> None:
    one, two = pair
    later = begin(queue, queue.video(), 1, one.url)
    for row in (one, two):
        deliveries.unpublish(queue.db, row.video)
        deliveries.record_unpublished(queue.db, newest(queue, row.video), remove_at=queue.now + HOUR)
    own = begin(queue, later.video, 2, one.url)
    deliveries.remove_now(queue.db, own)
    assert newest(queue, one.video).next_at == 0
    assert newest(queue, two.video).next_at == queue.now + HOUR, "it is elsewhere"
    assert states(queue, later.video)[0] == (1, "removing", None), "it is of the same video"
    failing = newest(queue, one.video)
    deliveries.failed(queue.db, failing, ERROR, now=queue.now, next_at=queue.now + HOUR)
    deliveries.remove_now(queue.db, own)
    assert newest(queue, one.video).next_at == queue.now + HOUR, "it is tried again in its time"
    last = begin(queue, queue.video(), 1, two.url)
    waiting = begin(queue, queue.video(), 1, two.url)
    assert delivered(queue, last)
    deliveries.remove_now(queue.db, waiting)
    assert newest(queue, last.video).next_at is None, "it is not hidden"


def test_a_ladder_is_uploaded_again(queue: Queue, pair: tuple[DeliveryRow, DeliveryRow]) -> None:
    one, two = pair
    assert deliveries.advance(queue.db, one, files=9, done=9)
    assert delivered(queue, one)
    second = begin(queue, one.video, 2)
    assert deliveries.advance(queue.db, second, files=9, done=9)
    assert delivered(queue, second)
    assert deliveries.is_replaced(queue.db, one)
    other = begin(queue, queue.video(), 2)
    assert delivered(queue, other)
    assert deliveries.requeue(queue.db, one.video)
    assert newest(queue, other.video).state is DeliveryState.DELIVERED
    again = newest(queue, one.video)
    assert (again.state, again.next_at, again.files_done) == (DeliveryState.WAITING, 0, 0)
    assert states(queue, one.video)[0][1] == "removing", "the newest is uploaded"
    assert deliveries.is_replaced(queue.db, one), "the master playlist names the newer one all the time"
    assert newest(queue, two.video) == two
    begin(queue, one.video, 3)
    assert [state for _, state, _ in states(queue, one.video)] == ["removing", "delivered", "waiting"]
    assert deliveries.is_replaced(queue.db, one), "it is there still, though not uploaded again"
    assert deliveries.requeue(queue.db, one.video)
    assert [state for _, state, _ in states(queue, one.video)] == ["removing", "delivered", "waiting"]
    deliveries.unpublish(queue.db, one.video)
    assert not deliveries.is_replaced(queue.db, one), "the master playlist is about to be removed"

    assert deliveries.advance(queue.db, two, files=9, done=3)
    deliveries.failed(queue.db, newest(queue, two.video), ERROR, now=NOW, next_at=NOW + HOUR)
    assert deliveries.requeue(queue.db, two.video)
    tried = newest(queue, two.video)
    assert (tried.files_done, tried.next_at, tried.tries, tried.code) == (3, 0, 0, None)
    third = begin(queue, two.video, 2)
    assert not deliveries.is_replaced(queue.db, two), "it was never in the bucket"
    deliveries.unpublish(queue.db, third.video)
    assert not deliveries.requeue(queue.db, third.video), "it is being removed"
    assert not deliveries.requeue(queue.db, queue.video()), "it belongs to no bucket"
    evicted = begin(queue, queue.video())
    assert deliveries.delivered(queue.db, evicted, now=5, remove_at=9, is_evicted=True)
    assert not deliveries.requeue(queue.db, evicted.video)
