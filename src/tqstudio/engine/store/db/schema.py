"""Reads the schema version of a database, creates new databases and migrates old ones."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from sqlalchemy import insert
from sqlalchemy.exc import DBAPIError
from sqlmodel import SQLModel

from tqstudio.engine.store.db import backup, errors, tables
from tqstudio.engine.store.db.connection import Address, connect, dialect_of, engine_of, shown
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import JobStatus

SCHEMA_VERSION = "0016"
"""Newest migration in `migrations/versions`; a test checks that."""
MIGRATIONS = Path(__file__).parents[1] / "migrations"


def migrate(address: Address) -> None:
    """Migrates the schema to `SCHEMA_VERSION`.

    Raises:
        TqError: NEWER_DATABASE if a newer tqstudio wrote it; DATABASE_DAMAGED, DATABASE_BUSY, DISK_LOW.
    """
    try:
        version = schema_version(address)
        if version is None:
            _create(address)
        elif version > SCHEMA_VERSION:
            raise newer(address, version)
        elif version < SCHEMA_VERSION:
            if isinstance(address, Path):
                backup.before_migration(address, SCHEMA_VERSION)
            _upgrade(address)
    except DBAPIError as error:
        raise errors.as_tq_error(error, address) from error


def newer(address: Address, version: str) -> TqError:
    """Returns the error for a database that a newer tqstudio has migrated."""
    what = f"{shown(address)} has schema {version}; this tqstudio supports up to {SCHEMA_VERSION}"
    return TqError(ErrorCode.NEWER_DATABASE, what)


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


def _upgrade(address: Address) -> None:
    """Runs the missing migrations, in one transaction."""
    # Imported only when needed: it costs 11 MB and 0.2 s.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine_of(address).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def is_old(path: Path) -> bool:
    """Whether a file exists and needs migrations."""
    if not path.exists():
        return False
    try:
        version = schema_version(path, read_only=True)
    except (DBAPIError, OSError):
        return False
    return version is not None and version < SCHEMA_VERSION


def schema_version(address: Address, *, read_only: bool = False) -> str | None:
    """Returns the schema version; None for an empty database."""
    with closing(connect(address, read_only=read_only)) as db:
        if db.execute(dialect_of(address).HAS_VERSION).first() is None:
            return None
        version = db.execute("SELECT version_num FROM alembic_version").scalar()
        return None if version is None else str(version)


def main() -> None:
    """Migrates the database named on the command line."""
    import sys

    migrate(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
