"""Whether the database of a home may be opened: it is never replaced by an empty one.

Everything here only reads, but that a change which a power cut interrupted is taken back, as SQLite does it
whenever it opens such a file. What is wrong is told, and the file is left to the person who has to decide.
"""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

from tqstudio.engine.store import troubles
from tqstudio.engine.store.connection import connect
from tqstudio.home import Home

CHECK_S = 0.5
"""How long a start looks for damage: that is all of some 100 000 jobs in the page cache (4.8 s were measured
for a million). `doctor` looks at every page of any file, and a page that turns out to be damaged later is
told by the call that meets it."""


def require_sound(home: Home) -> None:
    """Look before anything is written.

    Raises:
        TqError: DATABASE_DAMAGED when the file is damaged, or is empty or missing where there was one;
            DATABASE_BUSY when another program keeps it to itself.
    """
    path = home.database
    if not path.exists() or not path.stat().st_size:
        if left := _left_over(home):
            what = "empty" if path.exists() else "missing"
            raise troubles.damaged(path, f"it is {what}, and {left} shows that there was one")
        return
    problem = problem_of(path, CHECK_S)
    if problem is not None:
        raise troubles.damaged(path, problem)


def problem_of(path: Path, within_s: float | None = None) -> str | None:
    """What SQLite finds wrong with a database file, in a word of its own; None when it is sound.

    Args:
        within_s: stop looking after so many seconds; what was not looked at counts as sound.

    Raises:
        TqError: DATABASE_BUSY, DISK_LOW; PERMISSION when it may not be read, or an interrupted change not be
            taken back.
    """
    try:
        try:
            found = _quick_check(path, within_s)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
                raise
            # Before it was in WAL mode, as in its first start or fresh from a backup: one who only reads is
            # not allowed to take the change back.
            connect(path).close()
            found = _quick_check(path, within_s)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return None
        raise troubles.told(error, path) from error
    except sqlite3.DatabaseError as error:
        return str(error)
    return None if found == "ok" else found.replace("\n", " ")


def _quick_check(path: Path, within_s: float | None) -> str:
    db = connect(path, read_only=True)
    # Not by a progress handler: a whole tree is one step to those of SQLite before 3.41, 2 s for a million
    # rows.
    is_cut = threading.Event()

    def cut() -> None:
        is_cut.set()
        db.raw.interrupt()

    alarm = threading.Timer(threading.TIMEOUT_MAX if within_s is None else within_s, cut)
    alarm.start()
    try:
        found = str(db.execute("PRAGMA quick_check(1)").scalar())
        # A walk that was cut short may take for unused what it has not come to.
        return "ok" if is_cut.is_set() else found
    finally:
        alarm.cancel()
        alarm.join()
        db.close()


def _left_over(home: Home) -> str | None:
    """What only a home has in which a database once held jobs."""
    log = home.database.with_name(f"{home.database.name}-wal")
    if log.exists() and log.stat().st_size:
        return str(log)
    jobs = home.logs / "jobs"
    if jobs.is_dir() and any(jobs.iterdir()):
        return str(jobs)
    return None
