"""Wraps a SQLAlchemy connection for one thread, with explicit transactions and the events they append."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import CursorResult, Engine, Executable, text

from tqstudio.engine.store.dialects import sqlite

Row = tuple[Any, ...]
Rows = CursorResult[*tuple[Any, ...]]


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
    def raw(self) -> sqlite3.Connection:
        """The driver's connection, for interrupts, tracing and what must not run in a transaction."""
        raw: sqlite3.Connection = self._connection.connection.driver_connection  # type: ignore[assignment]
        return raw

    def begin(self) -> None:
        self._connection.begin()

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()


def connect(path: Path, *, read_only: bool = False) -> Connection:
    return Connection(sqlite.engine_of(path, read_only=read_only))
