"""Converts stored rows and live reports of jobs and videos to the messages of the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tqstudio.engine.host.clock import MICROSECOND
from tqstudio.engine.live.forecasts import Forecasts
from tqstudio.engine.live.running_jobs import LiveJob
from tqstudio.engine.outputs.place import place_of
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.jobs.progress import AttemptRow, RenditionRow
from tqstudio.engine.store.library.generations import GenerationRow, PublishedRow
from tqstudio.engine.store.library.videos import VideoRow
from tqstudio.engine.store.lists.records import JobRecord
from tqstudio.home import Home
from tqstudio.lifecycle import (
    Autorestart,
    Control,
    JobStatus,
    RenditionStatus,
    claim_word,
    job_word,
    video_status,
)
from tqstudio.paths import data, encode
from tqstudio.protocol.answers import (
    AttemptView,
    AutorestartView,
    ErrorView,
    EventView,
    GenerationView,
    JobError,
    JobLive,
    JobRow,
    PublishedView,
    RenditionLive,
    RenditionView,
    SourceSummary,
    VideoView,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso(at: int | None) -> str | None:
    """Format a stored time as ISO 8601 in UTC."""
    return None if at is None else iso_time(at)


def iso_time(at: int) -> str:
    # Integers only: a float would sometimes lose the last millisecond.
    return (_EPOCH + timedelta(microseconds=at)).isoformat(timespec="milliseconds")


def parse_time(text: str) -> int:
    """Parse an ISO 8601 time to µs since 1970; without a zone it is UTC.

    Raises:
        ValueError: the text is not a valid time.
    """
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def rendition_live(row: RenditionRow, eta_s: float | None) -> RenditionLive:
    """A quality; unless it is running, its progress counts only what is kept for the next attempt."""
    return {
        "name": row.name,
        "status": row.status,
        "reason": row.reason,
        "required": row.required,
        "width": row.width,
        "height": row.height,
        "encoder": row.encoder,
        "progress": row.progress if row.status == RenditionStatus.IN_PROGRESS else row.kept,
        "segments_done": row.segments_done,
        "segments_total": row.segments_total,
        "speed": row.speed,
        "eta_s": eta_s,
        "settings_hash": row.settings_hash,
        "stream_key": row.stream_key,
        "error": row.error,
    }


def _live_renditions(rows: Iterable[RenditionRow], eta_s: float | None) -> list[RenditionLive]:
    """The qualities of a job; the running ones share the job's ETA."""
    return [rendition_live(row, eta_s if row.status == "in_progress" else None) for row in rows]


def _renditions(
    rows: Sequence[RenditionRow], stored: Iterable[RenditionRow], eta_s: float | None
) -> list[RenditionView]:
    """The qualities with their times, which include earlier attempts.

    Args:
        stored: the rows of the database; live reports lack the times of earlier attempts.
    """
    known = {row.name: row for row in stored}
    views: list[RenditionView] = []
    for row, live in zip(rows, _live_renditions(rows, eta_s), strict=True):
        previous = known.get(row.name, row)
        completed = row.status == RenditionStatus.COMPLETED
        views.append(
            {
                **live,
                "started_at": iso(previous.started_at or row.started_at),
                "completed_at": iso(row.completed_at or previous.completed_at) if completed else None,
            }
        )
    return views


def source_summary(size: int, facts: Mapping[str, Any] | None, problem: ErrorView | None) -> SourceSummary:
    video = dict(facts["video"]) if facts else {}
    return {
        "width": video.get("width"),
        "height": video.get("height"),
        "fps": _rate(video.get("fps")),
        "duration_s": facts.get("duration_s") if facts else None,
        "size": size,
        "problem": problem,
    }


def _rate(text: str | None) -> float | None:
    if not text:
        return None
    numerator, _, denominator = text.partition("/")
    return int(numerator) / int(denominator or 1)


def job_row(
    record: JobRecord,
    live: LiveJob | None,
    *,
    now: int,
    home: Home,
    forecasts: Forecasts,
    expired: bool = False,
    idle_s: float | None = None,
) -> JobRow:
    """A job for lists; live values override stored ones.

    Args:
        expired: whether the lease of a running job has expired.
    """
    control = Control(record.control)
    status = JobStatus(record.status)
    running = status is JobStatus.IN_PROGRESS
    live = live if running and live is not None and live.token.epoch == record.epoch else None
    waiting = status in (JobStatus.PENDING, JobStatus.PAUSED)
    summary = source_summary(record.size, record.facts, record.probe_error if waiting else None)
    renditions = live.renditions if live and live.renditions is not None else record.renditions
    retrying = record.not_before is not None and record.not_before > now
    eta = forecasts.of_running(live) if live else forecasts.of_waiting(record)
    return {
        "id": record.id,
        "video": record.video,
        "batch": record.batch,
        "name": record.name,
        "path": data(record.source),
        "path_b64": encode(record.source),
        "kind": record.kind,
        "status": record.status,
        "word": job_word(
            status,
            control,
            retrying=retrying,
            held=record.ready_at is None and record.started_at is None,
        ),
        "claim": claim_word(
            status,
            expired=expired,
            attempts=record.attempts + record.crashes,
        ),
        "control": record.control,
        "step": (live.step if live and live.step else record.step),
        "profile": record.profile,
        "priority": record.priority,
        "progress": max(record.progress, live.progress) if live else record.progress,
        "speed": live.speed if live else None,
        "eta_s": eta["eta_s"] if eta else None,
        "eta": eta,
        "predicted_s": record.predicted_s,
        "actual_s": record.actual_s if status is JobStatus.DONE else None,
        "attempts": record.attempts,
        "max_attempts": record.max_attempts,
        "crashes": record.crashes,
        "max_crashes": record.max_crashes,
        "retry_in_s": (record.not_before - now) / MICROSECOND if retrying and record.not_before else None,
        "worker": record.processed_by if running else None,
        "idle_s": idle_s if live else None,
        "error": _job_error(record, home),
        "warnings": list(live.warnings if live and live.warnings is not None else record.warnings),
        "source": summary,
        "renditions": _renditions(renditions, record.renditions, eta["eta_s"] if live and eta else None),
        "created_at": iso_time(record.created_at),
        "started_at": iso(record.started_at),
        "completed_at": iso(record.completed_at),
        "last_progress_at": iso(
            max(record.last_progress_at or 0, live.moved_at) if live else record.last_progress_at
        ),
        "deleted_at": iso(record.deleted_at),
    }


