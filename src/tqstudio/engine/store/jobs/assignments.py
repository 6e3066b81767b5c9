"""Reads what a worker has to know about a job that it has claimed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json
from sqlalchemy import bindparam, exists, func, select

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.tables import attempt, folder, job, video
from tqstudio.lifecycle import JobKind


@dataclass(frozen=True, slots=True)
class Assignment:
    """The work of a claimed job. Paths are bytes, `size` is in bytes."""

    attempt: int
    """Number of the attempt."""
    kind: JobKind
    profile_json: str
    requested: tuple[str, ...] | None
    """Renditions to encode; None for all."""
    dropped: tuple[str, ...]
    source: bytes
    folder: bytes | None
    """The drop folder of the source."""
    refuses_sound: bool
    """Whether that folder queued the job and leaves out sound without video."""
    size: int
    mtime_ns: int
    quick_hash: str | None
    full_hash: str | None
    facts: dict[str, Any] | None
    """The result of the probe, if any."""
    output_root: bytes
    slug: str
    generation: int | None
    """Id of the current generation."""
    starts_over: bool
    """Whether earlier work has to be removed first."""


_ASSIGNMENT = (
    select(
        select(func.count()).where(attempt.c.job_id == job.c.id).scalar_subquery().label("attempt"),
        select(folder.c.path).where(folder.c.id == video.c.folder_id).scalar_subquery().label("folder"),
        exists()
        .where(folder.c.id == video.c.folder_id, folder.c.audio == "skip", job.c.from_folder == 1)
        .label("refuses_sound"),
        *(job.c.kind, job.c.profile_json, job.c.requested, job.c.dropped, job.c.starts_over),
        *(video.c.source, video.c.size, video.c.mtime_ns, video.c.quick_hash, video.c.full_hash),
        *(video.c.facts, video.c.output_root, video.c.slug, video.c.generation_id),
    )
    .join_from(job, video)
    .where(job.c.id == bindparam("job"))
)


def assignment_of(db: Connection, number: int) -> Assignment:
    row = db.execute(_ASSIGNMENT, {"job": number}).one()
    return Assignment(
        attempt=row.attempt,
        kind=JobKind(row.kind),
        profile_json=row.profile_json,
        requested=None if row.requested is None else tuple(from_json(row.requested)),
        dropped=tuple(from_json(row.dropped)),
        source=row.source,
        folder=row.folder,
        refuses_sound=bool(row.refuses_sound),
        size=row.size,
        mtime_ns=row.mtime_ns,
        quick_hash=row.quick_hash,
        full_hash=row.full_hash,
        facts=None if row.facts is None else from_json(row.facts),
        output_root=row.output_root,
        slug=row.slug,
        generation=row.generation_id,
        starts_over=bool(row.starts_over),
    )
