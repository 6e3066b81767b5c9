"""Holds what is particular to SQLite: settings of connections, pragmas, and the triggers of its schema."""

from __future__ import annotations

import contextlib
import sqlite3
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Column, Connection, Engine, Select, column, create_engine, event, select, table
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.pool import NullPool

BUSY_TIMEOUT_S = 10
_CACHED_STATEMENTS = 512


class _Compiler(SQLiteCompiler):
    """Renders the hints of a statement behind the names of its tables: `with_hint(job, indexed_by(…))`."""

    def get_from_hint_text(self, _table: Any, text: str | None) -> str | None:
        return text


OBJECTS: Select[str] = select(column("name")).select_from(table("sqlite_master"))
"""The names of all tables, indexes and triggers."""
HAS_VERSION = "SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'"
"""Whether the database has a schema."""
COLUMNS = (
    "SELECT found.name, field.name FROM sqlite_master AS found, pragma_table_info(found.name) AS field"
    " WHERE found.type = 'table'"
)
"""Table and name of every column."""
DEFINITIONS = (
    "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
)
"""What creates the same schema again."""
PAGES = "PRAGMA page_count"
FREE_PAGES = "PRAGMA freelist_count"
AUTO_VACUUM = "PRAGMA auto_vacuum"
INCREMENTAL = 2
"""Mode of databases whose free pages can be given back one by one; of every new one."""
FOREIGN_KEY_CHECK = "PRAGMA foreign_key_check"
REBUILD_INDEXES = "REINDEX"


def bulk_insert(_connection: Connection) -> contextlib.AbstractContextManager[None]:
    """Prepares a transaction for many new jobs, which are counted at its end."""
    return contextlib.nullcontext()


def analyze(_connection: Connection) -> None:
    """Does after the copy of a whole database what the server does later by itself: there is none."""


def last_ids(connection: Connection) -> dict[str, int]:
    """Returns the last id that was given out, by table."""
    rows = connection.exec_driver_sql("SELECT name, seq FROM sqlite_sequence")
    return {row[0]: row[1] for row in rows}


def advance_sequence(connection: Connection, column: Column[Any], last: int) -> None:
    """Has the next id of a table follow the one given."""
    name = column.table.name
    connection.exec_driver_sql("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
    connection.exec_driver_sql("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, last))


def free_pages(raw: sqlite3.Connection, count: int) -> None:
    """Returns up to `count` free pages to the file system."""
    for _ in range(count):
        # The driver runs one step of a statement without result rows, so larger numbers free one page too.
        raw.execute("PRAGMA incremental_vacuum(1)")


@lru_cache(maxsize=8)
def engine_of(path: Path, *, read_only: bool = False) -> Engine:
    """Returns the engine of a database, which caches compiled statements; a connection is for one thread.

    A transaction that may write locks the database when it begins: otherwise another process could change
    what a SELECT before its UPDATE has read.
    """
    engine = create_engine(
        "sqlite://", creator=lambda: open_raw(path, read_only=read_only), poolclass=NullPool
    )
    engine.dialect.statement_compiler = _Compiler
    begin = "BEGIN" if read_only else "BEGIN IMMEDIATE"
    # The driver itself begins no transaction (isolation_level=None).
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def in_memory() -> Engine:
    """Returns an engine whose connections have an empty database each."""
    return create_engine(
        "sqlite://", creator=lambda: sqlite3.connect(":memory:", isolation_level=None), poolclass=NullPool
    )


def open_raw(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Opens a connection of the driver, configured for durability: WAL with synchronous=FULL.

    In power-cut tests WAL with NORMAL lost acknowledged commits, FULL none.
    """
    uri = f"file:{quote(str(path.absolute()))}?mode={'ro' if read_only else 'rwc'}"
    raw = sqlite3.connect(
        uri,
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=BUSY_TIMEOUT_S,
        cached_statements=_CACHED_STATEMENTS,
    )
    try:
        if not read_only:
            if raw.execute(PAGES).fetchone() == (0,):
                raw.execute(f"{AUTO_VACUUM}={INCREMENTAL}")
            raw.execute("PRAGMA journal_mode=WAL")
            raw.execute("PRAGMA synchronous=FULL")
        raw.execute("PRAGMA foreign_keys=ON")
        raw.execute("PRAGMA temp_store=MEMORY")
        raw.execute("PRAGMA cache_size=-16000")
    except BaseException:
        raw.close()
        raise
    return raw


_ONE_MORE = "UPDATE job_count SET n = n + 1 WHERE status = new.status"
_ONE_LESS = "UPDATE job_count SET n = n - 1 WHERE status = old.status"
SCHEMA = (
    f"CREATE TRIGGER job_count_insert AFTER INSERT ON job WHEN new.deleted_at IS NULL BEGIN {_ONE_MORE}; END",
    f"CREATE TRIGGER job_count_delete AFTER DELETE ON job WHEN old.deleted_at IS NULL BEGIN {_ONE_LESS}; END",
    "CREATE TRIGGER job_count_update AFTER UPDATE OF status, deleted_at ON job"
    " WHEN old.status <> new.status OR (old.deleted_at IS NULL) <> (new.deleted_at IS NULL)"
    f" BEGIN {_ONE_LESS} AND old.deleted_at IS NULL; {_ONE_MORE} AND new.deleted_at IS NULL; END",
)
"""What follows the tables in a new database: the triggers that keep the counts of jobs."""
