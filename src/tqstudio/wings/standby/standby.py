"""Stands by until no other supervisor leads the queue.

The advisory lock of the writing connection decides which supervisor is the leader; the leader's lease, when
a standby may try to take over. A leader that has lost the database may still write files: so a standby waits
for the end of its lease, and a leader checks its lock before it changes what is published.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog
from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError

from tqstudio import __version__
from tqstudio.config import Settings
from tqstudio.engine.access.api_tokens import NewToken, new_token
from tqstudio.engine.files.bounded_io import BoundedIO, on_a_thread
from tqstudio.engine.host import logging_setup
from tqstudio.engine.host.clock import MICROSECOND
from tqstudio.engine.host.home_guard import HomeGuard
from tqstudio.engine.host.home_lock import HomeLock
from tqstudio.engine.host.service_manager import ServiceManager
from tqstudio.engine.host.waiting import wait_until_set
from tqstudio.engine.http.server import SocketServer
from tqstudio.engine.store.db import errors, schema
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.dialects import postgresql
from tqstudio.engine.store.library import folders
from tqstudio.engine.store.machine import standbys
from tqstudio.engine.store.machine.standbys import SEEN_S, Leader
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.protocol import remote
from tqstudio.protocol.roles import Role
from tqstudio.wings.standby.answers import Answers
from tqstudio.wings.standby.lent_workers import LentWorkers

_LOOK_S = 1.0
"""Interval of looks at the lease of the supervisor that leads."""
_CLOSE_S = 5.0
"""How long the database may take to forget this supervisor."""
_CUT_LOGS_S = 600.0
_PASSES = (ErrorCode.DATABASE_UNREACHABLE, ErrorCode.DATABASE_UNWRITABLE, ErrorCode.DATABASE_BUSY)
"""Troubles of a database that it waits for, as a failover to a server that cannot be written yet."""
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a look at the database found."""

    leader: Leader | None
    """None if this supervisor may try to lead."""
    folders: Sequence[bytes] = ()
    """The drop folders, which may be shared with the one that leads."""


