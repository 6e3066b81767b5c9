"""A database that became smaller gives its pages back, and damage is found while it is in use."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from damage import forget_in_indexes
from tqstudio.engine.store.db import opening, upkeep
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.schema import migrate
from tqstudio.engine.store.db.upkeep import FIRST_S, INTERVAL_S, PATIENCE_S, WeeklyCheck
from tqstudio.errors import ErrorCode

ROWS = 40_000


def fill(db: Connection) -> None:
    """Rows in front of and after those that `empty` removes, so that pages have to move."""
    db.execute("CREATE TABLE filler (n INTEGER PRIMARY KEY, text TEXT)")
    db.execute(
        "WITH RECURSIVE counter(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter WHERE n < :rows)"
        " INSERT INTO filler SELECT n, hex(zeroblob(150)) FROM counter",
        {"rows": ROWS},
    )


def empty(db: Connection) -> None:
    db.execute("DELETE FROM filler WHERE n BETWEEN 100 AND :last", {"last": ROWS - 100})


def test_free_pages_are_given_back_in_steps(tmp_path: Path) -> None:
    path = tmp_path / "tqstudio.db"
    database = Database(path)
    database.open()
    assert not database.read_now(upkeep.has_spare_pages), "a new one has none"
    database.write_now(fill)
    assert not database.read_now(upkeep.has_spare_pages)
    database.write_now(empty)
    pages = database.read_now(_pages)
    steps = 0
    while database.read_now(upkeep.has_spare_pages):
        database.write_now(upkeep.give_back_pages)
        steps += 1
    assert steps >= 2
    given = pages - database.read_now(_pages)
    # With them go the pages that say where each of them belongs, 1 of 1024.
    assert 0 <= given - steps * upkeep.STEP_PAGES <= steps
    assert database.read_now(lambda db: db.execute("SELECT count(*) FROM filler").scalar_one()) == 199
    before = path.stat().st_size
    database.close()
    assert path.stat().st_size < before, "the file is smaller"
    assert opening.problem_of(path) is None


def _pages(db: Connection) -> int:
    return int(db.execute("PRAGMA page_count").scalar_one())


def test_an_older_database_is_left_as_it_is(tmp_path: Path) -> None:
    """Its free pages cannot be given back, so no write is spent on them."""
    path = tmp_path / "tqstudio.db"
    database = Database(path)
    database.open()
    database.write_now(fill)
    database.write_now(empty)
    database.close()
    with sqlite3.connect(path) as raw:
        # Not in WAL mode, where the mode cannot change.
        raw.execute("PRAGMA journal_mode=DELETE")
        raw.execute("PRAGMA auto_vacuum=NONE")
        raw.execute("VACUUM")
    raw.close()
    database = Database(path)
    database.open()
    database.write_now(lambda db: db.execute("DELETE FROM filler"))
    assert not database.read_now(upkeep.has_spare_pages)
    database.close()


class Checked:
    """A check with a clock of the test, and how often it looked."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.times = 0.0, 0
        self.check = WeeklyCheck(Database(path), lambda: self.now)
        real = opening.problem_of

        def counted(path: Path) -> opening.DatabaseProblem | None:
            self.times += 1
            return real(path)

        monkeypatch.setattr(opening, "problem_of", counted)

    def tick(self, after_s: float, *, idle: bool = True) -> int:
        self.now += after_s
        asyncio.run(self.check.tick(idle=idle))
        return self.times


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checked:
    path = tmp_path / "tqstudio.db"
    migrate(path)
    return Checked(path, monkeypatch)


def test_it_is_checked_weekly_when_no_job_runs(checked: Checked) -> None:
    assert checked.tick(FIRST_S - 1) == 0
    assert checked.tick(2, idle=False) == 0, "it waits for running jobs"
    assert checked.tick(1) == 1
    assert checked.tick(INTERVAL_S - 10) == 1
    assert checked.tick(10) == 2
    assert checked.tick(INTERVAL_S + PATIENCE_S - 1, idle=False) == 2
    assert checked.tick(1, idle=False) == 3, "but not for ever"
    assert checked.check.damage is None


def test_damage_is_remembered_until_it_is_repaired(checked: Checked, tmp_path: Path) -> None:
    path = tmp_path / "tqstudio.db"
    database = Database(path)
    database.open()
    database.write_now(
        lambda db: db.execute(
            "INSERT INTO video (source, output_root, name, name_lower, title, slug, size, mtime_ns,"
            " created_at) VALUES (x'2f61', x'2f', 'a', 'a', 'a', 'a', 1, 1, 1)"
        )
    )
    database.write_now(
        lambda db: db.execute(
            "INSERT INTO job (video_id, profile, profile_json, status, created_at)"
            " VALUES (1, 'web', '{}', 'pending', 1)"
        )
    )
    database.close()
    forget_in_indexes(path, (1,), "ix_job_ready")
    checked.tick(FIRST_S)
    assert checked.check.damage is not None
    assert checked.check.damage.code is ErrorCode.DATABASE_DAMAGED
    assert "doctor --repair" in checked.check.damage.hint
    opening.repair(path)
    checked.tick(INTERVAL_S)
    assert checked.check.damage is None
