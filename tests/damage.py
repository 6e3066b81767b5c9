"""Damages a database so that every page of it is in order, and yet it does not hold what it should."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

_LEAF = b"\x0d"
"""First byte of a page that has rows of a table."""


def forget_in_indexes(path: Path, jobs: Collection[int], *names: str) -> None:
    """Take the entries of some jobs out of indexes, as when a write of their pages was lost."""
    left_out = ", ".join(map(str, jobs))
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        kept = {
            name: str(db.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0])
            for name in names
        }
        (version,) = db.execute("PRAGMA schema_version").fetchone()
    # For SQLite the index is one of other jobs while it is built, and then the one that it was.
    _define(path, {name: f"{sql} AND id NOT IN ({left_out})" for name, sql in kept.items()}, version + 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for name in names:
            db.execute(f"REINDEX {name}")
    _define(path, kept, version + 2)


def _define(path: Path, indexes: dict[str, str], version: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA writable_schema=ON")
        for name, sql in indexes.items():
            db.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (sql, name))
        db.execute(f"PRAGMA schema_version={version}")


def forget_rows(path: Path, jobs: Collection[int]) -> None:
    """Take jobs out of the table and its indexes, and not out of the counts."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        (trigger,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'job_count_delete'").fetchone()
        db.execute("DROP TRIGGER job_count_delete")
        for job in jobs:
            db.execute("DELETE FROM job WHERE id = ?", (job,))
        db.execute(trigger)


def empty_root(path: Path, table: str) -> None:
    """Take all rows of a small table out of its only page, as when another one was written in its place."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek(size * (root - 1))
        assert file.read(1) == _LEAF
        file.seek(-1, 1)
        file.write(_LEAF + bytes(4) + size.to_bytes(2, "big") + bytes(1))
