"""Checks that tables, indexes and counts agree, and reads what outputs may contain."""

from __future__ import annotations

from dataclasses import dataclass

from tqstudio.engine.store.db.connection import Connection


def foreign_key_problems(db: Connection) -> int:
    """Counts rows that refer to a missing row."""
    return len(db.execute("PRAGMA foreign_key_check").all())


def miscounted(db: Connection) -> list[str]:
    """Returns the statuses whose stored count differs from the number of jobs."""
    rows = db.execute("SELECT status, count(*) FROM job NOT INDEXED WHERE deleted_at IS NULL GROUP BY status")
    return _differing(_kept(db), dict(rows.all()))


def _kept(db: Connection) -> dict[str, int]:
    return dict(db.execute("SELECT status, n FROM job_count").all())


def _differing(kept: dict[str, int], real: dict[str, int]) -> list[str]:
    return sorted(status for status in kept | real if kept.get(status, 0) != real.get(status, 0))


_LISTS = ("ix_job_waiting", "ix_job_ended", "ix_job_status")
_QUEUE = ("ix_job_ready", "ix_job_backoff")


def unlisted(db: Connection) -> str:
    """Compares the stored counts with the indexes of the lists and the queue; empty if they agree.

    A job that is missing from one of these is never run or never shown. Reads only indexes: 0.4 s for a
    million jobs.
    """
    there = db.execute("SELECT name FROM sqlite_master")
    if not {*_LISTS, *_QUEUE} <= {row[0] for row in there}:
        return ""  # an earlier schema, before its migration
    kept = _kept(db)
    ready = db.execute(
        "SELECT count(*) FROM job INDEXED BY ix_job_ready"
        " WHERE status = 'pending' AND not_before IS NULL AND deleted_at IS NULL"
    ).scalar_one()
    later = db.execute(
        "SELECT count(*) FROM job INDEXED BY ix_job_backoff"
        " WHERE status = 'pending' AND not_before IS NOT NULL AND deleted_at IS NULL"
    ).scalar_one()
    if ready + later != kept.get("pending", 0):
        return f"the queue has {ready + later} of {kept.get('pending', 0)} pending jobs"
    for index in _LISTS:
        rows = db.execute(
            f"SELECT status, count(*) FROM job INDEXED BY {index} WHERE deleted_at IS NULL GROUP BY status"
        )
        if wrong := _differing(kept, dict(rows.all())):
            return f"the index {index} differs from the stored count of {', '.join(wrong)} jobs"
    return ""


def rebuild_indexes(db: Connection) -> None:
    """Rebuilds every index from its table, including the full-text index of names."""
    db.execute("REINDEX")
    db.execute("INSERT INTO video_name (video_name) VALUES ('rebuild')")


def recount(db: Connection) -> None:
    """Sets the stored counts to the numbers of jobs."""
    db.execute(
        "UPDATE job_count SET n = (SELECT count(*) FROM job NOT INDEXED"
        " WHERE job.status = job_count.status AND deleted_at IS NULL)"
    )


def has_version(db: Connection) -> bool:
    """Whether the schema has a version, or the database has no tables."""
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
    if "alembic_version" not in tables:
        return not tables
    numbered = "SELECT count(*) FROM alembic_version WHERE version_num GLOB '[0-9][0-9][0-9][0-9]'"
    return bool(db.execute(numbered).scalar())


def newest_event_at(db: Connection) -> int:
    """Returns the time of the newest event in µs since 1970; 0 without events."""
    return int(db.execute("SELECT coalesce(max(at), 0) FROM event").scalar_one())


def store_uuid(db: Connection) -> str | None:
    answer = db.execute("SELECT store_uuid FROM supervisor").scalar()
    return None if answer is None else str(answer)


def has_video(db: Connection, video: int) -> bool:
    return db.execute("SELECT 1 FROM video WHERE id = :id", {"id": video}).first() is not None


def runs(db: Connection, job: int, epoch: int) -> bool:
    statement = "SELECT 1 FROM job WHERE id = :job AND epoch = :epoch AND status = 'in_progress'"
    return db.execute(statement, {"job": job, "epoch": epoch}).first() is not None


@dataclass(frozen=True, slots=True)
class Numbers:
    """The generations of a video that may be on disk, including those being published."""

    video: int
    numbers: frozenset[int]


def numbers_at(db: Connection, output_root: bytes, slug: str) -> Numbers | None:
    """Returns the generations of the video with this folder; None if there is no such video."""
    at = {"root": output_root, "slug": slug}
    video = db.execute("SELECT id FROM video WHERE output_root = :root AND slug = :slug", at).scalar()
    if video is None:
        return None
    rows = db.execute(
        "SELECT number FROM generation WHERE video_id = :video AND removed_at IS NULL"
        " UNION SELECT number FROM publication WHERE video_id = :video",
        {"video": video},
    )
    return Numbers(int(video), frozenset(int(row[0]) for row in rows))
