"""Copies all rows of a database to an empty one, between files of SQLite and PostgreSQL in any direction."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from sqlalchemy import Table, insert, select
from sqlmodel import SQLModel

from tqstudio.engine.store.db import errors, integrity, opening
from tqstudio.engine.store.db.connection import Address, Connection, connect, dialect_of, shown
from tqstudio.engine.store.db.schema import SCHEMA_VERSION, migrate, schema_version
from tqstudio.engine.store.db.tables import job_count
from tqstudio.errors import ErrorCode, TqError

_AT_ONCE = 2000
"""Rows that are read and written at a time."""
Progress = Callable[[str, int], object]
"""Called with the name of each table and its number of rows, once they are copied."""


def copy(
    source: Address, target: Address, *, live: bool = False, progress: Progress = lambda _name, _rows: None
) -> int:
    """Copies one state of a database in one transaction; returns the number of rows.

    Ids that were given out and deleted are not given out again by the copy.

    Args:
        live: the source may be in use. Otherwise that of PostgreSQL is locked; the caller locks a file.

    Raises:
        TqError: NOT_FOUND without a source; REFUSED if its schema is another, or the target has rows;
            ALREADY_RUNNING; what `require_sound` and `migrate` raise.
    """
    if isinstance(source, Path) and not source.exists():
        raise TqError(ErrorCode.NOT_FOUND, f"there is no database {source}", "check the path")
    with errors.converted(source):
        _require_current(source)
    opening.require_sound(source)
    with errors.converted(target):
        if isinstance(target, Path):
            # It has hashes of tokens. Where it cannot be created, SQLite says why.
            with contextlib.suppress(OSError):
                target.touch(0o600)
        migrate(target)
        with (
            closing(connect(source, read_only=live or isinstance(source, Path))) as old,
            closing(connect(target)) as new,
        ):
            old.begin()
            new.begin()
            _require_empty(new, target)
            with dialect_of(target).bulk_insert(new.core):
                rows = sum(_copy_table(old, new, each, progress) for each in SQLModel.metadata.sorted_tables)
                integrity.recount(new)
            _keep_ids(old, new, source, target)
            new.commit()
            dialect_of(target).analyze(new.core)
    return rows


def _require_current(source: Address) -> None:
    version = schema_version(source, read_only=True)
    if version != SCHEMA_VERSION:
        raise TqError(
            ErrorCode.REFUSED,
            f"{shown(source)} has schema {version or 'none'}, and this tqstudio copies {SCHEMA_VERSION}",
            "start its supervisor once with this version, which migrates it",
        )


def _require_empty(new: Connection, target: Address) -> None:
    for table in SQLModel.metadata.sorted_tables:
        if table is not job_count and new.execute(select(table).limit(1)).first() is not None:
            raise TqError(
                ErrorCode.REFUSED,
                f"{shown(target)} has rows already (in {table.name}), and a copy never replaces any",
                "choose an empty database",
            )


def _keep_ids(old: Connection, new: Connection, source: Address, target: Address) -> None:
    """Has the ids that the copy gives out follow those of the source."""
    last = dialect_of(source).last_ids(old.core)
    for table in SQLModel.metadata.sorted_tables:
        column = table.autoincrement_column
        if column is not None and last.get(table.name):
            dialect_of(target).advance_sequence(new.core, column, last[table.name])


def _copy_table(old: Connection, new: Connection, table: Table, progress: Progress) -> int:
    if table is job_count:
        return 0  # the copied jobs are counted
    rows = 0
    found = old.core.execution_options(yield_per=_AT_ONCE).execute(select(table).order_by(*table.primary_key))
    for some in found.mappings().partitions(_AT_ONCE):
        new.execute(insert(table), [dict(row) for row in some])
        rows += len(some)
    progress(table.name, rows)
    return rows
