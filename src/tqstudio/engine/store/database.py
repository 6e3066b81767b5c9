"""Opening, migrating and serialising the one SQLite database of a home.

One thread owns the only connection that writes, a second thread one that reads; on a single thread a deep
list would hold up a claim for hundreds of milliseconds.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import StaticPool

from tqstudio.engine.store.events import EventRow
from tqstudio.errors import ErrorCode, TqError

SCHEMA_VERSION = "0002"
"""Newest migration in `migrations/versions`; a test holds the two together."""

BUSY_TIMEOUT_S = 10

P = ParamSpec("P")
T = TypeVar("T")


def connect(path: Path, *, read_only: bool = False) -> Engine:
    """An engine with one connection, set up for durability: WAL with synchronous=FULL.

    WAL with NORMAL lost every acknowledged commit of a measured power cut, FULL none.
    """
    uri = f"file:{_quoted(path)}?mode={'ro' if read_only else 'rwc'}"

    def open_connection() -> sqlite3.Connection:
        # The driver must never begin by itself: a SELECT before the UPDATE of a claim would not lock.
        connection = sqlite3.connect(
            uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_TIMEOUT_S
        )
        if not read_only:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA temp_store=MEMORY")
        connection.execute("PRAGMA cache_size=-16000")
        return connection

    engine = create_engine("sqlite://", creator=open_connection, poolclass=StaticPool)
    begin = "BEGIN" if read_only else "BEGIN IMMEDIATE"

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def migrate(engine: Engine, path: Path) -> None:
    """Bring the schema to `SCHEMA_VERSION`.

    Raises:
        TqError: NEWER_DATABASE when a newer tqstudio wrote it; INTERNAL when the file is damaged.
    """
    try:
        version = schema_version(engine)
    except Exception as error:
        raise TqError(
            ErrorCode.INTERNAL,
            f"the database {path} cannot be read: {error}",
            "put a backup in its place, or move it away to start with an empty queue",
        ) from error
    if version == SCHEMA_VERSION:
        return
    if version is not None and version > SCHEMA_VERSION:
        raise TqError(
            ErrorCode.NEWER_DATABASE,
            f"{path} has schema {version}; this tqstudio knows up to {SCHEMA_VERSION}",
        )
    # Only when needed: alembic costs 10 MB and 100 ms.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def is_current(path: Path) -> bool:
    """Whether the database exists and has this program's schema; looks without creating anything."""
    if not path.exists():
        return False
    engine = connect(path, read_only=True)
    try:
        return schema_version(engine) == SCHEMA_VERSION
    except Exception:
        return False
    finally:
        engine.dispose()


def schema_version(engine: Engine) -> str | None:
    """The schema's version; None for an empty database."""
    with engine.connect() as connection:
        known = connection.exec_driver_sql(
            "SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'"
        ).first()
        if known is None:
            return None
        row = connection.exec_driver_sql("SELECT version_num FROM alembic_version").first()
        return None if row is None else str(row[0])


class Database:
    """The database of a running supervisor.

    `write(fn, *args)` runs `fn(connection, *args)` as one transaction on the writer's thread; `read` on
    the reader's. Events that the transaction appended are handed to `on_events` on the event loop after
    the commit, in the order of the commits.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.on_events: Callable[[list[EventRow]], None] = lambda _events: None
        self._writer = _ConnectionThread("db-writer")
        self._reader = _ConnectionThread("db-reader")
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self) -> None:
        """Open and, if needed, migrate. Must come before the first `read` or `write`."""
        self._writer.open(lambda: self._open_for_writing())
        self._reader.open(lambda: connect(self.path, read_only=True))

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Name the loop on which `on_events` is called."""
        self._loop = loop

    def _open_for_writing(self) -> Engine:
        engine = connect(self.path)
        migrate(engine, self.path)
        return engine

    async def write(
        self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        # Shielded: a client that hangs up must not leave half a decision behind.
        return await asyncio.shield(asyncio.wrap_future(self._writer.submit(self._commit, fn, args, kwargs)))

    async def read(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(self._reader.submit(self._look, fn, args, kwargs))

    def write_now(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`write` for callers without a loop: start-up, tests, benchmarks."""
        result: T = self._writer.submit(self._commit, fn, args, kwargs).result()
        return result

    def read_now(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = self._reader.submit(self._look, fn, args, kwargs).result()
        return result

    def _commit(self, fn: Callable[..., T], args: Any, kwargs: Any) -> T:
        connection = self._writer.connection
        appended: list[EventRow] = []
        connection.info["events"] = appended
        with connection.begin():
            result = fn(connection, *args, **kwargs)
        if appended and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.on_events, appended)
        return result

    def _look(self, fn: Callable[..., T], args: Any, kwargs: Any) -> T:
        connection = self._reader.connection
        with connection.begin():
            return fn(connection, *args, **kwargs)

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


class _ConnectionThread:
    """One thread with one connection that no other thread touches."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._engine: Engine | None = None
        self._local = threading.local()

    @property
    def connection(self) -> Connection:
        connection: Connection = self._local.connection
        return connection

    def open(self, make: Callable[[], Engine]) -> None:
        def _open() -> None:
            self._engine = make()
            self._local.connection = self._engine.connect()

        self._executor.submit(_open).result()

    def submit(self, fn: Callable[..., T], *args: Any) -> Any:
        return self._executor.submit(fn, *args)

    def close(self) -> None:
        def _close() -> None:
            connection = getattr(self._local, "connection", None)
            if connection is not None:
                connection.close()
                del self._local.connection
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None

        try:
            self._executor.submit(_close).result()
        except RuntimeError:
            return  # closed before
        self._executor.shutdown()


def _quoted(path: Path) -> str:
    from urllib.parse import quote

    return quote(str(path.absolute()))


def main() -> None:
    """Migrate the database named on the command line, in a process that ends."""
    import sys

    path = Path(sys.argv[1])
    engine = connect(path)
    try:
        migrate(engine, path)
    finally:
        engine.dispose()


if __name__ == "__main__":
    main()
