"""Deletes replaced generations and abandoned partial work."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from functools import partial

import structlog

from tqstudio.config import Settings
from tqstudio.engine import outputs
from tqstudio.engine.files.bounded_io import BoundedIO, NoAnswer
from tqstudio.engine.host.ages import Ages
from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.outputs import Place
from tqstudio.engine.outputs.workspace import Workspace
from tqstudio.engine.parts.part import Part, Periodic
from tqstudio.engine.store import events
from tqstudio.engine.store.db import integrity
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import jobs, progress
from tqstudio.engine.store.jobs.folder_hours import FOREVER
from tqstudio.engine.store.jobs.transitions import job_facts
from tqstudio.engine.store.library import generations, videos
from tqstudio.engine.store.library.generations import Retired
from tqstudio.errors import TqError
from tqstudio.events import EventKind
from tqstudio.lifecycle import JobStatus

_SCRATCH_IDLE_S = 3600.0
"""A scratch directory of a running job is always newer than this."""
_MIN_INTERVAL_S = 60.0
_PAGE = 50
_RETIRED_S = 60.0
_WORK_S = 600.0


class Retention(Part):
    """Deletes files that the database no longer needs, and records events.

    Files on a disk that does not answer stay until it does.
    """

    def __init__(
        self, settings: Settings, db: Database, workspace: Workspace, bounded_io: BoundedIO, ages: Ages
    ) -> None:
        self._db, self._workspace, self._bounded_io, self._ages = db, workspace, bounded_io, ages
        self._keep_old_us = int(settings.keep_old_s * MICROSECOND)
        self._keep_failed_us = int(settings.keep_failed_work_s * MICROSECOND)
        self._cleanup_partial = settings.cleanup_partial
        self._next_check: dict[bytes, float] = {}
        self.every = (
            Periodic(_RETIRED_S, self.remove_retired, at_once=True),
            Periodic(_WORK_S, self.expire_work, at_once=True),
        )
        self._log = structlog.get_logger()

    # Replaced generations

    async def remove_retired(self) -> None:
        """Remove replaced generations after `keep_old_s`; never the current one."""
        before, after = self._ages.before(self._keep_old_us), 0
        while page := await self._db.read(generations.retired_before, before, after=after, limit=_PAGE):
            for retired in page:
                if not await self._answers(retired.output_root):
                    continue
                if await asyncio.to_thread(self._remove, retired):
                    await self._db.write(
                        generations.removed, retired.id, retired.video, retired.number, now=now_us()
                    )
            after = page[-1].id

    def _remove(self, retired: Retired) -> bool:
        """Remove a generation; return whether nothing is left of it."""
        place = Place.below(retired.output_root, retired.slug)
        try:
            if not place.folder.is_dir():
                return self._workspace.is_there(retired.output_root)  # otherwise its disk may be unmounted
            if outputs.named(place) == retired.number:
                self._log.warning("retired generation is still published", folder=str(place.folder))
                return False
            with place.hold() as held:
                outputs.remove(held, retired.number)
        except OSError as error:
            self._log.warning("generation not removed", folder=str(place.folder), error=str(error))
            return False
        return True

    # Unfinished work

    async def expire_work(self) -> None:
        """Remove the partial work of jobs that ended or were deleted `keep_failed_work_s` ago."""
        for root in await self._db.read(videos.output_roots):
            await self._expire(root, self._ages.before(self._keep_failed_us))

    async def sweep_scratch(self) -> None:
        """Remove all unused scratch directories, at start."""
        for root in await self._db.read(videos.output_roots):
            await self._sweep_scratch(root, idle_s=0)

    async def make_room(self, output_root: bytes) -> None:
        """Remove partial work that no job needs from all outputs on the full disk of this one.

        Does nothing if called again within a minute.
        """
        now = time.monotonic()
        if now < self._next_check.get(output_root, now):
            return
        self._next_check[output_root] = now + _MIN_INTERVAL_S
        roots = [root for root in await self._db.read(videos.output_roots) if await self._answers(root)]
        if not await self._answers(output_root):
            return
        for root in await asyncio.to_thread(_on_same_disk, output_root, roots):
            await self._expire(root, FOREVER)

    async def jobs_deleted(self, deleted: Iterable[int]) -> dict[int, int]:
        """Remove the partial work of failed and cancelled jobs that were deleted.

        Work of a waiting job is kept for a while in case it is undeleted, and so is work that another job of
        the video can use. Returns the number of removed segments by job.
        """
        lost: dict[int, int] = {}
        for job in deleted:
            facts = await self._db.read(job_facts, job)
            if facts is None or facts.status not in (JobStatus.FAILED, JobStatus.CANCELLED):
                continue
            video = await self._db.read(videos.get, facts.video)
            if video is None or await self._db.read(jobs.may_be_retried, video.id):
                continue
            if self._cleanup_partial and await self._answers(video.output_root):
                lost |= await self._discard(video.output_root, video.id, FOREVER)
                await asyncio.to_thread(self._workspace.sweep, video.output_root)
        return lost

    async def _expire(self, output_root: bytes, before: int) -> None:
        if not await self._answers(output_root):
            return
        stores = await asyncio.to_thread(lambda: list(self._workspace.stores(output_root)))
        for video, _ in stores if self._cleanup_partial else ():
            await self._discard(output_root, video, before)
        await self._sweep_scratch(output_root, idle_s=_SCRATCH_IDLE_S)
        await asyncio.to_thread(self._workspace.sweep, output_root)

    async def _sweep_scratch(self, output_root: bytes, *, idle_s: float) -> None:
        if not await self._answers(output_root):
            return
        scratches = await asyncio.to_thread(
            lambda: list(self._workspace.scratches(output_root, idle_s=idle_s))
        )
        for job, epoch, name in scratches:
            if not await self._db.read(integrity.runs, job, epoch):
                await asyncio.to_thread(self._workspace.remove_scratch, output_root, name)

    async def _answers(self, output_root: bytes) -> bool:
        """Whether an output answers, and no other supervisor of this store has locked it."""
        try:
            await self._bounded_io.run(output_root, partial(self._workspace.require_lock, output_root))
        except (NoAnswer, TqError):
            return False
        return True

    async def _discard(self, output_root: bytes, video: int, before: int) -> dict[int, int]:
        """Empty a video's store if no job will use it and the last one ended before that time.

        Returns the number of finished segments that each of its jobs lost.
        """
        # Read for each video: a job may have been added since the folder was listed.
        ended_at = await self._db.read(jobs.work_ended_at, video)
        if ended_at is None or ended_at >= before:
            return {}
        await asyncio.to_thread(self._db.require_lead)
        try:
            set_aside = await asyncio.to_thread(self._workspace.set_aside, output_root, video)
        except OSError as error:
            self._log.warning("partial work not removed", video=video, error=str(error))
            return {}
        return await self._db.write(_forget, video) if set_aside else {}


def _on_same_disk(path: bytes, roots: Iterable[bytes]) -> list[bytes]:
    def device(root: bytes) -> int | None:
        try:
            return os.stat(root).st_dev
        except OSError:
            return None

    full = device(path)
    return [root for root in roots if root == path or (full is not None and device(root) == full)]


def _forget(db: Connection, video: int) -> dict[int, int]:
    """Record that the partial work of a video's jobs was removed."""
    lost = progress.forget_work(db, video)
    had_segments = {job: segments for job, segments in lost.items() if segments}
    # There may have been less than a segment, or work of a job that is not in the database.
    for job, segments in had_segments.items() or [(max(lost, default=None), 0)]:
        detail = f"{segments} finished segment{'' if segments == 1 else 's'}" if segments else None
        events.append(
            db, EventKind.WORK_REMOVED, now=now_us(), actor="retention", job=job, video=video, detail=detail
        )
    return lost
