"""Converts stored rows and live reports of jobs and videos to the messages of the API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from tqstudio.engine.assembly.services import Services
from tqstudio.engine.host.clock import EPOCH, MICROSECOND, iso_time
from tqstudio.engine.live.running_jobs import LiveJob
from tqstudio.engine.outputs.place import place_of
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.jobs.folder_hours import FOREVER
from tqstudio.engine.store.jobs.progress import RenditionRow
from tqstudio.engine.store.library import deliveries, generations
from tqstudio.engine.store.library.deliveries import DeliveryRow
from tqstudio.engine.store.library.generations import GenerationRow, WholeFileRow
from tqstudio.engine.store.library.videos import VideoRow
from tqstudio.engine.store.lists.records import JobRecord, error_of
from tqstudio.home import Home
from tqstudio.ladder_files import MASTER_NAME
from tqstudio.lifecycle import (
    WAITING,
    Autorestart,
    Control,
    JobKind,
    JobStatus,
    RenditionStatus,
    claim_word,
    job_word,
    video_status,
)
from tqstudio.paths import data, encode
from tqstudio.protocol import answers

M = TypeVar("M")


def iso(at: int | None) -> str | None:
    """Format a stored time as ISO 8601 in UTC."""
    return None if at is None else iso_time(at)


def parse_time(text: str) -> int:
    """Parse an ISO 8601 time to µs since 1970; without a zone it is UTC.

    Raises:
        ValueError: the text is not a valid time.
    """
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // timedelta(microseconds=1)


def fill(message: Callable[..., M], row: Any, **more: Any) -> M:
    """Create a message from the fields of a row that have the same names, and from more fields.

    A row that is a dictionary has them as in messages already. Of others, times (`…_at`) become ISO 8601,
    paths (bytes) text and base64, as `protocol.answers` promises.
    """
    if isinstance(row, dict):
        return message(**{name: row[name] for name in _names(message) if name in row} | more)
    filled = more
    for name in _common(message, row.__class__):
        if name in more:
            continue
        value = getattr(row, name)
        if isinstance(value, bytes):
            filled[f"{name}_b64"], value = encode(value), data(value)
        elif isinstance(value, tuple):
            value = list(value)
        filled[name] = iso(value) if name.endswith("_at") else value
    return message(**filled)


@cache
def _names(message: Any) -> tuple[str, ...]:
    return tuple(message.__annotations__)


@cache
def _common(message: Any, row: Any) -> tuple[str, ...]:
    return tuple(name for name in _names(message) if name in row.__dataclass_fields__)


def rendition_live(row: RenditionRow, eta_s: float | None) -> answers.RenditionLive:
    """A quality; unless it is running, its progress counts only what is kept for the next attempt."""
    progress = row["progress"] if row["status"] == RenditionStatus.IN_PROGRESS else row["kept"]
    return fill(answers.RenditionLive, row, progress=progress, eta_s=eta_s)


def _live_renditions(rows: Iterable[RenditionRow], eta_s: float | None) -> list[answers.RenditionLive]:
    """The qualities of a job; the running ones share the job's ETA."""
    return [rendition_live(row, eta_s if row["status"] == "in_progress" else None) for row in rows]


def _renditions(
    rows: Sequence[RenditionRow], stored: Iterable[RenditionRow], eta_s: float | None
) -> list[answers.RenditionView]:
    """The qualities with their times, which include earlier attempts.

    Args:
        stored: the rows of the database; live reports lack the times of earlier attempts.
    """
    known = {row["name"]: row for row in stored}
    views: list[answers.RenditionView] = []
    for row, live in zip(rows, _live_renditions(rows, eta_s), strict=True):
        previous = known.get(row["name"], row)
        completed = row["status"] == RenditionStatus.COMPLETED
        views.append(
            {
                **live,
                "started_at": iso(previous["started_at"] or row["started_at"]),
                "completed_at": iso(row["completed_at"] or previous["completed_at"]) if completed else None,
            }
        )
    return views


def source_summary(
    size: int, facts: Mapping[str, Any] | None, problem: answers.ErrorView | None
) -> answers.SourceSummary:
    video = dict(facts["video"]) if facts else {}
    if video.get("still"):
        video |= {"width": 0, "height": 0, "fps": None}
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


def job_row(services: Services, record: JobRecord, now: int) -> answers.JobRow:
    """A job for lists; live values override stored ones."""
    running_jobs, forecasts = services.running_jobs, services.forecasts
    live = running_jobs.jobs.get(record["id"])
    expired = live is not None and not running_jobs.leases.is_live(live.token)
    control = Control(record["control"])
    status = JobStatus(record["status"])
    running = status is JobStatus.IN_PROGRESS
    live = live if running and live is not None and live.token.epoch == record["lease_epoch"] else None
    waiting = status in WAITING
    summary = source_summary(record["size"], record["facts"], record["probe_error"] if waiting else None)
    renditions = live.renditions if live and live.renditions is not None else record["renditions"]
    begins = record["not_before"] or 0
    wait = begins - now if begins > now else None
    eta = forecasts.of_running(live) if live else forecasts.of_waiting(record)
    return fill(
        answers.JobRow,
        record,
        word=job_word(
            status,
            control,
            retrying=wait is not None,
            held=record["ready_at"] is None and record["started_at"] is None,
            changed=record["kind"] == JobKind.CHANGED,
        ),
        claim=claim_word(status, expired=expired, attempts=record["attempts"] + record["crashes"]),
        step=live.shown_step if live and live.step else record["step"],
        progress=max(record["progress"], live.progress) if live else record["progress"],
        speed=live.speed if live else None,
        eta_s=eta["eta_s"] if eta else None,
        eta=eta,
        actual_s=record["actual_s"] if status is JobStatus.DONE else None,
        retry_in_s=None if wait is None or begins == FOREVER else wait / MICROSECOND,
        worker=record["processed_by"] if running else None,
        division=services.ranges.view(record["id"]) if live else None,
        idle_s=running_jobs.idle_s(record["id"], now) if live else None,
        error=_job_error(record, services.home),
        warnings=list(live.warnings if live and live.warnings is not None else record["warnings"]),
        source=summary,
        renditions=_renditions(renditions, record["renditions"], eta["eta_s"] if live and eta else None),
        last_progress_at=iso(
            max(record["last_progress_at"] or 0, live.moved_at) if live else record["last_progress_at"]
        ),
    )


