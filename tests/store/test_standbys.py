"""Supervisors that stand by: who leads, and what is stored of the others."""

from __future__ import annotations

from typing import Any

from tqstudio.engine.store.machine import standbys, supervisors, tokens, workers
from tqstudio.engine.store.machine.standbys import StandbyRow
from tqstudio.protocol.roles import Role

from .conftest import NOW, SECOND, Queue


def begin(queue: Queue, home: str, now: int = NOW) -> int:
    lease = {"now": now, "lease_us": 60 * SECOND}
    return supervisors.begin(queue.db, pid=1, version="1", home=home, name=f"of {home}", **lease)[0]


def stored_tokens(queue: Queue) -> list[str]:
    return [row.name for row in tokens.listing(queue.db)]


def test_the_supervisor_that_began_last_leads(queue: Queue) -> None:
    queue.db.execute("DELETE FROM supervisor")
    assert standbys.leader(queue.db) is None
    assert standbys.may_lead(queue.db, "b")
    begin(queue, "a")
    first = begin(queue, "b", NOW)
    supervisors.announce(queue.db, first, url="https://b:1", certificate="PEM")
    leader = standbys.leader(queue.db)
    assert leader is not None
    assert (leader.id, leader.home, leader.name, leader.url, leader.certificate, leader.expires_at) == (
        *(first, "b", "of b", "https://b:1", "PEM"),
        NOW + 60 * SECOND,
    )


def test_another_one_may_follow_when_the_lease_has_run_out(queue: Queue) -> None:
    last = begin(queue, "b", queue.db.now_us())
    assert not standbys.may_lead(queue.db, "a")
    assert standbys.may_lead(queue.db, "b"), "its own run has ended: it has the lock of its home"
    leader = standbys.leader(queue.db)
    assert leader is not None
    assert not standbys.may_follow(leader, "a", leader.expires_at - 1)
    assert standbys.may_follow(leader, "a", leader.expires_at)
    supervisors.end(queue.db, last)
    assert standbys.may_lead(queue.db, "a")


def test_what_one_stores_concerns_no_other(queue: Queue) -> None:
    first, second = begin(queue, "a"), begin(queue, "b")
    supervisors.announce(queue.db, second, url="http://b:1", certificate=None)
    supervisors.renew(queue.db, first, now=NOW, lease_us=9)
    supervisors.end(queue.db, second)
    rows = queue.db.execute("SELECT id, url, expires_at FROM supervisor ORDER BY id").all()
    assert [tuple(row) for row in rows][-2:] == [(first, None, NOW + 9), (second, "http://b:1", 0)]


def test_the_log_says_when_another_one_leads(queue: Queue) -> None:
    begin(queue, "a")
    begin(queue, "a")
    assert changes(queue) == [], "it began again, and the first one had no home"
    last = begin(queue, "b")
    supervisors.end(queue.db, last)
    begin(queue, "a")
    assert changes(queue) == [("of b", "the lease of of a ran out"), ("of a", "of b was stopped")]


def test_changes_of_leader_are_counted(queue: Queue) -> None:
    assert supervisors.leader_changes(queue.db) == 0, "the first one has no home"
    for home, changed in (("a", 0), ("a", 0), ("b", 1), ("b", 1), ("a", 2), ("c", 3)):
        begin(queue, home)
        assert supervisors.leader_changes(queue.db) == changed


def test_those_that_were_seen_are_counted(queue: Queue) -> None:
    assert standbys.number(queue.db, after=0) == 0
    for number, home in enumerate("ab"):
        standbys.record_seen(queue.db, home, name=home, version="1", now=NOW + number)
    assert [standbys.number(queue.db, after=NOW + late) for late in (-1, 0, 1)] == [2, 1, 0]


def test_workers_of_another_machine_are_not_disabled_by_their_name(queue: Queue) -> None:
    queue.worker("cpu-0")
    queue.worker("far-0")
    queue.db.execute("UPDATE worker SET type = 'remote' WHERE name = 'far-0'")
    for worker in workers.listing(queue.db):
        workers.set_intent(queue.db, worker.name, enabled=False, now=NOW)
    queue.db.execute("UPDATE worker SET quarantine_reason = 'its GPU' WHERE name = 'cpu-0'")

    def enabled() -> list[str]:
        rows = workers.listing(queue.db)
        return [row.name for row in rows if row.enabled and row.quarantine_reason is None]

    begin(queue, "a")
    begin(queue, "a")
    assert enabled() == [], "it began again, on the same machine"
    begin(queue, "b")
    assert enabled() == ["cpu-0"]


