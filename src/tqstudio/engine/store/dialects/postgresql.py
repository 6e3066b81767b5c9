"""Holds what is particular to PostgreSQL: settings of connections, the lock of writers, and triggers."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from sqlalchemy import URL, Column, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from tqstudio.engine.store.dialects import TRANSACTION
from tqstudio.errors import ErrorCode, TqError

OLDEST = 16
"""The oldest major version that the tests run on."""
LOCK_TIMEOUT_S = 12
"""How long a writer waits for another one, longer than the server needs to notice that its client is gone."""
_LOCK_NOT_AVAILABLE = "55P03"
_SILENCE_S = 10
"""After which a server that does not answer, or a client that holds a transaction open, counts as gone."""
_WRITER = 0x7471_7374
"""Number of the advisory lock that a writing connection holds as long as it is open: no two write, and one
that was cut off can write nothing more once another has the lock."""
_LOCK = f"SELECT pg_advisory_lock({_WRITER})"
_HELD = (
    "FROM pg_stat_activity JOIN pg_locks USING (pid) WHERE datname = current_database()"
    f" AND locktype = 'advisory' AND objid = {_WRITER} AND granted"
)
_HOLDER = f"SELECT coalesce(host(client_addr), 'this machine'), application_name {_HELD}"
_BEGIN = "SELECT pg_current_xact_id()::text"
_COMMIT_STATUS = "SELECT pg_xact_status(CAST(%s AS xid8))"
_ASKED_S = 30.0
"""How long the fate of a transaction is asked for."""
_ASK_S = 0.2
NOW_US = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
_END_WRITER = f"SELECT pg_terminate_backend(pid) {_HELD} AND backend_start < to_timestamp(%s / 1000000.0)"
_NEWEST = "SELECT max(id) FROM supervisor"
_IS_HELD = f"SELECT 1 {_HELD}"
HAS_VERSION = "SELECT 1 WHERE to_regclass('alembic_version') IS NOT NULL"
"""Whether the database has a schema."""
COLUMNS = (
    "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
)
"""Table and name of every column."""
SIZE = "SELECT pg_database_size(current_database())"
VERSION = "SHOW server_version"

_SESSION = {
    "jit": "off",  # compiling costs more than any of the statements
    "lock_timeout": f"{LOCK_TIMEOUT_S}s",
    "idle_in_transaction_session_timeout": f"{_SILENCE_S}s",
    "tcp_user_timeout": f"{_SILENCE_S}s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "synchronous_commit": "on",
    "timezone": "UTC",
}
_CLIENT = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "client_encoding": "utf8",  # a server without an encoding would answer bytes
}


@lru_cache(maxsize=8)
def engine_of(url: URL, *, read_only: bool = False, leads: bool = True) -> Engine:
    """Returns the engine of a database; a connection is for one thread.

    A transaction that only reads sees one state of the database; one that may write locks the
    database as long as it is open.

    Args:
        leads: whether a writing connection takes the lock of the writer. One of a supervisor that stands by
            does not: it writes only its own row and tokens.

    Raises:
        TqError: BAD_CONFIG without the driver; a connection raises it if the server is too old.
    """
    given: dict[str, Any] = {
        **_CLIENT,
        "tcp_user_timeout": _SILENCE_S * 1000,
        "application_name": f"tqstudio on {socket.gethostname()}",
        "options": " ".join(f"-c {name}={value}" for name, value in _SESSION.items()),
    }
    isolation: dict[str, Any] = {"isolation_level": "READ COMMITTED"}
    if read_only:
        isolation = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    try:
        engine = create_engine(
            url.set(drivername="postgresql+psycopg"),
            poolclass=NullPool,
            connect_args=given,
            execution_options=isolation,
        )
    except ModuleNotFoundError as error:
        raise TqError(
            ErrorCode.BAD_CONFIG,
            f"the driver of PostgreSQL is not installed: {error}",
            "install it with: pip install 'tqstudio[postgresql]', uv tool install or pipx install --force",
        ) from None
    event.listen(engine, "connect", _require_version)
    if leads and not read_only:
        event.listen(engine, "connect", _lock)
        event.listen(engine, "begin", _begin)
    return engine


def _require_version(raw: Any, _record: object) -> None:
    found: int = raw.info.server_version
    if found // 10_000 < OLDEST:
        raise TqError(
            ErrorCode.BAD_CONFIG,
            f"the database is on PostgreSQL {found // 10_000}, and tqstudio needs {OLDEST} or newer",
            "upgrade that server, or use another one",
        )


def _lock(raw: Any, _record: object) -> None:
    """Takes the lock of the writer.

    Raises:
        TqError: ALREADY_RUNNING, BAD_CONFIG.
    """
    if (encoding := raw.info.parameter_status("server_encoding")) != "UTF8":
        raise TqError(
            ErrorCode.BAD_CONFIG,
            f"the database has the encoding {encoding}, which cannot store every name",
            "create one with: CREATE DATABASE NAME ENCODING 'UTF8' TEMPLATE template0",
        )
    try:
        with raw.cursor() as cursor:
            cursor.execute(_LOCK)
    except Exception as error:
        raw.rollback()
        if getattr(error, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
            raise
        with raw.cursor() as cursor:
            held_by = " as ".join(cursor.execute(_HOLDER).fetchone() or ("unknown",))
        raise TqError(
            ErrorCode.ALREADY_RUNNING,
            f"another supervisor uses this database of PostgreSQL, from {held_by}",
            "stop that one first, stand by for it (--standby), or give this one a database of its own",
        ) from None
    raw.commit()


def end_writer(connection: Connection, expired_at: int) -> None:
    """Ends the connection of a supervisor that leads no longer, but may still hold the lock of the writer.

    Args:
        expired_at: when its lease ran out, by the database's clock. Later connections are kept: they are of a
            new leader that has stored no lease yet.
    """
    connection.exec_driver_sql(_END_WRITER, (expired_at,))


def newest_supervisor(connection: Connection) -> int | None:
    """Returns the row of the supervisor that began to lead last."""
    newest: int | None = connection.exec_driver_sql(_NEWEST).scalar()
    return newest


def has_writer(connection: Connection) -> bool:
    """Whether a connection has the lock of the writer."""
    return connection.exec_driver_sql(_IS_HELD).first() is not None


def _begin(connection: Connection) -> None:
    connection.info.pop(TRANSACTION, None)
    connection.info[TRANSACTION] = connection.exec_driver_sql(_BEGIN).scalar_one()


def was_committed(connection: Connection, number: str) -> bool | None:
    """Whether a transaction was committed whose connection broke; None if the server cannot be asked.

    Args:
        connection: the broken one, which is opened again. It gets the lock of writers once that
            transaction has ended.
    """
    until = time.monotonic() + _ASKED_S
    while time.monotonic() < until:
        try:
            return bool(connection.exec_driver_sql(_COMMIT_STATUS, (number,)).scalar() == "committed")
        except DBAPIError:
            time.sleep(_ASK_S)
        finally:
            connection.rollback()
    return None


_BODY = """
BEGIN
    IF TG_OP <> 'INSERT' THEN
        UPDATE job_count SET n = n - 1 WHERE status = old.status AND old.deleted_at IS NULL;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        UPDATE job_count SET n = n + 1 WHERE status = new.status AND new.deleted_at IS NULL;
    END IF;
    RETURN NULL;
