"""A database that is damaged, gone or held by another program stops the start, and stays as it is."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tqstudio.engine.store import connection, opening
from tqstudio.engine.store.database import Database
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home

from .conftest import Queue, connect


@pytest.fixture
def home(database: Path, tmp_path: Path) -> Home:
    """With some hundred jobs in its database, and the log of one."""
    made = Home(tmp_path / "home")
    made.create()
    shutil.copyfile(database, made.database)
    db = connect(made.database)
    db.begin(immediate=True)
    queue = Queue(db)
    for _ in range(300):
        queue.job()
    db.commit()
    db.close()
    made.job_logs(1).mkdir(parents=True)
    return made


def _overwrite(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def _no_header(path: Path) -> None:
    _overwrite(path, 0, b"\0" * 100)


def _truncated(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def _garbage(path: Path) -> None:
    page = 4096
    _overwrite(path, page * (path.stat().st_size // page // 2), random.Random(1).randbytes(4 * page))


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("spoil", [_no_header, _truncated, _garbage, _empty, _gone])
def test_a_damaged_database_stops_the_start_and_is_not_touched(
    home: Home, spoil: Callable[[Path], None]
) -> None:
    spoil(home.database)
    before = home.database.read_bytes() if home.database.exists() else None
    names = {entry.name for entry in home.root.iterdir()}
    with pytest.raises(TqError) as caught:
        opening.require_sound(home)
    assert caught.value.code is ErrorCode.DATABASE_DAMAGED
    assert str(home.database) in caught.value.message
    assert "backup" in caught.value.hint
    assert "doctor" in caught.value.hint
    assert (home.database.read_bytes() if home.database.exists() else None) == before
    # A reader makes these two beside any database; they hold nothing.
    log = home.database.with_name("tqstudio.db-wal")
    assert {entry.name for entry in home.root.iterdir()} - names <= {log.name, "tqstudio.db-shm"}
    assert not log.exists() or log.stat().st_size == 0


def test_what_is_only_in_the_log_is_not_given_up(home: Home) -> None:
    db = connect(home.database)
    shutil.rmtree(home.logs / "jobs")
    db.execute("UPDATE job SET priority = 5")
    home.database.unlink()
    with pytest.raises(TqError, match="db-wal"):
        opening.require_sound(home)
    db.close()


def test_a_sound_database_and_a_new_home_may_be_opened(home: Home, tmp_path: Path) -> None:
    opening.require_sound(home)
    new = Home(tmp_path / "new")
    new.create()
    opening.require_sound(new)
    # What a first start leaves that is killed at once.
    new.database.write_bytes(b"")
    opening.require_sound(new)


def test_a_look_that_may_not_last_is_cut_short_in_the_middle_of_a_tree(tmp_path: Path) -> None:
    path = tmp_path / "large.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("CREATE TABLE large (number INTEGER PRIMARY KEY, text TEXT)")
    db.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)"
        " INSERT INTO large SELECT i, printf('%60d', i) FROM n"
    )
    db.close()
    page = 4096
    _overwrite(path, path.stat().st_size - page, random.Random(1).randbytes(page))
    assert opening.problem_of(path) is not None
    # An alarm may come late on a busy machine, and then the damage is found in spite of it.
    assert any(opening.problem_of(path, 0.0) is None for _ in range(100))


def test_a_change_that_a_power_cut_interrupted_is_taken_back(home: Home, tmp_path: Path) -> None:
    """Of a database that is not in WAL mode yet, as one fresh from a backup."""
    writer = sqlite3.connect(home.database, isolation_level=None)
    writer.execute("PRAGMA journal_mode=DELETE")
    writer.execute("PRAGMA cache_size=1")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE job SET priority = 5, profile_json = profile_json || printf('%9000c', 'x')")
    cut = Home(tmp_path / "cut")
    cut.create()
    # What lies on the disk in the middle of it: changed pages, and the journal that has the old ones.
    for name in (home.database.name, f"{home.database.name}-journal"):
        shutil.copyfile(home.root / name, cut.root / name)
    writer.close()
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.connect(cut.database, read_only=True).execute("SELECT count(*) FROM job")
    opening.require_sound(cut)
    db = connection.connect(cut.database, read_only=True)
    assert db.execute("SELECT count(*), max(priority) FROM job").one() == (300, 0)
    db.close()


def test_damage_that_shows_later_is_told_by_name(home: Home) -> None:
    db = Database(home.database)
    db.open()
    try:
        size = home.database.stat().st_size
        _overwrite(home.database, 4096, random.Random(1).randbytes(size - 4096))
        with pytest.raises(TqError) as caught:
            db.read_now(lambda c: c.execute("SELECT sum(length(name)) FROM video").scalar())
        assert caught.value.code is ErrorCode.DATABASE_DAMAGED
    finally:
        db.close()


def test_a_busy_database_is_waited_for_and_then_told(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.1)
    holder = sqlite3.connect(home.database, isolation_level=None)
    db = Database(home.database)
    db.open()
    try:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(TqError) as caught:
            db.write_now(lambda c: c.execute("UPDATE job SET priority = 1"))
        assert caught.value.code is ErrorCode.DATABASE_BUSY
        assert str(home.database) in caught.value.message
        holder.execute("ROLLBACK")
        db.write_now(lambda c: c.execute("UPDATE job SET priority = 1"))
    finally:
        db.close()
        holder.close()
