"""Copies published ladders to their buckets, and removes replaced and deleted ones there.

| step | state after a kill | the next run |
|---|---|---|
| the generation is recorded as published, its copy as waiting | nothing is in the bucket | uploads it |
| its files are uploaded | some files that no master names | continues after those that were recorded |
| the master playlist is uploaded | the whole ladder | uploads the master again |
| that is recorded, and what it replaces as removing | old files, for `keep_old_s` more | removes them |
| they are removed, their list last | fewer of them | removes the others |

The lists of files are the `BLAKE3SUMS` of generations, uploaded first: no listing of a bucket is needed.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Sequence
from functools import partial

import structlog

from tqstudio.config import Settings
from tqstudio.engine.files import bounded_io
from tqstudio.engine.files.bounded_io import BoundedIO
from tqstudio.engine.host import failpoints
from tqstudio.engine.host.ages import Ages
from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.host.waiting import WakeableLoop
from tqstudio.engine.media.check import digests
from tqstudio.engine.outputs import Place
from tqstudio.engine.outputs.place import place_of
from tqstudio.engine.parts.part import Background
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.jobs import jobs
from tqstudio.engine.store.jobs.retry_rules import RetryRules, longest_wait_s
from tqstudio.engine.store.library import deliveries, folders, videos
from tqstudio.engine.store.library.deliveries import DeliveryRow
from tqstudio.engine.store.library.videos import VideoRow
from tqstudio.errors import UNWRITTEN, ErrorCode, TqError
from tqstudio.events import EventKind
from tqstudio.home import Home
from tqstudio.ladder_files import MASTER_NAME, MPD_NAME, is_whole_file
from tqstudio.lifecycle import DeliveryState, JobStatus
from tqstudio.protocol.answers import CheckView, check_view
from tqstudio.wings.buckets import comparison, local_copy
from tqstudio.wings.buckets.bucket import Bucket
from tqstudio.wings.buckets.local_copy import Ladder

_AT_ONCE = 4
"""Files that are uploaded at the same time."""
_SEGMENT_SUFFIX = ".m4s"
_SAVE_S = 1.0
_HELD_S = 1.0
"""Until the next look at what would be removed by its age, see `Ages`."""


class Deliveries(Background):
    """The copies of ladders in buckets; one after the other is brought up to date."""

    triggers = (EventKind.PUBLISHED, EventKind.VIDEO_DELETED)

    def __init__(
        self, home: Home, settings: Settings, db: Database, bounded_io: BoundedIO, ages: Ages
    ) -> None:
        self._home, self._db, self._io, self._ages = home, db, bounded_io, ages
        self._keep_us = int(settings.keep_old_s * MICROSECOND)
        self._keep_copies = settings.keep_bucket_copies
        self._retries = RetryRules(5, settings.backoff_max_s, random.random)
        self._longest_us = int(longest_wait_s(settings.backoff_max_s) * MICROSECOND)
        self._loop = WakeableLoop("deliveries", self._do_next)
        super().__init__(self._loop.run)
        self._log = structlog.get_logger()

    def on_events(self, _events: Sequence[EventRow]) -> None:
        """Look for work when a ladder was published or a video deleted."""
        self._loop.wake()

    async def checks(self) -> list[CheckView]:
        """Check each bucket that is the output of a video or drop folder."""
        roots = {*await self._db.read(videos.output_roots)}
        roots |= {folder.output_root for folder in await self._db.read(folders.listing)}
        found = []
        for root in sorted(roots):
            if (url := self._home.bucket_url(root)) is not None:
                try:
                    await self.check(root)
                    found.append(check_view(f"bucket {url}", "ok", "can be written, read and emptied"))
                except TqError as error:
                    why = f"{error.code}: {error.message}"
                    found.append(check_view(f"bucket {url}", "fail", why, error.hint))
        return found

    async def check(self, output_root: bytes, *, must_answer: bool = True) -> None:
        """Check that the bucket of an output can be used; any other output can."""
        if (url := self._home.bucket_url(output_root)) is not None:
            try:
                await Bucket(self._home, url).check()
            except TqError as error:
                if must_answer or error.code is not ErrorCode.UPSTREAM:
                    raise

    async def upload_again(self, video: int) -> None:
        """Upload the ladder of a video again, whole; one that waits is tried now.

        Raises:
            TqError: NOT_FOUND; REFUSED, it belongs to no bucket, is deleted, or the bucket alone has it.
        """
        if await self._db.read(videos.get, video) is None:
            raise videos.unknown(video)
        if not await self._db.write(deliveries.requeue, video):
            raise TqError(
                ErrorCode.REFUSED,
                f"video {video} has no ladder here that belongs in a bucket",
                "if the bucket alone has its segments, retranscode it: tqstudio job retranscode ID",
            )
        self._loop.wake()

    async def _do_next(self) -> float:
        """Do what is due; returns the seconds until more is."""
        if (row := await self._due()) is not None:
            await self._step(row)
            return 0.0
        at = await self._db.read(deliveries.next_at)
        left_s = math.inf if at is None else (at - now_us()) / MICROSECOND
        return left_s if left_s > 0 else _HELD_S

    async def _due(self) -> DeliveryRow | None:
        now, old = now_us(), self._ages.before(0)
        return await self._db.read(deliveries.due, now=now, old=old, longest_us=self._longest_us)

    async def _step(self, row: DeliveryRow) -> None:
        try:
            bucket = Bucket(self._home, row.url)
            if row.state is DeliveryState.WAITING:
                await self._upload(row, bucket)
            else:
                await self._remove(row, bucket)
        except Exception as error:
            if isinstance(error, TqError) and error.code in UNWRITTEN:
                raise
            problem = self._problem(error)
            now = now_us()
            at = now + int(self._retries.wait_s(row.tries + 1) * MICROSECOND)
            self._log.warning("delivery failed", url=row.url, code=problem.code, error=problem.message)
            await self._db.write(deliveries.failed, row, problem, now=now, next_at=at)

    def _problem(self, error: Exception) -> TqError:
        """Convert any error to one of this ladder: others are not held up by a bug."""
        if isinstance(error, TqError):
            return error
        if isinstance(error, OSError):
            what = f"the local copy of a ladder cannot be read: {error.strerror or error}"
            return TqError(ErrorCode.IO_ERROR, what, "check it with: tqstudio verify")
        if isinstance(error, ValueError):
            return TqError(ErrorCode.IO_ERROR, f"the list of a ladder's files is damaged: {error}")
        self._log.exception("a delivery failed", exc_info=error)
        return TqError(ErrorCode.INTERNAL, f"a ladder could not be copied: {error!r}", "see supervisor.log")

    async def _upload(self, row: DeliveryRow, bucket: Bucket) -> None:
        """Upload a generation, then what names it.

        Raises:
            TqError: why it cannot be uploaded now.
            OSError: of the local copy.
        """
        video = await self._db.read(videos.get, row.video)
        assert video is not None, "its row refers to it"
        if (other := await self._db.read(deliveries.other_video_at_url, row)) is not None:
            await self._db.write(deliveries.remove_now, row)
            raise TqError(
                ErrorCode.REFUSED,
                f"the ladder of video {other} is still at {row.url}",
                f"if it is not being removed: tqstudio video delete {other}",
            )
        place, folder = place_of(video), f"v{row.number}"
        ladder = await self._io.run(video.output_root, partial(local_copy.ladder, place, row.number))
        names = list(ladder.sums)
        done = row.files_done if row.files == len(names) else 0
        saved_at = time.monotonic()
        while done < len(names):
            # The list of files alone: it has to be there before any of them.
            portion = names[done : done + _AT_ONCE] if done else names[:1]

            async def send(name: str) -> None:
                if is_whole_file(name):
                    await _send_whole(bucket, place, row.number, name, ladder.sums[name])
                    return
                read = partial(local_copy.content, place, row.number, name, ladder.sums[name])
                content = await self._io.run(video.output_root, read)
                await bucket.put(f"{folder}/{name}", content, is_final=True)

            try:
                async with asyncio.TaskGroup() as tasks:
                    for name in portion:
                        tasks.create_task(send(name))
            except ExceptionGroup as group:
                await self._db.write(deliveries.advance, row, files=len(names), done=done)
                raise group.exceptions[0] from None
            done += len(portion)
            failpoints.reach("delivery.uploading")
            if time.monotonic() - saved_at >= _SAVE_S or done == len(names):
                saved_at = time.monotonic()
                if not await self._db.write(deliveries.advance, row, files=len(names), done=done):
                    return
                first = await self._due()
                if first is not None and first.state is not DeliveryState.WAITING:
                    return  # deleted videos do not stay for the hours that this may take; it continues after
        failpoints.reach("delivery.uploaded")
        await self._name(row, video, bucket, ladder)

    async def _name(self, row: DeliveryRow, video: VideoRow, bucket: Bucket, ladder: Ladder) -> None:
        """Replace the playlists of a bucket that name a generation."""
        await asyncio.to_thread(self._db.require_lead)
        for name, content in ladder.masters.items():
            await bucket.put(name, content, is_final=False)
        if MPD_NAME not in ladder.masters:
            await bucket.remove([MPD_NAME])
        failpoints.reach("delivery.named")
        # A job that runs may keep qualities of it.
        newest = await self._db.read(jobs.newest_job_of, video.id)
        evicts = not self._keep_copies and (newest is None or newest[1] is not JobStatus.IN_PROGRESS)
        if evicts:
            await self._evict(row, place_of(video), bucket, ladder)
            failpoints.reach("delivery.evicted")
        now = now_us()
        done = partial(deliveries.delivered, remove_at=now + self._keep_us, is_evicted=evicts)
        if await self._db.write(done, row, now=now):
            self._log.info("ladder delivered", video=video.id, url=row.url, files=len(ladder.sums))

    async def _evict(self, row: DeliveryRow, place: Place, bucket: Bucket, ladder: Ladder) -> None:
        """Remove the local segments of a generation, each of which is in the bucket.

        Raises:
            TqError: one is not, and all files are uploaded again.
        """
        segments = [name for name in ladder.sums if name.endswith(_SEGMENT_SUFFIX) or is_whole_file(name)]
        sizes = await asyncio.to_thread(local_copy.sizes, place, row.number, segments)
        names, folder = list(sizes), f"v{row.number}"
        if different := await comparison.other_sizes(bucket, folder, names, sizes):
            await self._db.write(deliveries.advance, row, files=len(ladder.sums), done=0)
            text = f"{row.url}/{folder}/{different[0]} has another size than its local copy, or is missing"
            raise TqError(ErrorCode.UPSTREAM, text, "nothing to do: the ladder is uploaded again")
        await asyncio.to_thread(local_copy.evict, place, row.number, names, row.url)

    async def _remove(self, row: DeliveryRow, bucket: Bucket) -> None:
        """Remove what names a generation; later, unless the video is brought back, its files."""
        await asyncio.to_thread(self._db.require_lead)
        if not await self._db.read(deliveries.is_replaced, row):
            await bucket.remove([MASTER_NAME, MPD_NAME])
        failpoints.reach("delivery.unnamed")
        if row.state is DeliveryState.UNPUBLISHING:
            # Twice as long as the local ladder can be brought back.
            await self._db.write(deliveries.record_unpublished, row, remove_at=now_us() + 2 * self._keep_us)
            return
        # Brought back from here on, it is uploaded again.
        if not await self._db.write(deliveries.advance, row, files=row.files, done=0):
            return
        listed = f"v{row.number}/{digests.SUMS_NAME}"
        sums = await bucket.get(listed)
        if sums is not None:
            names = digests.parse(sums.decode())
            await bucket.remove([f"v{row.number}/{name}" for name in names])
            failpoints.reach("delivery.removed")
            await bucket.remove([listed])
        await self._db.write(deliveries.removed, row, now=now_us())


async def _send_whole(bucket: Bucket, place: Place, number: int, name: str, digest: str) -> None:
    """Upload a file of a whole video, which may be larger than memory."""
    # Reading all of it takes longer than a disk may take to answer.
    opened = partial(local_copy.whole_file, place, number, name, digest)
    file, size = await bounded_io.on_a_thread(opened)
    with file:
        await bucket.put_file(f"v{number}/{name}", file, size)
