"""What the migrations make of an empty database, as statements: `make schema` writes them beside `schema`.

Run it after a migration was added.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tqstudio.engine.store.db.schema import upgrade

_HEAD = """\
-- The schema of a new database: what all migrations together make. Written by `make schema`; change it by a
-- migration, never here.
"""


def of_migrations() -> str:
    """The statements, one after the other, with the rows that the migrations insert."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "new.db"
        upgrade(path, "head")
        db = sqlite3.connect(path)
        try:
            lines = "".join(f"{statement};\n" for statement in _statements(db)).splitlines()
            return _HEAD + "".join(f"{line.rstrip()}\n" for line in lines)
        finally:
            db.close()


def _statements(db: sqlite3.Connection) -> Iterator[str]:
    # A virtual table makes its shadow tables itself, and SQLite its own.
    kinds = {name: kind for _, name, kind, *_ in db.execute("PRAGMA table_list")}
    made = db.execute("SELECT name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")
    for name, table, sql in made.fetchall():
        if name.startswith("sqlite_") or kinds[table] == "shadow":
            continue
        yield sql
        if kinds.get(name) == "table":
            # At once: the triggers that would count them come later.
            yield from _rows(db, name)


def _rows(db: sqlite3.Connection, table: str) -> Iterator[str]:
    columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    quoted = " || ', ' || ".join(f"quote({column})" for column in columns)
    for (values,) in db.execute(f"SELECT {quoted} FROM {table} ORDER BY rowid"):
        yield f"INSERT INTO {table} VALUES ({values})"


def main() -> None:
    """Write the statements into the file named on the command line."""
    Path(sys.argv[1]).write_text(of_migrations(), encoding="utf-8")


if __name__ == "__main__":
    main()
