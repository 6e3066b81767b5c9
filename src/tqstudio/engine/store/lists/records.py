"""Reads jobs joined with their video and renditions, for clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select

from tqstudio.engine.store.db import tables
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import Rows
from tqstudio.engine.store.jobs import progress
from tqstudio.engine.store.jobs.progress import RenditionRow
from tqstudio.errors import MEANINGS, code_of
from tqstudio.protocol.answers import ErrorView, StoredDetail, StoredJob, WarningView


class JobRecord(StoredJob, StoredDetail):
    """One job with its video: what its messages show as it is stored, and what they are made of.

    Times of the latter are µs since 1970 in UTC.
    """

    step: str | None
    progress: float
    not_before: int | None
    ready_at: int | None
    last_progress_at: int | None
    ended_at: int | None
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
    size: int
    facts: Mapping[str, Any] | None
    probe_error: ErrorView | None
    profile_json: str
    actual_s: float | None
    warnings: list[WarningView]
    renditions: list[RenditionRow]


_JOBS = Rows(
    *(JobRecord, tables.job, tables.video),
    video="video_id",
    path="source",
    path_b64="source",
    lease_epoch="epoch",
    metadata="metadata_json",
    ended_at="completed_at",
    renditions=None,
)
_SELECT = select(*_JOBS.columns).join_from(
    tables.job, tables.video, tables.video.c.id == tables.job.c.video_id
)


def by_ids(db: Connection, ids: Sequence[int]) -> list[JobRecord]:
    """Returns the jobs with these ids, in the order given; unknown ids are left out."""
    found = {row.id: row for row in db.execute(_SELECT.where(tables.job.c.id.in_(ids)))}
    return [_JOBS.value(found[job], renditions=progress.renditions(db, job)) for job in ids if job in found]


def one(db: Connection, job: int) -> JobRecord | None:
    found = by_ids(db, [job])
    return found[0] if found else None


def error_of(record: JobRecord | None) -> ErrorView | None:
    """Returns why a job failed or waits, in the code's own words where the error has none."""
    if record is None or (code := record["error_code"]) is None:
        return None
    meaning = MEANINGS[code_of(code)]
    message, hint = record["error_text"] or meaning.meaning, record["error_hint"] or meaning.hint
    return {"code": code, "message": message, "hint": hint}


def batch_counts(db: Connection, batch: str) -> dict[str, int] | None:
    """Counts the jobs of a batch by status, without deleted ones; None if the batch never had any."""
    job = tables.job.c
    shown = func.count().filter(job.deleted_at.is_(None)).label("shown")
    found = select(job.status, shown).where(job.batch == batch).group_by(job.status)
    rows = db.execute(found).all()
    return {row.status: row.shown for row in rows if row.shown} if rows else None
