"""The history: as pages, and as a stream of server-sent events."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from tqstudio.engine.api.access import TheStudio
from tqstudio.engine.api.jobs import no_such_job
from tqstudio.engine.broadcast import message, stream
from tqstudio.engine.store import events
from tqstudio.engine.store.connection import Connection
from tqstudio.engine.store.events import EventRow
from tqstudio.engine.store.transitions import look
from tqstudio.engine.views import event_view, parse_time
from tqstudio.errors import ErrorCode, TqError
from tqstudio.schemas import EventPage

router = APIRouter()

REPLAY_LIMIT = 1_000
"""A client that missed more is told to read everything anew."""


@router.get("/events")
async def page(
    studio: TheStudio,
    after: int | None = None,
    before: int | None = None,
    job: int | None = None,
    since: str | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 200,
) -> EventPage:
    """Events after a sequence number or a time, oldest first; without either the newest ones, or those just
    before a sequence number."""
    if before is not None and (after is not None or since is not None):
        raise TqError(
            ErrorCode.BAD_REQUEST, "before goes back from an event, after and since go on", "give one of them"
        )
    try:
        start = None if since is None else parse_time(since)
    except ValueError:
        raise TqError(
            ErrorCode.BAD_REQUEST, f"{since!r} is not a time", "write it as 2026-01-31T18:00:00"
        ) from None

    def read(db: Connection) -> tuple[list[EventRow], int]:
        # What is known of a job may have been pruned from the history; one that never was is a mistake.
        if job is not None and look(db, job) is None:
            raise no_such_job(job)
        if after is None and start is None:
            found = events.newest(db, limit=limit, job=job, before=before)[::-1]
        else:
            found = events.after(db, after or 0, limit=limit, job=job, since=start)
        return found, events.bounds(db)[1]

    found, last = await studio.db.read(read)
    return {"events": [event_view(row) for row in found], "last_seq": last}


@router.get("/events/stream")
async def follow(
    studio: TheStudio, last_event_id: Annotated[str | None, Header()] = None
) -> StreamingResponse:
    """Everything from now on; with Last-Event-ID also what was missed, or `reset` when that is gone."""
    # Watched before the replay is read: what happens in between comes twice rather than never.
    queue = studio.broadcast.watch()
    replay = [f"retry: {int(studio.settings.sse_reconnect_s * 1000)}\n\n".encode()]
    if last_event_id is not None and last_event_id.isdecimal():
        missed, oldest, last = await studio.db.read(_missed, int(last_event_id))
        if missed is None:
            replay.append(message("reset", {"oldest": oldest, "last": last}))
        else:
            replay += [message("event", event_view(row), row.seq) for row in missed]
    return StreamingResponse(
        stream(studio.broadcast, queue, replay, keepalive_s=studio.settings.sse_keepalive_s),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store"},
    )


def _missed(db: Connection, seen: int) -> tuple[list[EventRow] | None, int, int]:
    oldest, last = events.bounds(db)
    if seen > last or (oldest and seen < oldest - 1) or last - seen > REPLAY_LIMIT:
        return None, oldest, last
    return events.after(db, seen, limit=REPLAY_LIMIT), oldest, last