def _job_error(record: JobRecord, home: Home) -> answers.JobError | None:
    error = error_of(record)
    if error is None:
        return None
    return {
        **error,
        "exhausted": record["exhausted"],
        "log": str(home.job_logs(record["id"]) / record["error_log"]) if record["error_log"] else None,
    }


def job_live(services: Services, live: LiveJob, now: int) -> answers.JobLive:
    eta = services.forecasts.of_running(live)
    eta_s = eta["eta_s"] if eta else None
    view: answers.JobLive = {
        "id": live.token.job,
        "status": JobStatus.IN_PROGRESS.value,
        "word": job_word(JobStatus.IN_PROGRESS, live.control),
        "control": live.control.value,
        "step": live.shown_step,
        "progress": max(live.stored, live.progress),
        "speed": live.speed,
        "eta_s": eta_s,
        "eta": eta,
        "worker": live.worker,
        "division": services.ranges.view(live.token.job),
        "idle_s": services.running_jobs.idle_s(live.token.job, now),
    }
    if live.renditions is not None:
        view["renditions"] = _live_renditions(live.renditions, eta_s)
    if live.warnings is not None:
        view["warnings"] = list(live.warnings)
    return view


def attempt_view(row: answers.AttemptView, *, job: int, home: Home) -> answers.AttemptView:
    """An attempt with the path of its log."""
    return {**row, "log": str(home.job_logs(job) / row["log"]) if row["log"] else None}


def autorestart_view(record: JobRecord) -> answers.AutorestartView:
    may_restart = record["autorestart"] in (Autorestart.ENABLED, Autorestart.IN_PROGRESS)
    used_up = record["restarts"] >= record["autorestart_limit"]
    next_at = None
    if record["status"] == JobStatus.FAILED and may_restart and not used_up:
        since = max(record["ended_at"] or 0, record["last_restart_at"] or 0)
        next_at = since + int(record["autorestart_delay_s"] * MICROSECOND)
    return {
        "state": record["autorestart"],
        "limit": record["autorestart_limit"],
        "delay_s": record["autorestart_delay_s"],
        "restarts": record["restarts"],
        "last_at": iso(record["last_restart_at"]),
        "next_at": iso(next_at),
    }


def event_view(row: EventRow) -> answers.EventView:
    return fill(answers.EventView, row, at=iso_time(row.at))


def generation_view(video: VideoRow, row: GenerationRow | None) -> answers.GenerationView | None:
    if row is None:
        return None
    place = place_of(video)
    poster = place.generation(row.number) / row.poster if row.poster else None
    return fill(
        answers.GenerationView,
        row,
        master=data(place.master),
        master_b64=encode(place.master),
        poster=data(poster) if poster else None,
        poster_b64=encode(poster) if poster else None,
        files=[_file_view(place.generation(row.number) / file.name, file) for file in row.files],
        renditions=[fill(answers.PublishedView, rendition) for rendition in row.renditions],
    )


def _file_view(path: Path | str, file: WholeFileRow) -> answers.FileView:
    return {"path": data(path), "path_b64": encode(path), "size": file.size, "blake3": file.blake3}


def delivery_view(row: DeliveryRow) -> answers.DeliveryView:
    return fill(answers.DeliveryView, row, problem=delivery_problem(row), state=row.state.value)


def delivery_problem(row: DeliveryRow) -> answers.ErrorView | None:
    if row.code is None:
        return None
    return {"code": row.code, "message": row.error or "", "hint": row.hint or ""}


def video_view(
    db: Connection, video: VideoRow, job: tuple[int, JobStatus] | None, error: answers.ErrorView | None
) -> answers.VideoView:
    """A video with its ladder.

    Args:
        job: its newest job.
        error: that of a job of it.
    """
    generation, delivery = generations.current(db, video.id), deliveries.of_video(db, video.id)
    published = generation_view(video, generation)
    if generation and published and delivery is not None and delivery.evicted_at is not None:
        published["master"] = f"{delivery.url}/{MASTER_NAME}"
        published["master_b64"] = encode(published["master"])
        below = f"{delivery.url}/v{published['number']}"
        published["files"] = [_file_view(f"{below}/{file.name}", file) for file in generation.files]
    return fill(
        answers.VideoView,
        video,
        path=data(video.source),
        path_b64=encode(video.source),
        status=video_status(has_generation=generation is not None, job=job[1] if job else None).value,
        generation=published,
        delivery=None if delivery is None else delivery_view(delivery),
        job=job[0] if job else None,
        error=error,
    )
