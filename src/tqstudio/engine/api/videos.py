"""Endpoints of videos: adding files, and listing them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from tqstudio.engine.admission.admission import new_batch
from tqstudio.engine.admission.change_detection import Certainty
from tqstudio.engine.admission.decision import result
from tqstudio.engine.admission.existing_job import RunningJob
from tqstudio.engine.admission.metadata import require_small
from tqstudio.engine.admission.offer import Offer
from tqstudio.engine.api.dependencies import TheStudio
from tqstudio.engine.api.views import video_view
from tqstudio.engine.outputs import output_check
from tqstudio.engine.services import Services
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs import jobs
from tqstudio.engine.store.library import generations, videos
from tqstudio.engine.store.lists import records
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import AutorestartRule, JobStatus
from tqstudio.paths import decode
from tqstudio.protocol.answers import AddAnswer, AddResult, VideoPage, VideoView, error_view
from tqstudio.protocol.requests import AddRequest

router = APIRouter()


@router.post("/videos")
async def add(studio: TheStudio, request: AddRequest) -> AddAnswer:
    """Add files: each is queued, retried, found unchanged, or rejected with a reason."""
    if request.idempotency_key is None:
        return await _add(studio, request)
    return await studio.admission.once(request.idempotency_key, lambda: _add(studio, request))


async def _add(studio: Services, request: AddRequest) -> AddAnswer:
    require_small("metadata", request.metadata)
    paths = [decode(text) for text in request.paths_b64]
    output = studio.admission.output_root(decode(request.output_b64) if request.output_b64 else None)
    await output_check.require_usable(
        output, studio.bounded_io, allow_shared=studio.settings.allow_shared_output
    )
    how = Offer(
        profile=studio.admission.profile(request.profile, request.overrides),
        output_root=output,
        priority=request.priority or 0,
        hold=request.hold,
        force=request.force,
        named=_named(request),
        certainty=Certainty.WHOLE if request.verify_full else Certainty.SETTLED,
        retry_failed=request.retry_failed,
        batch=request.batch or new_batch(),
        autorestart=_autorestart(request),
        metadata=request.metadata,
        idempotency_key=request.idempotency_key,
    )
    answers = await studio.admission.offer_all(paths, how)
    return {"batch": str(how.batch), "results": [*map(_result, paths, answers)]}


def _result(path: bytes, answer: AddResult | Exception) -> AddResult:
    if not isinstance(answer, Exception):
        return answer
    if not isinstance(answer, TqError):
        raise answer
    running = isinstance(answer, RunningJob)
    return {
        **result(path, "rejected", job=answer.job if isinstance(answer, RunningJob) else None),
        "status": JobStatus.IN_PROGRESS.value if running else None,
        "error": error_view(answer),
    }


def _named(request: AddRequest) -> frozenset[str]:
    given = {
        "profile": bool(request.profile or request.overrides),
        "priority": request.priority is not None,
        "hold": request.hold,
        "autorestart": request.autorestart is not None,
    }
    return frozenset(name for name, is_given in given.items() if is_given)


def _autorestart(request: AddRequest) -> AutorestartRule:
    if request.autorestart is None and request.autorestart_delay_s is not None:
        raise TqError(ErrorCode.BAD_REQUEST, "autorestart_delay_s is given without autorestart")
    rule = AutorestartRule(request.autorestart or 0)
    delay_s = request.autorestart_delay_s
    return rule if delay_s is None else AutorestartRule(rule.limit, delay_s)


def _view(db: Connection, video: videos.VideoRow) -> VideoView:
    newest = jobs.newest_job_of(db, video.id)
    record = records.one(db, newest[0]) if newest else None
    return video_view(video, generations.current(db, video.id), newest, record.error if record else None)


@router.get("/videos")
async def page(
    studio: TheStudio,
    after: int | None = None,
    before: int | None = None,
    around: int | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> VideoPage:
    """A page of videos by id, oldest first: after, before or around a video; by default the first page."""
    if sum(each is not None for each in (after, before, around)) > 1:
        raise TqError(
            ErrorCode.BAD_REQUEST, "after, before and around exclude each other", "give one of them"
        )

    def read(db: Connection) -> VideoPage:
        rows: list[videos.VideoRow] = []
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

    return await studio.db.read(read)


@router.get("/videos/{video}")
async def one(studio: TheStudio, video: int) -> VideoView:
    def read(db: Connection) -> VideoView | None:
        row = videos.get(db, video)
        return None if row is None else _view(db, row)

    view = await studio.db.read(read)
    if view is None:
        raise TqError(ErrorCode.NOT_FOUND, f"there is no video {video}")
    return view
