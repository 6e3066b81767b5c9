"""Detects workers that are blocked by an unresponsive disk, and frees their jobs and slots.

The heartbeat thread of such a worker keeps the lease although its main thread is blocked and ignores control
requests. The worker is killed; if the kernel cannot end it, its slot is reused anyway.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tqstudio.config import Settings
from tqstudio.engine.files.bounded_io import BoundedIO, NoAnswer
from tqstudio.engine.live.ranges import Ranges
from tqstudio.engine.live.running_jobs import LiveJob, RunningJobs
from tqstudio.engine.outputs.workspace import Workspace
from tqstudio.engine.parts.part import Part, Periodic
from tqstudio.engine.queue.completion import Completion
from tqstudio.engine.queue.worker_pool import WorkerPool
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.engine.store.machine import gates
from tqstudio.engine.store.machine.gates import JobVolumes
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import Control

MARGIN_S = 5.0
"""Added to `stall_s`, after which a working worker ends its ffmpeg itself."""
CONTROL_S = 5.0
"""A working worker receives a control request within a second."""
_CHECK_INTERVAL_S = 5.0


_TICK_S = 1.0


class StuckWorkers(Part):
    """Frees jobs and slots of stuck workers; no attempt is counted if a disk does not respond."""

    def __init__(
        self,
        settings: Settings,
        db: Database,
        running_jobs: RunningJobs,
        ranges: Ranges,
        workspace: Workspace,
        bounded_io: BoundedIO,
        completion: Completion,
        pool: WorkerPool,
    ) -> None:
        self._db, self._running_jobs, self._workspace, self._bounded_io = (
            db,
            running_jobs,
            workspace,
            bounded_io,
        )
        self._ranges, self._completion, self._pool = ranges, completion, pool
        self._limit_s = settings.stall_s + MARGIN_S
        self._checked: dict[LeaseToken, float] = {}
        self.every = (Periodic(_TICK_S, self.tick),)

    async def tick(self) -> None:
        """Checks jobs whose worker is blocked."""
        for worker in self._ranges.blocked(self._limit_s, CONTROL_S):
            self._pool.replace(worker, "it was blocked while it made a part of a job")
            self._ranges.forget_worker(worker)
        now = asyncio.get_running_loop().time()
        self._checked = {token: at for token, at in self._checked.items() if now - at < _CHECK_INTERVAL_S}
        quiet = [live for live in self._running_jobs.jobs.values() if self._is_suspect(live)]
        self._checked |= {live.token: now for live in quiet}
        await asyncio.gather(*(self._check(live) for live in quiet))

    def _is_suspect(self, live: LiveJob) -> bool:
        if live.token in self._checked:
            return False
        ignores_control = live.asked != Control.NONE and live.blocked_s >= CONTROL_S
        return ignores_control or live.blocked_s >= self._limit_s

    async def _check(self, live: LiveJob) -> None:
        need = await self._db.read(gates.need_of, live.token.job)
        silence = None if need is None else await self._silence(need)
        now = self._running_jobs.jobs.get(live.token.job)
        if now is None or now.token != live.token or now.blocked_s < live.blocked_s:
            return  # it continued meanwhile
        if self._completion.is_publishing(live.token):
            return
        if silence is not None:
            try:
                error = TqError(ErrorCode.DISK_NOT_RESPONDING, silence)
                await self._completion.fail_for(live.worker, live.token, error)
            except TqError as refused:
                if refused.code is ErrorCode.LOST_LEASE:
                    return  # the worker reported the end meanwhile
                raise
        elif live.blocked_s < self._limit_s:
            return  # a slow disk, perhaps
        why = silence or f"it made no progress for {live.blocked_s:.0f} s"
        self._pool.replace(live.worker, why)

    async def _silence(self, need: JobVolumes) -> str | None:
        """Returns the error of the disk that does not respond; None if both do.

        Reads and writes, because a file system may report its size and still block writes. An unanswered
        call blocks the place: no job is assigned for it until the call returns.
        """
        checks: list[tuple[bytes, Callable[[], None]]] = [
            (need.output_root, partial(_write_to, self._workspace.work_dir(need.output_root))),
            (os.path.dirname(need.source), partial(_read_from, need.source)),
        ]
        answers = await asyncio.gather(
            *(self._bounded_io.run(place, check) for place, check in checks), return_exceptions=True
        )
        return next((answer.strerror for answer in answers if isinstance(answer, NoAnswer)), None)


def _write_to(folder: Path) -> None:
    """Checks that a write returns, successful or not."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"x")
        file.flush()
        os.fsync(file.fileno())


def _read_from(path: bytes) -> None:
    """Checks that a read returns; from the disk, as far as the kernel drops cached pages."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.pread(descriptor, 1, 0)
    finally:
        os.close(descriptor)
