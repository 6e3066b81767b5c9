"""Endpoints of videos: adding files, and listing them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query

from tqstudio.engine.admission import adding
from tqstudio.engine.admission.change_detection import Certainty
from tqstudio.engine.api.bodies import BoundedRoute
from tqstudio.engine.api.dependencies import TheServices
from tqstudio.engine.api.views import video_view
from tqstudio.engine.assembly.services import Services
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.outputs import output_check
from tqstudio.engine.queue import moved_output
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs import jobs
from tqstudio.engine.store.library import folders, videos
from tqstudio.engine.store.lists import records
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import decode, display, normal
from tqstudio.protocol.answers import AddAnswer, RelocateAnswer, UnmovedVideo, VideoPage, VideoView
from tqstudio.protocol.requests import AddRequest, PathB64, RelocateRequest

router = APIRouter(route_class=BoundedRoute)


@router.post("/videos")
async def add(services: TheServices, request: AddRequest) -> AddAnswer:
    """Add files: each is queued, retried, found unchanged, or rejected with a reason."""
    if request.idempotency_key is None:
        return await _add(services, request)
    return await services.admission.once(request.idempotency_key, lambda: _add(services, request))


async def _add(services: Services, request: AddRequest) -> AddAnswer:
    paths = [decode(text) for text in request.paths_b64]
    output = services.admission.output_root(decode(request.output_b64) if request.output_b64 else None)
    await services.check_output(output, must_answer=False)
    offer = replace(
        adding.offer(services.admission, request, output),
        certainty=Certainty.WHOLE if request.verify_full else Certainty.SETTLED,
        retry_failed=request.retry_failed,
        idempotency_key=request.idempotency_key,
    )
    answers = await services.admission.offer_all(paths, offer)
    return {"batch": str(offer.batch), "results": [*map(adding.result_of, paths, answers)]}


def _view(db: Connection, video: videos.VideoRow) -> VideoView:
    newest = jobs.newest_job_of(db, video.id)
    record = records.one(db, newest[0]) if newest else None
    return video_view(db, video, newest, records.error_of(record))


@router.get("/videos")
async def page(
    services: TheServices,
    after: int | None = None,
    before: int | None = None,
    around: int | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    path_b64: PathB64 | None = None,
) -> VideoPage:
    """A page of videos by id, oldest first: after, before or around a video; by default the first page.

    With the path of a source, all videos of that source.
    """
    if sum(each is not None for each in (after, before, around)) > 1:
        raise TqError(
            ErrorCode.BAD_REQUEST, "after, before and around exclude each other", "give one of them"
        )

    def read(db: Connection) -> VideoPage:
        rows: list[videos.VideoRow] = []
        if path_b64 is not None:
            rows = videos.with_source(db, decode(path_b64))
            return {"videos": [_view(db, row) for row in rows], "before": None, "after": None}
        if before is not None:
            rows = videos.page_before(db, before=before, limit=limit)[::-1]
        elif around is not None:
            earlier = videos.page_before(db, before=around, limit=limit // 2)[::-1]
            rows = earlier + videos.page(db, after=around - 1, limit=limit - len(earlier))
        else:
            rows = videos.page(db, after=after or 0, limit=limit)
        first, last = (rows[0].id, rows[-1].id) if rows else (0, 0)
        return {
            "videos": [_view(db, row) for row in rows],
            "before": first if rows and videos.page_before(db, before=first, limit=1) else None,
            "after": last if rows and videos.page(db, after=last, limit=1) else None,
        }

    return await services.db.read(read)


@router.post("/videos/relocate")
async def relocate(services: TheServices, request: RelocateRequest) -> RelocateAnswer:
    """Let videos, and drop folders, follow an output folder that was moved."""
    old, new = normal(decode(request.from_b64)), normal(decode(request.to_b64))
    for output in (old, new):
        if services.home.bucket_url(output) is not None:
            raise TqError(ErrorCode.BAD_REQUEST, "ladders in a bucket cannot be relocated")
    await output_check.require_usable(
        new, services.bounded_io, allow_shared=services.settings.allow_shared_output
    )
    found = await moved_output.follow(services.db, services.workspace, services.bounded_io, old, new)
    watched = [row for row in await services.db.read(folders.listing) if row.output_root == old]
    if not (found.moved or found.left or watched):
        raise TqError(
            ErrorCode.NOT_FOUND,
            f"no video has its ladder in {display(old)}",
            "see the playlists in: tqstudio video list",
        )
    follows = watched if found.moved or not found.left else []
    if follows:
        for row in follows:
            follow = partial(folders.change, folder=row.id, changes={"output_root": new}, now=now_us())
            await services.db.write(follow)
        await services.reload_folders()
    left: list[UnmovedVideo] = [{"video": video, "reason": why} for video, why in found.left]
    return {"moved": found.moved, "not_moved": left, "folders": [row.id for row in follows]}


@router.get("/videos/{video}")
async def one(services: TheServices, video: int) -> VideoView:
    def read(db: Connection) -> VideoView | None:
        row = videos.get(db, video)
        return None if row is None else _view(db, row)

    view = await services.db.read(read)
    if view is None:
        raise videos.unknown(video)
    return view
