"""Workers that wait for a disk that does not answer: their job and their place go on without them.

Such a worker beats and keeps its lease, for its pulse is a thread of its own, but its main thread hears of no
wish. Only a kill ends it, and where the kernel cannot even do that, its place is given to another process all
the same.
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
from tqstudio.engine.host.clock import (
    now_us,
)
from tqstudio.engine.live.running_jobs import LiveBoard, LiveJob
from tqstudio.engine.outputs.workspace import Workspace
from tqstudio.engine.queue.completion import Results
from tqstudio.engine.queue.worker_pool import WorkerPool
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import claims
from tqstudio.engine.store.jobs.claims import Token
from tqstudio.engine.store.machine import gates
from tqstudio.engine.store.machine.gates import Need
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import Control

MARGIN_S = 5.0
"""Beyond `stall_s`, within which a worker that can ends its ffmpeg itself."""
WISH_S = 5.0
"""A worker that does not hang hears of a wish within a second."""
_LOOKS_APART_S = 5.0


class Hangs:
    """Frees jobs and places of workers that hang; where a disk does not answer nothing is counted."""

    def __init__(
        self,
        settings: Settings,
        db: Database,
        board: LiveBoard,
        workspace: Workspace,
        bounded_io: BoundedIO,
        results: Results,
        pool: WorkerPool,
    ) -> None:
        self._db, self._board, self._workspace, self._bounded_io = db, board, workspace, bounded_io
        self._results, self._pool = results, pool
        self._limit_s = settings.stall_s + MARGIN_S
        self._looked: dict[Token, float] = {}

    async def tick(self) -> None:
        """Look at every running job whose worker has been quiet for too long, and let those go on whose disk
        answers again."""
        if self._bounded_io.take_recovered():
            await self._db.write(claims.let_go_on, now=now_us(), code=ErrorCode.DISK_SILENT)
        now = asyncio.get_running_loop().time()
        self._looked = {token: at for token, at in self._looked.items() if now - at < _LOOKS_APART_S}
        quiet = [live for live in self._board.jobs.values() if self._is_suspect(live)]
        self._looked |= {live.token: now for live in quiet}
        await asyncio.gather(*(self._look_into(live) for live in quiet))

    def _is_suspect(self, live: LiveJob) -> bool:
        if live.token in self._looked:
            return False
        wished = live.control is not Control.NONE and live.quiet_s >= WISH_S
        return wished or live.quiet_s >= self._limit_s

    async def _look_into(self, live: LiveJob) -> None:
        need, _ = await self._db.read(gates.needs_beside, live.token.job)
        silence = None if need is None else await self._silence(need)
        now = self._board.jobs.get(live.token.job)
        if now is None or now.token != live.token or now.quiet_s < live.quiet_s:
            return  # it went on meanwhile
        if self._results.is_publishing(live.token):
            return
        if silence is not None:
            try:
                error = TqError(ErrorCode.DISK_SILENT, silence)
                await self._results.fail_for(live.worker, live.token, error)
            except TqError as refused:
                if refused.code is ErrorCode.LOST_LEASE:
                    return  # it told in this very moment
                raise
        elif live.quiet_s < self._limit_s:
            return  # a slow disk, perhaps
        why = silence or f"its work stood still for {live.quiet_s:.0f} s"
        self._pool.replace(live.worker, why)

    async def _silence(self, need: Need) -> str | None:
        """What is said of the disk that does not answer; None when both do.

        A file system may tell its size and still take no write. A look that is not answered stands for the
        place until it is: no job is handed out for it meanwhile.
        """
        looks: list[tuple[bytes, Callable[[], None]]] = [
            (need.output_root, partial(_write_to, self._workspace.sink(need.output_root))),
            (os.path.dirname(need.source), partial(_read_from, need.source)),
        ]
        answers = await asyncio.gather(
            *(self._bounded_io.run(place, look) for place, look in looks), return_exceptions=True
        )
        return next((answer.strerror for answer in answers if isinstance(answer, NoAnswer)), None)


def _write_to(folder: Path) -> None:
    """Whether it works is no matter, only that it ends."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"x")
        file.flush()
        os.fsync(file.fileno())


def _read_from(path: bytes) -> None:
    """As `_write_to`; from the disk, as far as the kernel lets go of what it has in memory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.pread(descriptor, 1, 0)
    finally:
        os.close(descriptor)
