"""Opening, migrating and serialising the one SQLite database of a home.

One thread owns the only connection that writes, a second thread one that reads; on a single thread a deep
list would hold up a claim for hundreds of milliseconds. Writes that wait for one another share a commit: the
disk, not the processor, bounds how many commits there are in a second.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Concatenate, ParamSpec, TypeVar

from tqstudio.engine.clock import WALL
from tqstudio.engine.scheduling import now_us
from tqstudio.engine.store import backup, troubles
from tqstudio.engine.store.connection import Connection, connect, open_raw
from tqstudio.engine.store.events import EventRow
from tqstudio.errors import ErrorCode, TqError

SCHEMA_VERSION = "0003"
"""Newest migration in `migrations/versions`; a test holds the two together."""

MAX_SHARING = 64
"""Writes that share one commit at most: what the first of them waits for the others."""

P = ParamSpec("P")
T = TypeVar("T")


def migrate(path: Path) -> None:
    """Bring the schema to `SCHEMA_VERSION`.

    Raises:
        TqError: NEWER_DATABASE when a newer tqstudio wrote it; DATABASE_DAMAGED, DATABASE_BUSY, DISK_LOW.
    """
    try:
        _migrate(path)
    except sqlite3.Error as error:
        raise troubles.told(error, path) from error


def _migrate(path: Path) -> None:
    version = schema_version(path)
    if version == SCHEMA_VERSION:
        return
    if version is not None and version > SCHEMA_VERSION:
        raise TqError(
            ErrorCode.NEWER_DATABASE,
            f"{path} has schema {version}; this tqstudio knows up to {SCHEMA_VERSION}",
        )
    if version is not None:
        backup.before_migration(path, SCHEMA_VERSION)
    upgrade(path, "head")


def upgrade(path: Path, target: str) -> None:
    """Run the migrations up to `target` in one transaction."""
    # Only when needed: alembic and SQLAlchemy cost 30 MB and 200 ms.
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import create_engine, event
    from sqlalchemy.pool import StaticPool

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    engine = create_engine("sqlite://", creator=lambda: open_raw(path), poolclass=StaticPool)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, target)
    finally:
        engine.dispose()


def is_current(path: Path) -> bool:
    """Whether the database exists and has this program's schema; looks without creating anything."""
    if not path.exists():
        return False
    try:
        return schema_version(path, read_only=True) == SCHEMA_VERSION
    except Exception:
        return False


def schema_version(path: Path, *, read_only: bool = False) -> str | None:
    """The schema's version; None for an empty database."""
    db = connect(path, read_only=read_only)
    try:
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").first() is None:
            return None
        version = db.execute("SELECT version_num FROM alembic_version").scalar()
        return None if version is None else str(version)
    finally:
        db.close()


@dataclass(slots=True)
class _Call:
    """A function that waits for its turn on a connection, and where its answer goes."""

    fn: Callable[..., Any]
    args: Any
    kwargs: Any
    loop: asyncio.AbstractEventLoop | None
    """The loop that `answer` belongs to; None when a thread waits for it."""
    answer: Any
    result: Any = None
    error: BaseException | None = None
    appended: list[EventRow] = field(default_factory=list)
    at: int = field(default_factory=WALL.running_us)
    """Since when it waits, by the clock that is never set."""

    def deliver(self) -> None:
        if self.answer.done():
            return
        if self.error is not None:
            self.answer.set_exception(self.error)
        else:
            self.answer.set_result(self.result)


