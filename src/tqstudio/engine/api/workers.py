"""For workers: register, claim, report, end. For people: see workers, enable, disable and drain them."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from tqstudio.engine.api.access import TheStudio, TheWorker
from tqstudio.engine.scheduling import now_us
from tqstudio.engine.store import workers
from tqstudio.engine.studio import Studio
from tqstudio.engine.views import worker_view
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import JobStatus
from tqstudio.requests import (
    MAX_METADATA_BYTES,
    ClaimRequest,
    CompleteRequest,
    FailRequest,
    HeartbeatRequest,
    NewWorker,
    ProgressRequest,
    RegisterRequest,
    ReleaseRequest,
)
from tqstudio.schemas import (
    ClaimAnswer,
    HeartbeatAnswer,
    OutcomeAnswer,
    ProgressAnswer,
    RegisterAnswer,
    WorkerView,
)

router = APIRouter()


def _says(answer: Any) -> dict[int | str, dict[str, Any]]:
    """What the schema says of an answer that is sent as it is: checking our own costs 0.5 ms a request."""
    return {200: {"model": answer}}


def _outcome(job: int, status: JobStatus) -> JSONResponse:
    answer: OutcomeAnswer = {"job": job, "status": status.value}
    return JSONResponse(answer)


@router.post("/worker/register")
async def register(studio: TheStudio, who: TheWorker, request: RegisterRequest) -> RegisterAnswer:
    for name, value in (("capabilities", request.capabilities), ("metadata", request.metadata)):
        if len(json.dumps(value)) > MAX_METADATA_BYTES:
            raise TqError(
                ErrorCode.BAD_REQUEST, f"{name} is larger than {MAX_METADATA_BYTES} bytes", "send less"
            )
    await studio.db.write(
        workers.register,
        who.worker,
        instance=request.instance,
        pid=request.pid,
        pid_started=request.pid_started,
        encoder=request.encoder,
        capabilities=request.capabilities,
        metadata=request.metadata,
        now=now_us(),
    )
    settings = studio.settings
    return {
        "worker": who.worker,
        "name": who.name,
        "heartbeat_s": settings.heartbeat_s,
        "long_poll_s": settings.long_poll_s,
        "ffmpeg": studio.ffmpeg.path,
        "ffmpeg_nice": settings.ffmpeg_nice,
        "stall_s": settings.stall_s,
        "disk_reserve_bytes": settings.disk_reserve_bytes,
        "disk_factor": settings.disk_factor,
    }


@router.post("/worker/claim", responses=_says(ClaimAnswer))
async def claim(studio: TheStudio, who: TheWorker, body: ClaimRequest, request: Request) -> JSONResponse:
    answer: ClaimAnswer = {"job": await studio.dispatch.claim(who, body, request.is_disconnected)}
    return JSONResponse(answer)


@router.post("/worker/heartbeat", responses=_says(HeartbeatAnswer))
async def heartbeat(studio: TheStudio, who: TheWorker, request: HeartbeatRequest) -> JSONResponse:
    return JSONResponse(await studio.dispatch.heartbeat(who, request))


@router.post("/worker/jobs/{job}/progress", responses=_says(ProgressAnswer))
async def progress(studio: TheStudio, who: TheWorker, job: int, request: ProgressRequest) -> JSONResponse:
    control = await studio.dispatch.progress(who, job, request)
    answer: ProgressAnswer = {"control": control.value}
    return JSONResponse(answer)


@router.post("/worker/jobs/{job}/complete", responses=_says(OutcomeAnswer))
async def complete(studio: TheStudio, who: TheWorker, job: int, request: CompleteRequest) -> JSONResponse:
    status = await studio.results.complete(who, job, request)
    return _outcome(job, status)


@router.post("/worker/jobs/{job}/fail", responses=_says(OutcomeAnswer))
async def fail(studio: TheStudio, who: TheWorker, job: int, request: FailRequest) -> JSONResponse:
    status = await studio.results.fail(who, job, request)
    return _outcome(job, status)


@router.post("/worker/jobs/{job}/release", responses=_says(OutcomeAnswer))
async def release(studio: TheStudio, who: TheWorker, job: int, request: ReleaseRequest) -> JSONResponse:
    status = await studio.results.release(who, job, request)
    return _outcome(job, status)


# For people.


async def worker_views(studio: Studio) -> list[WorkerView]:
    rows = await studio.db.read(workers.listing)
    return [view_of(studio, row) for row in rows]


def view_of(studio: Studio, row: workers.WorkerRow) -> WorkerView:
    note = studio.pool.note_of(row.name)
    if note is None and row.registered_at is None and not studio.pool.has(row.name):
        note = "no process of this worker is registered"
    job = next((live for live in studio.board.jobs.values() if live.worker == row.name), None)
    return worker_view(
        row,
        studio.board.beats.get(row.id) if row.instance else None,
        job,
        now=now_us(),
        offline_s=studio.settings.offline_s,
        note=note,
    )


@router.get("/workers")
async def listing(studio: TheStudio) -> dict[str, list[WorkerView]]:
    return {"workers": await worker_views(studio)}


@router.post("/workers")
async def new_worker(studio: TheStudio, request: NewWorker) -> dict[str, object]:
    """A token for a worker that the pool does not spawn; it is shown once and ends with the supervisor."""
    if studio.pool.has(request.name):
        raise TqError(ErrorCode.REFUSED, f"the pool runs {request.name} itself", "choose another name")
    row = await studio.db.write(workers.ensure, request.name, request.kind.value, device=None, now=now_us())
    token = studio.identities.issue(row.id, row.name, row.kind)
    return {"worker": row.id, "name": row.name, "token": token}


@router.post("/workers/{name}/{verb}")
async def intent(studio: TheStudio, name: str, verb: str) -> WorkerView:
    """Enable or disable a worker, or let it end its job and take no more."""
    wishes: dict[str, dict[str, bool]] = {
        "enable": {"enabled": True, "draining": False},
        "disable": {"enabled": False},
        "drain": {"draining": True},
    }
    if verb not in wishes:
        raise TqError(ErrorCode.NOT_FOUND, f"a worker cannot {verb}", "use enable, disable or drain")
    row = await studio.db.write(lambda db: workers.set_intent(db, name, now=now_us(), **wishes[verb]))
    if row is None:
        raise TqError(
            ErrorCode.NOT_FOUND, f"there is no worker {name}", "list them with: tqstudio worker list"
        )
    return view_of(studio, row)