def changes(queue: Queue) -> list[tuple[str, str]]:
    rows = queue.db.execute(
        "SELECT worker, detail FROM event WHERE \"trigger\" = 'leader_changed' ORDER BY seq"
    )
    return [(row[0], row[1]) for row in rows]


def test_those_that_stand_by_are_listed_by_name(queue: Queue) -> None:
    for home, name in (("2", "d"), ("1", "b"), ("3", "a")):
        standbys.record_seen(queue.db, home, name=name, version="1", now=NOW)
    standbys.record_seen(queue.db, "2", name="c", version="2", now=NOW + 1)
    rows = [StandbyRow("a", "1", NOW), StandbyRow("b", "1", NOW), StandbyRow("c", "2", NOW + 1)]
    assert standbys.listing(queue.db) == rows
    standbys.forget(queue.db, "2", name="c")
    assert standbys.listing(queue.db) == rows[:2]


def stand_by(queue: Queue, home: str, name: str, at: int = NOW) -> None:
    secret: dict[str, Any] = {"prefix": f"{home}-{name}", "salt": b"salt", "secret_hash": b"hash"}
    standbys.replace_token(queue.db, name, Role.ADMIN, **secret, now=at)
    standbys.record_seen(queue.db, home, name=name, version="1", now=at)


def test_one_takes_the_place_of_another_of_its_name_or_its_home(queue: Queue) -> None:
    for home, name in (("1", "a"), ("2", "b"), ("3", "c")):
        stand_by(queue, home, name)
    stand_by(queue, "4", "a", NOW + 1)
    standbys.prune(queue.db, before=NOW)
    assert standbys.homes_of(queue.db, "a", after=0) == ["4"], "as of a container that was created again"
    assert stored_tokens(queue) == ["standby-b", "standby-c", "standby-a"]
    stand_by(queue, "2", "d")
    standbys.record_seen(queue.db, "2", name="d", version="1", now=NOW + 1)
    assert [row.name for row in standbys.listing(queue.db)] == ["a", "c", "d"]
    assert stored_tokens(queue) == ["standby-c", "standby-a", "standby-d"], "none stays that nothing uses"


def test_those_that_do_not_return_are_removed(queue: Queue) -> None:
    for home, at in (("1", NOW - 1), ("2", NOW)):
        stand_by(queue, home, home, at)
    standbys.prune(queue.db, before=NOW)
    assert [row.name for row in standbys.listing(queue.db)] == ["2"]
    assert stored_tokens(queue) == ["standby-2"]


def test_a_name_is_that_of_the_homes_seen_lately(queue: Queue) -> None:
    for home, name in (("1", "a"), ("2", "b")):
        standbys.record_seen(queue.db, home, name=name, version="1", now=NOW)
    assert standbys.homes_of(queue.db, "a", after=NOW - 1) == ["1"]
    assert standbys.homes_of(queue.db, "a", after=NOW) == []


def test_tokens_are_replaced_and_end_with_their_supervisor(queue: Queue) -> None:
    def replace(name: str, prefix: str, role: Role = Role.ADMIN) -> None:
        secret: dict[str, Any] = {"prefix": prefix, "salt": b"salt", "secret_hash": b"hash"}
        standbys.replace_token(queue.db, name, role, **secret, now=NOW)

    replace("a", "1")
    replace("a", "2", Role.JOIN)
    replace("b", "3")
    replace("a", "4")
    assert stored_tokens(queue) == ["standby-a-workers", "standby-b", "standby-a"]
    assert tokens.by_prefix(queue.db, "1") is None
    found = tokens.by_prefix(queue.db, "4")
    assert found is not None
    assert (found.role, found.salt, found.hash, found.created_at) == (Role.ADMIN, b"salt", b"hash", NOW)
    for number, joined_by in enumerate(("standby-a-workers", "standby-a", None)):
        lent = workers.ensure(queue.db, f"far-{number}", "cpu", remote=True, joined_by=joined_by)
        secret: dict[str, Any] = {
            "prefix": f"w{number}",
            "salt": b"salt",
            "secret_hash": b"hash",
            "expires_at": None,
        }
        tokens.create(
            queue.db,
            name=lent.name,
            role=Role.WORKER,
            worker=lent.id,
            **secret,
            now=NOW,
            actor="test",
        )
    standbys.forget(queue.db, "home", name="a")
    assert stored_tokens(queue) == ["standby-b", "far-1", "far-2"]