def _job_error(record: JobRecord, home: Home) -> JobError | None:
    error = record.error
    if error is None:
        return None
    return {
        **error,
        "exhausted": record.exhausted,
        "log": str(home.job_logs(record.id) / record.error_log) if record.error_log else None,
    }


def job_live(live: LiveJob, forecasts: Forecasts, idle_s: float | None) -> JobLive:
    eta = forecasts.of_running(live)
    eta_s = eta["eta_s"] if eta else None
    view: JobLive = {
        "id": live.token.job,
        "status": JobStatus.IN_PROGRESS.value,
        "word": job_word(JobStatus.IN_PROGRESS, live.control),
        "control": live.control.value,
        "step": live.step,
        "progress": max(live.stored, live.progress),
        "speed": live.speed,
        "eta_s": eta_s,
        "eta": eta,
        "worker": live.worker,
        "idle_s": idle_s,
    }
    if live.renditions is not None:
        view["renditions"] = _live_renditions(live.renditions, eta_s)
    if live.warnings is not None:
        view["warnings"] = list(live.warnings)
    return view


def attempt_view(row: AttemptRow, *, job: int, home: Home) -> AttemptView:
    return {
        "number": row.number,
        "epoch": row.epoch,
        "worker": row.worker,
        "encoder": row.encoder,
        "argv": row.argv,
        "resumed_from": row.resumed_from,
        "resumed_at_s": row.resumed_at_s,
        "steps": dict(row.steps),
        "started_at": iso_time(row.started_at),
        "ended_at": iso(row.ended_at),
        "last_progress_at": iso(row.last_progress_at),
        "outcome": row.outcome,
        "error_code": row.error_code,
        "error": row.error,
        "log": str(home.job_logs(job) / row.log) if row.log else None,
    }


def autorestart_view(record: JobRecord) -> AutorestartView:
    may_restart = record.autorestart in (Autorestart.ENABLED, Autorestart.IN_PROGRESS)
    next_at = None
    if record.status == JobStatus.FAILED and may_restart and record.restarts < record.autorestart_limit:
        since = max(record.completed_at or 0, record.last_restart_at or 0)
        next_at = since + int(record.autorestart_delay_s * MICROSECOND)
    return {
        "state": record.autorestart,
        "limit": record.autorestart_limit,
        "delay_s": record.autorestart_delay_s,
        "restarts": record.restarts,
        "last_at": iso(record.last_restart_at),
        "next_at": iso(next_at),
    }


def event_view(row: EventRow) -> EventView:
    return {
        "seq": row.seq,
        "at": iso_time(row.at),
        "trigger": str(row.trigger),
        "job": row.job,
        "video": row.video,
        "worker": row.worker,
        "source": None if row.source is None else str(row.source),
        "target": None if row.target is None else str(row.target),
        "actor": row.actor,
        "code": None if row.code is None else str(row.code),
        "detail": row.detail,
    }


def published_view(row: PublishedRow) -> PublishedView:
    return {
        "name": row.name,
        "kind": "audio" if row.kind == "audio" else "video",
        "width": row.width,
        "height": row.height,
        "codecs": row.codecs,
        "duration_s": row.duration_s,
        "average_bps": row.average_bps,
        "peak_bps": row.peak_bps,
        "size": row.size,
        "settings_hash": row.settings_hash,
    }


def generation_view(video: VideoRow, row: GenerationRow | None) -> GenerationView | None:
    if row is None:
        return None
    place = place_of(video)
    poster = place.generation(row.number) / row.poster if row.poster else None
    return {
        "number": row.number,
        "settings_hash": row.settings_hash,
        "published_at": iso_time(row.published_at),
        "retired_at": iso(row.retired_at),
        "master": data(place.master),
        "master_b64": encode(place.master),
        "poster": data(poster) if poster else None,
        "poster_b64": encode(poster) if poster else None,
        "renditions": [published_view(rendition) for rendition in row.renditions],
    }


def video_view(
    video: VideoRow,
    generation: GenerationRow | None,
    job: tuple[int, JobStatus] | None,
    error: ErrorView | None,
) -> VideoView:
    return {
        "id": video.id,
        "name": video.name,
        "path": data(video.source),
        "path_b64": encode(video.source),
        "output_root": data(video.output_root),
        "output_root_b64": encode(video.output_root),
        "slug": video.slug,
        "title": video.title,
        "size": video.size,
        "mtime_ns": video.mtime_ns,
        "quick_hash": video.quick_hash,
        "full_hash": video.full_hash,
        "status": video_status(has_generation=generation is not None, job=job[1] if job else None).value,
        "facts": dict(video.facts) if video.facts else None,
        "generation": generation_view(video, generation),
        "job": job[0] if job else None,
        "error": error,
        "deleted_at": iso(video.deleted_at),
    }
