"""Uploads: each is advanced, finished and removed alone."""

from __future__ import annotations

from tqstudio.wings.uploads import store as uploads

from .conftest import NOW, SECOND, Queue

LATER = NOW + SECOND


def create(queue: Queue, *numbers: str, limit: int = 9) -> list[bool]:
    more = {
        "size": 100,
        "upload_metadata": "filename YQ==",
        "actor": "token:desk",
        "expires_at": NOW,
        "limit": limit,
    }
    return [uploads.create(queue.db, number, **more) for number in numbers]


def received(queue: Queue) -> dict[str, int]:
    found = (uploads.find(queue.db, number) for number in "abc")
    return {row.id: row.received for row in found if row is not None}


def test_an_upload_is_found_by_its_id(queue: Queue) -> None:
    assert create(queue, "a", "b") == [True, True]
    row = uploads.find(queue.db, "b")
    assert row == uploads.UploadRow("b", 100, 0, "filename YQ==", "token:desk", NOW, None, None)
    assert not row.is_whole
    assert uploads.find(queue.db, "c") is None


def test_so_many_may_be_unfinished(queue: Queue) -> None:
    assert create(queue, "a", "b", "c", limit=2) == [True, True, False]
    uploads.answer(queue.db, "a", "{}", expires_at=LATER)
    assert create(queue, "c", limit=2) == [True]
    assert [row.id for row in uploads.unfinished(queue.db)] == ["b", "c"]


def test_an_upload_advances_alone_from_where_it_was(queue: Queue) -> None:
    create(queue, "a", "b")
    assert uploads.advance(queue.db, "a", before=0, received=40, expires_at=LATER)
    assert not uploads.advance(queue.db, "a", before=0, received=50, expires_at=LATER + 1)
    assert not uploads.advance(queue.db, "c", before=0, received=50, expires_at=LATER + 1)
    assert received(queue) == {"a": 40, "b": 0}
    row = uploads.find(queue.db, "a")
    assert row is not None
    assert row.expires_at == LATER
    assert uploads.advance(queue.db, "a", before=40, received=100, expires_at=LATER)
    whole = uploads.find(queue.db, "a")
    assert whole is not None
    assert whole.is_whole


def test_one_is_placed_and_answered(queue: Queue) -> None:
    create(queue, "a", "b")
    uploads.place(queue.db, "a", b"/in/x.mp4")
    assert not uploads.advance(queue.db, "a", before=0, received=1, expires_at=LATER), "it is whole"
    uploads.answer(queue.db, "a", "{}", expires_at=LATER)
    a, b = uploads.find(queue.db, "a"), uploads.find(queue.db, "b")
    assert a is not None
    assert b is not None
    assert (a.path, a.answer, a.expires_at) == (b"/in/x.mp4", "{}", LATER)
    assert (b.path, b.answer, b.expires_at) == (None, None, NOW)


def test_one_is_removed(queue: Queue) -> None:
    create(queue, "a", "b")
    uploads.remove(queue.db, "a")
    assert set(received(queue)) == {"b"}


def test_results_expire_and_unfinished_uploads_stay(queue: Queue) -> None:
    create(queue, "a", "b", "c")
    uploads.answer(queue.db, "a", "{}", expires_at=NOW)
    uploads.answer(queue.db, "b", "{}", expires_at=LATER)
    uploads.prune(queue.db, before=LATER)
    assert set(received(queue)) == {"b", "c"}