class Standby:
    """A supervisor that stands by; `wait` is its life.

    Args:
        held: the lock of the home.
        is_patient: whether it waits for a database that does not answer at first, as after it has led.
    """

    def __init__(
        self,
        home: Home,
        settings: Settings,
        address: URL,
        held: HomeLock,
        manager: ServiceManager,
        *,
        is_patient: bool,
    ) -> None:
        self._home, self._settings, self._manager = home, settings, manager
        self._watch = LeaseWatch(address, home, settings.host_name)
        self._io = BoundedIO()
        self._guard = HomeGuard(home, held, self._io, has_database=False)
        self._workers = LentWorkers(home, settings)
        self._leader: Leader | None = None
        self._followed: tuple[int, str | None] | None = None
        """The leader, and its address, that commands and workers were sent to."""
        self._stopping = asyncio.Event()
        self._is_patient = is_patient
        self._trouble = ""

    async def wait(self) -> bool:
        """Waits until this supervisor may try to lead; False if it is asked to shut down before.

        Raises:
            TqError: DATABASE_VERSION, PERMISSION, BAD_CONFIG: it cannot lead; DATABASE_UNREACHABLE at first;
                NOT_FOUND: its home is gone.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        has_failed = self._is_patient
        # Otherwise it would try again and again without a pause, and answer no command.
        if await self._look() is None and not has_failed:
            await self._close()
            return not self._stopping.is_set()
        server = SocketServer(Answers(self._refusal, self._stopping.set))
        serving = asyncio.create_task(server.serve(sockets=[self._guard.open_socket()]))
        guarding = asyncio.create_task(self._guard.watch(server.listen_on))
        reporting = asyncio.create_task(self._manager.watch(self._status_line))
        cutting = asyncio.create_task(self._cut_logs())
        try:
            is_free = await self._wait(guarding)
        finally:
            # Unless this one shuts down, the one that leads is gone, and nothing can be sent there.
            await self._workers.stop(at_once=not self._stopping.is_set())
            self._home.leader.unlink(missing_ok=True)
            guarding.cancel()
            reporting.cancel()
            cutting.cancel()
            await self._close()
            server.end()
            await serving
            self._guard.close_socket()
        # Asked for meanwhile: its workers may have taken seconds to end.
        return is_free and not self._stopping.is_set()

    async def _wait(self, guarding: asyncio.Task[str]) -> bool:
        while not self._stopping.is_set():
            if guarding.done():
                raise TqError(
                    ErrorCode.NOT_FOUND,
                    f"the supervisor lost its home and shut down: {guarding.result()}",
                    "start a new one with: tqstudio up",
                )
            if await wait_until_set(self._stopping, _LOOK_S):
                break
            if await self._look() is None:
                _log.info("no other supervisor leads any more")
                return True
        return False

    async def _close(self) -> None:
        await asyncio.wait((on_a_thread(self._watch.close),), timeout=_CLOSE_S)

    async def _cut_logs(self) -> None:
        while True:
            await asyncio.sleep(_CUT_LOGS_S)
            await asyncio.to_thread(logging_setup.cut_long, self._home)

    async def _look(self) -> Leader | None:
        """Returns the supervisor that leads, as far as known; None if this one may try to."""
        looking = on_a_thread(self._watch.look)
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait((looking, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not looking.done():
            return self._leader or _UNKNOWN  # a database that hangs must not hold up a shutdown
        try:
            seen = looking.result()
        except TqError as error:
            if error.code not in _PASSES or not self._is_patient:
                raise
            if not self._trouble:
                _log.warning("the database does not answer", error=error.message)
            self._trouble = error.message
            self._leader = self._leader or _UNKNOWN
            return self._leader
        trouble, self._is_patient, self._leader = "", True, seen.leader
        if seen.leader is not None and (seen.leader.id, seen.leader.url) != self._followed:
            try:
                await self._follow(seen.leader, seen.folders)
                self._followed = seen.leader.id, seen.leader.url
            except OSError as error:
                trouble = f"the home cannot be written: {error.strerror}"
                if trouble != self._trouble:
                    _log.warning("commands do not reach the one that leads", why=trouble)
        self._trouble = trouble
        return seen.leader

    async def _follow(self, leader: Leader, shared: Sequence[bytes]) -> None:
        """Sends commands and workers to the supervisor that leads now."""
        _log.info("standing by", leader=leader.name, url=leader.url)
        if leader.url is None:
            # It begins to lead, or does not listen. Lent workers wait for it.
            self._home.leader.unlink(missing_ok=True)
            return
        tokens = self._watch.tokens
        remote.follow(self._home, leader.name, leader.url, tokens[Role.ADMIN].text, leader.certificate)
        folders = [Path(os.fsdecode(each)) for each in shared if await self._is_here(each)]
        self._workers.start(tokens[Role.JOIN].text, folders)

    async def _is_here(self, folder: bytes) -> bool:
        """Whether a drop folder is here too; its disk may not answer."""
        with contextlib.suppress(OSError):
            return await self._io.run(folder, partial(os.path.isdir, folder))
        return False

    def _refusal(self) -> TqError:
        if self._trouble:
            why = f"this supervisor stands by: {self._trouble}"
            return TqError(ErrorCode.REFUSED, why, "commands here work again after that")
        name = self._leader.name if self._leader else "another supervisor"
        return TqError(
            ErrorCode.REFUSED,
            f"this supervisor stands by: {name} leads the queue, and cannot be reached from here",
            f"set listen in the settings of {name}, so that commands here reach it, or run them there",
        )

    def _status_line(self) -> str:
        if self._trouble:
            return f"standing by: {self._trouble}"
        return f"standing by for {self._leader.name if self._leader else 'another supervisor'}"


_UNKNOWN = Leader(0, "", "another supervisor", None, None, 0)
"""The one that leads, before the database has answered."""


def _uuid(home: str) -> str:
    """The part of a home's id that is not its host."""
    return home.partition("@")[0]


