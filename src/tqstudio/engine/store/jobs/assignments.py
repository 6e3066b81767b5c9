"""Reads what a worker has to know about a job that it has claimed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, func, select

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import Rows
from tqstudio.engine.store.db.tables import attempt, folder, job, video
from tqstudio.lifecycle import JobKind
from tqstudio.protocol.worker_answers import DecidedCrf


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
    crfs: list[DecidedCrf]
    """Decided before, see `video.crfs`."""
    output_root: bytes
    slug: str
    generation: int | None
    """Id of the current generation."""
    starts_over: bool
    """Whether earlier work has to be removed first."""


_EARLIER = select(func.count()).where(attempt.c.job_id == job.c.id)
_FOLDER = select(folder.c.path).where(folder.c.id == video.c.folder_id)
_ASSIGNMENTS = Rows(
    *(Assignment, job, video),
    attempt=_EARLIER.scalar_subquery(),
    folder=_FOLDER.scalar_subquery(),
    refuses_sound=_FOLDER.where(folder.c.audio == "skip", job.c.from_folder == 1).exists(),
    generation="generation_id",
)
_OF_JOB = select(*_ASSIGNMENTS.columns).join_from(job, video).where(job.c.id == bindparam("job"))


def assignment_of(db: Connection, job_id: int) -> Assignment:
    return _ASSIGNMENTS.value(db.execute(_OF_JOB, {"job": job_id}).one())
