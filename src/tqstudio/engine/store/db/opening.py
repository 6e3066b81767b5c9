"""Checks a database before it is opened, copied or repaired, and rebuilds what can be rebuilt without loss.

The checks are the same everywhere; those of a start have a time limit. They only read, except that SQLite
rolls back a transaction that a power cut interrupted. Damage that costs rows is reported, and the file is not
changed.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from tqstudio.engine.files import mounts
from tqstudio.engine.store.db import errors, integrity, schema
from tqstudio.engine.store.db.connection import Address, Connection, connect, dialect_of, shown
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home

CHECK_S = 0.5
"""Time limit of the check at a start: enough for every page and index of some 50 000 jobs, and for the
counts of a million. `doctor` and `backup` check everything; a query that meets other damage fails."""
_INTERRUPT_AGAIN_S = 0.05
_HEADER_WITHOUT_LOG = b"\x01"
"""Byte 18 of a file that is not in WAL mode."""


class Remedy(IntEnum):
    """What helps against a problem; a higher one for a worse problem."""

    RECOUNT = 1
    """The stored counts are below the numbers of jobs: a start counts again, and nothing is lost."""
    REBUILD = 2
    """Indexes lack rows of their tables, which are intact: a start rebuilds them."""
    CONSENT = 3
    """Rows are lost: a user may decide to continue without them."""
    NONE = 4
    """Only a backup, or another version of tqstudio, helps."""


@dataclass(frozen=True, slots=True)
class DatabaseProblem:
    """What is wrong with a database, partly in SQLite's words."""

    text: str
    remedy: Remedy = Remedy.NONE
    code: ErrorCode = ErrorCode.DATABASE_DAMAGED

    def error(self, address: Address) -> TqError:
        """Returns the error for callers that do not repair it."""
        if self.code is not ErrorCode.DATABASE_DAMAGED:
            return TqError(self.code, f"{shown(address)} {self.text}")
        repair = {Remedy.CONSENT: errors.LOST_ROWS, Remedy.NONE: ""}
        return errors.damaged(address, self.text, repair.get(self.remedy, errors.REPAIR))


def require_local(path: Path) -> None:
    """Refuses a database on a network file system: SQLite's log needs memory that only one machine has.

    Raises:
        TqError: BAD_CONFIG.
    """
    kind = mounts.file_system(os.path.realpath(os.fsencode(path)))
    if kind in mounts.NETWORK:
        raise TqError(
            ErrorCode.BAD_CONFIG,
            f"{path} is on a network file system ({kind}), where SQLite may lose jobs",
            "set TQSTUDIO_HOME to a folder on a disk of this machine, or database to PostgreSQL; sources and"
            " outputs may stay there",
        )


def require_intact(home: Home) -> DatabaseProblem | None:
    """Rebuilds indexes and counts of a database before a start if they do not match its tables; returns why.

    A restored backup is checked wholly.

    Raises:
        TqError: DATABASE_DAMAGED if the file is damaged, or empty or missing although there was one;
            DATABASE_VERSION; DATABASE_BUSY if another program has locked it.
    """
    path = home.database
    if is_empty(path):
        return None
    problem = problem_of(path, None if _is_restored(path) else CHECK_S)
    if problem is not None:
        if problem.remedy > Remedy.REBUILD:
            raise problem.error(path)
        repair(path)
    return problem


def require_sound(address: Address) -> None:
    """Checks all of a database before it is copied. Counts that are too low do no harm: the copy is counted.

    Raises:
        TqError: DATABASE_DAMAGED, DATABASE_VERSION.
    """
    problem = problem_of(address)
    if problem is not None and problem.remedy is not Remedy.RECOUNT:
        raise problem.error(address)


def is_empty(path: Path) -> bool:
    """Whether there is no database yet.

    Raises:
        TqError: DATABASE_DAMAGED if there was one.
    """
    if path.exists() and path.stat().st_size:
        try:
            with closing(connect(path, read_only=True)) as db:
                if integrity.version(db) is not None:
                    return False
        except DBAPIError:
            return False  # the check finds out why
    if left := _left_over(path):
        what = "empty" if path.exists() else "missing"
        raise errors.damaged(path, f"it is {what}, but {left} shows that there was one")
    return True


def problem_of(address: Address, within_s: float | None = None) -> DatabaseProblem | None:
    """Checks a database; None if it is intact, as what is not checked `within_s` counts.

    Raises:
        TqError: DATABASE_BUSY, DISK_LOW; PERMISSION if it may not be read, or an interrupted transaction not
            be rolled back.
    """
    try:
        if not isinstance(address, Path):
            with closing(connect(address, read_only=True)) as db:
                return _of_schema(db, address, whole=False) or _of_counts(db)
        try:
            return _check(address, within_s)
        except DBAPIError as error:
            if _code(error) != sqlite3.SQLITE_READONLY_ROLLBACK:
                raise
            # Not in WAL mode yet, as after its first start or a restored backup: a read-only connection may
            # not roll the transaction back.
            connect(address).close()
            return _check(address, within_s)
    except DBAPIError as error:
        if _code(error) == sqlite3.SQLITE_INTERRUPT:
            return None
        is_file = isinstance(address, Path)
        # The file itself is damaged.
        if is_file and (_code(error) == sqlite3.SQLITE_ERROR or not isinstance(error, OperationalError)):
            return DatabaseProblem(str(error.orig))
        raise errors.as_tq_error(error, address) from error


