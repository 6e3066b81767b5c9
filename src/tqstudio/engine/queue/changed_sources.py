"""Lets jobs whose source changed during their attempt wait until the file has settled."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from functools import partial

from tqstudio.engine.files import bounded_io
from tqstudio.engine.files.bounded_io import BoundedIO
from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.intake.open_files import open_for_writing
from tqstudio.engine.intake.settling import FileStat, Settling
from tqstudio.engine.parts.part import Part, Periodic
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import volume_waits
from tqstudio.engine.store.jobs.retry_rules import RESOURCE_WAIT_S
from tqstudio.engine.store.jobs.volume_waits import Changed

_TICK_S = 1.0
_SOON_S = 5.0
"""Waits that end within this time are extended."""


class ChangedSources(Part):
    """Looks at the sources of jobs that wait.

    Args:
        settle_s: how long a file has to stay as it is, unless its drop folder says otherwise.
        on_ready: called when a job has become claimable.
    """

    def __init__(self, db: Database, io: BoundedIO, settle_s: float, on_ready: Callable[[], object]) -> None:
        self._db, self._io, self._settle_s = db, io, settle_s
        self._settling: dict[float, Settling] = {}
        """By the time that files have to stay as they are."""
        self._on_ready = on_ready
        self.every = (Periodic(_TICK_S, self.tick),)

    async def tick(self) -> None:
        """Make jobs claimable whose source has settled, and let others wait longer."""
        waiting = await self._db.reread(volume_waits.changed)
        paths = {each.source for each in waiting}
        for settling in self._settling.values():
            settling.keep(paths)
        if not waiting:
            return
        settled, now = await self._settled(waiting), now_us()
        soon = now + int(_SOON_S * MICROSECOND)
        back = [each.job for each in waiting if each.source in settled]
        longer = [each.job for each in waiting if each.source not in settled and each.until <= soon]
        if back or longer:
            until = now + int(RESOURCE_WAIT_S * MICROSECOND)
            await self._db.write(volume_waits.update_waits, longer=longer, back=back, now=now, until=until)
        if back:
            self._on_ready()

    async def _settled(self, waiting: Sequence[Changed]) -> set[bytes]:
        """The sources that are complete now, or cannot be looked at: their job finds out why."""
        looks = await asyncio.gather(*(self._look(each.source) for each in waiting))
        at = time.monotonic()
        settled, complete = set(), {}
        for each, look in zip(waiting, looks, strict=True):
            if look is None:
                settled.add(each.source)
                continue
            settle_s = self._settle_s if each.settle_s is None else each.settle_s
            if self._settling.setdefault(settle_s, Settling(settle_s)).see(each.source, look, at):
                complete[each.source] = look.identity
        wanted = {identity: path for path, identity in complete.items()}
        busy = await bounded_io.on_a_thread(partial(open_for_writing, wanted)) if wanted else set()
        return settled | {path for path, identity in complete.items() if identity not in busy}

    async def _look(self, source: bytes) -> FileStat | None:
        try:
            return FileStat.of(await self._io.run(source, partial(os.stat, source)))
        except OSError:
            return None
