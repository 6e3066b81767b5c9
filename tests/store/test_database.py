"""Writes that wait for one another share a commit, and none spoils it for the others."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.connection_thread import MAX_SHARING
from tqstudio.engine.store.db.database import Database
from tqstudio.errors import ErrorCode, TqError


def note(db: Connection, word: str) -> int:
    events.append(db, word, now=1, actor="test")
    return len(word)


def words(db: Connection) -> list[str]:
    return [row[0] for row in db.execute("SELECT trigger FROM event ORDER BY seq")]


def held_up(opened: Database, writes: Any, heard: Callable[[Any], None] = lambda _: None) -> list[Any]:
    """What the writes answer when they all wait while the writer is busy."""
    go, busy = threading.Event(), threading.Event()

    def hold(_: Connection) -> None:
        busy.set()
        assert go.wait(60)

    async def run() -> list[Any]:
        opened.bind(heard)
        holding = asyncio.create_task(opened.write(hold))
        await asyncio.to_thread(busy.wait, 60)
        asked = [asyncio.create_task(opened.write(fn, *args)) for fn, *args in writes]
        await asyncio.sleep(0)
        go.set()
        await holding
        return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(run())


def commits(db: Database) -> int:
    """How many transactions have written events.

    Of SQLite: frames of the write-ahead log that end one; their header gives the size of the database.
    """
    if not isinstance(db.address, Path):
        return int(
            db.read_now(
                lambda c: c.execute("SELECT count(DISTINCT CAST(xmin AS text)) FROM event").scalar_one()
            )
        )
    log = Path(f"{db.address}-wal").read_bytes()
    page = int.from_bytes(log[8:12], "big")
    salts = log[16:24]
    frames = range(32, len(log), 24 + page)
    return sum(
        1 for at in frames if log[at + 8 : at + 16] == salts and int.from_bytes(log[at + 4 : at + 8], "big")
    )


def test_writes_that_wait_share_one_commit(opened: Database) -> None:
    opened.write_now(note, "first")
    before = commits(opened)
    answers = held_up(opened, [(note, f"w{number}") for number in range(20)])
    assert answers == [len(f"w{number}") for number in range(20)]
    assert opened.read_now(words) == ["first", *(f"w{number}" for number in range(20))]
    assert commits(opened) == before + 1


def test_no_more_than_so_many_share(opened: Database) -> None:
    opened.write_now(note, "first")
    before = commits(opened)
    held_up(opened, [(note, "w") for _ in range(MAX_SHARING * 2)])
    assert commits(opened) == before + 2


def test_one_that_fails_is_undone_alone(opened: Database) -> None:
    seen: list[str] = []

    def half(db: Connection) -> None:
        note(db, "half")
        raise ValueError("half way")

    writes = [(note, "one"), (half,), (note, "three")]
    answers = held_up(opened, writes, lambda rows: seen.extend(row.trigger for row in rows))
    assert [type(answer) for answer in answers] == [int, ValueError, int]
    assert opened.read_now(words) == ["one", "three"]
    assert seen == ["one", "three"]


@pytest.mark.usefixtures("database")
def test_one_that_ends_the_transaction_costs_the_others_nothing(opened: Database) -> None:
    """As a full disk does: SQLite itself rolls everything back."""

    def spoil(db: Connection) -> None:
        note(db, "spoilt")
        db.execute("ROLLBACK")
        db.execute("SELECT no_such_column FROM job")

    answers = held_up(opened, [(note, "one"), (spoil,), (note, "three")])
    assert [type(answer) for answer in answers] == [int, OperationalError, int]
    assert opened.read_now(words) == ["one", "three"]


@pytest.mark.usefixtures("database")
def test_a_full_disk_is_reported_to_each_that_shares(opened: Database) -> None:
    """SQLite refuses the one statement and continues the transaction: the others need no room."""

    def grow(db: Connection) -> None:
        for _ in range(2_000):
            note(db, "grows")

    opened.write_now(lambda db: db.execute("PRAGMA max_page_count = 1"))
    answers = held_up(opened, [(note, "one"), (grow,), (grow,)])
    assert answers[0] == len("one")
    assert [getattr(answer, "code", answer) for answer in answers[1:]] == [ErrorCode.DISK_LOW] * 2
    assert opened.refusal is not None, "no more is written until there is room"


def test_who_hangs_up_leaves_a_whole_write(opened: Database) -> None:
    async def run() -> None:
        asked = asyncio.create_task(opened.write(note, "whole"))
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    asyncio.run(run())
    opened.write_now(note, "after")
    assert opened.read_now(words) == ["whole", "after"]


def test_a_reread_looks_again_only_after_a_write(opened: Database) -> None:
    looks = []

    def look(db: Connection) -> list[str]:
        looks.append(db)
        return words(db)

    async def run() -> None:
        assert await opened.reread(look) == await opened.reread(look) == []
        await opened.write(note, "new")
        assert await opened.reread(look) == await opened.reread(look) == ["new"]
        assert len(looks) == 2

    asyncio.run(run())


def test_a_closed_database_is_reported(opened: Database) -> None:
    opened.close()
    with pytest.raises(RuntimeError, match="not open"):
        opened.write_now(note, "late")


def test_what_cannot_be_opened_is_reported_by_open(tmp_path: Path) -> None:
    db = Database(tmp_path / "nowhere" / "tqstudio.db")
    with pytest.raises(Exception, match=r"nowhere"):
        db.open()
    db.close()


def fail(_: Connection, code: int = sqlite3.SQLITE_IOERR_WRITE) -> None:
    error = sqlite3.OperationalError("what SQLite says")
    error.sqlite_errorcode = code
    raise OperationalError("a statement", {}, error)


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_READONLY])
def test_a_disk_that_takes_no_writes_is_refused_until_it_does(opened: Database, code: int) -> None:
    async def run() -> None:
        with pytest.raises(TqError):
            await opened.read(fail, code)
        assert opened.refusal is None, "what cannot be read says nothing of writes"
        with pytest.raises(TqError, match="cannot be written: what SQLite says") as caught:
            await opened.write(fail, code)
        assert caught.value.code is ErrorCode.DATABASE_UNWRITABLE
        with pytest.raises(TqError, match="cannot be written"):
            await opened.write(note, "lost")
        with pytest.raises(TqError):
            await opened.write_again(fail, code)
        assert opened.refusal is not None
        await opened.write_again(note, "again")
        assert opened.refusal is None
        await opened.write(note, "on")
        assert await opened.read(words) == ["again", "on"]

    asyncio.run(run())
