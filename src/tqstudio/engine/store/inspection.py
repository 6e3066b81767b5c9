"""What `doctor` asks of the database: whether it agrees with itself, and what the disk may hold for it."""

from __future__ import annotations

from dataclasses import dataclass

from tqstudio.engine.store.connection import Connection


def foreign_key_problems(db: Connection) -> int:
    """Rows that name a row which is not there."""
    return len(db.execute("PRAGMA foreign_key_check"))


def miscounted(db: Connection) -> list[str]:
    """Statuses whose kept count is not the number of jobs in it."""
    kept: dict[str, int] = dict(db.execute("SELECT status, n FROM job_count"))
    rows = db.execute("SELECT status, count(*) FROM job WHERE deleted_at IS NULL GROUP BY status")
    real: dict[str, int] = dict(rows)
    return sorted(status for status in kept | real if kept.get(status, 0) != real.get(status, 0))


def newest_event_at(db: Connection) -> int:
    """µs since 1970; 0 when nothing ever happened."""
    return int(db.execute("SELECT coalesce(max(at), 0) FROM event").scalar())


def store_uuid(db: Connection) -> str | None:
    answer = db.execute("SELECT store_uuid FROM supervisor").scalar()
    return None if answer is None else str(answer)


def has_video(db: Connection, video: int) -> bool:
    return bool(db.execute("SELECT 1 FROM video WHERE id = :id", {"id": video}))


def runs(db: Connection, job: int, epoch: int) -> bool:
    statement = "SELECT 1 FROM job WHERE id = :job AND epoch = :epoch AND status = 'in_progress'"
    return bool(db.execute(statement, {"job": job, "epoch": epoch}))


@dataclass(frozen=True, slots=True)
class Numbers:
    """The generations of a video that may be on disk, those being published included."""

    video: int
    numbers: frozenset[int]


def numbers_at(db: Connection, output_root: bytes, slug: str) -> Numbers | None:
    """What belongs into a video's folder; None when no video has it."""
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
