"""What a start refuses, every other check refuses too, and none of them writes into such a database."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

import postgres
from damage import empty_root, forget_rows
from databases import committed
from tqstudio.config import Settings
from tqstudio.engine.monitoring.doctor import examine
from tqstudio.engine.store.db import backup, copying, integrity, opening, schema
from tqstudio.engine.store.db.connection import connect
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.schema import SCHEMA_VERSION, migrate
from tqstudio.engine.store.db.upkeep import FIRST_S, WeeklyCheck
from tqstudio.engine.store.lists import pages
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.lifecycle import Operation

from .conftest import Queue

AFTER = f"{int(SCHEMA_VERSION) + 1:04}"


@pytest.fixture
def home(database: Path, tmp_path: Path) -> Home:
    """With two jobs in its database, and the log of one."""
    made = Home(tmp_path / "home")
    made.create()
    shutil.copyfile(database, made.database)
    with committed(made.database) as db:
        queue = Queue(db)
        assert [queue.job(), queue.job()] == [1, 2]
    made.job_logs(1).mkdir(parents=True)
    return made


def run(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as raw:
        for statement in statements:
            raw.execute(statement)


def start(home: Home) -> None:
    opening.require_intact(home)
    migrate(home.database)


def weekly(home: Home) -> None:
    now = [0.0]
    check = WeeklyCheck(Database(home.database), lambda: now[0])
    now[0] = FIRST_S
    asyncio.run(check.tick(idle=True))
    if check.damage is not None:
        raise check.damage


CHECKS: list[Callable[[Home], object]] = [
    start,
    weekly,
    lambda home: backup.copy(home.database, home.root / "copy.db"),
    lambda home: opening.require_sound(home.database),
]


def _lost_rows(path: Path) -> None:
    forget_rows(path, (2,))


def _emptied_events(path: Path) -> None:
    empty_root(path, "event")


def _emptied_videos(path: Path) -> None:
    empty_root(path, "video")


def _dangling(path: Path) -> None:
    run(path, "INSERT INTO generation (video_id, settings_hash, published_at) VALUES (77, 'x', 1)")


def _newer(path: Path) -> None:
    run(path, f"UPDATE alembic_version SET version_num = '{AFTER}'")


def _of_development(path: Path) -> None:
    run(path, "UPDATE alembic_version SET version_num = '0021'")


def _without_column(path: Path) -> None:
    run(path, "DROP INDEX ix_job_origin", "ALTER TABLE job DROP COLUMN owner")


def _without_table(path: Path) -> None:
    run(path, "DROP TABLE upload")


_AGREED = [
    (_lost_rows, ErrorCode.DATABASE_DAMAGED, "it has fewer pending jobs than were counted"),
    (_emptied_events, ErrorCode.DATABASE_DAMAGED, "has entries of rows that its table lacks"),
    (_emptied_videos, ErrorCode.DATABASE_DAMAGED, "2 rows refer to missing rows"),
    (_dangling, ErrorCode.DATABASE_DAMAGED, "1 rows refer to missing rows"),
    (_newer, ErrorCode.DATABASE_VERSION, f"has schema {AFTER}, of a newer tqstudio"),
    (_of_development, ErrorCode.DATABASE_VERSION, "has schema 0021, of a development version before 0.1.0"),
    (_without_column, ErrorCode.DATABASE_DAMAGED, "its table job has no column owner"),
    (_without_table, ErrorCode.DATABASE_DAMAGED, "it has no table upload"),
]
CONSENTED = (_lost_rows, _emptied_events)
"""What a user may continue without."""


@pytest.mark.fault(
    "Rows, a page, a table or a column of the database are gone, or its schema is another",
    "The start, `backup`, `doctor` and the weekly check refuse it alike; it is left as it is",
    area="database",
)
@pytest.mark.parametrize(("spoil", "code", "words"), _AGREED)
def test_every_check_refuses_what_a_start_refuses(
    home: Home, spoil: Callable[[Path], None], code: ErrorCode, words: str
) -> None:
    assert [check(home) for check in CHECKS[:2]] == [None, None]
    spoil(home.database)
    before = home.database.read_bytes()
    for check in CHECKS:
        with pytest.raises(TqError) as refused:
            check(home)
        assert refused.value.code is code
        assert words in refused.value.message
        assert str(home.database) in refused.value.message
    [found] = [each for each in examine(home, Settings()) if each["name"] == "database"]
    assert (found["level"], words in found["detail"], bool(found["hint"])) == ("fail", True, True)
    assert "doctor --repair" in found["hint"] or spoil not in CONSENTED
    with pytest.raises(TqError, match=words):
        opening.repair(home.database, consent=spoil not in CONSENTED)
    assert home.database.read_bytes() == before
    assert not home.database.with_name("tqstudio.db-wal").stat().st_size
    assert not (home.root / "copy.db").exists()
    if spoil in CONSENTED:
        opening.repair(home.database, consent=True)
        assert [check(home) for check in CHECKS[:2]] == [None, None]


@pytest.mark.parametrize("spoil", [_lost_rows, _without_column, _dangling])
def test_a_damaged_file_is_not_copied_into_another_database(
    home: Home, spoil: Callable[[Path], None], tmp_path: Path
) -> None:
    spoil(home.database)
    with pytest.raises(TqError) as refused:
        copying.copy(home.database, tmp_path / "target.db")
    assert refused.value.code is ErrorCode.DATABASE_DAMAGED
    assert not (tmp_path / "target.db").exists()


def _too_low(path: Path) -> None:
    run(path, "UPDATE job_count SET n = n - 1 WHERE status = 'pending'")


def _not_counted(path: Path) -> None:
    run(path, "DELETE FROM job_count WHERE status IN ('pending', 'done')")


@pytest.mark.fault(
    "The stored counts of jobs are lower than their number",
    "A start and the weekly check count again; a backup is made",
    area="database",
)
@pytest.mark.parametrize("spoil", [_too_low, _not_counted])
def test_a_count_below_the_rows_is_counted_again(home: Home, spoil: Callable[[Path], None]) -> None:
    spoil(home.database)
    [found] = [each for each in examine(home, Settings()) if each["name"] == "database"]
    assert (found["ok"], "more" in found["detail"], "no row is lost" in found["hint"]) == (False, True, True)
    copy = home.root / "copy.db"
    backup.copy(home.database, copy)
    copying.copy(copy, home.root / "other.db")
    problem = opening.require_intact(home)
    assert problem is not None
    assert "jobs than were counted" in problem.text
    for path in (home.database, home.root / "other.db"):
        with committed(path) as db:
            assert integrity.miscounted(db) == ([], [])
            assert pages.counts_by_status(db)["pending"] == 2
            Queue(db).do(1, Operation.PAUSE)
            assert (pages.counts_by_status(db)["pending"], pages.counts_by_status(db)["paused"]) == (1, 1)


def test_the_weekly_check_counts_again(home: Home) -> None:
    database = Database(home.database)
    database.open()
    try:
        _too_low(home.database)
        now = [0.0]
        check = WeeklyCheck(database, lambda: now[0])
        now[0] = FIRST_S
        asyncio.run(check.tick(idle=True))
        assert check.damage is None
        assert database.read_now(integrity.miscounted) == ([], [])
    finally:
        database.close()


_DROPS = f"""
from alembic import op

