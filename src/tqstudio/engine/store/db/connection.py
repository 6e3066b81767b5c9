"""Wraps a SQLAlchemy connection for one thread, with explicit transactions and the events they append.

The database is a file of SQLite, named by its path, or one of PostgreSQL, named by its URL.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import sqlalchemy
from sqlalchemy import URL, CursorResult, Engine, Executable, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError

from tqstudio import path_checks
from tqstudio.config import Settings
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.store.dialects import TRANSACTION, sqlite
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home

Row = tuple[Any, ...]
Rows = CursorResult[*tuple[Any, ...]]
Address = Path | URL
"""Address of a database: the path of SQLite's file, or the URL of PostgreSQL."""


class CommitUnknown(Exception):
    """A commit got no answer, and the database cannot be asked: it may have been committed.

    Args:
        lost: the error of the connection.
    """

    def __init__(self, lost: DBAPIError) -> None:
        super().__init__(str(lost))
        self.lost = lost


class Connection:
    """A connection of one thread; transactions are begun and ended explicitly."""

    __slots__ = ("_connection", "appended")

    def __init__(self, engine: Engine) -> None:
        self._connection = engine.connect()
        self.appended: list[Any] | None = None
        """Events of the running transaction, for listeners; None if there are none."""

    def execute(
        self,
        statement: Executable | str,
        values: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    ) -> Rows:
        """Runs one statement, once for each mapping of `values`. Values belong there, never in the text.

        Building a statement takes several times as long as looking up its compiled form, so one that runs
        often is a constant of its module.
        """
        return self._connection.execute(text(statement) if isinstance(statement, str) else statement, values)

    @property
    def core(self) -> sqlalchemy.Connection:
        """SQLAlchemy's connection, for what has no method here."""
        return self._connection

    @property
    def raw(self) -> sqlite3.Connection:
        """The driver's connection, for interrupts, tracing and what must not run in a transaction."""
        raw: sqlite3.Connection = self._connection.connection.driver_connection  # type: ignore[assignment]
        return raw

    def begin(self) -> None:
        self._connection.begin()

    def now_us(self) -> int:
        """Returns the time of the database's clock, which all its supervisors share: µs since 1970 in UTC."""
        if self._connection.dialect.name == "sqlite":
            return now_us()
        from tqstudio.engine.store.dialects import postgresql

        return int(self._connection.exec_driver_sql(postgresql.NOW_US).scalar_one())

    def commit(self) -> None:
        """Commits. If the answer was lost with the connection, the database is asked what became of it.

        Raises:
            DBAPIError: it was not committed.
            CommitUnknown: it may have been committed.
        """
        number = self._connection.info.get(TRANSACTION)
        try:
            self._connection.commit()
        except DBAPIError as error:
            if number is None or not error.connection_invalidated:
                raise
            self._connection.rollback()
            from tqstudio.engine.store.dialects import postgresql

            committed = postgresql.was_committed(self._connection, number)
            if committed is None:
                raise CommitUnknown(error) from error
            if not committed:
                raise

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()


def dialect_of(address: Address) -> ModuleType:
    """Returns the module that holds what is particular to the program of a database."""
    if isinstance(address, Path):
        return sqlite
    # Imported only when needed: it costs 5 MB.
    from tqstudio.engine.store.dialects import postgresql

    return postgresql


def engine_of(address: Address, *, read_only: bool = False) -> Engine:
    """Returns the engine of a database."""
    engine: Engine = dialect_of(address).engine_of(address, read_only=read_only)
    return engine


def connect(address: Address, *, read_only: bool = False) -> Connection:
    return Connection(engine_of(address, read_only=read_only))


def address_of(home: Home, settings: Settings) -> Address:
    """Returns the address of a home's database.

    Raises:
        TqError: BAD_CONFIG.
    """
    return url_of(settings.database) if settings.database else home.database


def url_of(text: str) -> URL:
    """Returns the URL of a database of PostgreSQL.

    Raises:
        TqError: BAD_CONFIG if it is none.
    """
    with suppress(ArgumentError, ValueError):  # a port that is no number
        url = make_url(text)
        is_postgresql = url.get_backend_name() in ("postgresql", "postgres")
        # An @ in the host is one of the password, which messages would show as part of the host.
        if is_postgresql and url.database and "@" not in (url.host or ""):
            return url
    raise TqError(
        ErrorCode.BAD_CONFIG,
        "the setting database is no PostgreSQL URL with the name of a database",
        "write it like postgresql://user@host/database, and an @ in a password as %40; for the file in the"
        " home, leave the setting empty",
    )


def is_there(address: Address) -> bool:
    """Whether there may be a database: a file exists, a server is only asked when it is used."""
    return not isinstance(address, Path) or path_checks.is_there(address)


def shown(address: Address) -> str:
    """Returns an address for display, without its password, which may also be one of its options."""
    if isinstance(address, Path):
        return str(address)
    plain = address.difference_update_query([name for name in address.query if "password" in name])
    return plain.set(drivername="postgresql").render_as_string(hide_password=True)
