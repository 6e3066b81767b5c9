"""Stores the progress of running jobs: steps, renditions, and the commands of their attempts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs.claims import Token
from tqstudio.lifecycle import Step
from tqstudio.protocol.answers import WarningView


@dataclass(frozen=True, slots=True)
class RenditionRow:
    """One quality of a job; `speed` is a multiple of real time, times are µs since 1970 in UTC."""

    name: str
    status: str
    reason: str | None
    required: bool
    width: int | None
    height: int | None
    encoder: str | None
    progress: float
    """0–100. Reported: including the unfinished fragment; stored: only what is kept."""
    segments_done: int
    segments_total: int | None
    speed: float | None
    settings_hash: str | None
    stream_key: str | None
    error: str | None
    started_at: int | None = None
    completed_at: int | None = None
    kept: float = 0.0
    """0–100: finished fragments."""


_FIELDS = tuple(name for name in RenditionRow.__dataclass_fields__ if name != "kept")
_PROGRESS = _FIELDS.index("progress")
_TIMES = {
    "started_at": "coalesce(started_at, :started_at)",
    "completed_at": (
        "CASE WHEN :status = 'completed' THEN coalesce(:completed_at, completed_at,"
        " CASE WHEN started_at IS NOT NULL THEN :at END) END"
    ),
}
"""How stored times are updated: the first start is kept, an end is kept until the quality is encoded again.
A quality that an earlier attempt began and this one finds complete ended when it was first reported so."""
_SELECT = f"SELECT {', '.join(_FIELDS)} FROM rendition WHERE job_id = :job ORDER BY position"
_UPSERT = (
    f"INSERT INTO rendition (job_id, position, {', '.join(_FIELDS)}) VALUES (:job, :position,"
    f" {', '.join(':' + name for name in _FIELDS)}) ON CONFLICT (job_id, name) DO UPDATE SET"
    f" position = :position, {', '.join(f'{name} = :{name}' for name in _FIELDS[1:] if name not in _TIMES)},"
    f" {', '.join(f'{name} = {value}' for name, value in _TIMES.items())}"
)


def renditions(db: Connection, job: int) -> list[RenditionRow]:
    rows = []
    for row in db.execute(_SELECT, {"job": job}):
        values = [*row, row[_PROGRESS]]
        values[3] = bool(values[3])
        rows.append(RenditionRow(*values))
    return rows


def renditions_of(db: Connection, jobs: Sequence[int]) -> dict[int, list[RenditionRow]]:
    return {job: found for job in jobs if (found := renditions(db, job))}


def save(
    db: Connection,
    token: Token,
    *,
    step: str | None,
    progress: float,
    reported: Sequence[RenditionRow] | None,
    steps: Mapping[str, float],
    argv: Sequence[Sequence[str]] | None,
    resumed_from: int | None,
    resumed_at_s: float | None,
    encoder: str | None,
    at: int,
    warnings: Sequence[WarningView] | None = None,
) -> float | None:
    """Stores a running job's progress; returns the stored progress, None if the lease is lost.

    Progress never decreases unless finished segments were removed.
    """
    gone = reported is not None and sum(row.segments_done for row in reported) < _segments(db, token.job)
    stored = db.execute(
        "UPDATE job SET step = coalesce(:step, step), last_progress_at = :at,"
        " progress = CASE WHEN :gone THEN :progress ELSE max(progress, :progress) END,"
        " warnings = coalesce(:warnings, warnings)"
        " WHERE id = :job AND epoch = :epoch AND instance = :instance"
        " RETURNING progress",
        {
            "step": step,
            "progress": progress,
            "gone": int(gone),
            "warnings": None if warnings is None else json.dumps(warnings),
            "at": at,
            "job": token.job,
            "epoch": token.epoch,
            "instance": token.instance,
        },
    ).scalar()
    if stored is None:
        return None
    db.execute(
        "UPDATE attempt SET steps = :steps, last_progress_at = :at, argv = coalesce(:argv, argv),"
        " resumed_from = coalesce(:resumed_from, resumed_from),"
        " resumed_at_s = coalesce(:resumed_at_s, resumed_at_s), encoder = coalesce(:encoder, encoder)"
        " WHERE job_id = :job AND epoch = :epoch",
        {
            "steps": json.dumps(dict(steps)),
            "argv": None if argv is None else json.dumps([list(command) for command in argv]),
            "resumed_from": resumed_from,
            "resumed_at_s": resumed_at_s,
            "encoder": encoder,
            "at": at,
            "job": token.job,
            "epoch": token.epoch,
        },
    )
    if reported is not None:
        set_renditions(db, token.job, reported, at=at)
    return float(stored)


def lengthen(db: Connection, token: Token, step: Step, seconds: float) -> None:
    """Adds the supervisor's time to a step of the worker's report."""
    db.execute(
        "UPDATE attempt SET steps = json_set(steps, '$.' || :step,"
        " round(coalesce(json_extract(steps, '$.' || :step), 0) + :seconds, 3))"
        " WHERE job_id = :job AND epoch = :epoch",
        {"step": step.value, "seconds": seconds, "job": token.job, "epoch": token.epoch},
    )


def _segments(db: Connection, job: int) -> int:
    """Counts finished segments of all qualities, as stored."""
    found = db.execute("SELECT sum(segments_done) FROM rendition WHERE job_id = :job", {"job": job})
    return int(found.scalar() or 0)


def set_renditions(db: Connection, job: int, reported: Sequence[RenditionRow], *, at: int) -> None:
    """Stores reported renditions; of the unfinished ones only the kept progress."""
    for position, rendition in enumerate(reported):
        values: dict[str, Any] = {name: getattr(rendition, name) for name in _FIELDS}
        values["progress"] = rendition.kept
        db.execute(
            _UPSERT,
            {**values, "required": int(rendition.required), "job": job, "position": position, "at": at},
        )


def settle_renditions(db: Connection, job: int, *, running_becomes: str, now: int) -> None:
    """Sets the status of running renditions when their job stops."""
    db.execute(
        "UPDATE rendition SET status = :status, speed = NULL,"
        " completed_at = CASE WHEN :status = 'completed' THEN :now END"
        " WHERE job_id = :job AND status = 'in_progress'",
        {"status": running_becomes, "job": job, "now": now},
    )


def reset_renditions(db: Connection, job: int) -> None:
    """Deletes the renditions of a job that starts over."""
    db.execute("DELETE FROM rendition WHERE job_id = :job", {"job": job})


def forget_work(db: Connection, video: int) -> dict[int, int]:
    """Clears the stored progress of a video's jobs after its unfinished work was deleted.

    Not of done jobs, which are published, nor of running ones, which report their own. Returns the finished
    segments that each of the others had.
    """
    found = db.execute(
        "SELECT id, (SELECT coalesce(sum(segments_done), 0) FROM rendition WHERE job_id = job.id) FROM job"
        " WHERE video_id = :video AND status NOT IN ('done', 'in_progress') ORDER BY id",
        {"video": video},
    )
    lost = {int(row[0]): int(row[1]) for row in found}
    for job in lost:
        db.execute("UPDATE job SET progress = 0 WHERE id = :job", {"job": job})
        db.execute(
            "UPDATE rendition SET segments_done = 0, progress = 0,"
            " status = CASE status WHEN 'completed' THEN 'pending' ELSE status END WHERE job_id = :job",
            {"job": job},
        )
    return lost


@dataclass(frozen=True, slots=True)
class AttemptRow:
    number: int
    epoch: int
    worker: str
    encoder: str | None
    argv: list[list[str]]
    resumed_from: int | None
    resumed_at_s: float | None
    steps: Mapping[str, float]
    started_at: int
    ended_at: int | None
    last_progress_at: int | None
    outcome: str
    error_code: str | None
    error: str | None
    log: str | None


def attempts(db: Connection, job: int) -> list[AttemptRow]:
    rows = db.execute(
        "SELECT number, epoch, worker, encoder, argv, resumed_from, resumed_at_s, steps, started_at,"
        " ended_at, last_progress_at, outcome, error_code, error_text, log FROM attempt WHERE job_id = :job"
        " ORDER BY epoch",
        {"job": job},
    )
    found = []
    for row in rows:
        values = list(row)
        values[4], values[7] = json.loads(values[4]), json.loads(values[7])
        found.append(AttemptRow(*values))
    return found
