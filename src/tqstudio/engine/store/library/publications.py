"""Stores publications: one row per generation from the intent to publish until it is recorded."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import case, delete, func, insert, select

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import values_of
from tqstudio.engine.store.db.tables import job as job_table
from tqstudio.engine.store.db.tables import publication
from tqstudio.engine.store.jobs.claims import LeaseToken


@dataclass(frozen=True, slots=True)
class PublicationRow:
    """A worker's result and its destination. `manifest` is the JSON of a `requests.Manifest`."""

    job: int
    epoch: int
    instance: str | None
    """Instance of the worker under whose lease it was begun; None if that lease has ended."""
    worker: str
    video: int
    number: int
    slug: str
    manifest: str
    full_hash: str | None

    def is_under(self, token: LeaseToken) -> bool:
        """Whether it was begun under this lease, and the lease has not ended."""
        return (self.epoch, self.instance) == (token.epoch, token.instance)


_SELECT = select(
    *publication.c["job_id", "epoch"],
    # Only a job in progress has an instance.
    case((job_table.c.epoch == publication.c.epoch, job_table.c.instance)),
    func.coalesce(job_table.c.processed_by, "?"),
    *publication.c["video_id", "number", "slug", "manifest", "full_hash"],
).join_from(publication, job_table)


def begin(db: Connection, row: PublicationRow, *, now: int) -> None:
    """Records the intent to publish."""
    values = {"job_id": row.job, "video_id": row.video, "begun_at": now}
    db.execute(insert(publication), values_of(publication, row) | values)


def of_job(db: Connection, job: int) -> PublicationRow | None:
    row = db.execute(_SELECT.where(publication.c.job_id == job)).first()
    return None if row is None else PublicationRow(*row)


def of_video(db: Connection, video: int) -> list[PublicationRow]:
    return [PublicationRow(*row) for row in db.execute(_SELECT.where(publication.c.video_id == video))]


def abandoned(db: Connection) -> list[PublicationRow]:
    """Returns publications whose lease has ended, so that no worker finishes them."""
    rows = (PublicationRow(*row) for row in db.execute(_SELECT))
    return [row for row in rows if row.instance is None]


def end(db: Connection, job: int) -> None:
    """Deletes a publication that was recorded or undone."""
    db.execute(delete(publication).where(publication.c.job_id == job))
