"""Checks the database of a home before it is opened, and rebuilds damaged indexes.

The checks only read, except that SQLite rolls back a transaction that a power cut interrupted. Indexes can be
rebuilt without loss. All other damage is reported, and the file is not changed or replaced.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from tqstudio.engine.store.db import errors, integrity
from tqstudio.engine.store.db.connection import Connection, connect
from tqstudio.errors import TqError
from tqstudio.home import Home

CHECK_S = 0.5
"""Time limit of the check at a start: enough for every page and index of some 50 000 jobs, and for the
counts of a million. `doctor` and `backup` check everything; a query that meets other damage fails."""
_INTERRUPT_AGAIN_S = 0.05


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a database file, in SQLite's words."""

    text: str
    in_indexes: bool = False
    """The tables are intact but the indexes do not match them: rebuilding them loses nothing."""

    def error(self, path: Path) -> TqError:
        """Returns the error for callers that do not repair it."""
        hint = errors.REPAIR if self.in_indexes else ""
        return errors.damaged(path, self.text, hint)


def require_intact(home: Home) -> Problem | None:
    """Rebuilds the indexes of a database before a start if they do not match its tables; returns why.

    Raises:
        TqError: DATABASE_DAMAGED if the file is damaged, or empty or missing although there was one;
            DATABASE_BUSY if another program has locked it.
    """
    path = home.database
    if not path.exists() or not path.stat().st_size:
        if left := _left_over(home):
            what = "empty" if path.exists() else "missing"
            raise errors.damaged(path, f"it is {what}, but {left} shows that there was one")
        return None
    problem = problem_of(path, CHECK_S)
    if problem is not None:
        if not problem.in_indexes:
            raise problem.error(path)
        repair(path)
    return problem


def problem_of(path: Path, within_s: float | None = None) -> Problem | None:
    """Checks a database file; None if it is intact, as what is not checked `within_s` counts.

    Raises:
        TqError: DATABASE_BUSY, DISK_LOW; PERMISSION if it may not be read, or an interrupted transaction not
            be rolled back.
    """
    try:
        try:
            return _check(path, within_s)
        except DBAPIError as error:
            if _code(error) != sqlite3.SQLITE_READONLY_ROLLBACK:
                raise
            # Not in WAL mode yet, as after its first start or a restored backup: a read-only connection may
            # not roll the transaction back.
            connect(path).close()
            return _check(path, within_s)
    except DBAPIError as error:
        if _code(error) == sqlite3.SQLITE_INTERRUPT:
            return None
        # A table is missing, or the file itself is damaged.
        if _code(error) == sqlite3.SQLITE_ERROR or not isinstance(error, OperationalError):
            return Problem(str(error.orig))
        raise errors.as_tq_error(error, path) from error


def _code(error: DBAPIError) -> int:
    return int(getattr(error.orig, "sqlite_errorcode", 0))


def _check(path: Path, within_s: float | None) -> Problem | None:
    with closing(connect(path, read_only=True)) as db:
        with _interrupted_after(db, within_s) as is_late:
            if not integrity.has_version(db):
                return Problem("it has tables, but no version of their schema (alembic_version)")
            # The time limit may be too short to compare each row: this finds jobs missing from a list.
            if within_s is not None and (difference := integrity.unlisted(db)):
                return Problem(difference, in_indexes=True)
            found = _first_line(db, "PRAGMA integrity_check(1)")
            # An interrupted check may report pages as unused that it has not reached.
            if found == "ok" or is_late.is_set():
                return None
        # `quick_check` does not compare indexes with tables.
        return Problem(found, in_indexes=_first_line(db, "PRAGMA quick_check(1)") == "ok")


def _first_line(db: Connection, check: str) -> str:
    return str(db.execute(check).scalar()).replace("\n", " ")


@contextlib.contextmanager
def _interrupted_after(db: Connection, seconds: float | None) -> Iterator[threading.Event]:
    """Interrupts the statements of a connection after a time; then sets the event.

    A progress handler would be too slow: before SQLite 3.41 checking a whole tree is one step, 2 s for a
    million rows.
    """
    is_late, is_over = threading.Event(), threading.Event()

    def interrupt() -> None:
        late = not is_over.wait(threading.TIMEOUT_MAX if seconds is None else seconds)
        while late:
            is_late.set()
            # An interrupt between two statements has no effect on the second.
            db.raw.interrupt()
            late = not is_over.wait(_INTERRUPT_AGAIN_S)

    alarm = threading.Thread(target=interrupt, name="check-alarm", daemon=True)
    alarm.start()
    try:
        yield is_late
    finally:
        is_over.set()
        alarm.join()


def repair(path: Path, *, recount: bool = False) -> None:
    """Rebuilds every index from its table, in one transaction. The caller holds the lock of the home.

    Args:
        recount: also recount the jobs. A count above the number of rows may mean lost jobs, so only a user
            can decide to continue without them.

    Raises:
        TqError: DATABASE_DAMAGED if that does not help; the file is unchanged. DATABASE_BUSY, DISK_LOW.
    """
    try:
        with closing(connect(path)) as db:
            db.begin()
            try:
                integrity.rebuild_indexes(db)
                if recount:
                    integrity.recount(db)
                elif wrong := integrity.miscounted(db):
                    detail = f"the number of {', '.join(wrong)} jobs differs from the stored count"
                    raise errors.damaged(path, detail, errors.LOST_ROWS)
                db.commit()
            finally:
                db.rollback()
    except IntegrityError as error:
        raise errors.damaged(path, f"its indexes cannot be rebuilt: {error.orig}") from error
    except DBAPIError as error:
        raise errors.as_tq_error(error, path) from error


def _left_over(home: Home) -> str | None:
    """Returns a file or folder that proves that the home had a database with jobs."""
    log = home.database.with_name(f"{home.database.name}-wal")
    if log.exists() and log.stat().st_size:
        return str(log)
    jobs = home.logs / "jobs"
    if jobs.is_dir() and any(jobs.iterdir()):
        return str(jobs)
    return None
