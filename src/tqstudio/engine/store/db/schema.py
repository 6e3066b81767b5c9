"""Reads the schema version of a database, creates new databases and migrates old ones."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, insert
from sqlalchemy.exc import DBAPIError
from sqlmodel import SQLModel

from tqstudio.engine.store.db import errors, tables
from tqstudio.engine.store.db.connection import Address, connect, dialect_of, engine_of, shown
from tqstudio.engine.store.dialects import sqlite
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import JobStatus

SCHEMA_VERSION = "0100"
"""Newest migration in `migrations/versions`; a test checks that."""
_FIRST_VERSION = "0100"
"""Of 0.1.0: development versions before it had 0001 to 0021, which no release takes for its own."""
MIGRATIONS = Path(__file__).parents[1] / "migrations"


def migrate(address: Address) -> None:
    """Migrates the schema to `SCHEMA_VERSION`; an old file is copied before, by the caller.

    Raises:
        TqError: DATABASE_VERSION if a newer tqstudio or a development version wrote it; DATABASE_DAMAGED if
            the migration fails, or tables and columns are not those of the models; DATABASE_BUSY, DISK_LOW.
    """
    try:
        version = schema_version(address)
        if version is None:
            _create(address)
        elif version == SCHEMA_VERSION:
            with closing(connect(address, read_only=True)) as db:
                if lack := lacking(db.core, dialect_of(address).COLUMNS):
                    raise errors.damaged(address, lack)
        else:
            require_supported(address, version)
            _upgrade(address, version)
    except DBAPIError as error:
        raise errors.as_tq_error(error, address) from error


def require_supported(address: Address, version: str) -> None:
    """Refuses a database of another version that cannot be migrated.

    Raises:
        TqError: DATABASE_VERSION.
    """
    if why := unsupported(version):
        raise TqError(ErrorCode.DATABASE_VERSION, f"{shown(address)} {why}")


def unsupported(version: str) -> str:
    """Returns why a database with this schema is neither opened nor migrated; empty if it is."""
    if version < _FIRST_VERSION:
        return f"has schema {version}, of a development version before 0.1.0, which no release opens"
    if version > SCHEMA_VERSION:
        return f"has schema {version}, of a newer tqstudio; this one supports up to {SCHEMA_VERSION}"
    return ""


def _create(address: Address) -> None:
    """Creates the newest schema in an empty database, in one transaction.

    It does not run the migrations, because importing Alembic takes 0.2 s of a first start.
    """
    counts = [{"status": status.value, "n": 0} for status in JobStatus]
    with engine_of(address).begin() as connection:
        if connection.exec_driver_sql(dialect_of(address).HAS_VERSION).first() is not None:
            return  # another supervisor was faster, while this one waited for the lock
        SQLModel.metadata.create_all(connection)
        for statement in dialect_of(address).SCHEMA:
            connection.exec_driver_sql(statement)
        connection.execute(insert(tables.JobCount), counts)
        connection.exec_driver_sql(
            "CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY NOT NULL)"
        )
        connection.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{SCHEMA_VERSION}')")


def _upgrade(address: Address, version: str) -> None:
    """Runs the missing migrations, in one transaction."""
    # Imported only when needed: it costs 11 MB and 0.2 s.
    from alembic.util import CommandError

    failed = f"it cannot be migrated from schema {version}"
    try:
        with engine_of(address).begin() as connection:
            _run_migrations(connection)
            if lack := lacking(connection, dialect_of(address).COLUMNS):
                raise errors.damaged(address, f"{failed}: {lack}")
    except CommandError as error:
        raise errors.damaged(address, f"{failed}: {error}") from error
    except DBAPIError as error:
        if isinstance(found := errors.as_tq_error(error, address), TqError):
            raise found from error
        raise errors.damaged(address, f"{failed}: {error.orig}") from error


def _run_migrations(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def lacking(connection: Connection, columns: str) -> str:
    """Compares what the statement `columns` lists with the tables; names what is missing, if anything."""
    found: dict[str, set[str]] = {}
    for table, column in connection.exec_driver_sql(columns):
        found.setdefault(table, set()).add(column)
    for each in SQLModel.metadata.sorted_tables:
        if each.name not in found:
            return f"it has no table {each.name}"
        if missing := {column.name for column in each.columns} - found[each.name]:
            return f"its table {each.name} has no column {', '.join(sorted(missing))}"
    return ""


def why_not_migrated(connection: Connection, version: str) -> str:
    """Migrates an empty copy of a file's schema, in memory; returns why that fails, or nothing."""
    from alembic.util import CommandError

    statements = connection.exec_driver_sql(sqlite.DEFINITIONS).scalars().all()
    try:
        with sqlite.in_memory().begin() as copy:
            for statement in statements:
                copy.exec_driver_sql(statement)
            copy.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (version,))
            _run_migrations(copy)
            return lacking(copy, sqlite.COLUMNS)
    except (DBAPIError, CommandError) as error:
        return str(getattr(error, "orig", error))


def is_old(path: Path) -> bool:
    """Whether a file exists and needs migrations."""
    if not path.exists():
        return False
    try:
        version = schema_version(path, read_only=True)
    except (DBAPIError, OSError):
        return False
    return version is not None and version != SCHEMA_VERSION and not unsupported(version)


def schema_version(address: Address, *, read_only: bool = False) -> str | None:
    """Returns the schema version; None for an empty database."""
    with closing(connect(address, read_only=read_only)) as db:
        if db.execute(dialect_of(address).HAS_VERSION).first() is None:
            return None
        version = db.execute("SELECT version_num FROM alembic_version").scalar()
        return None if version is None else str(version)


def main() -> None:
    """Migrates the database named on the command line; dies with the supervisor that started it."""
    import os
    import sys

    from tqstudio.engine.host.parent_death import die_with_parent

    if die_with_parent(os.environ):
        migrate(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
