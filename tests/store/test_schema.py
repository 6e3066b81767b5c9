"""What the schema itself forbids and counts, and how a database comes to it."""

from __future__ import annotations

import contextlib
import gc
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import IntegrityError, OperationalError

import postgres
from databases import committed
from tqstudio.engine.store.db import schema
from tqstudio.engine.store.db.connection import Address, Connection, engine_of
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.schema import SCHEMA_VERSION, migrate, schema_version
from tqstudio.engine.store.db.tables import Job
from tqstudio.engine.store.dialects import sqlite
from tqstudio.engine.store.library import videos
from tqstudio.engine.store.lists import pages
from tqstudio.engine.store.lists.orders import PageQuery
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import JobStatus, Operation
from tqstudio.protocol.filters import SORTS, parse

from .conftest import Queue, rolled_back
from .test_operations import assert_counts_are_true


def alter(db: Connection, job: int, assignment: str) -> None:
    db.execute(f"UPDATE job SET {assignment} WHERE id = :job", {"job": job})


@pytest.mark.parametrize("status", [s for s in JobStatus if s is not JobStatus.IN_PROGRESS])
@pytest.mark.parametrize("assignment", ["supervisor_id = 1", "worker_id = 1", "instance = 'x'"])
def test_only_a_running_job_has_a_lease(queue: Queue, status: JobStatus, assignment: str) -> None:
    job = queue.in_status(status)
    queue.worker()
    with pytest.raises(IntegrityError, match="ck_job_lease"):
        alter(queue.db, job, assignment)


@pytest.mark.parametrize("column", ["supervisor_id", "worker_id", "instance"])
def test_a_running_job_has_its_whole_lease(queue: Queue, column: str) -> None:
    with pytest.raises(IntegrityError, match="ck_job_lease"):
        alter(queue.db, queue.claimed().job, f"{column} = NULL")


@pytest.mark.parametrize(
    ("assignment", "constraint"),
    [
        ("status = 'restart'", "ck_job_status"),
        ("status = 'in_progress'", "ck_job_lease"),
        ("kind = 'other'", "ck_job_kind"),
        ("step = 'upload'", "ck_job_step"),
        ("control = 'stop'", "ck_job_control"),
        ("control = 'pause'", "ck_job_control_of_running"),
        ("autorestart = 'maybe'", "ck_job_autorestart"),
        ("attempts = max_attempts + 1", "ck_job_counters"),
        ("crashes = max_crashes + 1", "ck_job_counters"),
        ("video_id = 4711", "foreign key"),
        ("profile = NULL", "not.null"),
    ],
)
def test_what_a_job_may_not_be(queue: Queue, assignment: str, constraint: str) -> None:
    with pytest.raises(IntegrityError, match=f"(?i){constraint}"):
        alter(queue.db, queue.job(), assignment)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO gate (kind, reason, since) VALUES ('rain', '', 0)",
        "INSERT INTO worker (name, kind) VALUES ('tpu-0', 'tpu')",
        "INSERT INTO rendition (job_id, name, status) SELECT id, '360p', 'ready' FROM job",
        "UPDATE attempt SET outcome = 'ok'",
        f"INSERT INTO event (at, trigger, actor, detail) VALUES (0, 'x', 'x', '{'x' * 501}')",
    ],
)
def test_what_other_rows_may_not_be(queue: Queue, statement: str) -> None:
    queue.claimed()
    with pytest.raises(IntegrityError, match=r"(?i)check constraint"):
        queue.db.execute(statement)


def test_a_job_that_comes_deleted_is_not_counted(queue: Queue) -> None:
    queue.db.execute(
        "INSERT INTO job (video_id, profile, profile_json, created_at, deleted_at)"
        " VALUES (:video, 'web', '{}', 1, 1)",
        {"video": queue.video()},
    )
    assert_counts_are_true(queue)


def test_a_video_has_one_open_job(queue: Queue) -> None:
    job = queue.in_status(JobStatus.DONE)
    other = queue.job(video=queue.row(job)["video_id"])
    third, fourth = queue.job(), queue.job()
    queue.do(other, Operation.CANCEL)
    alter(queue.db, third, f"video_id = {queue.row(job)['video_id']}")
    with pytest.raises(IntegrityError, match=r"(?i)unique constraint"):
        alter(queue.db, fourth, f"video_id = {queue.row(job)['video_id']}")