class LeaseWatch:
    """Looks at the lease of the supervisor that leads, on a connection of its own, which has no lock.

    Args:
        name: of this supervisor.
    """

    def __init__(self, address: URL, home: Home, name: str) -> None:
        self._address, self._name = address, name
        self._id = home.id()
        self._db: Connection | None = None
        self.tokens: dict[Role, NewToken] = {role: new_token() for role in standbys.token_names(name)}
        """With which it calls the one that leads."""
        self._seen_at: int | None = None
        """When this supervisor was stored last, and with the first time its tokens."""

    def look(self) -> _Seen:
        """Looks who leads, and stores that this one stands by; ends the connection of one that leads no more.

        Raises:
            TqError: DATABASE_VERSION, DATABASE_UNREACHABLE, PERMISSION, BAD_CONFIG.
        """
        try:
            if self._db is None:
                if not self._has_schema():
                    # Held, the lock is that of one that creates it.
                    return _Seen(_UNKNOWN if self._has_writer() else None)
                self._db = Connection(postgresql.engine_of(self._address, leads=False))
            return self._look(self._db)
        except DBAPIError as error:
            self._disconnect()
            raise errors.as_tq_error(error, self._address) from error

    def _has_schema(self) -> bool:
        """Whether there are tables; an older schema is migrated by the next supervisor that leads."""
        version = schema.schema_version(self._address, read_only=True)
        if version is not None:
            schema.require_supported(self._address, version)
        return version is not None

    def _has_writer(self) -> bool:
        with contextlib.closing(Connection(postgresql.engine_of(self._address, read_only=True))) as db:
            return postgresql.has_writer(db.core)

    def _look(self, db: Connection) -> _Seen:
        db.begin()
        try:
            leader, now = standbys.leader(db), db.now_us()
            if leader is None or standbys.may_follow(leader, self._id, now):
                if leader is not None:
                    postgresql.end_writer(db.core, leader.expires_at)
                # Held, it is that of another one that begins to lead.
                is_free = not postgresql.has_writer(db.core)
                db.commit()
                return _Seen(None if is_free else _UNKNOWN)
            if self._seen_at is None:
                self._require_name(db, leader, now)
                for role, token in self.tokens.items():
                    standbys.replace_token(
                        db,
                        self._name,
                        role,
                        prefix=token.prefix,
                        salt=token.salt,
                        secret_hash=token.hash,
                        now=now,
                    )
            if self._seen_at is None or now - self._seen_at >= SEEN_S * MICROSECOND:
                standbys.record_seen(db, self._id, name=self._name, version=__version__, now=now)
                self._seen_at = now
            found = _Seen(leader, folders.paths(db))
            db.commit()
        except BaseException:
            self._seen_at = None
            db.rollback()
            raise
        return found

    def _require_name(self, db: Connection, leader: Leader, now: int) -> None:
        """Checks that no other supervisor has this name, because its tokens and workers would be replaced.

        Raises:
            TqError: BAD_CONFIG.
        """
        homes = standbys.homes_of(db, self._name, after=now - 3 * SEEN_S * MICROSECOND)
        if leader.name == self._name:
            homes.append(leader.home)
        # The same home under another host name is that of a container that was created again.
        if any(_uuid(home) != _uuid(self._id) for home in homes):
            raise TqError(
                ErrorCode.BAD_CONFIG,
                f"another supervisor of this database has the name {self._name}",
                "give this one another by the setting name",
            )

    def close(self) -> None:
        """Removes what was stored of this supervisor, if the database answers."""
        if self._db is not None:
            with contextlib.suppress(DBAPIError):
                self._db.begin()
                standbys.forget(self._db, self._id, name=self._name)
                self._db.commit()
            self._disconnect()

    def _disconnect(self) -> None:
        if self._db is not None:
            with contextlib.suppress(DBAPIError):
                self._db.close()
        self._db = None
