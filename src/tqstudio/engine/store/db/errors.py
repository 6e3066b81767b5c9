"""What SQLite says of a file that is damaged or busy, or of its disk, as an error a person can act on."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tqstudio.engine.files.volumes import volume_of
from tqstudio.engine.store.db.connection import BUSY_TIMEOUT_S
from tqstudio.errors import ErrorCode, TqError
from tqstudio.units import size

_NOTHING_FREE_BYTES = 1_000_000
_PRIMARY = 0xFF
"""Bits of an error code that name its kind; the others say where it came from."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
# A full disk also shows as a write, a sync or a map of shared memory that did not work.
_PERHAPS_FULL = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
_CLOSED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY)
REPAIR = (
    "its indexes do not match its tables, which are sound: stop the supervisor (tqstudio down), and rebuild"
    " them with: tqstudio doctor --repair"
)
LOST_ROWS = (
    "jobs may be lost: put a backup in its place (docs/backup.md), or go on with the jobs that are there:"
    " tqstudio doctor --repair"
)


def told(error: BaseException, path: Path, *, writing: bool = False) -> BaseException:
    """The TqError for trouble with the file; other errors as they are.

    Args:
        writing: it was open, and something was to be written: what cannot be opened now is the disk's fault.
    """
    if not isinstance(error, sqlite3.DatabaseError):
        return error
    kind = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
    if kind == sqlite3.SQLITE_FULL or (kind in _PERHAPS_FULL and _nothing_free(path)):
        return full(path)
    if kind == sqlite3.SQLITE_IOERR or (writing and kind in _CLOSED):
        return unwritable(path, str(error))
    if kind in _DAMAGED:
        return damaged(path, str(error))
    if kind in _BUSY:
        return busy(path)
    if kind in _CLOSED:
        return TqError(ErrorCode.PERMISSION, f"the database {path} cannot be opened: {error}")
    return error


def full(path: Path) -> TqError:
    volume = volume_of(path)
    free = f" ({size(volume.free)} free)" if volume is not None else ""
    if volume is not None and volume.files == 0:
        free = " (no file, or inode, is free)"
    return TqError(
        ErrorCode.DISK_LOW,
        f"the disk of the database {path} is full{free}: nothing can be changed for now",
        f"free some space at {path.parent}; everything goes on by itself",
    )


def unwritable(path: Path, why: str) -> TqError:
    # A quota that is used up shows as an I/O error, as a broken disk does.
    return TqError(
        ErrorCode.DATABASE_UNWRITABLE,
        f"the disk of the database {path} does not take writes: {why}",
        f"see to the disk of {path.parent} (quota, mount, the kernel's log); everything goes on by itself",
    )


def damaged(path: Path, why: str, hint: str = "") -> TqError:
    restore = (
        f"it was left as it is; put a backup in its place (see {path.parent / 'backups'} and docs/backup.md),"
        " and look closer with: tqstudio doctor"
    )
    return TqError(ErrorCode.DATABASE_DAMAGED, f"the database {path} is damaged: {why}", hint or restore)


def busy(path: Path) -> TqError:
    return TqError(
        ErrorCode.DATABASE_BUSY,
        f"another program has held the database {path} for more than {BUSY_TIMEOUT_S} s",
        f"end it (fuser {path} tells which it is), then try again",
    )


def _nothing_free(path: Path) -> bool:
    volume = volume_of(path)
    return volume is not None and (volume.free < _NOTHING_FREE_BYTES or volume.files == 0)
