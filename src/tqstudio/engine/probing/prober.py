"""Probes the sources of waiting jobs in the background: one probe process, one file at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from tqstudio.config import Settings
from tqstudio.engine.host.waiting import wait_until_set
from tqstudio.engine.parts.part import Part
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
from tqstudio.errors import UNWRITTEN, ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.lifecycle import WAITING
from tqstudio.paths import display
from tqstudio.protocol.answers import ErrorView, error_view

LEAVE_TO_WORKERS_S = 1.0
"""By then an idle worker has claimed a new job, and probes its source itself."""
POLL_S = 60.0
"""Interval of the check for work without a hint."""
SAVE_S = 1.0
"""Results are stored at this interval, in one commit."""
RETRY_S = 60.0
STOP_S = 1.0
"""Timeout of `stop`: a process in uninterruptible I/O must not delay the shutdown of the supervisor."""
_BATCH = 32


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of probing a waiting job's source: facts or an error."""

    at: Unprobed
    facts: dict[str, Any] | None = None
    problem: ErrorView | None = None


class Prober(Part):
    """Runs a probe process while there are sources to probe.

    Args:
        found: called with the results that were stored.
        program: the module that the process runs.
    """

    triggers = None

    def __init__(
        self,
        home: Home,
        settings: Settings,
        db: Database,
        found: Callable[[Sequence[ProbeResult]], None],
        program: str = PROGRAM,
    ) -> None:
        self._home, self._settings, self._db = home, settings, db
        self._found, self._program = found, program
        self._hinted = asyncio.Event()
        self._process: ProbeProcess | None = None
        self._task: asyncio.Task[None] | None = None
        self._log = structlog.get_logger()

    async def start(self) -> None:
        """Start probing, unless it is started already."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop probing and kill the process."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task], timeout=STOP_S)

    def wake(self) -> None:
        """Check for work now."""
        self._hinted.set()

    def on_events(self, events: Sequence[EventRow]) -> None:
        """Check for work if any of the events adds a waiting job."""
        if any(event.target in WAITING for event in events):
            self.wake()

    async def _run(self) -> None:
        try:
            while True:
                await asyncio.sleep(LEAVE_TO_WORKERS_S)
                try:
                    await self._probe_waiting()
                    await self._wait_for_work()
                except OSError as error:
                    self._log.warning("waiting files cannot be probed", error=str(error))
                    await asyncio.sleep(RETRY_S)
                except Exception as error:
                    # A database that cannot be written is reported elsewhere.
                    if not isinstance(error, TqError) or error.code not in UNWRITTEN:
                        self._log.exception("probing waiting files failed")
                    await asyncio.sleep(RETRY_S)
        finally:
            await self._end_process(kill=True)

    async def _probe_waiting(self) -> None:
        self._hinted.clear()
        while batch := await self._db.read(videos.unprobed, limit=_BATCH):
            clock = asyncio.get_running_loop().time
            results: list[ProbeResult] = []
            due = clock() + SAVE_S
            for source in batch:
                results.append(await self._probe(source))
                if clock() >= due:
                    await self._save(results)
                    results, due = [], clock() + SAVE_S
            await self._save(results)
            if self._hinted.is_set():
                # While files are being queued, probing them must not delay that.
                return

    async def _wait_for_work(self) -> None:
        """Wait for a hint; if none comes for `probe_idle_s`, end the process."""
        if self._process is not None and not await wait_until_set(self._hinted, self._settings.probe_idle_s):
            await self._end_process(kill=False)
        if self._process is None:
            await wait_until_set(self._hinted, POLL_S)

    async def _probe(self, source: Unprobed) -> ProbeResult:
        answer = await self._request(source.path)
        if isinstance(answer, Died):
            # Retry once, because something else may have killed the process.
            self._log.warning("the probe process died", job=source.job, how=answer.how)
            answer = await self._request(source.path)
        match answer:
            case Probed(size, mtime_ns, facts) if (size, mtime_ns) == (source.size, source.mtime_ns):
                return ProbeResult(source, facts=facts)
            case Probed():
                return ProbeResult(source, problem=error_view(_changed(source.path)))
            case Unusable(error):
                return ProbeResult(source, problem=error)
            case Died(how):
                return ProbeResult(source, problem=error_view(_crashed(source.path, how)))
            case TooSlow():
                return ProbeResult(
                    source, problem=error_view(_slow(source.path, self._settings.probe_timeout_s))
                )

    async def _request(self, path: bytes) -> Answer:
        if self._process is not None and not self._process.alive:
            await self._end_process(kill=True)
        if self._process is None:
            self._process = await ProbeProcess.start(
                self._home, self._settings.probe_memory_bytes, self._program
            )
            self._log.info("probe process started", pid=self._process.pid)
        return await self._process.ask(path, self._settings.probe_timeout_s)

    async def _end_process(self, *, kill: bool) -> None:
        process, self._process = self._process, None
        if process is not None:
            await (process.kill() if kill else process.end())

    async def _save(self, results: Sequence[ProbeResult]) -> None:
        if results and (stored := await self._db.write(_save, results)):
            self._found(stored)


def _save(db: Connection, results: Sequence[ProbeResult]) -> list[ProbeResult]:
    """Store results, except those of files that have changed since; returns the stored ones."""
    return [one for one in results if videos.set_probed(db, one.at, facts=one.facts, error=one.problem)]


def _changed(path: bytes) -> TqError:
    return TqError(
        ErrorCode.SOURCE_CHANGED,
        f"{display(path)} has changed since it was queued",
        "nothing to do: it is probed again once it no longer changes, or when its job runs",
    )


def _crashed(path: bytes, how: str) -> TqError:
    return TqError(
        ErrorCode.SOURCE_UNREADABLE,
        f"the probe process crashed on {display(path)}: {how}",
        "check that it plays elsewhere; its job tries again automatically",
    )


def _slow(path: bytes, limit_s: float) -> TqError:
    return TqError(
        ErrorCode.TIMEOUT,
        f"{display(path)} could not be probed within {limit_s:g} s",
        "check the disk or network share that contains it; its job tries again automatically",
    )
