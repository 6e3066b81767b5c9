"""Reads jobs joined with their video and renditions, for clients."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs.progress import RenditionRow, renditions_of
from tqstudio.errors import MEANINGS, code_of
from tqstudio.protocol.answers import ErrorView, WarningView


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
    worker_id: int | None
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
    renditions: tuple[RenditionRow, ...]

    @property
    def error(self) -> ErrorView | None:
        """Why it failed or waits; the code's own words where the error has none."""
        if self.error_code is None:
            return None
        meaning = MEANINGS[code_of(self.error_code)]
        message, hint = self.error_text or meaning.meaning, self.error_hint or meaning.hint
        return {"code": self.error_code, "message": message, "hint": hint}


_SELECT = (
    "SELECT j.id, j.video_id, j.batch, j.kind, j.profile, j.requested, j.dropped, j.status, j.step,"
    " j.progress, j.priority, j.not_before, j.attempts, j.crashes, j.max_attempts, j.max_crashes, j.epoch,"
    " j.worker_id, j.claimed_at, j.control, j.error_code, j.error_text,"
    " j.error_hint, j.error_log, j.exhausted, j.autorestart, j.autorestart_limit, j.autorestart_delay_s,"
    " j.restarts, j.last_restart_at, j.processed_by, j.metadata_json, j.ready_at, j.created_at, j.started_at,"
    " j.last_progress_at, j.completed_at, j.deleted_at, v.name, v.source, v.size, v.facts, v.probe_error,"
    " j.profile_json, j.predicted_s, j.actual_s, j.processed_by_id, j.idempotency_key, j.warnings"
    " FROM job j JOIN video v ON v.id = j.video_id"
)


def by_ids(db: Connection, ids: Sequence[int]) -> list[JobRecord]:
    """Returns the jobs with these ids, in the order given; unknown ids are left out."""
    rows = db.execute(
        f"{_SELECT} WHERE j.id IN (SELECT value FROM json_each(:ids))", {"ids": json.dumps(list(ids))}
    )
    found = {row[0]: row for row in rows}
    qualities = renditions_of(db, list(found))
    return [_record(found[job], qualities.get(job, [])) for job in ids if job in found]


def one(db: Connection, job: int) -> JobRecord | None:
    found = by_ids(db, [job])
    return found[0] if found else None


def _record(row: Any, renditions: Sequence[RenditionRow]) -> JobRecord:
    values = list(row)
    values[5] = None if values[5] is None else tuple(json.loads(values[5]))
    values[6] = tuple(json.loads(values[6]))
    values[24] = bool(values[24])
    values[31] = json.loads(values[31])
    values[41] = None if values[41] is None else json.loads(values[41])
    values[42] = None if values[42] is None else json.loads(values[42])
    values[-1] = tuple(json.loads(values[-1]))
    values.append(tuple(renditions))
    return JobRecord(*values)


def batch_counts(db: Connection, batch: str) -> dict[str, int] | None:
    """Counts the jobs of a batch by status, without deleted ones; None if the batch never had any."""
    rows = db.execute(
        "SELECT status, count(*) FILTER (WHERE deleted_at IS NULL) FROM job WHERE batch = :batch"
        " GROUP BY status",
        {"batch": batch},
    ).all()
    return {row[0]: int(row[1]) for row in rows if row[1]} if rows else None
