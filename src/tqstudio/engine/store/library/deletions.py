"""Stores deleted videos: from the request until the ladder is back in its place, or removed.

| state | where the ladder is | what is next |
|---|---|---|
| trashing | in its place, or in the folder `deleted` | it is moved there once no job of the video is open |
| trashed | in `deleted` | it is brought back on request, or removed after a while |
| restoring | in `deleted`, or in its place | it is brought back |
| purging | in `deleted`, or gone | it is removed |
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sqlalchemy import bindparam, delete, exists, func, insert, select, update

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import Rows
from tqstudio.engine.store.db.tables import (
    attempt,
    deletion,
    delivery,
    generation,
    is_open,
    job,
    publication,
    published_rendition,
    source_removal,
    video,
)
from tqstudio.engine.store.jobs import jobs, operations, undo
from tqstudio.engine.store.library import deliveries
from tqstudio.events import EventKind
from tqstudio.lifecycle import DeletionState, JobStatus, Operation, Undoable


@dataclass(frozen=True, slots=True)
class DeletionRow:
    """A deleted video, or one whose ladder is not back yet."""

    video: int
    state: DeletionState
    output_root: bytes
    slug: str
    generation: int | None
    """Id of the ladder that was published last."""
    deleted_at: int | None


_ROWS = Rows(DeletionRow, deletion, video, video="video_id", generation="generation_id")
_SELECT = select(*_ROWS.columns).join_from(deletion, video, video.c.id == deletion.c.video_id)


def of_video(db: Connection, video_id: int) -> DeletionRow | None:
    return _ROWS.first(db.execute(_SELECT.where(deletion.c.video_id == video_id)))


def moving(db: Connection) -> list[DeletionRow]:
    """Returns the videos whose ladder is being moved or removed."""
    found = _SELECT.where(deletion.c.state != DeletionState.TRASHED).order_by(deletion.c.video_id)
    return [_ROWS.value(row) for row in db.execute(found)]


# Ordered by the smaller table: by that of the videos, all of them are read.
DUE = (
    select(deletion.c.video_id)
    .join_from(deletion, video, video.c.id == deletion.c.video_id)
    .where(deletion.c.state == DeletionState.TRASHED, video.c.deleted_at < bindparam("before"))
    .order_by(deletion.c.video_id)
    .limit(bindparam("limit"))
)


def due(db: Connection, before: int, *, limit: int = 50) -> list[int]:
    """Returns videos that were deleted before a time and whose ladder is in `deleted`."""
    return [int(row[0]) for row in db.execute(DUE, {"before": before, "limit": limit})]


def begin(db: Connection, video_id: int, *, now: int, actor: str) -> list[int]:
    """Deletes a video with its jobs, and cancels the open one; returns the job that still runs.

    A video that is deleted already does not change.
    """
    here = (video.c.id == video_id, video.c.deleted_at.is_(None))
    if not db.execute(update(video).where(*here).values(deleted_at=now)).rowcount:
        return []
    again = update(deletion).where(deletion.c.video_id == video_id).values(state=DeletionState.TRASHING)
    if not db.execute(again).rowcount:
        db.execute(insert(deletion), {"video_id": video_id, "state": DeletionState.TRASHING})
    opened = jobs.open_job_of(db, video_id)
    running, before = [], {} if opened is None else undo.states(db, [opened])
    if opened is not None:
        applied = operations.operate(db, opened, Operation.CANCEL, now=now, actor=actor)
        running = [opened] if applied and applied.status is JobStatus.IN_PROGRESS else []
    _hide_jobs(db, video_id, now)
    deliveries.unpublish(db, video_id)
    events.append(db, EventKind.VIDEO_DELETED, now=now, actor=actor, video=video_id)
    former = {"deleted_at": now, "cancelled": [asdict(step) for step in undo.changed(db, before)]}
    step = undo.UndoStep(video_id, 0, 0, former)
    undo.record(db, Undoable.VIDEO_DELETED, [step], actor=actor, now=now)
    return running


def _hide_jobs(db: Connection, video_id: int, at: int) -> None:
    """Deletes the jobs of a video that have ended from the list."""
    ended = (job.c.video_id == video_id, job.c.deleted_at.is_(None), job.c.status != JobStatus.IN_PROGRESS)
    db.execute(update(job).where(*ended).values(deleted_at=at))


def is_busy(db: Connection, video_id: int) -> bool:
    """Whether a job of a video runs, or its result is being published."""
    publishes = select(publication.c.job_id).where(publication.c.video_id == video_id)
    return jobs.open_job_of(db, video_id) is not None or db.execute(publishes.limit(1)).first() is not None


def trashed(db: Connection, video_id: int) -> list[int]:
    """Records that a ladder is in `deleted`; returns the jobs that were deleted with the video."""
    trashing = (deletion.c.video_id == video_id, deletion.c.state == DeletionState.TRASHING)
    if not db.execute(update(deletion).where(*trashing).values(state=DeletionState.TRASHED)).rowcount:
        return []
    at = db.execute(select(video.c.deleted_at).where(video.c.id == video_id)).scalar_one()
    # One that ran when the video was deleted has ended since.
    _hide_jobs(db, video_id, at)
    return _hidden(db, video_id, at)


def _hidden(db: Connection, video_id: int, at: int) -> list[int]:
    found = select(job.c.id).where(job.c.video_id == video_id, job.c.deleted_at == at).order_by(job.c.id)
    return [int(row[0]) for row in db.execute(found)]


def restore(db: Connection, video_id: int, *, now: int, actor: str) -> bool:
    """Undeletes a video and its jobs; False if it is not deleted, or its ladder is being removed."""
    at = db.execute(select(video.c.deleted_at).where(video.c.id == video_id)).scalar()
    purging = (deletion.c.video_id == video_id, deletion.c.state == DeletionState.PURGING)
    if at is None or db.execute(select(exists().where(*purging))).scalar_one():
        return False
    db.execute(update(video).where(video.c.id == video_id).values(deleted_at=None))
    restoring = update(deletion).where(deletion.c.video_id == video_id)
    db.execute(restoring.values(state=DeletionState.RESTORING))
    hidden = (job.c.video_id == video_id, job.c.deleted_at == at)
    db.execute(update(job).where(*hidden).values(deleted_at=None))
    events.append(db, EventKind.VIDEO_UNDELETED, now=now, actor=actor, video=video_id)
    return True


def restored(db: Connection, video_id: int, *, url: str | None) -> None:
    """Records that a ladder is back in its place. Args: `url` is that of its copy in a bucket."""
    back = (deletion.c.video_id == video_id, deletion.c.state == DeletionState.RESTORING)
    if db.execute(delete(deletion).where(*back)).rowcount and url is not None:
        deliveries.restore(db, video_id, url)


def purge(db: Connection, video_id: int) -> bool:
    """Records that a ladder is about to be removed; False if it is not trashed any more."""
    is_trashed = (deletion.c.video_id == video_id, deletion.c.state == DeletionState.TRASHED)
    return bool(db.execute(update(deletion).where(*is_trashed).values(state=DeletionState.PURGING)).rowcount)


def purged(db: Connection, video_id: int, *, now: int) -> None:
    """Records that a ladder is gone. The video stays, so that its drop folder does not queue it again."""
    purging = (deletion.c.video_id == video_id, deletion.c.state == DeletionState.PURGING)
    if not db.execute(delete(deletion).where(*purging)).rowcount:
        return
    kept = (generation.c.video_id == video_id, generation.c.removed_at.is_(None))
    retired = func.coalesce(generation.c.retired_at, now)
    db.execute(update(generation).where(*kept).values(retired_at=retired, removed_at=now))
    db.execute(update(video).where(video.c.id == video_id).values(generation_id=None))
    detail = "the ladder of a deleted video"
    events.append(db, EventKind.GENERATION_REMOVED, now=now, actor="retention", video=video_id, detail=detail)


_NEEDED = (
    select(job.c.id).where(job.c.video_id == video.c.id, is_open(job), job.c.deleted_at.is_(None)),
    select(publication.c.job_id).where(publication.c.video_id == video.c.id),
    select(source_removal.c.job_id).where(source_removal.c.video_id == video.c.id),
    select(deletion.c.video_id).where(deletion.c.video_id == video.c.id),
    select(delivery.c.id).where(delivery.c.video_id == video.c.id, delivery.c.next_at.is_not(None)),
    # A replaced ladder that is still kept for its players.
    select(generation.c.id).where(
        generation.c.video_id == video.c.id,
        generation.c.retired_at.is_not(None),
        generation.c.removed_at.is_(None),
    ),
)


def forget(db: Connection, *, limit: int) -> int:
    """Deletes all that is known of some videos whose files nothing needs any more; returns of how many.

    Their ladders stay as they are: another video never gets the folder of one that was forgotten.
    """
    found = select(video.c.id).where(*(~exists(each) for each in _NEEDED)).order_by(video.c.id).limit(limit)
    numbers = [int(row[0]) for row in db.execute(found)]
    if not numbers:
        return 0
    of_jobs = select(job.c.id).where(job.c.video_id.in_(numbers))
    of_generations = select(generation.c.id).where(generation.c.video_id.in_(numbers))
    db.execute(delete(attempt).where(attempt.c.job_id.in_(of_jobs)))
    db.execute(delete(job).where(job.c.video_id.in_(numbers)))
    db.execute(delete(published_rendition).where(published_rendition.c.generation_id.in_(of_generations)))
    db.execute(delete(generation).where(generation.c.video_id.in_(numbers)))
    db.execute(delete(delivery).where(delivery.c.video_id.in_(numbers)))
    db.execute(delete(video).where(video.c.id.in_(numbers)))
    return len(numbers)
