"""Runs reads and writes on the database of a supervisor, each on a thread of its own.

One thread owns the only writing connection; a second reads, and a third searches, which may take a second: on
a shared thread it would delay claims and screens. Waiting writes share a commit (group commit): the disk, not
the processor, limits the number of commits per second.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import structlog
from sqlalchemy.exc import DBAPIError

from tqstudio.engine.host.clock import now_us
from tqstudio.engine.store.db import backup, errors, opening, schema
from tqstudio.engine.store.db.connection import Address, CommitUnknown, Connection, connect
from tqstudio.engine.store.db.connection_thread import ConnectionThread, DatabaseCall
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.errors import UNWRITTEN, ErrorCode, TqError

P = ParamSpec("P")
T = TypeVar("T")

_log = structlog.get_logger()
_LEADS = "leads"
"""Key of `Connection.info`: whether `_require_newest` has checked this connection."""
_NO_CONNECTION = (ErrorCode.DATABASE_UNREACHABLE, ErrorCode.ALREADY_RUNNING)


@dataclass(frozen=True, slots=True)
class WriteBlock:
    """Why the database cannot be written, and since when (µs since 1970 in UTC)."""

    error: TqError
    since: int


class Database:
    """The database of a running supervisor.

    `write(fn, *args)` runs `fn(connection, *args)` in a transaction on the writer's thread and returns once
    it is durable; `read` and `search` run on threads of their own. A function may run again if the commit it
    shared with others failed, so it must have no effect except on the connection. Events that it appended are
    passed to the listener of `bind` on the event loop after the commit, in commit order.

    When the disk is full or cannot be written, writes are refused with DISK_LOW or DATABASE_UNWRITABLE until
    one by `write_again` succeeds; reads continue. PostgreSQL that cannot be reached is the same, as
    DATABASE_UNREACHABLE, for reads too. Errors about a damaged or busy database are raised as TqError too.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._writer = ConnectionThread("db-writer", self._commit)
        self._reader = ConnectionThread("db-reader", self._look)
        self._searcher = ConnectionThread("db-searcher", self._look)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_events: Callable[[list[EventRow]], None] = lambda _events: None
        self._on_lost_lead: Callable[[TqError], None] = lambda _why: None
        self.refusal: WriteBlock | None = None
        self._commits = 0
        """Transactions that may have changed something."""
        self._known: dict[Callable[[Connection], Any], tuple[int, Any]] = {}
        """What `reread` has read last, and after how many commits."""
        self._lost_lead: TqError | None = None
        """Why nothing is written any more: another supervisor has the database."""
        self.supervisor: int | None = None
        """Row of the supervisor that leads by this database; None before it is stored."""

    @property
    def is_file(self) -> bool:
        """Whether it is a file of SQLite, on a disk of this machine."""
        return isinstance(self.address, Path)

    def open(self) -> None:
        """Opens and, if needed, migrates the database, before the first `read` or `write`."""
        if isinstance(self.address, Path) and schema.is_old(self.address):
            backup.before_migration(self.address, schema.SCHEMA_VERSION)
        schema.migrate(self.address)
        if not isinstance(self.address, Path):
            opening.require_counted(self.address)
        try:
            self._writer.open(lambda: connect(self.address))
            self._reader.open(lambda: connect(self.address, read_only=True))
            self._searcher.open(lambda: connect(self.address, read_only=True))
        except DBAPIError as error:
            # An open writer would keep the lock of the one that leads.
            self.close()
            raise errors.as_tq_error(error, self.address) from error

    def bind(
        self,
        on_events: Callable[[list[EventRow]], None] = lambda _events: None,
        on_lost_lead: Callable[[TqError], None] = lambda _why: None,
    ) -> None:
        """Have the running loop called back.

        Args:
            on_events: called with the events of each commit.
            on_lost_lead: called when another supervisor has the database of PostgreSQL, after its connection
                was lost.
        """
        self._loop = asyncio.get_running_loop()
        self._on_events, self._on_lost_lead = on_events, on_lost_lead

    async def write(
        self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if self.refusal is not None:
            raise self.refusal.error
        return await _asked(self._writer, fn, args, kwargs)

    async def write_again(
        self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Writes even while writes are refused; if it succeeds, writes are accepted again."""
        result = await _asked(self._writer, fn, args, kwargs)
        self.refusal = None
        return result

    async def read(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await _asked(self._reader, fn, args, kwargs)

    async def reread(self, fn: Callable[[Connection], T]) -> T:
        """Reads like `read`, but again only after a write: `fn` must depend on the database alone."""
        commits = self._commits
        if (known := self._known.get(fn)) is None or known[0] != commits:
            known = self._known[fn] = commits, await self.read(fn)
        result: T = known[1]
        return result

    async def search(
        self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Reads like `read`, but lets other reads pass."""
        return await _asked(self._searcher, fn, args, kwargs)

    def write_now(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Writes synchronously, for callers without a loop: start-up, tests, benchmarks."""
        return _asked_now(self._writer, fn, args, kwargs)

    def read_now(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return _asked_now(self._reader, fn, args, kwargs)

    def require_lead(self) -> None:
        """Checks that no other supervisor has the database, before files change that others may change too.

        Waits for the database: call it on a thread.

        Raises:
            TqError: DATABASE_UNWRITABLE if one has it, DATABASE_UNREACHABLE.
        """
        if not self.is_file:
            self.write_now(_write_nothing)

    def _commit(self, db: Connection, calls: Sequence[DatabaseCall], *, again: bool = False) -> None:
        try:
            if self._lost_lead is not None:
                raise self._lost_lead
            self._run_sharing(db, calls)
        except BaseException as error:
            with contextlib.suppress(DBAPIError):
                db.rollback()  # fails with the connection, whose transaction the server rolls back
            if _is_cut(error) and not again:
                # The server was restarted, or a firewall has dropped an idle connection.
                self._commit(db, calls, again=True)
                return
            if len(calls) > 1 and not self._is_of_all(error):
                # One of them failed, or the disk is full: retry each in a transaction of its own.
                for call in calls:
                    self._commit(db, [call])
                return
            found = self._converted(error)
            for call in calls:
                call.error = found
        self._commits += 1
        self._deliver(calls)

    def _run_sharing(self, db: Connection, calls: Sequence[DatabaseCall]) -> None:
        """Runs all calls in one transaction; if one fails, its error is raised and nothing was written.

        Without savepoints, which would avoid the second run after a failure but cost two statements per call.
        """
        db.begin()
        try:
            self._require_newest(db)
            for call in calls:
                call.appended.clear()
            for call in calls:
                db.appended = call.appended
                call.result = call.fn(db, *call.args, **call.kwargs)
        finally:
            db.appended = None
        db.commit()

    def _require_newest(self, db: Connection) -> None:
        """Checks on a new connection that no other supervisor has led since the last one broke.

        Raises:
            TqError: ALREADY_RUNNING.
        """
        known = db.core.info
        if self.is_file or self.supervisor is None or known.get(_LEADS):
            return
        from tqstudio.engine.store.dialects import postgresql

        if postgresql.newest_supervisor(db.core) != self.supervisor:
            raise TqError(
                ErrorCode.ALREADY_RUNNING,
                "another supervisor has led the queue since the connection to PostgreSQL was lost",
                "start this one again with: tqstudio up",
            )
        known[_LEADS] = True

    def _look(self, db: Connection, calls: Sequence[DatabaseCall]) -> None:
        lost: BaseException | None = None
        for call in calls:
            try:
                # Each try to connect may take seconds: those that waited for it share its outcome.
                if lost is not None:
                    raise lost
                try:
                    self._read(db, call)
                except DBAPIError as error:
                    if not _is_cut(error):
                        raise
                    self._read(db, call)
            except BaseException as error:
                call.error = errors.as_tq_error(error, self.address)
                if self._is_of_all(error):
                    lost = call.error
            self._deliver([call])

    def _read(self, db: Connection, call: DatabaseCall) -> None:
        try:
            db.begin()
            call.result = call.fn(db, *call.args, **call.kwargs)
        finally:
            db.rollback()

    def _is_of_all(self, error: BaseException) -> bool:
        """Whether every call has the error: no connection can be made, or it broke in the commit."""
        if isinstance(error, CommitUnknown) or error is self._lost_lead:
            return True
        found = errors.as_tq_error(error, self.address)
        return isinstance(found, TqError) and found.code in _NO_CONNECTION and not _is_cut(error)

    def _converted(self, error: BaseException) -> BaseException:
        found = errors.as_tq_error(error, self.address, writing=True)
        if isinstance(found, TqError) and found.code is ErrorCode.ALREADY_RUNNING:
            # For good: with the lock back it would write beside what the other one has decided.
            self._lost_lead = TqError(ErrorCode.DATABASE_UNWRITABLE, found.message, found.hint)
            if self._loop is not None:
                _soon(self._loop, self._on_lost_lead, found)
            found = self._lost_lead
        if isinstance(found, TqError) and found is not error and found.code in UNWRITTEN:
            self._refuse(found)
        return found

    def _refuse(self, why: TqError) -> None:
        before = self.refusal
        # PostgreSQL that could not be reached may come back as a standby, which cannot be written.
        if before is None or (not self.is_file and before.error.code is not why.code):
            self.refusal = WriteBlock(why, now_us() if before is None else before.since)
            _log.warning("the database cannot be written", code=why.code.value, error=why.message)

    def _deliver(self, calls: Sequence[DatabaseCall]) -> None:
        events = [event for call in calls if call.error is None for event in call.appended]
        loops = {call.loop for call in calls} | ({self._loop} if events else set())
        for loop in loops:
            mine = [call for call in calls if call.loop is loop]
            if loop is None:
                _deliver_all(mine)
            else:
                # One wake-up of the loop for all calls, because it costs more than the delivery.
                _soon(loop, self._arrive, events if loop is self._loop else [], mine)

    def _arrive(self, events: list[EventRow], calls: Sequence[DatabaseCall]) -> None:
        """Hands events to the watchers first: they are on their way when the caller has its answer."""
        if events:
            self._on_events(events)
        _deliver_all(calls)

    def close(self) -> None:
        self._searcher.close()
        self._reader.close()
        self._writer.close()


def _write_nothing(_db: Connection) -> None:
    pass


def _is_cut(error: BaseException) -> bool:
    """Whether the connection was lost, and nothing committed."""
    return isinstance(error, DBAPIError) and error.connection_invalidated


def _soon(loop: asyncio.AbstractEventLoop, fn: Callable[..., object], *args: Any) -> None:
    try:
        loop.call_soon_threadsafe(fn, *args)
    except RuntimeError:
        return  # the loop has ended


def _deliver_all(calls: Sequence[DatabaseCall]) -> None:
    for call in calls:
        call.deliver()


async def _asked(thread: ConnectionThread, fn: Callable[..., T], args: Any, kwargs: Any) -> T:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    thread.submit_with_others(DatabaseCall(fn, args, kwargs, loop, answer), loop)
    # Cancellation ends only the wait: a submitted call still runs.
    return await answer


def _asked_now(thread: ConnectionThread, fn: Callable[..., T], args: Any, kwargs: Any) -> T:
    answer: Future[T] = Future()
    thread.submit(DatabaseCall(fn, args, kwargs, None, answer))
    return answer.result()
