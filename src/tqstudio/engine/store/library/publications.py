"""Stores publications: one row per generation from the intent to publish until it is recorded."""

from __future__ import annotations

from dataclasses import dataclass

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs.claims import Token


@dataclass(frozen=True, slots=True)
class PublicationRow:
    """A worker's result and its destination. `manifest` is the JSON of a `requests.Manifest`."""

    job: int
    epoch: int
    instance: str | None
    """Of the lease under which it was begun; None if that has ended."""
    worker: str
    video: int
    number: int
    slug: str
    manifest: str
    full_hash: str | None

    def is_under(self, token: Token) -> bool:
        """Whether it was begun under this lease, and the lease has not ended."""
        return (self.epoch, self.instance) == (token.epoch, token.instance)


_SELECT = (
    "SELECT p.job_id, p.epoch,"
    # Only a job in progress has an instance.
    " CASE WHEN j.epoch = p.epoch THEN j.instance END AS holder,"
    " coalesce(j.processed_by, '?'), p.video_id, p.number, p.slug, p.manifest, p.full_hash"
    " FROM publication p JOIN job j ON j.id = p.job_id"
)


def begin(db: Connection, row: PublicationRow, *, now: int) -> None:
    """Records the intent to publish."""
    db.execute(
        "INSERT INTO publication (job_id, epoch, video_id, number, slug, manifest, full_hash, begun_at)"
        " VALUES (:job, :epoch, :video, :number, :slug, :manifest, :full_hash, :now)",
        {
            "job": row.job,
            "epoch": row.epoch,
            "video": row.video,
            "number": row.number,
            "slug": row.slug,
            "manifest": row.manifest,
            "full_hash": row.full_hash,
            "now": now,
        },
    )


def of_job(db: Connection, job: int) -> PublicationRow | None:
    row = db.execute(f"{_SELECT} WHERE p.job_id = :job", {"job": job}).first()
    return None if row is None else PublicationRow(*row)


def of_video(db: Connection, video: int) -> list[PublicationRow]:
    rows = db.execute(f"{_SELECT} WHERE p.video_id = :video", {"video": video})
    return [PublicationRow(*row) for row in rows]


def abandoned(db: Connection) -> list[PublicationRow]:
    """Returns publications whose lease has ended, so that no worker finishes them."""
    return [PublicationRow(*row) for row in db.execute(f"{_SELECT} WHERE holder IS NULL")]


def end(db: Connection, job: int) -> None:
    """Deletes a publication that was recorded or undone."""
    db.execute("DELETE FROM publication WHERE job_id = :job", {"job": job})
