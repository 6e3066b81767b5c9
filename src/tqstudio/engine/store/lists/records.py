"""Reads jobs joined with their video and renditions, for clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select

from tqstudio.engine.store.db import tables
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import Rows
from tqstudio.engine.store.jobs import progress
from tqstudio.engine.store.jobs.progress import RenditionRow
from tqstudio.errors import MEANINGS, code_of
from tqstudio.protocol.answers import ChangeView, ErrorView, WarningView


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job with its video's name, path and facts. Times are µs since 1970 in UTC."""

    id: int
    video: int
    batch: str | None
    kind: str
    profile: str
    requested: tuple[str, ...] | None
    dropped: tuple[str, ...]
    status: str
    step: str | None
    progress: float
    priority: int
    not_before: int | None
    attempts: int
    crashes: int
    max_attempts: int
    max_crashes: int
    epoch: int
    claimed_at: int | None
    control: str
    error_code: str | None
    error_text: str | None
    error_hint: str | None
    error_log: str | None
    exhausted: bool
    autorestart: str
    autorestart_limit: int
    autorestart_delay_s: float
    restarts: int
    last_restart_at: int | None
    processed_by: str | None
    metadata: Mapping[str, Any]
    ready_at: int | None
    created_at: int
    started_at: int | None
    last_progress_at: int | None
    completed_at: int | None
    deleted_at: int | None
    name: str
    source: bytes
    size: int
    facts: Mapping[str, Any] | None
    probe_error: ErrorView | None
    profile_json: str
    predicted_s: float | None
    actual_s: float | None
    processed_by_id: int | None
    idempotency_key: str | None
    warnings: tuple[WarningView, ...]
    owner: str
    changes: tuple[ChangeView, ...]
    renditions: tuple[RenditionRow, ...]

    @property
    def error(self) -> ErrorView | None:
        """Why it failed or waits; the code's own words where the error has none."""
        if self.error_code is None:
            return None
        meaning = MEANINGS[code_of(self.error_code)]
        message, hint = self.error_text or meaning.meaning, self.error_hint or meaning.hint
        return {"code": self.error_code, "message": message, "hint": hint}


_JOBS = Rows(
    *(JobRecord, tables.job, tables.video), video="video_id", metadata="metadata_json", renditions=None
)
_SELECT = select(*_JOBS.columns).join_from(
    tables.job, tables.video, tables.video.c.id == tables.job.c.video_id
)


def by_ids(db: Connection, ids: Sequence[int]) -> list[JobRecord]:
    """Returns the jobs with these ids, in the order given; unknown ids are left out."""
    found = {row.id: row for row in db.execute(_SELECT.where(tables.job.c.id.in_(ids)))}
    return [
        _JOBS.value(found[job], renditions=tuple(progress.renditions(db, job))) for job in ids if job in found
    ]


def one(db: Connection, job: int) -> JobRecord | None:
    found = by_ids(db, [job])
    return found[0] if found else None


def batch_counts(db: Connection, batch: str) -> dict[str, int] | None:
    """Counts the jobs of a batch by status, without deleted ones; None if the batch never had any."""
    job = tables.job.c
    shown = func.count().filter(job.deleted_at.is_(None)).label("shown")
    found = select(job.status, shown).where(job.batch == batch).group_by(job.status)
    rows = db.execute(found).all()
    return {row.status: row.shown for row in rows if row.shown} if rows else None
