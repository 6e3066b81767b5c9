"""Checks that tables, indexes and counts agree, and reads what outputs may contain."""

from __future__ import annotations

import re

from sqlalchemy import column, delete, func, insert, select, table

from tqstudio.engine.store.db import tables
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.tables import const, job_count
from tqstudio.engine.store.dialects import sqlite
from tqstudio.engine.store.dialects.expressions import NOT_INDEXED, indexed_by
from tqstudio.lifecycle import JobStatus


def foreign_key_problems(db: Connection) -> int:
    """Counts rows that refer to a missing row, which PostgreSQL cannot have."""
    if db.core.dialect.name != "sqlite":
        return 0
    return len(db.execute(sqlite.FOREIGN_KEY_CHECK).all())


def miscounted(db: Connection) -> tuple[list[str], list[str]]:
    """Returns the statuses with fewer jobs than the stored count, and those with more, or without a count."""
    kept, real = _kept(db), _counted(db, NOT_INDEXED)
    fewer = [status for status in _differing(kept, real) if kept.get(status, 0) > real.get(status, 0)]
    uncounted = {status.value for status in JobStatus} - kept.keys()
    return fewer, sorted({*_differing(kept, real), *uncounted} - {*fewer})


def _counted(db: Connection, hint: str) -> dict[str, int]:
    jobs = select(tables.job.c.status, func.count()).where(tables.job.c.deleted_at.is_(None))
    rows = db.execute(jobs.with_hint(tables.job, hint, "sqlite").group_by(tables.job.c.status))
    return dict(rows.all())


def _kept(db: Connection) -> dict[str, int]:
    return dict(db.execute(select(job_count.c.status, job_count.c.n)).all())


def _differing(kept: dict[str, int], real: dict[str, int]) -> list[str]:
    return sorted(status for status in kept | real if kept.get(status, 0) != real.get(status, 0))


_LINES = 100
"""Most problems that a check of a file lists: enough to see whether an index lacks rows or has too many."""
_LISTS = ("ix_job_waiting", "ix_job_ended", "ix_job_status")
_QUEUE = ("ix_job_ready", "ix_job_backoff")


def unlisted(db: Connection) -> str:
    """Compares the stored counts with the indexes of the lists and the queue; empty if they agree.

    A job that is missing from one of these is never run or never shown. Reads only indexes: 0.4 s for a
    million jobs.
    """
    there = db.execute(sqlite.OBJECTS).scalars()
    if not {*_LISTS, *_QUEUE} <= set(there):
        return ""  # an earlier schema, before its migration
    kept = _kept(db)
    job = tables.job.c
    pending = select(func.count(job.id)).where(
        job.status == const(JobStatus.PENDING), job.deleted_at.is_(None)
    )
    ready, later = (
        db.execute(pending.where(when).with_hint(tables.job, indexed_by(index), "sqlite")).scalar_one()
        for index, when in zip(_QUEUE, (job.not_before.is_(None), job.not_before.is_not(None)), strict=True)
    )
    if ready + later != kept.get("pending", 0):
        return f"the queue has {ready + later} of {kept.get('pending', 0)} pending jobs"
    for index in _LISTS:
        if wrong := _differing(kept, _counted(db, indexed_by(index))):
            return f"the index {index} differs from the stored count of {', '.join(wrong)} jobs"
    return ""


def rebuild_indexes(db: Connection) -> None:
    """Rebuilds every index from its table."""
    db.execute(sqlite.REBUILD_INDEXES)


def recount(db: Connection) -> None:
    """Sets the stored counts to the numbers of jobs."""
    real = _counted(db, NOT_INDEXED)
    db.execute(delete(job_count))
    db.execute(
        insert(job_count), [{"status": each.value, "n": real.get(each.value, 0)} for each in JobStatus]
    )


def damage(db: Connection) -> list[str]:
    """Checks every page of a file, and compares its indexes with its tables; returns what SQLite finds."""
    found = db.execute(f"PRAGMA integrity_check({_LINES})").scalars()
    return [line.replace("\n", " ") for line in found if line != "ok"]


def is_in_indexes_alone(db: Connection) -> bool:
    """Whether a file is intact but for its indexes, which this check does not compare with tables."""
    return db.execute("PRAGMA quick_check(1)").scalar() == "ok"


def longer_index(lines: list[str]) -> str:
    """Finds an index with more entries than its table has rows, in what `damage` returned; empty if none."""
    shorter = {name for line in lines for name in re.findall(r"row \d+ missing from index (\w+)", line)}
    longer = (name for line in lines for name in re.findall(r"wrong # of entries in index (\w+)", line))
    return next((name for name in longer if name not in shorter), "")


def version(db: Connection) -> str | None:
    """Returns the version of a file's schema; None if it has no tables, empty if they have no version."""
    there = set(db.execute(sqlite.OBJECTS).scalars())
    if "alembic_version" not in there:
        return "" if there else None
    found = db.execute(select(column("version_num")).select_from(table("alembic_version"))).scalars()
    return next((each for each in map(str, found) if re.fullmatch("[0-9]{4}", each)), "")


def newest_event_at(db: Connection) -> int:
    """Returns the time of the newest event in µs since 1970; 0 without events."""
    return int(db.execute(select(func.max(tables.event.c.at))).scalar() or 0)


def store_uuid(db: Connection) -> str | None:
    answer = db.execute(select(tables.supervisor.c.store_uuid)).scalar()
    return None if answer is None else str(answer)


def has_video(db: Connection, video: int) -> bool:
    return db.execute(select(tables.video.c.id).where(tables.video.c.id == video)).first() is not None


def runs(db: Connection, job: int, epoch: int) -> bool:
    row = tables.job.c
    leased = (row.id == job, row.epoch == epoch, row.status == JobStatus.IN_PROGRESS)
    return db.execute(select(row.id).where(*leased)).first() is not None


def numbers_at(db: Connection, output_root: bytes, slug: str) -> frozenset[int] | None:
    """Returns the generations of the video with this folder that may be on disk, including those being
    published; None if there is no such video."""
    at = (tables.video.c.output_root == output_root, tables.video.c.slug == slug)
    video = db.execute(select(tables.video.c.id).where(*at)).scalar()
    if video is None:
        return None
    generation, publication = tables.generation.c, tables.publication.c
    there = select(generation.number).where(generation.video_id == video, generation.removed_at.is_(None))
    coming = select(publication.number).where(publication.video_id == video)
    return frozenset(db.execute(there.union(coming)).scalars())