def test_a_source_is_known_once_per_output(queue: Queue) -> None:
    new = videos.NewVideo(b"/in/a.mp4", b"/out", "a.mp4", "a", "a", 1, 1, None)
    videos.create(queue.db, new, now=queue.now)
    with pytest.raises(IntegrityError, match=r"(?i)unique constraint"):
        videos.create(queue.db, new, now=queue.now)


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("table", ["job", "video", "event", "worker", "attempt", "generation", "folder"])
def test_ids_are_never_reused(queue: Queue, table: str) -> None:
    sql = queue.db.execute("SELECT sql FROM sqlite_master WHERE name = :name", {"name": table}).scalar()
    assert "AUTOINCREMENT" in str(sql)


def test_the_id_of_a_removed_job_stays_unused(queue: Queue) -> None:
    job = queue.job()
    queue.db.execute("DELETE FROM job WHERE id = :id", {"id": job})
    assert queue.job() > job


_steps = st.lists(
    st.tuples(st.sampled_from(["add", "status", "delete", "undelete", "remove"]), st.integers(0, 5)),
    max_size=40,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_steps)
def test_counts_follow_any_change_of_rows(address: Address, steps: list[tuple[str, int]]) -> None:
    with rolled_back(address) as queue:
        made: list[int] = []
        for step, number in steps:
            job = made[number % len(made)] if made else None
            if step == "add":
                made.append(queue.job(hold=bool(number % 2)))
            elif job is None:
                continue
            elif step == "status":
                status = [s for s in JobStatus if s is not JobStatus.IN_PROGRESS][number % 5]
                alter(queue.db, job, f"status = '{status}'")
            elif step == "remove":
                queue.db.execute("DELETE FROM job WHERE id = :id", {"id": job})
                made.remove(job)
            else:
                alter(queue.db, job, f"deleted_at = {'1' if step == 'delete' else 'NULL'}")
            assert_counts_are_true(queue)
        assert pages.count(queue.db, ()) == sum(pages.counts_by_status(queue.db).values())


# Migration


def _objects(path: Path) -> dict[tuple[str, str], str]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
            " AND name NOT IN ('alembic_version', 'sqlite_sequence')"
        ).fetchall()
    connection.close()
    return {(kind, name): " ".join(str(sql).split()) for kind, name, sql in rows}


