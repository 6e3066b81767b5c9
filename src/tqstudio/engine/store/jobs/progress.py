"""Stores the progress of running jobs: steps, renditions, and the commands of their attempts."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import and_, bindparam, case, delete, func, select, update

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import Rows
from tqstudio.engine.store.db.tables import attempt, const, rendition
from tqstudio.engine.store.db.tables import job as job_table
from tqstudio.engine.store.dialects.expressions import greatest, upsert
from tqstudio.engine.store.jobs import claims
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.lifecycle import JobStatus, RenditionStatus, Step
from tqstudio.protocol.answers import AttemptView, RenditionState, WarningView


class RenditionRow(RenditionState):
    """One quality of a job, with times in µs since 1970 in UTC.

    Its `progress` includes an unfinished fragment if it was reported, but not if it was stored.
    """

    kept: float
    """0–100: finished fragments."""
    started_at: int | None
    completed_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a worker reports of its attempt; None where that is unchanged, or not known yet."""

    step: str | None = None
    progress: float = 0.0
    """0–100, of this run only: includes kept fragments, but not the unfinished ones of earlier runs."""
    renditions: Sequence[RenditionRow] | None = None
    warnings: Sequence[WarningView] | None = None
    steps: Mapping[str, float] = field(default_factory=dict)
    argv: Sequence[Sequence[str]] | None = None
    resumed_from: int | None = None
    resumed_at_s: float | None = None
    encoder: str | None = None
    cpu_s: float | None = None
    peak_memory_bytes: int | None = None


DETAILS = ("argv", "resumed_from", "resumed_at_s", "encoder", "cpu_s", "peak_memory_bytes")
"""What of a report is stored with its attempt, under the same names."""
_FIELDS = tuple(name for name in RenditionRow.__annotations__ if name != "kept")
_ROWS = Rows(RenditionRow, rendition, kept="progress")
_RENDITIONS = (
    select(*_ROWS.columns).where(rendition.c.job_id == bindparam("number")).order_by(rendition.c.position)
)


def renditions(db: Connection, job: int) -> list[RenditionRow]:
    return [_ROWS.value(row) for row in db.execute(_RENDITIONS, {"number": job})]


_SAVE = update(job_table).where(claims.IS_HELD).returning(job_table.c.progress)
_SET_PROGRESS = _SAVE.values(progress=bindparam("reached"))
_RAISE_PROGRESS = _SAVE.values(progress=greatest(job_table.c.progress, bindparam("reached")))
_SAVE_ATTEMPT = update(attempt).where(claims.IS_ATTEMPT)


