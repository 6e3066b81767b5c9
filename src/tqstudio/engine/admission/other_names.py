"""Finds the video of a new file under another name: it was renamed, copied and removed, or is a hard link."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tqstudio.engine.admission.change_detection import SourceState, has_left, is_copy, is_gone, is_same_place
from tqstudio.engine.admission.offer import Offer
from tqstudio.engine.media.source import fingerprint
from tqstudio.engine.media.source.fingerprint import Digest, NotHashed
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import jobs
from tqstudio.engine.store.library import videos
from tqstudio.engine.store.library.videos import VideoRow
from tqstudio.lifecycle import OPEN


@dataclass(frozen=True, slots=True)
class OtherName:
    """The video of a file, and whether the file is still at the path of the video too."""

    video: VideoRow
    is_there: bool


async def find(
    db: Database,
    path: bytes,
    found: SourceState,
    offer: Offer,
    *,
    is_away: Callable[[int], Awaitable[bool]],
    stop: Callable[[], bool],
) -> OtherName | None:
    """Find the video of a file that has none at its path.

    Inode, size and time only say where to look; samples decide, and every byte if one of them differs.

    Args:
        is_away: whether the source of a job is missing because its disk is.
        stop: as of `look_at`.

    Raises:
        NotHashed: all of the file has to be read, and the offer does not allow it.
        HashingStopped: when `stop` returned True.
    """
    size, root = found.size, offer.output_root
    at = {"inode": found.inode, "size": size, "mtime_ns": found.mtime_ns}
    for other in await db.read(videos.with_inode, root, **at):
        if await asyncio.to_thread(_is_same_file, other.source, path):
            return OtherName(other, is_there=True)
        waits = await db.read(_waits, other.id)
        left = await asyncio.to_thread(_has_left, other, found.inode, waits=waits)
        if left and other.quick_hash is not None and other.quick_hash.partition("+")[0] == found.content_id:
            return OtherName(other, is_there=False)
    for other in await db.read(videos.published_like, root, size=size, samples=found.content_id):
        if not await asyncio.to_thread(is_gone, other.source):
            continue
        newest = await db.read(jobs.newest_job_of, other.id)
        if newest is None or await is_away(newest[0]):
            continue
        if await _is_copy(path, found, other, offer, stop):
            return OtherName(other, is_there=False)
    return None


def _is_same_file(path: bytes, other: bytes) -> bool:
    """Whether two paths lead to one file: through links to folders, or as hard links."""
    if is_same_place(path, other):
        return True
    try:
        found = os.stat(path)
        return found.st_nlink > 1 and os.path.samestat(found, os.stat(other))
    except OSError:
        return False


def _waits(db: Connection, video: int) -> bool:
    """Whether a job waits for the source of a video, or missed it."""
    newest = jobs.newest_job_of(db, video)
    return newest is not None and (newest[1] in OPEN or jobs.failed_source_missing(db, newest[0]))


def _has_left(video: VideoRow, inode: int, *, waits: bool) -> bool:
    """Whether a file is no longer at the path of its video, where nothing else may be if that is finished."""
    if waits:
        return has_left(video.source, inode)
    is_finished = (
        video.generation is not None and video.deleted_at is None and video.source_deleted_at is None
    )
    return is_finished and is_gone(video.source)


async def _is_copy(
    path: bytes, found: SourceState, other: VideoRow, offer: Offer, stop: Callable[[], bool]
) -> bool:
    def read() -> Digest:
        return fingerprint.digest(path, stop)

    try:
        return is_copy(found, other, offer.digests.get(path))
    except NotHashed:
        if not offer.may_read:
            raise
        return is_copy(found, other, await asyncio.to_thread(read))
