"""Decides whether a missing source was removed, or its disk is unmounted, so that its job should wait.

Reads the kernel's mount table, which is available even if a disk does not answer. Sources are unavailable if
their mount point is not mounted now, but was earlier in this supervisor's life or is in /etc/fstab. A
supervisor that started before the disk was mounted does not know of it: for files added earlier, a missing or
empty folder counts as an unmounted disk.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from functools import partial

from tqstudio.engine.files import mounts
from tqstudio.engine.files.bounded_io import BoundedIO, NoAnswer
from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.retry import RESOURCE_WAIT_S
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import absent_sources
from tqstudio.engine.store.jobs.absent_sources import AbsentSource
from tqstudio.errors import MEANINGS, ErrorCode, Problem, TqError
from tqstudio.paths import display

_REMEMBERED = 1000
"""Limit for unmounted mount points; containers create and remove thousands."""


class SourceDisks:
    """Remembers mount points, and decides about missing sources.

    Args:
        started_at: start of this supervisor, µs since 1970 in UTC.
    """

    def __init__(self, db: Database, bounded_io: BoundedIO, *, started_at: int) -> None:
        self._db, self._bounded_io, self._started_at = db, bounded_io, started_at
        self._mounted = mounts.points()
        self._gone = dict.fromkeys(mounts.expected() - self._mounted)
        self._away: dict[bytes, tuple[float, str]] = {}
        """Folders with unavailable files: when that was found, and why."""

    def note(self) -> None:
        """Update the known mount points from the kernel's table."""
        now = mounts.points()
        gone = self._gone | dict.fromkeys(self._mounted - now)
        self._gone = dict.fromkeys([point for point in gone if point not in now][-_REMEMBERED:])
        self._mounted = now

    async def away(self, job: int) -> TqError | None:
        """SOURCE_AWAY if the source of a job is unavailable, or was for a moment; None if it was removed."""
        absentee = await self._db.read(absent_sources.of_job, job)
        if absentee is None:
            return None
        self.note()
        reason = await self._reason(_place(absentee), absentee)
        if reason is not None:
            return TqError(ErrorCode.SOURCE_AWAY, f"{display(absentee.source)} is missing: {reason}")
        with contextlib.suppress(OSError):
            if await self._bounded_io.run(absentee.source, partial(os.path.exists, absentee.source)):
                return TqError(
                    ErrorCode.SOURCE_AWAY,
                    f"the file was missing for a moment; it is at {display(absentee.source)} again",
                    "nothing to do: the job resumes automatically",
                )
        return None

    def problem(self, folder: bytes) -> Problem | None:
        """Why the files of a drop folder are unavailable, for display."""
        reason = self._unmounted(folder)
        if reason is None and folder in self._away:
            found_at, why = self._away[folder]
            # The check is not repeated once no job waits for this folder.
            reason = why if time.monotonic() - found_at < 2 * RESOURCE_WAIT_S else None
        if reason is None:
            return None
        return Problem(ErrorCode.SOURCE_AWAY, reason, MEANINGS[ErrorCode.SOURCE_AWAY].hint)

    async def look_again(self) -> None:
        """Release the jobs whose source is available again; the others continue to wait."""
        self.note()
        away: dict[tuple[bytes, bool], str | None] = {}
        while waiting := await self._db.read(absent_sources.due, now=now_us()):
            for absentee in waiting:
                key = (_place(absentee), self._is_older(absentee))
                if key not in away:
                    away[key] = await self._reason(key[0], absentee)
            is_away = {one.job: away[_place(one), self._is_older(one)] is not None for one in waiting}
            await self._settle(is_away)

    async def _settle(self, is_away: dict[int, bool]) -> None:
        now = now_us()
        settle = partial(
            absent_sources.settle,
            away=[job for job, away in is_away.items() if away],
            back=[job for job, away in is_away.items() if not away],
            now=now,
            until=now + int(RESOURCE_WAIT_S * MICROSECOND),
        )
        await self._db.write(settle)

    def _is_older(self, absentee: AbsentSource) -> bool:
        """Whether it was added before this supervisor started, which may never have seen the disk."""
        return absentee.added_at < self._started_at

    async def _reason(self, place: bytes, absentee: AbsentSource) -> str | None:
        """Why a source at this path is unavailable; None if it was removed."""
        reason = await self._judge(place, absentee)
        if reason is None:
            self._away.pop(place, None)
        else:
            self._away[place] = time.monotonic(), reason
        return reason

    async def _judge(self, place: bytes, absentee: AbsentSource) -> str | None:
        if (reason := self._unmounted(place)) is not None:
            return reason
        try:
            found = await self._bounded_io.run(place, partial(_look, place))
        except NoAnswer as error:
            return str(error.strerror)
        except OSError as error:
            return f"{display(place)} cannot be read ({error.strerror})"
        real, entries = found
        if (reason := self._unmounted(real)) is not None:
            return reason
        is_older = self._is_older(absentee)
        if entries is None and (is_older or absentee.folder is not None):
            return f"the folder {display(place)} is missing"
        if entries == 0 and is_older:
            return f"the folder {display(place)} is empty; its disk may not be mounted"
        return None

    def _unmounted(self, path: bytes) -> str | None:
        for point in self._gone:
            if mounts.is_within(path, point):
                return f"the disk of {display(point)} is not mounted"
        return None


def _place(absentee: AbsentSource) -> bytes:
    """The folder whose disk is checked."""
    return absentee.folder or os.path.dirname(absentee.source)


def _look(place: bytes) -> tuple[bytes, int | None]:
    """Resolve a folder, and return whether it has any entries: 1 or 0; None if it is no folder."""
    real = os.path.realpath(place)
    try:
        with os.scandir(place) as entries:
            return real, _any(entries)
    except (FileNotFoundError, NotADirectoryError):
        return real, None
    except PermissionError:
        return real, 1


def _any(entries: Iterable[object]) -> int:
    return int(any(True for _ in entries))