def _code(error: DBAPIError) -> int:
    return int(getattr(error.orig, "sqlite_errorcode", 0))


def _check(path: Path, within_s: float | None) -> DatabaseProblem | None:
    with closing(connect(path, read_only=True)) as db:
        is_whole = within_s is None
        if problem := _of_schema(db, path, whole=is_whole):
            return problem
        with _interrupted_after(db, within_s) as is_late:
            # The time limit may be too short to compare each row: this finds jobs missing from a list.
            difference = integrity.unlisted(db)
            lines = integrity.damage(db) if is_whole or not difference else []
            dangling = 0 if lines or difference else integrity.foreign_key_problems(db)
            # An interrupted check may report pages as unused that it has not reached.
            if is_late.is_set() and not difference:
                return None
        found = _of_lines(db, lines)
        if found is not None and found.remedy is Remedy.NONE:
            return found
        if lines or difference:
            # What is wrong in an index alone does no harm, unless rows are lost too.
            dangling = integrity.foreign_key_problems(db)
        if dangling:
            return DatabaseProblem(f"{dangling} rows refer to missing rows")
        counted = _of_counts(db, difference) if is_whole or difference else None
        return max(filter(None, (found, counted)), key=lambda each: each.remedy, default=None)


def _of_schema(db: Connection, address: Address, *, whole: bool) -> DatabaseProblem | None:
    """Checks the version of the schema, and that tables and columns are those of that version."""
    is_file = isinstance(address, Path)
    version = integrity.version(db) if is_file else schema.schema_version(address, read_only=True)
    if not version:
        return DatabaseProblem("it has no version of its schema (alembic_version)")
    if why := schema.unsupported(version):
        return DatabaseProblem(why, code=ErrorCode.DATABASE_VERSION)
    if version == schema.SCHEMA_VERSION:
        lack = schema.lacking(db.core, dialect_of(address).COLUMNS)
        return DatabaseProblem(lack) if lack else None
    # A start migrates it, so it need not try that before.
    if whole and is_file and (why := schema.why_not_migrated(db.core, version)):
        return DatabaseProblem(f"it cannot be migrated from schema {version}: {why}")
    return None


def _of_lines(db: Connection, lines: list[str]) -> DatabaseProblem | None:
    if not lines:
        return None
    if not integrity.is_in_indexes_alone(db):
        return DatabaseProblem(lines[0])
    if longer := integrity.longer_index(lines):
        # Rebuilt, it would forget that there were more rows.
        return DatabaseProblem(f"the index {longer} has entries of rows that its table lacks", Remedy.CONSENT)
    return DatabaseProblem(lines[0], Remedy.REBUILD)


def _of_counts(db: Connection, difference: str = "") -> DatabaseProblem | None:
    """Compares the stored counts with the table of jobs.

    Args:
        difference: what `integrity.unlisted` found.
    """
    fewer, more = integrity.miscounted(db)
    if fewer:
        return DatabaseProblem(f"it has fewer {', '.join(fewer)} jobs than were counted", Remedy.CONSENT)
    if more:
        return DatabaseProblem(f"it has more {', '.join(more)} jobs than were counted", Remedy.RECOUNT)
    return DatabaseProblem(difference, Remedy.REBUILD) if difference else None


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


def require_counted(address: URL) -> None:
    """Counts the jobs of a database of PostgreSQL again, before a start, if the stored counts are too low.

    Raises:
        TqError: DATABASE_DAMAGED if they are too high, ALREADY_RUNNING.
    """
    if (problem := problem_of(address)) is None:
        return
    if problem.remedy is not Remedy.RECOUNT:
        raise problem.error(address)
    repair(address)


def repair(address: Address, *, consent: bool = False) -> None:
    """Rebuilds every index and count from its table, in one transaction; in PostgreSQL the counts alone.

    The caller holds the home's lock.

    Args:
        consent: a user continues without lost rows.

    Raises:
        TqError: DATABASE_DAMAGED or DATABASE_VERSION if that does not help; the file is unchanged.
            DATABASE_BUSY, DISK_LOW.
    """
    worst = Remedy.CONSENT if consent else Remedy.REBUILD
    if (problem := problem_of(address)) is not None and problem.remedy > worst:
        raise problem.error(address)
    try:
        with closing(connect(address)) as db:
            db.begin()
            try:
                if isinstance(address, Path):
                    integrity.rebuild_indexes(db)
                integrity.recount(db)
                db.commit()
            finally:
                db.rollback()
    except IntegrityError as error:
        raise errors.damaged(address, f"its indexes cannot be rebuilt: {error.orig}") from error
    except DBAPIError as error:
        raise errors.as_tq_error(error, address) from error


def _is_restored(path: Path) -> bool:
    """Whether a file is a copy that no supervisor has opened yet."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(19)[18:] == _HEADER_WITHOUT_LOG
    return False


def _left_over(path: Path) -> str | None:
    """Returns a file or folder that proves that there was a database with jobs."""
    log = path.with_name(f"{path.name}-wal")
    # Beside a file with a header it may be of a first start that was killed.
    has_header = path.exists() and path.stat().st_size
    if not has_header and log.exists() and log.stat().st_size:
        return str(log)
    jobs = Home(path.parent).logs / "jobs"
    if jobs.is_dir() and any(jobs.iterdir()):
        return str(jobs)
    return None
