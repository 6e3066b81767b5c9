"""Tokens: found by their prefix, unique by name, deleted alone."""

from __future__ import annotations

from typing import Any

import pytest

from tqstudio.engine.store.machine import tokens, workers
from tqstudio.protocol.roles import Role

from .conftest import NOW, Queue


def create(
    queue: Queue,
    name: str,
    prefix: str,
    *,
    worker: int | None = None,
    expires_at: int | None = None,
    max_workers: int | None = None,
) -> bool:
    return tokens.create(
        queue.db,
        name=name,
        role=Role.WORKER if worker else Role.VIEW,
        prefix=prefix,
        salt=b"salt",
        secret_hash=b"hash of " + name.encode(),
        worker=worker,
        expires_at=expires_at,
        now=NOW,
        actor="user",
        max_workers=max_workers,
    )


def test_a_token_is_found_by_its_prefix_with_its_worker(queue: Queue) -> None:
    worker = queue.worker("far-0")
    queue.worker("far-1")
    assert create(queue, "phone", "aa", expires_at=NOW + 1)
    assert create(queue, "far-0", "bb", worker=worker.id)
    phone, far = tokens.by_prefix(queue.db, "aa"), tokens.by_prefix(queue.db, "bb")
    assert phone is not None
    assert far is not None
    assert (phone.name, phone.role, phone.hash, phone.expires_at) == (
        *("phone", Role.VIEW, b"hash of phone", NOW + 1),
    )
    assert (phone.worker, phone.worker_name) == (None, None)
    assert (far.worker, far.worker_name, far.worker_kind) == (worker.id, "far-0", "cpu")
    assert tokens.by_prefix(queue.db, "cc") is None
    assert [row.name for row in tokens.listing(queue.db)] == ["phone", "far-0"]


def test_a_name_is_given_once(queue: Queue) -> None:
    assert create(queue, "phone", "aa")
    before = queue.history()
    assert not create(queue, "phone", "bb")
    assert tokens.by_prefix(queue.db, "bb") is None
    assert queue.history() == before


def test_one_token_is_deleted_and_its_name_is_free(queue: Queue) -> None:
    for name, prefix in (("phone", "aa"), ("desk", "bb")):
        assert create(queue, name, prefix)
    phone = tokens.by_prefix(queue.db, "aa")
    assert phone is not None
    assert tokens.remove(queue.db, "phone", now=NOW, actor="token:desk") == phone.id
    assert tokens.remove(queue.db, "phone", now=NOW, actor="token:desk") is None
    assert [row.name for row in tokens.listing(queue.db)] == ["desk"]
    assert [(event["trigger"], event["detail"], event["actor"]) for event in queue.history()][-3:] == [
        ("token_created", "phone", "user"),
        ("token_created", "desk", "user"),
        ("token_revoked", "phone", "token:desk"),
    ]
    assert create(queue, "phone", "aa")


def test_the_token_of_a_worker_that_joined_is_deleted_for_its_joining_token_alone(queue: Queue) -> None:
    for name, joined_by in (("a", "fleet"), ("b", "fleet"), ("c", "other"), ("d", None)):
        worker = workers.ensure(queue.db, name, "cpu", remote=True, joined_by=joined_by)
        assert (worker.type, worker.joined_by) == ("remote", joined_by)
        assert create(queue, name, f"of {name}", worker=worker.id)
    assert create(queue, "fleet", "of fleet")
    assert [row.joined_by for row in tokens.listing(queue.db)] == ["fleet", "fleet", "other", None, None]
    how: Any = {"joined_by": "fleet", "now": NOW, "actor": "token:fleet"}
    for name in ("c", "d", "e", "fleet"):
        assert tokens.remove_joined(queue.db, name, **how) is None
    gone = tokens.by_prefix(queue.db, "of a")
    assert gone is not None
    assert tokens.remove_joined(queue.db, "a", **how) == gone.id
    assert tokens.remove_joined(queue.db, "a", **how) is None
    assert [row.name for row in tokens.listing(queue.db)] == ["b", "c", "d", "fleet"]
    last = queue.history()[-1]
    assert (last["trigger"], last["detail"], last["actor"]) == ("token_revoked", "a", "token:fleet")


def test_as_many_workers_join_by_a_token_as_it_says(queue: Queue) -> None:
    assert create(queue, "fleet", "of fleet", max_workers=2)
    assert create(queue, "other", "of other", max_workers=1)
    assert create(queue, "any", "of any")
    for name, joined_by in (("a", "fleet"), ("b", "any"), ("c", "any"), ("d", None)):
        worker = workers.ensure(queue.db, name, "cpu", remote=True, joined_by=joined_by)
        assert create(queue, name, f"of {name}", worker=worker.id)
    assert (tokens.joined(queue.db, "fleet"), tokens.joined(queue.db, "any")) == (["a"], ["b", "c"])
    assert all(tokens.may_join(queue.db, each) for each in ("fleet", "other", "any"))
    worker = workers.ensure(queue.db, "e", "cpu", remote=True, joined_by="fleet")
    assert tokens.may_join(queue.db, "fleet"), "it has no token yet"
    assert create(queue, "e", "of e", worker=worker.id)
    assert not tokens.may_join(queue.db, "fleet")
    assert tokens.may_join(queue.db, "other")
    tokens.remove(queue.db, "a", now=NOW, actor="user")
    assert tokens.may_join(queue.db, "fleet"), "the place of a revoked one is free"
    assert [row.max_workers for row in tokens.listing(queue.db)][:3] == [2, 1, None]


def test_who_joined_is_in_the_history(queue: Queue) -> None:
    worker = workers.ensure(queue.db, "pod", "cpu", remote=True, joined_by="fleet")
    secret: Any = {"prefix": "aa", "salt": b"", "secret_hash": b"", "expires_at": None}
    assert tokens.create(
        queue.db,
        name="pod",
        role=Role.WORKER,
        worker=worker.id,
        now=NOW,
        actor="token:fleet",
        joined=True,
        **secret,
    )
    [event] = queue.history()
    assert (event["trigger"], event["worker"], event["actor"]) == ("worker_joined", "pod", "token:fleet")
    again = workers.ensure(queue.db, "pod", "cpu", device=None)
    assert (again.id, again.type, again.joined_by) == (worker.id, "local", None)


@pytest.mark.parametrize("name", ["owner", "worker"])
def test_roles_of_tokens(queue: Queue, name: str) -> None:
    from sqlalchemy.exc import IntegrityError

    from tqstudio.engine.store.db.tables import token

    values = {"name": "x", "role": name, "prefix": "aa", "salt": b"", "hash": b"", "created_at": 1}
    if name == "worker":
        queue.db.execute(token.insert(), values)
    else:
        with pytest.raises(IntegrityError, match="ck_token_role"):
            queue.db.execute(token.insert(), values)
