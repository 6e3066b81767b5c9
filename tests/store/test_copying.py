"""Copies between SQLite and PostgreSQL: every row, the counts and the ids; all of it or nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

import postgres
from tqstudio.engine.store.db import backup, copying, integrity, opening, tables
from tqstudio.engine.store.db.connection import Address, Connection, connect, dialect_of
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.library import deletions
from tqstudio.engine.store.lists import pages
from tqstudio.engine.store.machine import gates, standbys, supervisors, tokens
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import GateKind, Operation
from tqstudio.protocol.roles import Role
from tqstudio.wings.alerts import store as outbox
from tqstudio.wings.alerts.store import NewAlert
from tqstudio.wings.uploads import store as uploads

from .conftest import DATABASES, Queue, empty, migrated, rolled_back
from .test_differential import act, acts, stored

Rows = dict[str, list[str]]


@contextlib.contextmanager
def writing(address: Address) -> Iterator[Connection]:
    with contextlib.closing(connect(address)) as db:
        db.begin()
        yield db
        db.commit()


def rows_of(address: Address) -> Rows:
    with contextlib.closing(connect(address, read_only=True)) as db:
        db.begin()
        return stored(db)


def last_ids(address: Address) -> dict[str, int]:
    """The last ids that were given out, of the tables that have any."""
    with contextlib.closing(connect(address, read_only=True)) as db:
        return {name: last for name, last in dialect_of(address).last_ids(db.core).items() if last}


def has_no_rows(address: Address) -> bool:
    with contextlib.closing(connect(address, read_only=True)) as db:
        assert set(pages.counts_by_status(db).values()) == {0}
        return not any(rows for name, rows in stored(db).items() if name != "job_count")


def fill(address: Address) -> None:
    """Has rows in every table but two, and deletes the last ones of some."""
    with writing(address) as db:
        queue = Queue(db)
        for chosen, of in acts(7, 500):
            act(queue, chosen, of)
        job = queue.job()
        of_job = {"job_id": job, "video_id": queue.row(job)["video_id"]}
        number: dict[str, object] = {"epoch": 1, "number": 1, "slug": "é", "manifest": "{}", "begun_at": 1}
        db.execute(insert(tables.publication), {**of_job, **number})
        state = {"size": 2**40, "mtime_ns": -5, "inode": 2**63 - 1, "ctime_ns": 0, "target": b"/\xff"}
        db.execute(insert(tables.source_removal), {**of_job, **state})
        db.execute(insert(tables.rendition), {"job_id": job, "name": "é %", "progress": 0.1})
        gates.shut(db, GateKind.DISK, "100% é", path=b"/\xff", now=1, actor="test")
        outbox.move_position(db, 2)
        supervisors.store_answer(db, "key", "é", now=1)
        standbys.record_seen(db, "é", name="é", version="", now=1)
        uploads.create(db, "é", size=2**40, upload_metadata="", actor="", expires_at=1, limit=99)
        deletions.begin(db, queue.video(), now=1, actor="test")
        secret: Any = {
            "prefix": "t",
            "salt": b"\0",
            "secret_hash": b"\xff",
            "worker": None,
            "expires_at": None,
        }
        tokens.create(db, name="é", role=Role.VIEW, **secret, now=1, actor="test")
        outbox.add(db, NewAlert("k", "failed", "é", "{}"), channel="é", now=1, cooldown_us=1)
        assert [name for name, rows in stored(db).items() if not rows] == []
        queue.do(queue.job(), Operation.DELETE)
        gone = {"id": queue.row(queue.job())["video_id"]}
        db.execute("DELETE FROM job WHERE video_id = :id", gone)
        db.execute("DELETE FROM video WHERE id = :id", gone)
        db.execute("DELETE FROM event WHERE seq > (SELECT max(seq) FROM event) - 5")
        db.execute("DELETE FROM alert")
        db.execute("DELETE FROM token")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file in which much has happened."""
    path = tmp_path_factory.mktemp("source") / "tqstudio.db"
    migrated("sqlite", path.parent)
    fill(path)
    return path


@pytest.fixture
def target(program: str, tmp_path: Path) -> Address:
    """Where a new database may be made."""
    return empty(program, tmp_path / "copy é%.db")