revision = "{AFTER}"
down_revision = "{SCHEMA_VERSION}"


def upgrade() -> None:
    op.execute("CREATE TABLE passing (n INTEGER)")
    op.execute("{{statement}}")
"""


def _add_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    """Have another version of the schema follow, which this statement makes."""
    migrations = tmp_path / "migrations"
    shutil.copytree(schema.MIGRATIONS, migrations)
    (migrations / "versions" / f"{AFTER}_of_a_test.py").write_text(_DROPS.format(statement=statement))
    monkeypatch.setattr(schema, "MIGRATIONS", migrations)


def test_a_restored_backup_is_checked_wholly(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That its schema cannot be migrated only a whole check finds before the migration."""
    _add_migration(tmp_path, monkeypatch, "DROP TABLE speed")
    monkeypatch.setattr(schema, "SCHEMA_VERSION", AFTER)
    assert opening.require_intact(home) is None
    run(home.database, "PRAGMA journal_mode=DELETE")
    with pytest.raises(TqError, match="cannot be migrated"):
        opening.require_intact(home)


@pytest.mark.parametrize("has_header", [False, True])
def test_an_empty_file_stays_empty_whatever_looks_at_it(home: Home, *, has_header: bool) -> None:
    for left in home.root.glob("tqstudio.db*"):
        left.unlink()
    home.database.touch()
    if has_header:
        run(home.database, "PRAGMA auto_vacuum=INCREMENTAL", "PRAGMA journal_mode=WAL")
    before = home.database.read_bytes()
    assert bool(before) is has_header
    for check in (opening.require_intact, CHECKS[2], lambda home: opening.is_empty(home.database)):
        with pytest.raises(TqError, match="shows that there was one") as refused:
            check(home)
        assert refused.value.code is ErrorCode.DATABASE_DAMAGED
        assert home.database.read_bytes() == before
    shutil.rmtree(home.logs / "jobs")
    assert opening.require_intact(home) is None
    with pytest.raises(TqError) as refused:
        backup.copy(home.database, home.root / "copy.db")
    assert refused.value.code is ErrorCode.NOT_FOUND
    assert home.database.read_bytes() == before


