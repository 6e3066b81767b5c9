"""The one SQLite database of a home: who reads it, who writes it, and what shares a commit.

One thread owns the only connection that writes, a second thread one that reads; on a single thread a deep
list would hold up a claim for hundreds of milliseconds. Writes that wait for one another share a commit: the
disk, not the processor, bounds how many commits there are in a second.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import structlog

from tqstudio.engine.host.clock import (
    WALL,
    now_us,
)
from tqstudio.engine.store.db import errors
from tqstudio.engine.store.db.connection import Connection, connect
from tqstudio.engine.store.db.connection_thread import ConnectionThread, DatabaseCall
from tqstudio.engine.store.db.event_row import (
    EventRow,
)
from tqstudio.engine.store.db.right_of_way import RightOfWay
from tqstudio.engine.store.db.schema import migrate
from tqstudio.errors import UNWRITTEN, TqError

P = ParamSpec("P")
T = TypeVar("T")

_log = structlog.get_logger()


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

    When the disk is full or takes no writes for another reason, they are refused with DISK_LOW or
    DATABASE_UNWRITABLE until one by `write_again` has gone through; reads go on. What SQLite says of a
    damaged or busy file is raised as a TqError too.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.on_events: Callable[[list[EventRow]], None] = lambda _events: None
        self._right_of_way = RightOfWay()
        self.give_way = self._right_of_way.give_way
        """For the event loop, before it begins something new: writes that run their statements go first."""
        self._writer = ConnectionThread("db-writer", self._commit)
        self._reader = ConnectionThread("db-reader", self._look)
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
            raise errors.told(error, self.path) from error

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
        """`write` although the disk took none; when it goes through, others do so again."""
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

    def _commit(self, db: Connection, calls: Sequence[DatabaseCall]) -> None:
        try:
            self._run_sharing(db, calls)
        except BaseException as error:
            db.rollback()
            if len(calls) > 1:
                # One of them spoilt it for all, or the disk is full: each has a try of its own.
                for call in calls:
                    self._commit(db, [call])
                return
            calls[0].error = self._told(error, calls[0])
        self._deliver(calls)

    def _run_sharing(self, db: Connection, calls: Sequence[DatabaseCall]) -> None:
        """All calls in one transaction.

        Raises:
            BaseException: one failed; nothing of any call is in the database. A savepoint for each would
                spare the others their second run, and cost all of them two statements each time.
        """
        db.begin(immediate=True)
        began, waited = WALL.running_us(), self._waited_us(calls[0])
        try:
            for call in calls:
                call.appended.clear()
            db.appended = calls[0].appended
            if self._watch is not None and waited > self._watch.patience_us:
                self._watch.after(db, waited)
            with self._right_of_way.taken():
                for call in calls:
                    db.appended = call.appended
                    call.result = call.fn(db, *call.args, **call.kwargs)
        finally:
            db.appended = None
        db.commit()
        self._began = began

    def _look(self, db: Connection, calls: Sequence[DatabaseCall]) -> None:
        for call in calls:
            db.begin(immediate=False)
            try:
                call.result = call.fn(db, *call.args, **call.kwargs)
            except BaseException as error:
                call.error = errors.told(error, self.path)
            db.rollback()
            self._deliver([call])

    def _told(self, error: BaseException, call: DatabaseCall) -> BaseException:
        told = errors.told(error, self.path, writing=True)
        if isinstance(told, TqError) and told is not error and told.code in UNWRITTEN and not self.refusal:
            # Who waited for a disk that hung before it failed could be told of nothing in that time either.
            self.refusal = Refusal(told, now_us() - self._waited_us(call))
            _log.warning("the database cannot be written", code=told.code.value, error=told.message)
        return told

    def _waited_us(self, call: DatabaseCall) -> int:
        """Since the last ones had their turn: to wait for many others is no hang."""
        return WALL.running_us() - max(self._began, call.at)

    def _deliver(self, calls: Sequence[DatabaseCall]) -> None:
        events = [event for call in calls if call.error is None for event in call.appended]
        loops = {call.loop for call in calls} | ({self._loop} if events else set())
        for loop in loops:
            mine = [call for call in calls if call.loop is loop]
            if loop is None:
                _deliver_all(mine)
            else:
                # One turn of the loop for all: to wake it costs more than what it is woken for.
                _soon(loop, self._arrive, events if loop is self._loop else [], mine)

    def _arrive(self, events: list[EventRow], calls: Sequence[DatabaseCall]) -> None:
        """Tell the watchers first: who asked finds the events of its change on their way."""
        self.give_way()
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


def _deliver_all(calls: Sequence[DatabaseCall]) -> None:
    for call in calls:
        call.deliver()


async def _asked(thread: ConnectionThread, fn: Callable[..., T], args: Any, kwargs: Any) -> T:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    thread.submit_with_others(DatabaseCall(fn, args, kwargs, loop, answer), loop)
    # A client that hangs up ends the wait only: what was submitted is decided all the same.
    return await answer


def _asked_now(thread: ConnectionThread, fn: Callable[..., T], args: Any, kwargs: Any) -> T:
    answer: Future[T] = Future()
    thread.submit(DatabaseCall(fn, args, kwargs, None, answer))
    return answer.result()
