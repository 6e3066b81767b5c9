"""A connection to PostgreSQL that breaks: nothing is lost or done twice, and one supervisor alone writes."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import URL

import postgres
from tqstudio.engine.store.db.connection import Connection, connect, shown, url_of
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.schema import migrate
from tqstudio.engine.store.dialects import postgresql
from tqstudio.engine.store.machine import supervisors
from tqstudio.errors import ErrorCode, TqError

from .test_database import note, words

Cut = Literal["before", "after"]
_COMMIT = b"COMMIT\0"


class Proxy:
    """A line to the server that can break at a commit, or altogether."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.cut: Cut | None = None
        """Break at the next commit: before the server gets it, or before the client gets the answer."""
        self.is_down = False
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, of: URL) -> URL:
        port = self._listener.getsockname()[1]
        return of.set(host="127.0.0.1", port=port, query={})

    def close(self) -> None:
        self._listener.close()
        self.hang_up()

    def hang_up(self) -> None:
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.is_down:
                    client.close()
                    continue
                server = socket.socket(socket.AF_UNIX)
                server.connect(postgres.socket_path())
                self._open += [client, server]
                threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        with client, server, selectors.DefaultSelector() as ready, contextlib.suppress(OSError):
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while True:
                for key, _ in ready.select():
                    data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                    if not data:
                        return
                    if key.fileobj is client and self.cut is not None and _COMMIT in data:
                        how, self.cut = self.cut, None
                        if how == "after":
                            server.sendall(data)
                            server.recv(65536)
                        return
                    key.data.sendall(data)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    proxy = Proxy()
    yield proxy
    proxy.close()


@pytest.fixture
def opened(proxy: Proxy) -> Iterator[Database]:
    address = postgres.empty_database()
    migrate(address)
    opened = Database(proxy.url(address))
    opened.open()
    yield opened
    opened.close()


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_commit_whose_answer_is_lost_happens_once(opened: Database, proxy: Proxy, cut: Cut) -> None:
    opened.write_now(note, "first")
    proxy.cut = cut
    assert opened.write_now(note, "second") == len("second")
    assert proxy.cut is None
    assert opened.read_now(words) == ["first", "second"]


@pytest.mark.parametrize("cut", ["before", "after"])
def test_the_events_of_such_a_commit_are_sent_once(opened: Database, proxy: Proxy, cut: Cut) -> None:
    sent: list[str] = []

    async def run() -> None:
        opened.bind(lambda events: sent.extend(str(event.trigger) for event in events))
        proxy.cut = cut
        await asyncio.gather(*(opened.write(note, f"w{number}") for number in range(5)))

    asyncio.run(run())
    assert sent == [f"w{number}" for number in range(5)] == opened.read_now(words)


def test_a_rollback_that_fails_with_its_connection_ends_no_later_write(
    opened: Database, proxy: Proxy
) -> None:
    def refused(db: Connection) -> None:
        note(db, "never")
        proxy.hang_up()
        raise TqError(ErrorCode.REFUSED, "for a reason of its own")

    with pytest.raises(TqError, match="for a reason of its own"):
        opened.write_now(refused)
    opened.write_now(note, "later")
    assert opened.read_now(words) == ["later"]


def test_an_idle_connection_that_was_dropped_is_not_noticed(opened: Database, proxy: Proxy) -> None:
    opened.write_now(note, "first")
    assert opened.read_now(words) == ["first"]
    proxy.hang_up()
    opened.write_now(note, "second")
    assert opened.read_now(words) == ["first", "second"]
    assert opened.refusal is None


