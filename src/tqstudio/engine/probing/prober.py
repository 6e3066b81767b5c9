"""Works off the files of waiting jobs that nobody has looked at: one probe process, one file at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from tqstudio.config import Settings
from tqstudio.engine.probing.probe_client import (
    PROGRAM,
    Answer,
    Died,
    Probed,
    ProbeProcess,
    TooSlow,
    Unusable,
)
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.library import videos
from tqstudio.engine.store.library.videos import Unprobed
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.lifecycle import JobStatus
from tqstudio.paths import display
from tqstudio.protocol.answers import ErrorView

LEAVE_TO_WORKERS_S = 1.0
"""An idle worker has claimed a new job by then, and looks at its source itself."""
LOOK_AGAIN_S = 60.0
"""Hints say that there is work; this often it is looked for without one."""
SAVE_S = 1.0
"""What was found is stored at least this often: one commit for many files."""
AFTER_TROUBLE_S = 60.0
STOP_S = 1.0
"""A process that hangs in the kernel does not hold up the end of the supervisor."""
_BATCH = 32

_WAITING = (JobStatus.PENDING, JobStatus.PAUSED)


@dataclass(frozen=True, slots=True)
class Looked:
    """What came of the look at a waiting job's file: facts, or what is wrong with it."""

    at: Unprobed
    facts: dict[str, Any] | None = None
    problem: ErrorView | None = None


class Prober:
    """Keeps a probe process at work while the work list is not empty; `start` and `stop` tolerate any order.

    Args:
        found: is told what was stored.
        program: the module that the process runs.
    """

    def __init__(
        self,
        home: Home,
        settings: Settings,
        db: Database,
        found: Callable[[Sequence[Looked]], None],
        program: str = PROGRAM,
    ) -> None:
        self._home, self._settings, self._db = home, settings, db
        self._found, self._program = found, program
        self._hinted = asyncio.Event()
        self._process: ProbeProcess | None = None
        self._task: asyncio.Task[None] | None = None
        self._log = structlog.get_logger()

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End the process at once; nothing that was stored is lost."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task], timeout=STOP_S)

    def wake(self) -> None:
        """There may be work."""
        self._hinted.set()

    def hint(self, events: Sequence[EventRow]) -> None:
        if any(event.target in _WAITING for event in events):
            self.wake()

    async def _run(self) -> None:
        try:
            while True:
                await asyncio.sleep(LEAVE_TO_WORKERS_S)
                try:
                    await self._work_off()
                    await self._rest()
                except OSError as error:
                    self._log.warning("waiting files cannot be looked at", error=str(error))
                    await asyncio.sleep(AFTER_TROUBLE_S)
                except Exception:
                    self._log.exception("looking at waiting files failed")
                    await asyncio.sleep(AFTER_TROUBLE_S)
        finally:
            await self._end_process(kill=True)

    async def _work_off(self) -> None:
        self._hinted.clear()
        while batch := await self._db.read(videos.unprobed, limit=_BATCH):
            clock = asyncio.get_running_loop().time
            looked: list[Looked] = []
            due = clock() + SAVE_S
            for source in batch:
                looked.append(await self._look_at(source))
                if clock() >= due:
                    await self._save(looked)
                    looked, due = [], clock() + SAVE_S
            await self._save(looked)

    async def _rest(self) -> None:
        """Wait for a hint; without one the process is let go after a while."""
        if self._process is not None and not await self._is_hinted(self._settings.probe_idle_s):
            await self._end_process(kill=False)
        if self._process is None:
            await self._is_hinted(LOOK_AGAIN_S)

    async def _is_hinted(self, within_s: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hinted.wait(), within_s)
        return self._hinted.is_set()

    async def _look_at(self, source: Unprobed) -> Looked:
        answer = await self._ask(source.path)
        if isinstance(answer, Died):
            # Something else may have killed it; a file that did so does it again.
            self._log.warning("the probe process died", job=source.job, how=answer.how)
            answer = await self._ask(source.path)
        match answer:
            case Probed(size, mtime_ns, facts) if (size, mtime_ns) == (source.size, source.mtime_ns):
                return Looked(source, facts=facts)
            case Probed():
                return Looked(source, problem=_view(_changed(source.path)))
            case Unusable(error):
                return Looked(source, problem=error)
            case Died(how):
                return Looked(source, problem=_view(_deadly(source.path, how)))
            case TooSlow():
                return Looked(source, problem=_view(_slow(source.path, self._settings.probe_s)))

    async def _ask(self, path: bytes) -> Answer:
        if self._process is not None and not self._process.alive:
            await self._end_process(kill=True)
        if self._process is None:
            self._process = await ProbeProcess.start(
                self._home, self._settings.probe_memory_bytes, self._program
            )
            self._log.info("probe process started", pid=self._process.pid)
        return await self._process.ask(path, self._settings.probe_s)

    async def _end_process(self, *, kill: bool) -> None:
        process, self._process = self._process, None
        if process is not None:
            await (process.kill() if kill else process.end())

    async def _save(self, looked: Sequence[Looked]) -> None:
        if looked and (stored := await self._db.write(_save, looked)):
            self._found(stored)


def _save(db: Connection, looked: Sequence[Looked]) -> list[Looked]:
    """Store what was found, except of files that are known to be others by now."""
    return [one for one in looked if videos.set_probed(db, one.at, facts=one.facts, error=one.problem)]


def _view(error: TqError) -> ErrorView:
    return {"code": error.code.value, "message": error.message, "hint": error.hint}


def _changed(path: bytes) -> TqError:
    return TqError(
        ErrorCode.SOURCE_CHANGED,
        f"{display(path)} has changed since it was queued",
        "nothing: it is looked at again when it has come to rest, or when its job runs",
    )


def _deadly(path: bytes, how: str) -> TqError:
    return TqError(
        ErrorCode.SOURCE_UNREADABLE,
        f"the process that looked at {display(path)} did not survive it: {how}",
        "check that it plays elsewhere; its job tries again by itself",
    )


def _slow(path: bytes, limit_s: float) -> TqError:
    return TqError(
        ErrorCode.TIMEOUT,
        f"{display(path)} could not be looked at within {limit_s:g} s",
        "check the disk or network share it lies on; its job tries again by itself",
    )
