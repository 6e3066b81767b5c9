"""A database that is damaged, gone or held by another program stops the start, and stays as it is."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from damage import forget_in_indexes, forget_rows
from databases import committed
from tqstudio.engine.store.db import backup, connection, integrity, opening, schema
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.dialects import sqlite
from tqstudio.engine.store.lists import pages
from tqstudio.engine.store.lists.orders import PageQuery
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.lifecycle import JobStatus, Operation

from .conftest import Queue, connect


@pytest.fixture
def fresh(database: Path, tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.create()
    shutil.copyfile(database, made.database)
    return made


@pytest.fixture
def home(fresh: Home) -> Home:
    """With some hundred jobs in its database, and the log of one."""
    db = connect(fresh.database)
    db.begin()
    queue = Queue(db)
    for _ in range(300):
        queue.job()
    db.commit()
    db.close()
    fresh.job_logs(1).mkdir(parents=True)
    return fresh


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
    with contextlib.closing(sqlite3.connect(path)) as raw:
        (root,) = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'job'").fetchone()
    page = 4096
    _overwrite(path, page * (root - 1), random.Random(1).randbytes(page))


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _gone(path: Path) -> None:
    path.unlink()


@pytest.mark.fault(
    "The database file is cut short, overwritten or empty",
    "The start stops with `DATABASE_DAMAGED`; the file is left as it is",
    area="database",
)
@pytest.mark.parametrize("spoil", [_no_header, _truncated, _garbage, _empty, _gone])
def test_a_damaged_database_stops_the_start_and_is_not_touched(
    home: Home, spoil: Callable[[Path], None]
) -> None:
    spoil(home.database)
    before = home.database.read_bytes() if home.database.exists() else None
    names = {entry.name for entry in home.root.iterdir()}
    with pytest.raises(TqError) as caught:
        opening.require_intact(home)
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
    db.commit()
    home.database.unlink()
    with pytest.raises(TqError, match="db-wal"):
        opening.require_intact(home)
    db.close()


def test_a_sound_database_and_a_new_home_may_be_opened(home: Home, tmp_path: Path) -> None:
    opening.require_intact(home)
    new = Home(tmp_path / "new")
    new.create()
    opening.require_intact(new)
    # What a first start leaves that is killed at once.
    new.database.write_bytes(b"")
    opening.require_intact(new)


@pytest.fixture
def varied(fresh: Home) -> Home:
    """Jobs 1 and 2 wait, 3 waits for its next attempt, 4 and 5 are done; beside them one of every kind."""
    with committed(fresh.database) as db:
        queue = Queue(db)
        assert [queue.job(), queue.job(), queue.job()] == [1, 2, 3]
        assert [queue.in_status(JobStatus.DONE), queue.in_status(JobStatus.DONE)] == [4, 5]
        for status in set(JobStatus) - {JobStatus.PENDING}:
            queue.in_status(status)
            if status is not JobStatus.IN_PROGRESS:
                queue.do(queue.in_status(status), Operation.DELETE)
        deleted, both = queue.job(), queue.job()
        db.execute(
            "UPDATE job SET not_before = 5 WHERE id IN (3, :both) OR status = 'paused'", {"both": both}
        )
        for job in (deleted, both):
            queue.do(job, Operation.DELETE)
    return fresh


def _claimable(home: Home) -> int:
    with committed(home.database) as db:
        queue, taken = Queue(db), 0
        while queue.claim(queue.worker(f"w{taken}")) is not None:
            taken += 1
    return taken


def test_jobs_of_every_kind_are_sound(varied: Home) -> None:
    assert opening.problem_of(varied.database) is None
    assert opening.require_intact(varied) is None


@pytest.mark.parametrize("lost", ["ix_job_waiting", "ix_job_status", "ix_job_ready", "ix_job_one_open"])
def test_a_start_rebuilds_an_index_that_lacks_jobs(varied: Home, lost: str) -> None:
    """Two waiting jobs that nothing would have run or shown; every page of the file is in order."""
    forget_in_indexes(varied.database, (1, 2), lost)
    problem = opening.problem_of(varied.database)
    assert problem is not None
    assert problem.remedy is opening.Remedy.REBUILD
    assert "row 1 missing from index" in problem.text
    assert opening.require_intact(varied) is not None
    assert opening.problem_of(varied.database) is None
    with committed(varied.database) as reader:
        assert pages.page(reader, PageQuery(), limit=500).ids[1:3] == [1, 2]
    assert _claimable(varied) == 2


@pytest.mark.parametrize(
    ("lost", "jobs", "expected"),
    [
        (
            "ix_job_waiting",
            (1, 2),
            "the index ix_job_waiting differs from the stored count of pending jobs",
        ),
        ("ix_job_ended", (4, 5), "the index ix_job_ended differs"),
        ("ix_job_status", (1, 2), "the index ix_job_status differs"),
        ("ix_job_ready", (1, 2), "the queue has 1 of 3 pending jobs"),
        ("ix_job_backoff", (3,), "the queue has 2 of 3 pending jobs"),
    ],
)
def test_a_start_compares_counts_and_lists_before_it_looks_at_each_row(
    varied: Home, lost: str, jobs: Collection[int], expected: str
) -> None:
    forget_in_indexes(varied.database, jobs, lost)
    with committed(varied.database) as reader:
        assert integrity.unlisted(reader).startswith(expected)
    found = opening.require_intact(varied)
    assert found is not None
    assert found.text.startswith(expected)


def test_jobs_that_are_lost_stop_the_start_until_a_user_continues_without_them(varied: Home) -> None:
    home = varied
    forget_rows(home.database, (1,))
    forget_in_indexes(home.database, (2,), "ix_job_ready")
    before = home.database.read_bytes()
    with pytest.raises(TqError, match="it has fewer pending jobs than were counted") as caught:
        opening.require_intact(home)
    assert caught.value.code is ErrorCode.DATABASE_DAMAGED
    assert caught.value.hint.endswith("tqstudio doctor --repair")
    assert home.database.read_bytes() == before
    opening.repair(home.database, consent=True)
    assert opening.require_intact(home) is None
    assert _claimable(home) == 1


def test_indexes_that_cannot_be_rebuilt_are_damage(home: Home) -> None:
    """Two rows have what only one may: the table itself is wrong."""
    with contextlib.closing(sqlite3.connect(home.database, isolation_level=None)) as db:
        first = db.execute("SELECT sql FROM sqlite_master WHERE name = 'ix_job_one_open'").fetchone()[0]
        db.execute("DROP INDEX ix_job_one_open")
        db.execute("UPDATE job SET video_id = 1 WHERE id = 2")
        db.execute("PRAGMA writable_schema=ON")
        db.execute(first.replace("UNIQUE ", ""))
        db.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'ix_job_one_open'", (first,))
    problem = opening.problem_of(home.database)
    assert problem is not None
    assert "non-unique entry in index ix_job_one_open" in problem.text
    with pytest.raises(TqError, match="cannot be rebuilt") as caught:
        opening.require_intact(home)
    assert caught.value.code is ErrorCode.DATABASE_DAMAGED


@pytest.mark.parametrize(
    "spoil",
    [
        "DROP TABLE alembic_version",
        "DELETE FROM alembic_version",
        "UPDATE alembic_version SET version_num = 'x'",
        "DROP TABLE job_count",
    ],
)
def test_a_database_without_a_part_of_its_schema_is_damaged(home: Home, spoil: str) -> None:
    with contextlib.closing(sqlite3.connect(home.database, isolation_level=None)) as db:
        db.execute(spoil)
    with pytest.raises(TqError) as caught:
        opening.require_intact(home)
    assert caught.value.code is ErrorCode.DATABASE_DAMAGED
    assert ("alembic_version" in spoil) is ("alembic_version" in caught.value.message)


def test_an_earlier_schema_without_an_index_is_sound(home: Home) -> None:
    with committed(home.database) as db:
        db.execute("DROP INDEX ix_job_ended")
    assert opening.require_intact(home) is None


def test_a_backup_of_damaged_indexes_is_refused(home: Home, tmp_path: Path) -> None:
    forget_in_indexes(home.database, (1, 2), "ix_job_ready")
    with pytest.raises(TqError, match="row 1 missing from index ix_job_ready") as caught:
        backup.copy(home.database, tmp_path / "copy.db")
    assert caught.value.code is ErrorCode.DATABASE_DAMAGED
    assert caught.value.hint.endswith("tqstudio doctor --repair")
    assert not (tmp_path / "copy.db").exists()


def test_a_look_that_may_not_last_is_cut_short_in_the_middle_of_a_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The check takes 40 ms, and the first interrupt may come before its statement.
    monkeypatch.setattr(opening, "_INTERRUPT_AGAIN_S", 0.001)
    path = tmp_path / "large.db"
    db = sqlite3.connect(path, isolation_level=None)
    # An older schema, whose tables are not compared.
    db.execute(f"CREATE TABLE alembic_version AS SELECT '{schema.SCHEMA_VERSION}' AS version_num")
    monkeypatch.setattr(schema, "SCHEMA_VERSION", "9999")
    db.execute("CREATE TABLE large (number INTEGER PRIMARY KEY, text TEXT)")
    db.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)"
        " INSERT INTO large SELECT i, printf('%60d', i) FROM n"
    )
    db.close()
    page = 4096
    _overwrite(path, path.stat().st_size - page, random.Random(1).randbytes(page))
    assert opening.problem_of(path) is not None
    # On a busy machine all of them may come late, and then the damage is found in spite of it.
    assert any(opening.problem_of(path, 0.0) is None for _ in range(100))


@pytest.mark.fault(
    "It fails in the first start, or in the first with a restored backup",
    "SQLite rolls back; the supervisor starts",
    area="power cuts",
)
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
    with pytest.raises(OperationalError, match="readonly"):
        connection.connect(cut.database, read_only=True).execute("SELECT count(*) FROM job")
    opening.require_intact(cut)
    db = connection.connect(cut.database, read_only=True)
    assert db.execute("SELECT count(*), max(priority) FROM job").one() == (300, 0)
    db.close()


@pytest.mark.fault(
    "A page turns out to be damaged at run time",
    "The call is answered with `DATABASE_DAMAGED`",
    area="database",
)
def test_damage_that_shows_later_is_reported_by_name(home: Home) -> None:
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


@pytest.mark.fault(
    "Another program locks the database", "Waited for 10 s, then `DATABASE_BUSY`", area="database"
)
def test_a_busy_database_is_waited_for_and_then_reported(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.1)
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
