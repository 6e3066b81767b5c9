"""Checks the database of a home before it is opened; a damaged one is never replaced by an empty one.

The checks only read, except that SQLite rolls back a change which a power cut interrupted. What can be
repaired without a loss are indexes: they repeat what the tables hold. Everything else is reported, and the
file is left to the person who has to decide.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tqstudio.engine.store.db import errors, integrity
from tqstudio.engine.store.db.connection import Connection, connect
from tqstudio.errors import TqError
from tqstudio.home import Home

CHECK_S = 0.5
"""How long a start looks for damage: every page and index of some 50 000 jobs, and of a million whether the
lists and the queue have all of them. `doctor` and `backup` check everything; damage that a call meets later
is its error."""
_INTERRUPT_AGAIN_S = 0.05


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a database file, as SQLite says it."""

    text: str
    in_indexes: bool = False
    """The tables are sound and the indexes do not match them: rebuilding them loses nothing."""

    def error(self, path: Path) -> TqError:
        """The error for callers that do not repair it."""
        hint = errors.REPAIR if self.in_indexes else ""
        return errors.damaged(path, self.text, hint)


def require_sound(home: Home) -> Problem | None:
    """Check the database before a start, and rebuild its indexes if they do not match its tables.

    Returns:
        What was repaired.

    Raises:
        TqError: DATABASE_DAMAGED when the file is damaged, or is empty or missing where there was one;
            DATABASE_BUSY when another program keeps it to itself.
    """
    path = home.database
    if not path.exists() or not path.stat().st_size:
        if left := _left_over(home):
            what = "empty" if path.exists() else "missing"
            raise errors.damaged(path, f"it is {what}, and {left} shows that there was one")
        return None
    problem = problem_of(path, CHECK_S)
    if problem is not None:
        if not problem.in_indexes:
            raise problem.error(path)
        repair(path)
    return problem


def problem_of(path: Path, within_s: float | None = None) -> Problem | None:
    """Check a database file; None when it is sound.

    Args:
        within_s: stop after so many seconds; what was not checked by then counts as sound.

    Raises:
        TqError: DATABASE_BUSY, DISK_LOW; PERMISSION when it may not be read, or an interrupted change not be
            taken back.
    """
    try:
        try:
            return _check(path, within_s)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
                raise
            # Before it was in WAL mode, as in its first start or fresh from a backup: one who only reads is
            # not allowed to take the change back.
            connect(path).close()
            return _check(path, within_s)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return None
        if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:
            return Problem(str(error))  # a table is missing
        raise errors.told(error, path) from error
    except sqlite3.DatabaseError as error:
        return Problem(str(error))


def _check(path: Path, within_s: float | None) -> Problem | None:
    with closing(connect(path, read_only=True)) as db:
        with _interrupted_after(db, within_s) as is_late:
            if not integrity.has_version(db):
                return Problem("it has tables, but no version of their schema (alembic_version)")
            # In a large file there is no time to compare each row: this finds the jobs that a list lacks.
            if within_s is not None and (said := integrity.unlisted(db)):
                return Problem(said, in_indexes=True)
            found = _first_line(db, "PRAGMA integrity_check(1)")
            # A walk that was cut short may take for unused what it has not come to.
            if found == "ok" or is_late.is_set():
                return None
        # The same without the comparison of indexes and tables.
        return Problem(found, in_indexes=_first_line(db, "PRAGMA quick_check(1)") == "ok")


def _first_line(db: Connection, check: str) -> str:
    return str(db.execute(check).scalar()).replace("\n", " ")


@contextlib.contextmanager
def _interrupted_after(db: Connection, seconds: float | None) -> Iterator[threading.Event]:
    """Interrupt the statements of a connection after a time; the event says that it was up.

    Not by a progress handler: a whole tree is one step to those of SQLite before 3.41, 2 s for a million
    rows.
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
    """Rebuild every index from its table, whole or not at all. Call it with the lock of the home held.

    Args:
        recount: count the jobs again, too. What is counted and is not in the table may be jobs that were
            lost, so only a person can decide to go on without them.

    Raises:
        TqError: DATABASE_DAMAGED when that does not help; the file is as it was. DATABASE_BUSY, DISK_LOW.
    """
    try:
        with closing(connect(path)) as db:
            db.begin(immediate=True)
            try:
                integrity.rebuild_indexes(db)
                if recount:
                    integrity.recount(db)
                elif wrong := integrity.miscounted(db):
                    said = f"the table has not as many {', '.join(wrong)} jobs as were counted"
                    raise errors.damaged(path, said, errors.LOST_ROWS)
                db.commit()
            finally:
                db.rollback()
    except sqlite3.IntegrityError as error:
        raise errors.damaged(path, f"its indexes cannot be rebuilt: {error}") from error
    except sqlite3.Error as error:
        raise errors.told(error, path) from error


def _left_over(home: Home) -> str | None:
    """What only a home has in which a database once held jobs."""
    log = home.database.with_name(f"{home.database.name}-wal")
    if log.exists() and log.stat().st_size:
        return str(log)
    jobs = home.logs / "jobs"
    if jobs.is_dir() and any(jobs.iterdir()):
        return str(jobs)
    return None