def test_a_server_that_is_gone_is_named_and_its_return_noticed(
    opened: Database, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.write_now(note, "first")
    monkeypatch.setattr(postgresql, "_ASKED_S", 0.0)
    proxy.is_down = True
    proxy.hang_up()
    for ask in (lambda: opened.write_now(note, "lost"), lambda: opened.read_now(words)):
        with pytest.raises(TqError, match="cannot be reached") as refused:
            ask()
        assert refused.value.code is ErrorCode.DATABASE_UNREACHABLE

    async def write() -> None:
        await opened.write(note, "refused at once")

    with pytest.raises(TqError):
        asyncio.run(write())
    proxy.is_down = False
    asyncio.run(opened.write_again(note, "second"))  # type: ignore[arg-type]
    asyncio.run(write())
    assert opened.read_now(words) == ["first", "second", "refused at once"]


def test_a_commit_of_unknown_fate_is_not_repeated(
    opened: Database, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "_ASKED_S", 0.0)
    runs: list[str] = []

    def once(db: Connection) -> None:
        runs.append("run")
        note(db, "unknown")

    proxy.cut = "after"
    with pytest.raises(TqError) as refused:
        opened.write_now(once)
    assert refused.value.code is ErrorCode.DATABASE_UNREACHABLE
    assert runs == ["run"]
    assert opened.read_now(words) == ["unknown"]


@pytest.mark.usefixtures("impatient")
def test_a_second_writer_is_refused_and_a_reader_is_not() -> None:
    address = postgres.empty_database()
    migrate(address)
    with contextlib.closing(connect(address)):
        with pytest.raises(TqError, match="another supervisor uses this database") as refused:
            connect(address)
        connect(address, read_only=True).close()
    assert refused.value.code is ErrorCode.ALREADY_RUNNING
    connect(address).close()


@pytest.mark.usefixtures("impatient")
def test_one_that_lost_its_connection_to_another_writes_nothing(proxy: Proxy) -> None:
    address = postgres.empty_database()
    migrate(address)
    first, taken = Database(proxy.url(address)), list[TqError]()
    first.open()

    async def run() -> None:
        first.bind(on_lost_lead=taken.append)
        await first.write(note, "mine")
        proxy.hang_up()
        with contextlib.closing(await asyncio.to_thread(connect, address)):
            for _ in range(2):
                with pytest.raises(TqError) as refused:
                    await first.write(note, "too late")
                assert refused.value.code is ErrorCode.DATABASE_UNWRITABLE
        assert await first.read(words) == ["mine"]

    try:
        asyncio.run(run())
    finally:
        first.close()
    assert taken


def test_one_that_gets_its_lock_back_writes_nothing_if_another_has_led(
    opened: Database, proxy: Proxy
) -> None:
    def begin(db: Connection) -> int:
        return supervisors.begin(db, pid=1, version="1", now=1, lease_us=1)[0]

    opened.supervisor = opened.write_now(begin)
    proxy.hang_up()
    assert opened.write_now(note, "first"), "none has led since"
    opened.require_lead()
    opened.write_now(begin)
    proxy.hang_up()
    for _ in range(2):
        with pytest.raises(TqError, match="another supervisor has led the queue") as caught:
            opened.write_now(note, "second")
        assert caught.value.code is ErrorCode.DATABASE_UNWRITABLE
    with pytest.raises(TqError):
        opened.require_lead()
    assert opened.read_now(words) == ["first"]


@pytest.mark.usefixtures("impatient")
def test_one_that_gets_too_few_connections_keeps_no_lock() -> None:
    address, role = postgres.empty_database(), f"r{uuid4().hex}"
    migrate(address)
    postgres.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 1")
    with psycopg.connect(address.render_as_string(hide_password=False), autocommit=True) as admin:
        admin.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")
    with pytest.raises(TqError) as refused:
        Database(address.set(username=role)).open()
    assert refused.value.code is ErrorCode.DATABASE_UNREACHABLE
    connect(address).close()


def _statement(sql: str) -> Callable[[Connection], object]:
    return lambda db: db.execute(sql)


def test_a_read_only_server_is_unwritable() -> None:
    address = postgres.empty_database()
    migrate(address)
    opened = Database(address)
    postgres.execute(f"ALTER DATABASE {address.database} SET default_transaction_read_only = on")
    opened.open()
    try:
        with pytest.raises(TqError, match="cannot be written") as refused:
            opened.write_now(note, "no")
        assert refused.value.code is ErrorCode.DATABASE_UNWRITABLE
        assert opened.read_now(words) == []
    finally:
        opened.close()


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("postgresql://postgres@/nothere?host={folder}", ErrorCode.PERMISSION),
        ("postgresql://nobody@/postgres?host={folder}", ErrorCode.PERMISSION),
        ("postgresql://postgres@127.0.0.1:1/postgres", ErrorCode.DATABASE_UNREACHABLE),
        ("postgresql://postgres@/postgres?host={folder}/elsewhere", ErrorCode.DATABASE_UNREACHABLE),
    ],
)
def test_what_cannot_be_opened(url: str, code: ErrorCode) -> None:
    address = url_of(url.format(folder=Path(postgres.socket_path()).parent))
    with pytest.raises(TqError) as refused:
        Database(address).open()
    assert refused.value.code is code
    assert refused.value.hint


def test_the_oldest_version_is_one_that_is_tested() -> None:
    assert postgresql.OLDEST == postgres.OLDEST


@pytest.mark.fault(
    "The server is older than PostgreSQL 16", "`BAD_CONFIG` names both versions", area="database"
)
@pytest.mark.parametrize("read_only", [True, False])
def test_an_older_server_is_refused_by_a_sentence(monkeypatch: pytest.MonkeyPatch, read_only: bool) -> None:
    monkeypatch.setattr(postgresql, "OLDEST", postgres.NEWEST + 1)
    with pytest.raises(TqError, match="is on PostgreSQL 18, and tqstudio needs 19 or newer") as refused:
        connect(postgres.empty_database(), read_only=read_only)
    assert refused.value.code is ErrorCode.BAD_CONFIG
    assert refused.value.hint


@pytest.mark.parametrize("text", ["mysql://a/b", "postgresql://host", "postgresql", "sqlite:///a.db", "://"])
def test_what_is_no_url_of_postgresql(text: str) -> None:
    with pytest.raises(TqError) as refused:
        url_of(text)
    assert refused.value.code is ErrorCode.BAD_CONFIG


def test_a_password_is_not_shown() -> None:
    assert "secret" not in shown(url_of("postgresql://me:secret@db.example/queue"))
