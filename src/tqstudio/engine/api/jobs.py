"""Endpoints of jobs and the queue: lists, details, logs, operations on jobs and on the whole queue."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query

from tqstudio.engine.api import views
from tqstudio.engine.api.bodies import BoundedRoute
from tqstudio.engine.api.dependencies import TheActor, TheServices
from tqstudio.engine.api.system import gate_view
from tqstudio.engine.assembly.services import Services
from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs import jobs, progress
from tqstudio.engine.store.jobs.folder_hours import FOREVER
from tqstudio.engine.store.library import videos
from tqstudio.engine.store.lists import pages
from tqstudio.engine.store.lists import records as job_records
from tqstudio.engine.store.lists.matching import with_folders
from tqstudio.engine.store.lists.orders import PageQuery
from tqstudio.engine.store.machine import gates
from tqstudio.engine.store.machine.gates import GateRow
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import (
    PAUSED_WITHOUT_REASON,
    GateKind,
    Operation,
)
from tqstudio.paths import readable_lines
from tqstudio.protocol import answers, filters
from tqstudio.protocol.requests import (
    ActionRequest,
    BulkRequest,
    JobSettings,
    JobsRequest,
    QueueClear,
    QueuePause,
    QueueRetry,
    UndoRequest,
)

router = APIRouter(route_class=BoundedRoute)

LOG_TAIL_BYTES = 256 * 1024
EVENTS_SHOWN = 200
_LONGEST_PAUSE_US = 366 * 86_400 * MICROSECOND


def rows_of(services: Services, records: list[job_records.JobRecord]) -> list[answers.JobRow]:
    now = now_us()
    return [views.job_row(services, record, now) for record in records]


@router.get("/jobs")
async def page(
    services: TheServices,
    line: Annotated[str, Query(alias="filter")] = "",
    sort: str = "order",
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    after: str | None = None,
    before: str | None = None,
    around: int | None = None,
    video: int | None = None,
) -> answers.JobPage:
    """A page of jobs that match a filter, as it is typed. Cursors come from another page, or are `start` or
    `end`."""
    query = PageQuery(filters.parse(line), filters.sort_of(sort), video, now_us())

    def read(db: Connection) -> tuple[pages.Page, list[job_records.JobRecord]]:
        exact = replace(query, filter=with_folders(db, query.filter))
        found = pages.page(db, exact, limit=limit, after=after, before=before, around=around)
        return found, job_records.by_ids(db, found.ids)

    long = query.filtered or query.by_video
    try:
        found, records = await (services.db.search if long else services.db.read)(read)
    except ValueError:
        raise TqError(
            ErrorCode.BAD_REQUEST, "the cursor does not belong to this list", "start without a cursor"
        ) from None
    return {
        "jobs": rows_of(services, records),
        "total": found.total,
        "before": found.before,
        "after": found.after,
    }


@router.post("/jobs/actions")
async def act(
    services: TheServices, actor: TheActor, request: ActionRequest
) -> dict[str, list[answers.ActionResult]]:
    """Apply an operation to jobs. A job that refuses it is unchanged and does not stop the others."""
    profile = profile_of(services, request)
    return {"results": await services.operations.apply(request, actor=actor, profile=profile)}


def profile_of(services: Services, request: JobSettings) -> Profile | None:
    """The profile that a request names, with its overrides; None for each job's own.

    Raises:
        TqError: BAD_CONFIG for an unknown profile or key, or a wrong value; BAD_REQUEST for an operation that
            takes none.
    """
    named = request.profile is not None or request.overrides or request.hold is not None
    takes = (Operation.CHANGE, Operation.RETRANSCODE)
    if named and isinstance(request, JobsRequest) and request.operation not in takes:
        raise TqError(
            ErrorCode.BAD_REQUEST,
            f"{request.operation} leaves a job's settings as they are",
            "leave profile, overrides and hold out; only a change or a retranscode takes them",
        )
    if request.profile is None:
        return None
    return services.admission.profile(request.profile, request.overrides)


@router.post("/jobs/bulk")
async def act_on_matching(services: TheServices, actor: TheActor, request: BulkRequest) -> answers.BulkAnswer:
    """Apply an operation to the next jobs that match a filter; with `after`, to those after them."""
    profile = profile_of(services, request)
    line = filters.parse(request.filter)
    query = PageQuery(await services.db.read(with_folders, line), "number", now=now_us())
    return await services.operations.apply_to_matching(request, query, actor=actor, profile=profile)


@router.post("/undo")
async def undo(services: TheServices, actor: TheActor, request: UndoRequest) -> answers.UndoAnswer:
    """Undo the caller's newest action of a day: jobs that were not changed since get their former state.

    Many jobs change in several requests: while `remaining` is not 0, send the answer's `undo` with a new key.
    """
    return await services.undo.undo(request, actor=actor)


def _read_detail(
    db: Connection, job: int
) -> tuple[job_records.JobRecord, answers.VideoView, list[answers.AttemptView], list[answers.EventView]]:
    record = job_records.one(db, job)
    video = videos.get(db, record["video"]) if record else None
    if record is None or video is None:
        raise no_such_job(job)
    view = views.video_view(db, video, jobs.newest_job_of(db, video.id), job_records.error_of(record))
    history = [views.event_view(event) for event in events.newest(db, limit=EVENTS_SHOWN, job=job)]
    return record, view, progress.attempts(db, job), history


@router.get("/jobs/{job}")
async def detail(services: TheServices, job: int) -> answers.JobDetail:
    record, video, attempts, history = await services.db.read(_read_detail, job)
    row = rows_of(services, [record])[0]
    attempt_views = [views.attempt_view(attempt, job=job, home=services.home) for attempt in attempts]
    live = services.running_jobs.jobs.get(job)
    left_us = 0 if live is None else services.running_jobs.leases.remaining_us(live.token)
    if live is not None and attempt_views and attempt_views[-1]["epoch"] == live.token.epoch:
        # The stored attempt is a few seconds old.
        attempt_views[-1] = {
            **attempt_views[-1],
            "steps": dict(live.steps),
            "argv": [list(command) for command in live.argv or ()],
            "resumed_from": live.resumed_from,
            "resumed_at_s": live.resumed_at_s,
            "encoder": live.encoder,
        }
    return views.fill(
        answers.JobDetail,
        record,
        **row,
        video_view=video,
        not_before=None if record["not_before"] == FOREVER else views.iso(record["not_before"]),
        lease_expires_at=views.iso(now_us() + left_us) if left_us else None,
        autorestart=views.autorestart_view(record),
        attempts_log=attempt_views,
        events=history,
    )


@router.get("/jobs/{job}/log")
async def log(
    services: TheServices,
    job: int,
    attempt: int | None = None,
    lines: Annotated[int | None, Query(ge=1, le=1_000)] = None,
) -> dict[str, object]:
    """The last 256 kB of an attempt's log, by default of the newest attempt.

    With `lines` only its last lines, without those about the files that ffmpeg opens.
    """
    attempts = await services.db.read(progress.attempts, job)
    if not attempts and await services.db.read(job_records.one, job) is None:
        raise no_such_job(job)
    chosen = [a for a in attempts if attempt is None or a["number"] == attempt]
    if not chosen or (name := chosen[-1]["log"]) is None:
        which = "has not started yet" if attempt is None else f"has no attempt {attempt}"
        raise TqError(ErrorCode.NOT_FOUND, f"job {job} {which}", f"see: tqstudio job show {job}")
    path = services.home.job_logs(job) / name
    return {
        "path": str(path),
        "attempt": chosen[-1]["number"],
        "text": await asyncio.to_thread(_tail, path, lines),
    }


_OPENING = re.compile(r"\[\w+ @ \w+\] Opening '")


def _tail(path: Path, lines: int | None) -> str:
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - LOG_TAIL_BYTES))
            text = readable_lines(file.read().decode("utf-8", "replace"))
    except FileNotFoundError:
        return ""
    if lines is None:
        return text
    return "\n".join([line for line in text.splitlines() if not _OPENING.search(line)][-lines:])


@router.get("/batches/{batch}")
async def batch_status(services: TheServices, batch: str) -> answers.BatchView:
    """Counts of a batch's jobs by status; `GET /v1/jobs?filter=batch:…` lists them."""
    counts = await services.db.read(job_records.batch_counts, batch)
    if counts is None:
        raise TqError(
            ErrorCode.NOT_FOUND,
            f"batch {batch} has no jobs",
            "files whose ladders were complete got none; list all jobs with: tqstudio job list",
        )
    return {"batch": batch, "counts": counts, "total": sum(counts.values())}


