"""Endpoints of the event history: pages, and a stream of server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import resource
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from tqstudio.engine.api.bodies import BoundedRoute
from tqstudio.engine.api.dependencies import TheServices
from tqstudio.engine.api.errors import JSON_ERRORS
from tqstudio.engine.api.jobs import no_such_job
from tqstudio.engine.api.views import event_view, job_live, parse_time, source_summary
from tqstudio.engine.api.workers import worker_views
from tqstudio.engine.assembly.services import Services
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.live import event_stream
from tqstudio.engine.live.event_stream import SNAPSHOT_INTERVAL_S, EventStream
from tqstudio.engine.probing.prober import ProbeResult
from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.jobs.transitions import job_facts
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol.answers import EventPage, JobSource

router = APIRouter(route_class=BoundedRoute)

_SEQ = re.compile(r"[0-9]+")
_SEQ_DIGITS = 19
"""Digits of the largest integer that the database can store."""

_WORKER_TICKS = 8
"""Worker snapshots are sent with every eighth snapshot of running jobs: heartbeats change slowly."""
_OF_DESCRIPTORS = 2
"""Event streams may use 1/N of the file descriptors: commands and workers need some as well."""


@router.get("/events")
async def page(
    services: TheServices,
    after: int | None = None,
    before: int | None = None,
    job: int | None = None,
    since: str | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 200,
) -> EventPage:
    """Events after a sequence number or a time, oldest first; without either the newest ones, or those
    directly before a sequence number."""
    if before is not None and (after is not None or since is not None):
        raise TqError(ErrorCode.BAD_REQUEST, "before excludes after and since", "give one of them")
    try:
        start = None if since is None else parse_time(since)
    except ValueError:
        raise TqError(
            ErrorCode.BAD_REQUEST, f"{since!r} is not a time", "write it as 2026-01-31T18:00:00"
        ) from None

    def read(db: Connection) -> tuple[list[EventRow], int]:
        # A job's events may have been pruned; a job that does not exist is an error.
        if job is not None and job_facts(db, job) is None:
            raise no_such_job(job)
        if after is None and start is None:
            found = events.newest(db, limit=limit, job=job, before=before)[::-1]
        else:
            found = events.after(db, after or 0, limit=limit, job=job, since=start)
        return found, events.bounds(db)[1]

    found, last = await services.db.read(read)
    return {"events": [event_view(row) for row in found], "last_seq": last}


class EventStreamResponse(StreamingResponse):
    media_type = "text/event-stream"


@router.get("/events/stream", response_class=EventStreamResponse, responses=JSON_ERRORS)
async def follow(
    services: TheServices, last_event_id: Annotated[str | None, Header()] = None
) -> StreamingResponse:
    """Stream events from now on; with Last-Event-ID also the missed ones, or `reset` and the remaining
    ones."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _OF_DESCRIPTORS
    if services.event_stream.watchers >= limit:
        raise TqError(
            ErrorCode.REFUSED,
            f"all {limit} event streams are in use",
            "close some clients, or allow the supervisor more open files (ulimit -n)",
        )
    oldest, last = await services.db.read(events.bounds)
    # The store is empty for a moment while the history is being deleted.
    last = max(last, services.event_stream.last)
    greeting = f"retry: {int(services.settings.sse_reconnect_s * 1000)}\n\n".encode()
    seen = last
    if last_event_id is not None and _SEQ.fullmatch(last_event_id):
        seen = int(last_event_id) if len(last_event_id) <= _SEQ_DIGITS else last + 1
        if seen > last:
            # The id is from the history of another database.
            greeting, seen = greeting + event_stream.reset(oldest, last), last
    return EventStreamResponse(
        event_stream.stream(
            services.event_stream,
            lambda seq: services.db.read(event_stream.page, seq),
            seen,
            greeting=greeting,
            keepalive_s=services.settings.sse_keepalive_s,
        ),
        headers={"Cache-Control": "no-store"},
    )


async def send_snapshots(services: Services) -> None:
    """Send changes of running jobs and workers to the streams, at most four times a second."""
    running_jobs, stream = services.running_jobs, services.event_stream
    for tick in itertools.count(1):
        await stream.until_watched()
        await asyncio.sleep(SNAPSHOT_INTERVAL_S)
        now = now_us()
        of_workers_too = tick % _WORKER_TICKS == 0
        if of_workers_too:
            running_jobs.touch_idle(now)
        if moved := running_jobs.take_touched():
            rows = [job_live(services, live, now) for live in moved]
            stream.snapshot("progress", {"jobs": rows})
        if of_workers_too:
            # While the database does not answer, streams show the workers as they were.
            with contextlib.suppress(TqError):
                stream.snapshot("worker", {"workers": await worker_views(services)})


def send_sources(stream: EventStream, probed: Sequence[ProbeResult]) -> None:
    """Send what the background probe found about waiting files."""
    if stream.watched:
        jobs: list[JobSource] = [
            {"id": one.at.job, "source": source_summary(one.at.size, one.facts, one.problem)}
            for one in probed
        ]
        stream.snapshot("sources", {"jobs": jobs})
