"""A migration that is killed at any step leaves the old schema or the new one, and no row is lost."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import alembic.command  # noqa: F401 - loaded once, not in each process that is killed
import pytest
from sqlalchemy import URL, Engine, event

import postgres
from databases import committed
from harness import MakeSupervisor
from store.conftest import Queue
from tqstudio.engine.store.db import schema
from tqstudio.engine.store.db.connection import Address
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.schema import SCHEMA_VERSION, migrate, schema_version
from tqstudio.engine.store.lists import pages
from tqstudio.home import Home
from tqstudio.protocol import calls
from waiting import until

from . import kept_home, next_version
from .next_version import MIGRATION, NEXT
from .schema_dumps import PROGRAMS, dump

_STEPS = {"os.rename", "os.remove", "os.link", "os.mkdir", "sqlite3.connect"}


def _is_killed_at(step: int, address: Address) -> bool:
    """Open a database in a process that kills itself at a step; whether there were so many."""
    if pid := os.fork():
        return os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    left = step

    def count(*_: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        sys.addaudithook(lambda name, _: count() if name in _STEPS else None)
        event.listen(Engine, "before_cursor_execute", count)
        event.listen(Engine, "commit", count)
        database = Database(address)
        database.open()
        database.close()
    finally:
        os._exit(0)


def _rows(address: Address) -> Any:
    with committed(address) as db:
        return pages.counts_by_status(db), db.execute("SELECT id, status FROM job ORDER BY id").all()


def _copies(address: Address, folder: Path) -> Iterator[Address]:
    """The same database again and again, in a place of its own."""
    number = 0
    while True:
        number += 1
        if isinstance(address, URL):
            name = f"copy{os.getpid()}_{number}"
            postgres.execute(f"CREATE DATABASE {name} TEMPLATE {address.database}")
            yield address.set(database=name)
            postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")
        else:
            copied = folder / str(number) / address.name
            copied.parent.mkdir()
            shutil.copyfile(address, copied)
            yield copied
            shutil.rmtree(copied.parent)


@pytest.mark.fault(
    "An upgrade is killed at any step of the migration, or of the copy before it",
    "The database has the old schema or the new one; the next start finishes, and no row is lost",
    area="database",
)
@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_killed_at_each_step(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = tmp_path / "tqstudio.db" if program == "sqlite" else postgres.empty_database()
    migrate(address)
    with committed(address) as db:
        queue = Queue(db)
        for _ in range(5):
            queue.job()
    rows, schemas, stopped = _rows(address), {SCHEMA_VERSION: dump(address)}, []
    shutil.copytree(schema.MIGRATIONS, tmp_path / "migrations")
    (tmp_path / "migrations" / "versions" / f"{NEXT}_of_a_test.py").write_text(MIGRATION)
    monkeypatch.setattr(schema, "MIGRATIONS", tmp_path / "migrations")
    monkeypatch.setattr(schema, "SCHEMA_VERSION", NEXT)
    copies = _copies(address, tmp_path)
    migrated = next(copies)
    assert not _is_killed_at(10_000, migrated)
    schemas[NEXT] = dump(migrated)
    for step, copied in enumerate(copies, 1):
        is_killed = _is_killed_at(step, copied)
        left = schema_version(copied)
        assert left is not None
        assert dump(copied) == schemas[left], f"killed at step {step}"
        stopped.append(left)
        assert _rows(copied) == rows
        database = Database(copied)
        database.open()
        database.close()
        assert (schema_version(copied), dump(copied), _rows(copied)) == (NEXT, schemas[NEXT], rows)
        if isinstance(copied, Path):
            [kept] = (copied.parent / "backups").iterdir()
            assert (schema_version(kept), _rows(kept)) == (SCHEMA_VERSION, rows)
        if not is_killed:
            break
    copies.close()  # type: ignore[attr-defined]
    assert stopped == sorted(stopped)
    assert {SCHEMA_VERSION, NEXT} == set(stopped)


@pytest.mark.slow
@pytest.mark.fault(
    "A supervisor is killed while its database is migrated",
    "The migration ends with it; the next start copies and migrates, and no row is lost",
    area="database",
)
def test_a_migration_ends_with_its_supervisor(make_supervisor: MakeSupervisor, tmp_path: Path) -> None:
    kept_home.unpack(kept_home.ARCHIVES[-1], tmp_path / "kept")
    home = Home(tmp_path / "kept" / "home")
    rows = _rows(home.database)
    hold = tmp_path / "hold"
    hold.touch()
    supervisor = make_supervisor(home.root, **next_version.make(tmp_path / "next", hold))
    supervisor.launch()
    until(lambda: any(schema.__name__ in each.cmdline() for each in supervisor.processes()), "it migrates")
    until(lambda: (home.backups / f"before-schema-{NEXT}.db").exists(), "the copy is made")
    supervisor.kill()
    supervisor.until_gone()
    assert (schema_version(home.database), _rows(home.database)) == (SCHEMA_VERSION, rows)
    hold.unlink()
    supervisor.start()
    assert len(supervisor.send(calls.jobs(limit=200))["jobs"]) == sum(rows[0].values())
    supervisor.stop()
    assert schema_version(home.database) == NEXT
    [kept] = home.backups.iterdir()
    assert (schema_version(kept), _rows(kept)) == (SCHEMA_VERSION, rows)