@dataclass(frozen=True, slots=True)
class _Watch:
    """What is done after a hang, and what is one."""

    patience_us: int
    after: Callable[[Connection, int], None]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing is written for now, and since when (µs since 1970 in UTC)."""

    error: TqError
    since: int


class Database:
    """The database of a running supervisor.

    `write(fn, *args)` runs `fn(connection, *args)` on the writer's thread, whole or not at all, and returns
    once it is durable; `read` runs on the reader's. A function that is written may be run again when the
    commit it shared with others failed, so it touches nothing but the connection. Events that it appended
    are handed to `on_events` on the event loop after the commit, in the order of the commits.

    When the disk is full, writes are refused with DISK_LOW until one by `write_again` has gone through; reads
    go on. What SQLite says of a damaged or busy file is raised as a TqError too.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.on_events: Callable[[list[EventRow]], None] = lambda _events: None
        self._writer = _ConnectionThread("db-writer", self._commit)
        self._reader = _ConnectionThread("db-reader", self._look)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watch: _Watch | None = None
        self._began = 0
        self.refusal: Refusal | None = None

    def open(self) -> None:
        """Open and, if needed, migrate. Must come before the first `read` or `write`."""
        migrate(self.path)
        try:
            self._writer.open(lambda: connect(self.path))
            self._reader.open(lambda: connect(self.path, read_only=True))
        except sqlite3.Error as error:
            raise troubles.told(error, self.path) from error

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Name the loop on which `on_events` is called."""
        self._loop = loop

    def watch(self, patience_us: int, after_hang: Callable[[Connection, int], None]) -> None:
        """Have `after_hang(connection, µs)` run before writes that waited for longer than `patience_us`.

        A disk, or another program that holds the file, may keep the writer for minutes while everything else
        goes on. What the writes then find is as old as that. It runs once after each hang, in the
        transaction of the first of them.
        """
        self._watch = _Watch(patience_us, after_hang)

    async def write(
        self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if self.refusal is not None:
            raise self.refusal.error
        return await _asked(self._writer, fn, args, kwargs)

    async def write_again(
        self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """`write` although the disk was full; when it goes through, others do so again."""
        result = await _asked(self._writer, fn, args, kwargs)
        self.refusal = None
        return result

    async def read(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await _asked(self._reader, fn, args, kwargs)

    def write_now(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`write` for callers without a loop: start-up, tests, benchmarks."""
        return _asked_now(self._writer, fn, args, kwargs)

    def read_now(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return _asked_now(self._reader, fn, args, kwargs)

    def _commit(self, db: Connection, calls: Sequence[_Call]) -> None:
        try:
            self._run_sharing(db, calls)
        except BaseException as error:
            db.rollback()
            if len(calls) > 1:
                # One of them spoilt it for all, or the disk is full: each has a try of its own.
                for call in calls:
                    self._commit(db, [call])
                return
            calls[0].error = self._told(error)
        self._deliver(calls)

    def _run_sharing(self, db: Connection, calls: Sequence[_Call]) -> None:
        """All calls in one transaction.

        Raises:
            BaseException: one failed; nothing of any call is in the database. A savepoint for each would
                spare the others their second run, and cost all of them two statements each time.
        """
        db.begin(immediate=True)
        began = WALL.running_us()
        try:
            for call in calls:
                call.appended.clear()
            db.appended = calls[0].appended
            # Since the last ones had their turn: to wait for many others is no hang.
            waited = began - max(self._began, calls[0].at)
            if self._watch is not None and waited > self._watch.patience_us:
                self._watch.after(db, waited)
            for call in calls:
                db.appended = call.appended
                call.result = call.fn(db, *call.args, **call.kwargs)
        finally:
            db.appended = None
        db.commit()
        self._began = began

    def _look(self, db: Connection, calls: Sequence[_Call]) -> None:
        for call in calls:
            db.begin(immediate=False)
            try:
                call.result = call.fn(db, *call.args, **call.kwargs)
            except BaseException as error:
                call.error = troubles.told(error, self.path)
            db.rollback()
            self._deliver([call])

    def _told(self, error: BaseException) -> BaseException:
        told = troubles.told(error, self.path)
        if told is not error and isinstance(told, TqError) and told.code is ErrorCode.DISK_LOW:
            self.refusal = self.refusal or Refusal(told, now_us())
        return told

    def _deliver(self, calls: Sequence[_Call]) -> None:
        events = [event for call in calls if call.error is None for event in call.appended]
        loops = {call.loop for call in calls} | ({self._loop} if events else set())
        for loop in loops:
            mine = [call for call in calls if call.loop is loop]
            if loop is None:
                _deliver_all(mine)
            else:
                # One turn of the loop for all: to wake it costs more than what it is woken for.
                _soon(loop, self._arrive, events if loop is self._loop else [], mine)

    def _arrive(self, events: list[EventRow], calls: Sequence[_Call]) -> None:
        """Tell the watchers first: who asked finds the events of its change on their way."""
        if events:
            self.on_events(events)
        _deliver_all(calls)

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


def _soon(loop: asyncio.AbstractEventLoop, fn: Callable[..., object], *args: Any) -> None:
    try:
        loop.call_soon_threadsafe(fn, *args)
    except RuntimeError:
        return  # the loop has ended; nobody waits any more


def _deliver_all(calls: Sequence[_Call]) -> None:
    for call in calls:
        call.deliver()


async def _asked(thread: _ConnectionThread, fn: Callable[..., T], args: Any, kwargs: Any) -> T:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    thread.submit_with_others(_Call(fn, args, kwargs, loop, answer), loop)
    # A client that hangs up ends the wait only: what was submitted is decided all the same.
    return await answer


def _asked_now(thread: _ConnectionThread, fn: Callable[..., T], args: Any, kwargs: Any) -> T:
    answer: Future[T] = Future()
    thread.submit(_Call(fn, args, kwargs, None, answer))
    return answer.result()


class _ConnectionThread:
    """One thread with one connection that no other thread touches.

    Args:
        serve: runs the calls that wait, in order, and delivers their answers.
    """

    def __init__(self, name: str, serve: Callable[[Connection, Sequence[_Call]], None]) -> None:
        self._name, self._serve = name, serve
        self._calls: SimpleQueue[list[_Call] | None] = SimpleQueue()
        self._gathered: list[_Call] = []
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def open(self, make: Callable[[], Connection]) -> None:
        opened: Future[None] = Future()
        # A daemon: a program that forgets to close its database still ends.
        self._thread = threading.Thread(target=self._run, args=(make, opened), name=self._name, daemon=True)
        self._thread.start()
        opened.result()

    def _run(self, make: Callable[[], Connection], opened: Future[None]) -> None:
        try:
            db = make()
        except BaseException as error:
            opened.set_exception(error)
            return
        opened.set_result(None)
        try:
            while calls := self._waiting():
                for first in range(0, len(calls), MAX_SHARING):
                    self._serve(db, calls[first : first + MAX_SHARING])
        finally:
            db.close()

    def _waiting(self) -> list[_Call]:
        """The calls that wait, at least one; none at the end."""
        calls: list[_Call] = []
        more = self._calls.get()
        while more is not None:
            calls += more
            try:
                more = self._calls.get_nowait()
            except Empty:
                return calls
        if calls:
            self._calls.put(None)
        return calls

    def submit(self, *calls: _Call) -> None:
        if self._thread is None or self._closed.is_set():
            raise RuntimeError("the database is not open")
        self._calls.put(list(calls))

    def submit_with_others(self, call: _Call, loop: asyncio.AbstractEventLoop) -> None:
        """Submit what comes in one turn of the loop together: it shares a commit and a waking."""
        if self._closed.is_set():
            raise RuntimeError("the database is not open")
        if not self._gathered:
            loop.call_soon(self._submit_gathered)
        self._gathered.append(call)

    def _submit_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        try:
            self.submit(*gathered)
        except RuntimeError as error:
            for call in gathered:
                call.error = error
                call.deliver()

    def close(self) -> None:
        if self._thread is None or self._closed.is_set():
            return
        self._closed.set()
        self._calls.put(None)
        self._thread.join()


def main() -> None:
    """Migrate the database named on the command line, in a process that ends."""
    import sys

    migrate(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