def save(db: Connection, token: LeaseToken, report: Report, *, at: int) -> float | None:
    """Stores what a worker reported; returns the stored progress, None if the lease is lost.

    Progress never decreases unless finished segments were removed.
    """
    reported, warnings = report.renditions, report.warnings
    gone = reported is not None and sum(row["segments_done"] for row in reported) < _segments(db, token.job)
    values: dict[str, Any] = {
        "step": report.step,
        "warnings": None if warnings is None else json.dumps(warnings),
        "last_progress_at": at,
    }
    reached = {**token.values, "reached": report.progress, **_known(values)}
    stored = db.execute(_SET_PROGRESS if gone else _RAISE_PROGRESS, reached).scalar()
    if stored is None:
        return None
    values = {name: getattr(report, name) for name in DETAILS} | {
        "steps": json.dumps(dict(report.steps)),
        "argv": None if report.argv is None else json.dumps(report.argv),
        "last_progress_at": at,
    }
    db.execute(_SAVE_ATTEMPT, {**token.values, **_known(values)})
    if reported is not None:
        set_renditions(db, token.job, reported, at=at)
    return float(stored)


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values that were reported; the others stay as they are stored."""
    return {name: value for name, value in values.items() if value is not None}


def lengthen(db: Connection, token: LeaseToken, step: Step, seconds: float) -> None:
    """Adds the supervisor's time to a step of the worker's report."""
    stored = db.execute(select(attempt.c.steps).where(claims.IS_ATTEMPT), token.values).scalar_one()
    steps = json.loads(stored)
    steps[step] = round(steps.get(step, 0) + seconds, 3)
    db.execute(_SAVE_ATTEMPT, {**token.values, "steps": json.dumps(steps)})


_SEGMENTS = select(func.sum(rendition.c.segments_done)).where(rendition.c.job_id == bindparam("number"))


def _segments(db: Connection, job: int) -> int:
    """Counts finished segments of all qualities, as stored."""
    return int(db.execute(_SEGMENTS, {"number": job}).scalar() or 0)


_NEW = upsert(rendition)
_STARTED, _COMPLETED = rendition.c.started_at, rendition.c.completed_at
# The first start is kept, an end until the quality is encoded again. A quality that an earlier attempt began
# and this one finds complete ended when it was first reported so.
_ENDED = func.coalesce(_NEW.excluded.completed_at, _COMPLETED, case((_STARTED.is_not(None), bindparam("at"))))
_SET_RENDITION = _NEW.on_conflict_do_update(
    index_elements=["job_id", "name"],
    set_={
        **{name: _NEW.excluded[name] for name in (*_FIELDS, "position")},
        "started_at": func.coalesce(_STARTED, _NEW.excluded.started_at),
        "completed_at": case((_NEW.excluded.status == const(RenditionStatus.COMPLETED), _ENDED)),
    },
)


def set_renditions(db: Connection, job: int, reported: Sequence[RenditionRow], *, at: int) -> None:
    """Stores reported renditions; of the unfinished ones only the kept progress."""
    rows = [
        {name: value for name, value in row.items() if name != "kept"}
        | {"required": int(row["required"]), "progress": row["kept"]}
        | {"position": position, "job_id": job, "at": at}
        for position, row in enumerate(reported)
    ]
    if rows:
        db.execute(_SET_RENDITION, rows)


def settle_renditions(db: Connection, job: int, *, running_becomes: str, now: int) -> None:
    """Sets the status of running renditions when their job stops."""
    running = and_(rendition.c.job_id == job, rendition.c.status == RenditionStatus.IN_PROGRESS)
    ended = now if running_becomes == RenditionStatus.COMPLETED else None
    values = {"status": running_becomes, "speed": None, "completed_at": ended}
    db.execute(update(rendition).where(running).values(values))


def reset_renditions(db: Connection, job: int, *, keep: Collection[str] = ()) -> None:
    """Deletes the renditions of a job that starts over, or all but some."""
    of_job = delete(rendition).where(rendition.c.job_id == job)
    db.execute(of_job.where(rendition.c.name.not_in(keep)) if keep else of_job)


def forget_work(db: Connection, video: int) -> dict[int, int]:
    """Clears the stored progress of a video's jobs after its unfinished work was deleted.

    Not of done jobs, which are published, nor of running ones, which report their own. Returns the finished
    segments that each of the others had.
    """
    found = select(job_table.c.id).where(
        job_table.c.video_id == video,
        job_table.c.status.not_in([JobStatus.DONE, JobStatus.IN_PROGRESS]),
    )
    lost = {int(job): _segments(db, job) for (job,) in db.execute(found.order_by(job_table.c.id)).all()}
    for job in lost:
        db.execute(update(job_table).where(job_table.c.id == job).values(progress=0))
        completed = (rendition.c.status == RenditionStatus.COMPLETED, RenditionStatus.PENDING)
        db.execute(
            update(rendition)
            .where(rendition.c.job_id == job)
            .values(segments_done=0, progress=0, status=case(completed, else_=rendition.c.status))
        )
    return lost


_ATTEMPTS = Rows(AttemptView, attempt, error="error_text")


def attempts(db: Connection, job: int) -> list[AttemptView]:
    """Returns the attempts at a job; each `log` is the name of a file in the job's folder of logs."""
    found = select(*_ATTEMPTS.columns).where(attempt.c.job_id == job).order_by(attempt.c.epoch)
    return [_ATTEMPTS.value(row) for row in db.execute(found)]