_COMMITS = """
import sys
from pathlib import Path
from tqstudio.engine.store.db.connection import connect
db = connect(Path(sys.argv[1]))
db.begin()
db.execute("UPDATE job SET priority = 7")
db.commit()
print("committed", flush=True)
sys.stdin.read()
"""


@pytest.mark.fault(
    "A backup is made after a supervisor was killed",
    "It has what is only in the log of SQLite",
    area="database",
)
@pytest.mark.parametrize("lost", ["", "tqstudio.db-shm"])
def test_a_backup_has_what_only_the_log_has(home: Home, lost: str) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", _COMMITS, str(home.database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"committed\n"
        writer.send_signal(signal.SIGKILL)
    if lost:
        (home.root / lost).unlink()
    alone = home.root / "alone.db"
    shutil.copyfile(home.database, alone)
    backup.copy(home.database, home.root / "copy.db")
    priorities = []
    for path in (alone, home.root / "copy.db"):
        with contextlib.closing(connect(path, read_only=True)) as db:
            priorities.append(set(db.execute("SELECT priority FROM job").scalars()))
    assert priorities == [{0}, {7}]


# Migrations


@pytest.mark.fault(
    "A migration fails, or does not lead to the schema of this version",
    "`DATABASE_DAMAGED`; it is rolled back",
    area="database",
)
@pytest.mark.parametrize("program", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("ALTER TABLE speed RENAME TO pace", "it has no table speed"),
        ("ALTER TABLE upload DROP COLUMN upload_metadata", "its table upload has no column upload_metadata"),
        ("ALTER TABLE nothing RENAME TO more", "nothing"),
    ],
)
def test_a_migration_that_does_not_lead_to_the_tables_is_rolled_back(
    program: str, statement: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = postgres.empty_database() if program == "postgresql" else tmp_path / "tqstudio.db"
    migrate(address)
    _add_migration(tmp_path, monkeypatch, statement)
    with pytest.raises(TqError) as refused:
        schema._upgrade(address, SCHEMA_VERSION)
    assert refused.value.code is ErrorCode.DATABASE_DAMAGED
    assert f"it cannot be migrated from schema {SCHEMA_VERSION}: " in refused.value.message
    assert words in refused.value.message
    monkeypatch.undo()
    assert schema.schema_version(address) == SCHEMA_VERSION
    migrate(address)
    with (
        contextlib.closing(connect(address, read_only=True)) as db,
        pytest.raises(DBAPIError, match="passing"),
    ):
        db.execute("SELECT * FROM passing")


@pytest.mark.parametrize(("change", "is_refused"), [(-1, False), (1, True)])
def test_a_start_on_postgresql_compares_the_counts(change: int, *, is_refused: bool) -> None:
    address = postgres.empty_database()
    migrate(address)
    with committed(address) as db:
        Queue(db).job()
        db.execute("UPDATE job_count SET n = n + :change WHERE status = 'pending'", {"change": change})
    database = Database(address)
    if is_refused:
        with pytest.raises(TqError, match="it has fewer pending jobs than were counted"):
            database.open()
        opening.repair(address, consent=True)
    database.open()
    try:
        assert database.read_now(integrity.miscounted) == ([], [])
    finally:
        database.close()


@pytest.mark.slow
def test_what_postgresql_lacks_is_found_by_a_start_doctor_and_backup(tmp_path: Path) -> None:
    address = postgres.empty_database()
    migrate(address)
    with contextlib.closing(connect(address)) as db:
        db.execute("ALTER TABLE upload DROP COLUMN upload_metadata")
        db.commit()
    for check in (migrate, opening.require_sound, lambda at: backup.copy(at, tmp_path / "copy.db")):
        with pytest.raises(TqError, match="its table upload has no column upload_metadata") as refused:
            check(address)
        assert refused.value.code is ErrorCode.DATABASE_DAMAGED
    home = Home(tmp_path / "home")
    home.create()
    url = address.render_as_string(hide_password=False)
    [found] = [each for each in examine(home, Settings(database=url)) if each["name"] == "database"]
    assert (found["level"], "no column upload_metadata" in found["detail"]) == ("fail", True)