END
"""


@contextlib.contextmanager
def bulk_insert(connection: Connection) -> Iterator[None]:
    """Prepares a transaction for many new jobs, which are counted at its end.

    The triggers are off meanwhile: each change of a count leaves an old row until the transaction ends, and
    the next change passes all of them.
    """
    connection.exec_driver_sql("ALTER TABLE job DISABLE TRIGGER USER")
    yield
    connection.exec_driver_sql("ALTER TABLE job ENABLE TRIGGER USER")


def analyze(connection: Connection) -> None:
    """Does after the copy of a whole database what the server does later by itself: plans are poor before."""
    connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql("VACUUM ANALYZE")


_LAST_IDS = (
    "SELECT regexp_replace(sequencename, '_(id|seq)_seq$', ''), coalesce(last_value, 0) FROM pg_sequences"
    " WHERE schemaname = current_schema()"
)
_RAISE_ID = "SELECT setval(pg_get_serial_sequence(%s, %s), %s)"


def last_ids(connection: Connection) -> dict[str, int]:
    """Returns the last id that was given out, by table."""
    return {row[0]: row[1] for row in connection.exec_driver_sql(_LAST_IDS)}


def advance_sequence(connection: Connection, column: Column[Any], last: int) -> None:
    """Has the next id of a table follow the one given."""
    connection.exec_driver_sql(_RAISE_ID, (column.table.name, column.name, last))


_CHANGED = "old.status <> new.status OR (old.deleted_at IS NULL) <> (new.deleted_at IS NULL)"
_CALL = "EXECUTE FUNCTION count_jobs()"
SCHEMA = (
    f"CREATE FUNCTION count_jobs() RETURNS trigger LANGUAGE plpgsql AS $${_BODY}$$",
    f"CREATE TRIGGER job_count_insert_delete AFTER INSERT OR DELETE ON job FOR EACH ROW {_CALL}",
    "CREATE TRIGGER job_count_update AFTER UPDATE OF status, deleted_at ON job"
    f" FOR EACH ROW WHEN ({_CHANGED}) {_CALL}",
)
"""What follows the tables in a new database: the triggers that keep the counts of jobs."""
