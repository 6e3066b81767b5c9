"""Which entries of Redis were added: kept until they are let go, each alone."""

from __future__ import annotations

from tqstudio.engine.store.jobs.folder_hours import FOREVER
from tqstudio.engine.store.machine import supervisors
from tqstudio.wings.redis import store
from tqstudio.wings.uploads import store as uploads

from .conftest import NOW, SECOND, Queue


def added(queue: Queue) -> set[str]:
    return {key for key in "abc" if store.is_added(queue.db, key)}


def test_an_entry_is_remembered_until_it_was_let_go(queue: Queue) -> None:
    for key in "abc":
        store.remember(queue.db, key, "{}")
    supervisors.prune_answers(queue.db, before=FOREVER)
    assert added(queue) == {"a", "b", "c"}
    store.release(queue.db, ["a", "b"], now=NOW)
    supervisors.prune_answers(queue.db, before=NOW)
    assert added(queue) == {"a", "b", "c"}
    supervisors.prune_answers(queue.db, before=NOW + 1)
    assert added(queue) == {"c"}


def test_all_are_let_go_but_keep_their_age(queue: Queue) -> None:
    for key in "abc":
        store.remember(queue.db, key, "{}")
    store.release(queue.db, ["a"], now=NOW)
    store.release_all(queue.db, now=NOW + SECOND)
    supervisors.prune_answers(queue.db, before=NOW + 1)
    assert added(queue) == {"b", "c"}
    supervisors.prune_answers(queue.db, before=NOW + SECOND + 1)
    assert added(queue) == set()


def test_an_upload_is_known_by_its_metadata(queue: Queue) -> None:
    about = "filename YQ==,batch Yg=="
    more = {"size": 100, "upload_metadata": about, "actor": "redis", "expires_at": NOW, "limit": 9}
    uploads.create(queue.db, "a", **more)
    assert store.is_fetched(queue.db, about)
    assert not store.is_fetched(queue.db, "filename YQ==,batch Yw==")
