"""Stores sources that their drop folder moves or deletes: from the end of the job until that is recorded."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, bindparam, delete, insert, literal, or_, select, update

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import Rows
from tqstudio.engine.store.db.tables import folder, is_open, job, source_removal, video
from tqstudio.engine.store.jobs.jobs import is_replaced
from tqstudio.errors import WarningCode
from tqstudio.events import EventKind
from tqstudio.lifecycle import JobStatus
from tqstudio.paths import display
from tqstudio.protocol.requests import SourceIdentity

KEPT = WarningCode.SOURCE_KEPT
MAX_INODE = (1 << 63) - 1
"""Largest integer that a database stores; some network file systems have larger inodes."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A source to move or delete, with the present rule of its drop folder."""

    job: int
    video: int
    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int
    target: bytes | None
    """Where it is being moved to."""
    begun_at: int | None
    """Since when it may be gone."""
    warnings: frozenset[str]
    """The codes of the job's warnings."""
    source: bytes
    full_hash: str | None
    folder: int | None
    folder_path: bytes | None
    after_done: str | None
    done_dir: bytes | None


def plan(db: Connection, number: int, source: SourceIdentity) -> None:
    """Records that a job's source is to be moved or deleted, if a folder queued it and has such a rule."""
    of_folder = (
        select(
            job.c.id,
            job.c.video_id,
            literal(source.size),
            literal(source.mtime_ns),
            literal(source.inode & MAX_INODE),
            literal(source.ctime_ns),
        )
        .join_from(job, video, video.c.id == job.c.video_id)
        .join(folder, folder.c.id == video.c.folder_id)
        .where(job.c.id == number, job.c.from_folder == 1, folder.c.after_done != "keep")
    )
    columns = ["job_id", "video_id", "size", "mtime_ns", "inode", "ctime_ns"]
    db.execute(insert(source_removal).from_select(columns, of_folder))


_reader, _of = job.alias("reader"), video.alias("of")


def _needed(source: Any) -> ColumnElement[bool]:
    """Returns the condition that an open job, or a failed one that may be retried, reads a source.

    The job may belong to another video of the same source, with another output.
    """
    needs = or_(is_open(_reader), and_(_reader.c.status == JobStatus.FAILED, ~is_replaced(_reader)))
    readers = select(_reader.c.id).join_from(_of, _reader, _reader.c.video_id == _of.c.id)
    return readers.where(_of.c.source == source, needs, _reader.c.deleted_at.is_(None)).exists()


_REMOVALS = Rows(
    *(Removal, source_removal, video, folder),
    job="job_id",
    video="video_id",
    folder="folder_id",
    folder_path="path",
    warnings=None,
)
DUE = (
    select(*_REMOVALS.columns, job.c.warnings)
    .join_from(source_removal, job, job.c.id == source_removal.c.job_id)
    .join(video, video.c.id == source_removal.c.video_id)
    .join(folder, folder.c.id == video.c.folder_id, isouter=True)
    .where(source_removal.c.job_id > bindparam("after"), ~_needed(video.c.source))
    .order_by(source_removal.c.job_id)
    .limit(bindparam("limit"))
)


def due(db: Connection, *, after: int, limit: int) -> list[Removal]:
    """Returns the next sources to move or delete that no job needs, by job."""
    rows = db.execute(DUE, {"after": after, "limit": limit})
    return [_REMOVALS.value(row, warnings=_codes(row.warnings)) for row in rows]


def _codes(warnings: str) -> frozenset[str]:
    return frozenset(warning["code"] for warning in json.loads(warnings))


def is_taken(db: Connection, path: bytes) -> bool:
    """Whether a path is that of a source, which may be missing."""
    return db.execute(select(video.c.id).where(video.c.source == path).limit(1)).first() is not None


def begin(db: Connection, row: Removal, target: bytes | None, *, now: int) -> bool:
    """Records that a source is about to be moved to a path, or deleted; False if a job needs it now."""
    begun = update(source_removal).where(source_removal.c.job_id == row.job, ~_needed(row.source))
    return db.execute(begun.values(target=target, begun_at=now)).rowcount == 1


def moved(db: Connection, row: Removal, target: bytes, found: os.stat_result, *, now: int) -> None:
    """Records that a source was moved, and its state there: its videos follow it.

    Unless another video came to have that path.
    """
    names: dict[str, bytes | str] = {"source": target}
    if os.path.basename(target) != os.path.basename(row.source):
        name = display(os.path.basename(target))
        names |= {"name": name, "name_lower": name.lower()}
    state = {"mtime_ns": found.st_mtime_ns, "inode": found.st_ino & MAX_INODE}
    there = select(_of.c.id).where(_of.c.source == target, _of.c.output_root == video.c.output_root).exists()
    db.execute(update(video).where(video.c.source == row.source, ~there).values(names | state))
    _end(db, row, EventKind.SOURCE_MOVED, f"{display(row.source)} is now {display(target)}", now=now)


def deleted(db: Connection, row: Removal, *, now: int) -> None:
    """Records that a source was deleted on purpose."""
    db.execute(update(video).where(video.c.source == row.source).values(source_deleted_at=now))
    _end(db, row, EventKind.SOURCE_DELETED, display(row.source), now=now)


def _end(db: Connection, row: Removal, kind: EventKind, detail: str, *, now: int) -> None:
    _warn(db, row, None)
    forget(db, row)
    _report(db, row, kind, detail, now=now)


def _report(
    db: Connection, row: Removal, kind: EventKind, detail: str, code: str | None = None, *, now: int
) -> None:
    of_job, of_video = row.job, row.video
    events.append(db, kind, now=now, actor="supervisor", job=of_job, video=of_video, code=code, detail=detail)


def forget(db: Connection, row: Removal) -> None:
    """Leaves a source where it is."""
    db.execute(delete(source_removal).where(source_removal.c.job_id == row.job))


def record_failure(db: Connection, row: Removal, why: str, *, now: int) -> None:
    """Warns that a source could not be moved or deleted, once for each reason."""
    if _warn(db, row, why):
        _report(db, row, EventKind.WARNING, why, KEPT, now=now)


def _warn(db: Connection, row: Removal, why: str | None) -> bool:
    """Replaces the job's warning about its source; False if it has that warning already."""
    stored = json.loads(db.execute(select(job.c.warnings).where(job.c.id == row.job)).scalar_one())
    warnings = [warning for warning in stored if warning["code"] != KEPT]
    warnings += [{"code": KEPT.value, "text": why}] if why else []
    if warnings == stored:
        return False
    db.execute(update(job).where(job.c.id == row.job).values(warnings=json.dumps(warnings)))
    return True