def refusal(source: Address, target: Address, *, live: bool = False) -> ErrorCode:
    with pytest.raises(TqError) as refused:
        copying.copy(source, target, live=live)
    return refused.value.code


def test_a_copy_to_postgresql_and_back_has_every_row(source: Path, tmp_path: Path) -> None:
    there, back = postgres.empty_database(), tmp_path / "back.db"
    seen: dict[str, int] = {}
    copied = copying.copy(source, there, progress=seen.__setitem__)
    expected = rows_of(source)
    assert {name for name, rows in expected.items() if not rows} == {"alert", "token"}
    assert rows_of(there) == expected
    assert seen == {name: len(rows) for name, rows in expected.items() if name != "job_count"}
    assert copied == sum(seen.values()) == copying.copy(there, back)
    assert rows_of(back) == expected


def test_a_copy_has_the_counts_and_gives_out_no_id_again(source: Path, target: Address) -> None:
    copying.copy(source, target)
    last = last_ids(source)
    assert last == last_ids(target)
    with rolled_back(target) as queue:
        assert integrity.miscounted(queue.db) == ([], [])
        job = queue.job(video=queue.video(out=b"/new"))
        assert (job, queue.row(job)["video_id"]) == (last["job"] + 1, last["video"] + 1)
        assert queue.history(job)[0]["seq"] == last["event"] + 1
    with contextlib.closing(connect(source, read_only=True)) as db:
        assert last["job"] > db.execute("SELECT max(id) FROM job").scalar_one()


def test_a_target_with_rows_is_refused_and_stays(source: Path, program: str, tmp_path: Path) -> None:
    target = migrated(program, tmp_path)
    with writing(target) as db:
        Queue(db).job()
    before = rows_of(target)
    assert refusal(source, target) is ErrorCode.REFUSED
    assert rows_of(target) == before
    assert refusal(source, source) is ErrorCode.REFUSED


def test_a_source_of_another_version_is_refused(program: str, tmp_path: Path) -> None:
    source, target = migrated(program, tmp_path), tmp_path / "copy.db"
    with writing(source) as db:
        db.execute("UPDATE alembic_version SET version_num = '0099'")
    assert refusal(source, target) is ErrorCode.REFUSED
    assert refusal(postgres.empty_database(), target) is ErrorCode.REFUSED
    assert not target.exists()


def test_without_a_source_nothing_is_made(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.db", tmp_path / "copy.db") is ErrorCode.NOT_FOUND
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_copy_leaves_nothing_and_can_be_repeated(source: Path, target: Address) -> None:
    def interrupt(name: str, _rows: int) -> None:
        if name == "event":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copying.copy(source, target, progress=interrupt)
    assert has_no_rows(target)
    copying.copy(source, target)
    assert rows_of(target) == rows_of(source)


@pytest.mark.usefixtures("impatient")
def test_a_source_in_use_is_copied_only_as_it_is_committed(source: Path, tmp_path: Path) -> None:
    used, target = postgres.empty_database(), tmp_path / "copy.db"
    copying.copy(source, used)
    with writing(used) as db:
        queue = Queue(db)
        queue.job(video=queue.video(out=b"/new"))
        assert refusal(used, target) is ErrorCode.ALREADY_RUNNING
        copying.copy(used, target, live=True)
    assert rows_of(target) == rows_of(source)
    assert rows_of(used) != rows_of(source)


@pytest.mark.parametrize("program", DATABASES)
def test_a_backup_is_an_intact_file(source: Path, program: str, tmp_path: Path) -> None:
    saved: Address = source
    if program == "postgresql":
        saved = postgres.empty_database()
        copying.copy(source, saved)
    target = tmp_path / "backups" / "saved é.db"
    assert backup.copy(saved, target) == target.stat().st_size
    assert [each.name for each in target.parent.iterdir()] == [target.name]
    assert opening.problem_of(target) is None
    assert rows_of(target) == rows_of(source)
    database = Database(target)
    database.open()
    try:
        assert database.read_now(integrity.miscounted) == ([], [])
    finally:
        database.close()