def _columns(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Name, type, nullability and default of every column, in their order."""
    with sqlite3.connect(path) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {
            table: [row[1:5] for row in connection.execute(f"PRAGMA table_info({table})")] for table in tables
        }
    connection.close()
    return found


def test_a_new_database_is_created_completely_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new.db"
    with monkeypatch.context() as patched:
        patched.setattr(sqlite, "SCHEMA", (*sqlite.SCHEMA, "CREATE TABLE job (id INTEGER)"))
        with pytest.raises(OperationalError, match="already exists"):
            migrate(path)
    assert _objects(path) == {}
    migrate(path)
    assert schema_version(path) == SCHEMA_VERSION


def test_the_schema_is_that_of_the_tables(address: Address) -> None:
    """As Alembic compares them when it generates a migration."""
    with engine_of(address).connect() as connection:
        options = {"compare_server_default": True, "include_object": _can_be_compared}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, Job.metadata) == []


def _can_be_compared(_: object, __: str, kind: str, *___: object) -> bool:
    """Indexes over expressions cannot be compared."""
    return kind != "index"


def test_a_database_of_another_program_has_no_version(tmp_path: Path) -> None:
    with committed(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE song (title TEXT)")
    assert schema_version(tmp_path / "other.db") is None


def test_the_version_is_the_head_of_the_migrations() -> None:
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [SCHEMA_VERSION]


_AFTER = f"{int(SCHEMA_VERSION) + 1:04}"
_NEXT = f"""
import sqlalchemy as sa
from alembic import op

revision = "{_AFTER}"
down_revision = "{SCHEMA_VERSION}"


def upgrade() -> None:
    with op.batch_alter_table("job") as job:
        job.add_column(sa.Column("column_of_a_test", sa.Text, nullable=False, server_default="none"))
"""


@pytest.mark.fault(
    "A newer tqstudio opens an older database",
    "It is copied to `backups/`, then migrated; every row stays",
    area="database",
)
def test_a_database_of_an_earlier_version_keeps_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, old = tmp_path / "old.db", SCHEMA_VERSION
    with rolled_back(_created(path)) as queue:
        made = [queue.in_status(status) for status in JobStatus]
        counts = pages.counts_by_status(queue.db)
        queue.db.commit()
    migrations = tmp_path / "migrations"
    shutil.copytree(schema.MIGRATIONS, migrations)
    (migrations / "versions" / f"{_AFTER}_column.py").write_text(_NEXT)
    monkeypatch.setattr(schema, "MIGRATIONS", migrations)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", _AFTER)

    db = Database(path)
    db.open()
    try:
        assert db.read_now(pages.counts_by_status) == counts
        notes = db.read_now(lambda c: c.execute("SELECT id, column_of_a_test FROM job ORDER BY id").all())
        assert notes == [(job, "none") for job in made]
        assert db.read_now(lambda c: pages.page(c, PageQuery(parse("CLIP")), limit=10)).ids
        assert db.write_now(lambda c: c.execute("PRAGMA quick_check").scalar()) == "ok"
        assert db.write_now(lambda c: c.execute("PRAGMA foreign_key_check").all()) == []
    finally:
        db.close()
    assert schema_version(path) == _AFTER
    [kept] = (tmp_path / "backups").iterdir()
    assert kept.name == f"before-schema-{_AFTER}.db"
    assert schema_version(kept) == old


def _created(path: Path) -> Path:
    migrate(path)
    return path


@pytest.mark.fault(
    "A newer tqstudio, or one from before 0.1.0, wrote the database",
    "`DATABASE_VERSION`; not touched",
    area="database",
)
@pytest.mark.parametrize(
    ("version", "words"),
    [
        (_AFTER, f"has schema {_AFTER}, of a newer tqstudio; this one supports up to {SCHEMA_VERSION}"),
        ("9999", "has schema 9999, of a newer tqstudio"),
        ("0021", "has schema 0021, of a development version before 0.1.0, which no release opens"),
    ],
)
def test_a_database_of_another_version_is_refused_and_not_touched(
    tmp_path: Path, version: str, words: str
) -> None:
    path = _created(tmp_path / "tqstudio.db")
    with contextlib.closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("UPDATE alembic_version SET version_num = ?", (version,))
    before = path.read_bytes()
    db = Database(path)
    with pytest.raises(TqError) as caught:
        db.open()
    db.close()
    assert caught.value.code is ErrorCode.DATABASE_VERSION
    assert words in caught.value.message
    assert path.read_bytes() == before
    assert not (tmp_path / "backups").exists(), "nothing is copied either"


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.db"
    path.write_bytes(b"this is no database, and long enough to look at" * 100)
    db = Database(path)
    with pytest.raises(TqError) as caught:
        db.open()
    db.close()
    assert caught.value.code is ErrorCode.DATABASE_DAMAGED
    assert str(path) in caught.value.message


def test_opening_again_migrates_nothing(database: Path) -> None:
    before = database.stat().st_mtime_ns, _objects(database)
    migrate(database)
    assert (database.stat().st_mtime_ns, _objects(database)) == before


# Connections


def test_readers_cannot_write(opened: Database) -> None:
    with pytest.raises(TqError, match=r"read-?only"):
        opened.read_now(lambda c: c.execute("DELETE FROM job"))


@pytest.mark.usefixtures("database")
def test_what_is_written_is_durable(opened: Database) -> None:
    pragmas = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    for name, value in pragmas.items():
        assert opened.write_now(lambda c, n=name: c.execute(f"PRAGMA {n}").scalar()) == value


def test_a_failed_transaction_leaves_nothing(opened: Database) -> None:
    def half(db: Connection) -> None:
        Queue(db).job()
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        opened.write_now(half)
    for table in ("video", "job", "event"):
        assert opened.read_now(lambda c, t=table: c.execute(f"SELECT count(*) FROM {t}").scalar()) == 0
    opened.write_now(lambda c: Queue(c).job())
    assert opened.read_now(pages.counts_by_status)["pending"] == 1


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("sort", SORTS)
def test_a_page_leaves_no_look_at_the_past_open(opened: Database, sort: str) -> None:
    """Cursors of half-read lanes must not keep the reader in its old snapshot."""

    def seed(db: Connection) -> None:
        queue = Queue(db)
        for _ in range(300):
            queue.job()

    opened.write_now(seed)
    gc.disable()
    try:
        query = PageQuery(sort=sort)
        first = opened.read_now(lambda c: pages.page(c, query, limit=10))
        assert first.after
        opened.write_now(lambda c: c.execute("UPDATE job SET deleted_at = 1"))
        assert opened.read_now(lambda c: pages.page(c, query, limit=10)).ids == []
        busy, log, done = _checkpoint(opened)
        assert (busy, log) == (0, done)
    finally:
        gc.enable()


def _checkpoint(db: Database) -> tuple[int, int, int]:
    with sqlite3.connect(str(db.address)) as raw:
        row: tuple[int, int, int] = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    raw.close()
    return row


def test_two_that_start_on_an_empty_database_create_it_once() -> None:
    address = postgres.empty_database()
    failed: list[BaseException] = []

    def create() -> None:
        try:
            schema._create(address)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=create) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert schema_version(address) == SCHEMA_VERSION
