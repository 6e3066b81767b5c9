"""Deletes videos and brings them back.

| step | state after a kill | the next run |
|---|---|---|
| video and jobs are recorded as deleted, the ladder as trashing | it is in its place | moves it |
| the running job ends; the ladder is renamed | it is in `deleted` | records it |
| that is recorded; the work of the jobs is removed | | |
| after `keep_old_s` it is recorded as purging | it is in `deleted` | moves it to `trash` |
| it is in `trash` | it is gone | records it |

To bring it back, the video is recorded as not deleted and the ladder as restoring; then it is renamed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import structlog

from tqstudio.config import Settings
from tqstudio.engine.files.bounded_io import BoundedIO
from tqstudio.engine.host import failpoints
from tqstudio.engine.host.ages import Ages
from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.live.running_jobs import RunningJobs
from tqstudio.engine.outputs.place import Place, bucket_url
from tqstudio.engine.outputs.retention import Retention
from tqstudio.engine.outputs.workspace import Workspace
from tqstudio.engine.parts.part import Part, Periodic
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.library import deletions, generations, videos
from tqstudio.engine.store.library.deletions import DeletionRow
from tqstudio.errors import UNWRITTEN, ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.lifecycle import TERMINAL, Control, DeletionState
from tqstudio.paths import display
from tqstudio.wings.deletion.deleted_ladders import DeletedLadders

T = TypeVar("T")
_ENDS = frozenset(status.value for status in TERMINAL)


_ADVANCE_S = 60.0


class Deletions(Part):
    """Deletes videos and brings them back, one step at a time."""

    triggers = None

    def __init__(
        self,
        home: Home,
        settings: Settings,
        db: Database,
        running_jobs: RunningJobs,
        workspace: Workspace,
        bounded_io: BoundedIO,
        retention: Retention,
        ages: Ages,
    ) -> None:
        self._home, self._db, self._running_jobs, self._workspace = home, db, running_jobs, workspace
        self._bounded_io, self._retention, self._ladders = bounded_io, retention, DeletedLadders(workspace)
        self._ages = ages
        self._keep_us = int(settings.keep_old_s * MICROSECOND)
        self._stepping = asyncio.Lock()
        self.every = (Periodic(_ADVANCE_S, self.advance_all, at_once=True),)
        self._waiting = set[int]()
        """Deleted videos whose job has to end first."""
        self._tasks = set[asyncio.Task[None]]()
        self._log = structlog.get_logger()

    async def delete(self, video: int, *, actor: str) -> None:
        """Delete a video; its ladder is moved when this returns, or later if a job or its disk is busy.

        Raises:
            TqError: NOT_FOUND.
        """
        if await self._db.read(videos.get, video) is None:
            raise videos.unknown(video)
        for job in await self._db.write(partial(deletions.begin, video_id=video, now=now_us(), actor=actor)):
            self._running_jobs.control(job, Control.CANCEL)
        failpoints.reach("deletion.begun")
        await self._advance(video)

    async def undelete(self, video: int, *, actor: str) -> None:
        """Bring a video back with its ladder and jobs; one that is not deleted does not change.

        Raises:
            TqError: NOT_FOUND; REFUSED, its ladder was removed, or something else is in its place.
        """
        row = await self._db.read(videos.get, video)
        if row is None:
            raise videos.unknown(video)
        if row.deleted_at is None:
            return
        async with self._stepping:
            deleted = await self._db.read(deletions.of_video, video)
            gone = deleted is None or deleted.state is DeletionState.PURGING
            if deleted is not None and deleted.state is DeletionState.TRASHED and row.generation is not None:
                gone = not await self._run(deleted, lambda: self._ladders.has(row.output_root, video))
            if gone:
                raise TqError(
                    ErrorCode.REFUSED,
                    f"video {video} cannot be brought back: its files were removed",
                    f"add its source again: tqstudio add {display(row.source)}",
                )
            if deleted is not None and deleted.state is DeletionState.TRASHED:
                place = Place.below(row.output_root, row.slug)
                await self._run(deleted, lambda: self._ladders.require_free(place))
            restored = partial(deletions.restore, video_id=video, now=now_us(), actor=actor)
            await self._db.write(restored)
            failpoints.reach("undeletion.begun")
        await self._advance(video)

    async def restore_on_add(self, video: int, actor: str) -> None:
        """Bring a video back whose source is added again, as far as its files are there.

        Raises:
            TqError: REFUSED, something else is in its place, or it does not answer.
        """
        await self._advance(video)
        if await self._db.read(deletions.of_video, video) is not None:
            await self.undelete(video, actor=actor)

    def on_events(self, events: Sequence[EventRow]) -> None:
        """Move the ladders of deleted videos whose job has ended into `deleted`."""
        if any(event.video in self._waiting and event.target in _ENDS for event in events):
            task = asyncio.get_running_loop().create_task(self.advance(), name="deletions")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def advance_all(self) -> None:
        """Remove ladders after `keep_old_s`, and do what could not be done earlier."""
        for video in await self._db.read(deletions.due, self._ages.before(self._keep_us)):
            await self._db.write(deletions.purge, video)
            failpoints.reach("deletion.expired")
        await self.advance()

    async def advance(self) -> None:
        """Take the next step of every ladder that is on its way."""
        for row in await self._db.read(deletions.moving):
            await self._advance(row.video)

    async def _advance(self, video: int) -> None:
        async with self._stepping:
            row = await self._db.read(deletions.of_video, video)
            if row is None or row.state is DeletionState.TRASHED:
                return
            try:
                await self._step(row)
            except (OSError, TqError) as error:
                if isinstance(error, TqError) and error.code in UNWRITTEN:
                    raise
                self._log.warning("a ladder was not moved", video=video, state=row.state, error=str(error))

    async def _step(self, row: DeletionRow) -> None:
        current = None
        if row.generation is not None:
            generation = await self._db.read(generations.current, row.video)
            current = generation.number if generation else None
        root, video = row.output_root, row.video
        # Another supervisor may have undone the deletion since the row was read.
        await asyncio.to_thread(self._db.require_lead)
        match row.state:
            case DeletionState.TRASHING:
                if await self._db.read(deletions.is_busy, video):
                    self._waiting.add(video)
                    return
                self._waiting.discard(video)
                await self._run(row, lambda: self._ladders.archive(root, row.slug, video, current))
                failpoints.reach("deletion.moved")
                await self._retention.jobs_deleted(await self._db.write(deletions.trashed, video))
            case DeletionState.RESTORING:
                await self._run(row, lambda: self._ladders.restore(root, row.slug, video, current))
                failpoints.reach("undeletion.moved")
                url = bucket_url(self._home, root, row.slug)
                await self._db.write(partial(deletions.restored, video_id=video, url=url))
            case DeletionState.PURGING:
                await self._run(row, lambda: self._ladders.remove(root, video, current))
                failpoints.reach("deletion.removed")
                await self._db.write(partial(deletions.purged, video_id=video, now=now_us()))
                self._workspace.sweep_soon(root)

    async def _run(self, row: DeletionRow, step: Callable[[], T]) -> T:
        """Access an output that this supervisor has locked."""

        def locked() -> T:
            self._workspace.require_lock(row.output_root)
            return step()

        return await self._bounded_io.run(row.output_root, locked)
