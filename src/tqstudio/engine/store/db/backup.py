"""Creates complete and checked copies of the database, also while it is in use."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tqstudio import path_checks
from tqstudio.engine.files import durable
from tqstudio.engine.store.db import errors, opening
from tqstudio.engine.store.db.connection import Address
from tqstudio.engine.store.dialects.sqlite import open_raw
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display

_MIGRATION_PREFIX = "before-schema-"
_FULL = (errno.ENOSPC, errno.EDQUOT)


def copy(database: Address, target: Path) -> int:
    """Copies a consistent snapshot of a database to a file of SQLite; returns its size. It appears once it is
    synced.

    Raises:
        TqError: NOT_FOUND without a database, REFUSED if the target exists; PERMISSION, DISK_LOW,
            DATABASE_DAMAGED or DATABASE_BUSY.
    """
    if path_checks.is_there(target):
        raise _taken(target)
    with _checked_copy(database, target) as copied:
        try:
            os.link(copied, target)
        except FileExistsError:
            raise _taken(target) from None
        except OSError as error:
            if error.errno in _FULL:
                raise
            # The file system has no hard links; check and rename, although that is not atomic.
            if path_checks.is_there(target):
                raise _taken(target) from None
            copied.rename(target)
    return target.stat().st_size


def before_migration(database: Path, version: str) -> None:
    """Copies a database before its migration to `version`; only the newest such copy is kept."""
    folder = database.parent / "backups"
    target = folder / f"{_MIGRATION_PREFIX}{version}.db"
    for unfinished in folder.glob(f".{_MIGRATION_PREFIX}*"):  # of a start that was killed
        unfinished.unlink(missing_ok=True)
    with _checked_copy(database, target) as copied:
        copied.replace(target)
    for older in folder.glob(f"{_MIGRATION_PREFIX}*.db"):
        if older != target:
            older.unlink(missing_ok=True)


@contextlib.contextmanager
def _checked_copy(database: Address, target: Path) -> Iterator[Path]:
    """Creates a synced copy next to the target, checks it and its source, and removes it at the end."""
    if isinstance(database, Path) and opening.is_empty(database):
        raise TqError(
            ErrorCode.NOT_FOUND, f"there is no database {database}", "there is nothing to back up yet"
        )
    copied = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite writes into the empty file, which is readable only by its owner.
        os.close(os.open(copied, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600))
        if isinstance(database, Path):
            # Of rows that it has lost a copy may show nothing.
            opening.require_sound(database)
            _vacuum(database, copied)
        else:
            from tqstudio.engine.store.db import copying

            copying.copy(database, copied, live=True)
        opening.require_sound(copied)
        durable.sync(copied)
        yield copied
        durable.sync(target.parent)
    except OSError as error:
        code = ErrorCode.DISK_LOW if error.errno in _FULL else ErrorCode.PERMISSION
        shown = display(os.fsencode(target))
        raise TqError(code, f"{shown} cannot be written: {error.strerror or error}") from error
    finally:
        for name in (copied.name, f"{copied.name}-wal", f"{copied.name}-shm", f"{copied.name}-journal"):
            with contextlib.suppress(OSError):
                copied.with_name(name).unlink()


def _vacuum(database: Path, copied: Path) -> None:
    try:
        with closing(open_raw(database, read_only=True)) as raw:
            raw.execute("VACUUM INTO ?", (str(copied),))
    except UnicodeEncodeError:
        raise TqError(
            ErrorCode.BAD_REQUEST, "the name of a backup must be UTF-8", "choose another name or folder"
        ) from None
    except sqlite3.Error as error:
        kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
        # If the disk is full, it is that of the copy.
        raise errors.as_tq_error(error, copied if kind == sqlite3.SQLITE_FULL else database) from error


def _taken(target: Path) -> TqError:
    return TqError(
        ErrorCode.REFUSED,
        f"{display(os.fsencode(target))} already exists, and a backup never replaces a file",
        "choose another name, or move that file away",
    )
