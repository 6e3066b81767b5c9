"""Keeps the database of a running supervisor sound and small, without delaying its writes.

VACUUM blocks them for half a minute per GB; free pages are given back in steps of 30 ms instead. The check
reads on a connection and a thread of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog

from tqstudio.engine.files import bounded_io
from tqstudio.engine.store.db import integrity, opening
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.opening import Remedy
from tqstudio.engine.store.dialects import sqlite
from tqstudio.errors import TqError

FIRST_S = 3600.0
"""From the start, whose own check is short, to the first whole one."""
INTERVAL_S = 7 * 86_400.0
PATIENCE_S = 86_400.0
"""How long a check that is due waits for a moment without running jobs."""
STEP_PAGES = 1024
_KEPT_FREE = 5
"""1/N of the pages may be free: they are used again, and moving others costs writes."""


class WeeklyCheck:
    """Checks all of a file of SQLite, once a week. PostgreSQL is its administrator's."""

    def __init__(self, db: Database, now: Callable[[], float] = time.monotonic) -> None:
        self._db, self._now = db, now
        self._due = now() + FIRST_S
        self.damage: TqError | None = None
        """What the last check found."""

    async def tick(self, *, idle: bool) -> None:
        """Check if it is due. Called often; a shutdown does not wait for it."""
        late, path = self._now() - self._due, self._db.address
        if not isinstance(path, Path) or late < 0 or (not idle and late < PATIENCE_S):
            return
        self._due = self._now() + INTERVAL_S
        began = time.monotonic()
        problem = await bounded_io.on_a_thread(partial(opening.problem_of, path))
        took = round(time.monotonic() - began, 1)
        if problem is not None and problem.remedy is Remedy.RECOUNT:
            await self._db.write(integrity.recount)
            structlog.get_logger().warning("jobs were counted again", found=problem.text)
            problem = None
        self.damage = None if problem is None else problem.error(path)
        if self.damage is None:
            structlog.get_logger().info("the database was checked", seconds=took)
        else:
            structlog.get_logger().error(
                "the database is damaged", found=self.damage.message, hint=self.damage.hint, seconds=took
            )


def has_spare_pages(db: Connection) -> bool:
    """Whether so much of the file is free that it should become smaller, and can."""
    pages, free, mode = (
        int(db.execute(each).scalar_one()) for each in (sqlite.PAGES, sqlite.FREE_PAGES, sqlite.AUTO_VACUUM)
    )
    return mode == sqlite.INCREMENTAL and free > STEP_PAGES and free * _KEPT_FREE > pages


def give_back_pages(db: Connection) -> None:
    """Return up to `STEP_PAGES` free pages to the file system."""
    sqlite.free_pages(db.raw, STEP_PAGES)
