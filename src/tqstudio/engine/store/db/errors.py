"""Converts errors of a database (damaged, busy, full, unwritable, unreachable) to a `TqError` with a hint."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import URL
from sqlalchemy.exc import DataError, DBAPIError, InterfaceError, OperationalError, ProgrammingError

from tqstudio.engine.files.volumes import volume_of
from tqstudio.engine.store.db.connection import Address, CommitUnknown, shown
from tqstudio.engine.store.dialects.sqlite import BUSY_TIMEOUT_S
from tqstudio.errors import ErrorCode, TqError
from tqstudio.units import size

_NOTHING_FREE_BYTES = 1_000_000
_PRIMARY = 0xFF
"""Mask of the primary result code in an extended one."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
# A full disk can also appear as a failed write, sync or mapping of shared memory.
_PERHAPS_FULL = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
_CLOSED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY)
_OF_CONNECTIONS = (OperationalError, InterfaceError)
REPAIR = (
    "no row is lost, and the next start repairs it (tqstudio down, then up); without a supervisor so does:"
    " tqstudio doctor --repair"
)
LOST_ROWS = (
    "rows may be lost: restore a backup (docs/backup.md), or continue with the remaining ones:"
    " tqstudio doctor --repair"
)


def as_tq_error(error: BaseException, address: Address, *, writing: bool = False) -> BaseException:
    """Converts errors of the database itself to a TqError; returns other errors unchanged.

    An access error while `writing` to the open file of SQLite means a bad disk.
    """
    if isinstance(error, CommitUnknown):
        error = error.lost
    if not isinstance(address, Path):
        return _of_postgresql(error, address) if isinstance(error, DBAPIError) else error
    return _of_sqlite(error, address, writing)


@contextlib.contextmanager
def converted(address: Address) -> Iterator[None]:
    """Converts the errors of a database within."""
    try:
        yield
    except DBAPIError as error:
        raise as_tq_error(error, address) from error


def _of_sqlite(error: BaseException, path: Path, writing: bool) -> BaseException:
    cause = error.orig if isinstance(error, DBAPIError) else error
    if not isinstance(cause, sqlite3.DatabaseError):
        return error
    kind = getattr(cause, "sqlite_errorcode", 0) & _PRIMARY
    if kind == sqlite3.SQLITE_FULL or (kind in _PERHAPS_FULL and _nothing_free(path)):
        return full(path)
    if kind == sqlite3.SQLITE_IOERR or (writing and kind in _CLOSED):
        return unwritable(path, str(cause))
    if kind in _DAMAGED:
        return damaged(path, str(cause))
    if kind in _BUSY:
        return busy(path)
    if kind in _CLOSED:
        return TqError(ErrorCode.PERMISSION, f"the database {path} cannot be opened: {cause}")
    return error


# A refusal before the connection exists has no SQLSTATE.
_REFUSALS = ("authentication failed", "no pg_hba.conf entry", "does not exist", "no password supplied")
_CROWDED = ("too many ", "remaining connection slots")
_REFUSED = ("28", "3D", "42501")
"""First characters of SQLSTATEs: wrong user or password, no such database, no right."""
_UNREACHABLE = ("08", "57P", "53300")
"""No connection; the server stops or starts; it has too many connections."""
_READ_ONLY, _FULL, _LOCKED, _CORRUPTED = "25006", ("53100", "53200"), "55P03", "XX00"


def _of_postgresql(error: DBAPIError, address: URL) -> BaseException:
    state = str(getattr(error.orig, "sqlstate", None) or "")
    where, why = shown(address), (str(error.orig).strip().splitlines() or ["no answer"])[0]
    is_lost = error.connection_invalidated or (not state and isinstance(error, _OF_CONNECTIONS))
    if state.startswith(_REFUSED) or (not state and any(each in why for each in _REFUSALS)):
        return TqError(
            ErrorCode.PERMISSION,
            f"{where} refuses tqstudio: {why}",
            "check user, password and database in the setting database, and the rights of that user",
        )
    if is_lost or state.startswith(_UNREACHABLE):
        do = "start PostgreSQL, or check its address and the network"
        if any(each in why for each in _CROWDED):
            do = "allow more connections there"
        return TqError(
            ErrorCode.DATABASE_UNREACHABLE,
            f"{where} cannot be reached: {why}",
            f"{do}; the queue resumes automatically",
        )
    if not state and isinstance(error, ProgrammingError):
        return TqError(ErrorCode.BAD_CONFIG, f"the URL in the setting database is refused: {why}")
    if not state and isinstance(error, DataError):
        return TqError(ErrorCode.BAD_REQUEST, f"this text cannot be stored: {why}")  # it has a NUL
    if state in (_READ_ONLY, *_FULL):
        return TqError(
            ErrorCode.DATABASE_UNWRITABLE,
            f"{where} cannot be written: {why}",
            "check the disk of that server, and that it is no standby; the queue resumes automatically",
        )
    if state == _LOCKED:
        return TqError(
            ErrorCode.DATABASE_BUSY,
            f"another program has locked tables of {where}",
            "end its transaction (find it in pg_stat_activity), then try again",
        )
    if state.startswith(_CORRUPTED):
        return TqError(
            ErrorCode.DATABASE_DAMAGED, f"{where} is damaged: {why}", "restore a backup of that database"
        )
    return error


def full(path: Path) -> TqError:
    volume = volume_of(path)
    free = f" ({size(volume.free)} free)" if volume is not None else ""
    if volume is not None and volume.files == 0:
        free = " (no file, or inode, is free)"
    return TqError(
        ErrorCode.DISK_LOW,
        f"the disk of the database {path} is full{free}: nothing can be changed for now",
        f"free some space at {path.parent}; the queue resumes automatically",
    )


def unwritable(path: Path, why: str) -> TqError:
    # An exhausted quota appears as an I/O error, like a broken disk.
    return TqError(
        ErrorCode.DATABASE_UNWRITABLE,
        f"the disk of the database {path} cannot be written: {why}",
        f"check the disk of {path.parent} (quota, mount, kernel log); the queue resumes automatically",
    )


def damaged(address: Address, why: str, hint: str = "") -> TqError:
    where = (
        f"{address.parent / 'backups'} and docs/backup.md" if isinstance(address, Path) else "docs/backup.md"
    )
    restore = f"it was not changed; restore a backup (see {where}); for details run: tqstudio doctor"
    return TqError(
        ErrorCode.DATABASE_DAMAGED, f"the database {shown(address)} is damaged: {why}", hint or restore
    )


def busy(path: Path) -> TqError:
    return TqError(
        ErrorCode.DATABASE_BUSY,
        f"another program has locked the database {path} for more than {BUSY_TIMEOUT_S} s",
        f"end that program (find it with: fuser {path}), then try again",
    )


def _nothing_free(path: Path) -> bool:
    volume = volume_of(path)
    return volume is not None and (volume.free < _NOTHING_FREE_BYTES or volume.files == 0)
