"""Reads the schema version of a database, creates new databases and migrates old ones."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tqstudio.engine.store.db import backup, errors
from tqstudio.engine.store.db.connection import connect, open_raw
from tqstudio.errors import ErrorCode, TqError

SCHEMA_VERSION = "0012"
"""Newest migration in `migrations/versions`; a test checks that."""
_NEW_SCHEMA = Path(__file__).with_name("new_schema.sql")
"""The result of all migrations. `make schema` writes it; a test compares the two."""


def migrate(path: Path) -> None:
    """Migrates the schema to `SCHEMA_VERSION`.

    Raises:
        TqError: NEWER_DATABASE if a newer tqstudio wrote it; DATABASE_DAMAGED, DATABASE_BUSY, DISK_LOW.
    """
    try:
        _migrate(path)
    except sqlite3.Error as error:
        raise errors.as_tq_error(error, path) from error


def _migrate(path: Path) -> None:
    version = schema_version(path)
    if version == SCHEMA_VERSION:
        return
    if version is None:
        _create(path)
        return
    if version > SCHEMA_VERSION:
        raise TqError(
            ErrorCode.NEWER_DATABASE,
            f"{path} has schema {version}; this tqstudio supports up to {SCHEMA_VERSION}",
        )
    backup.before_migration(path, SCHEMA_VERSION)
    upgrade(path, "head")


def _create(path: Path) -> None:
    """Creates the newest schema in an empty database, in one transaction.

    It does not run the migrations, because importing alembic takes most of a second.
    """
    raw = open_raw(path)
    try:
        raw.executescript(f"BEGIN IMMEDIATE;\n{_NEW_SCHEMA.read_text(encoding='utf-8')}COMMIT;\n")
    finally:
        raw.close()


def upgrade(path: Path, target: str) -> None:
    """Runs the migrations up to `target` in one transaction."""
    # Imported only when needed: alembic and SQLAlchemy cost 30 MB and 200 ms.
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import create_engine, event
    from sqlalchemy.pool import StaticPool

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parents[1] / "migrations"))
    engine = create_engine("sqlite://", creator=lambda: open_raw(path), poolclass=StaticPool)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, target)
    finally:
        engine.dispose()


def is_old(path: Path) -> bool:
    """Whether a database exists and needs migrations."""
    if not path.exists():
        return False
    try:
        version = schema_version(path, read_only=True)
    except (sqlite3.Error, OSError):
        return False
    return version is not None and version < SCHEMA_VERSION


def schema_version(path: Path, *, read_only: bool = False) -> str | None:
    """Returns the schema version; None for an empty database."""
    db = connect(path, read_only=read_only)
    try:
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").first() is None:
            return None
        version = db.execute("SELECT version_num FROM alembic_version").scalar()
        return None if version is None else str(version)
    finally:
        db.close()


def main() -> None:
    """Migrates the database named on the command line."""
    import sys

    migrate(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