@router.post("/queue/pause")
async def pause(services: TheServices, actor: TheActor, request: QueuePause) -> answers.GateView:
    """Pause the queue: no more jobs start; running ones continue and no job changes.

    With `until` it resumes then. A queue that is paused gets the new reason and end.
    """
    reason = request.reason or PAUSED_WITHOUT_REASON
    return gate_view(await services.db.write(_shut_for_user, reason, _until(request), actor))


def _until(request: QueuePause) -> int | None:
    if request.until is None:
        return None
    with contextlib.suppress(ValueError, OverflowError):
        until = views.parse_time(request.until)
        if now_us() < until < now_us() + _LONGEST_PAUSE_US:
            return until
    raise TqError(
        ErrorCode.BAD_REQUEST,
        f"the queue cannot be paused until {request.until!r}: that is no time within a year from now",
        "write a later time in ISO 8601, or none to pause it until it is resumed",
    )


def _shut_for_user(db: Connection, reason: str, until: int | None, actor: str) -> GateRow:
    now = now_us()
    if not gates.shut(db, GateKind.USER, reason, now=now, actor=actor, until=until):
        gates.open_until(db, GateKind.USER, reason=reason, until=until, now=now, actor=actor)
    # Read in the same transaction: a resume may follow at once.
    return next(gate for gate in gates.listing(db) if gate.kind is GateKind.USER)


@router.post("/queue/resume")
async def resume(services: TheServices, actor: TheActor) -> dict[str, bool]:
    opened = await services.db.write(lambda db: gates.reopen(db, GateKind.USER, now=now_us(), actor=actor))
    return {"resumed": opened}


@router.post("/queue/retry")
async def retry(services: TheServices, actor: TheActor, request: QueueRetry) -> answers.RetryAnswer:
    """Retry every failed job, of one batch or of all."""
    return await services.bulk_operations.retry_failed(request.batch, actor=actor)


@router.post("/queue/clear")
async def clear(services: TheServices, actor: TheActor, request: QueueClear) -> answers.ClearAnswer:
    """Delete every ended job, and on request what is known of files without open jobs, and the history."""
    deleted, removed = await services.bulk_operations.clear_ended(actor=actor)
    forgotten = 0
    if request.manifest:
        forgotten = await services.bulk_operations.forget_files()
        await services.intake.start_over()
    history = request.history or request.manifest
    pruned = await services.bulk_operations.forget_history(actor=actor) if history else 0
    return {"deleted": deleted, "removed_segments": removed, "forgotten": forgotten, "pruned": pruned}


def no_such_job(job: int) -> TqError:
    return TqError(ErrorCode.NOT_FOUND, f"there is no job {job}", "list jobs with: tqstudio job list")
