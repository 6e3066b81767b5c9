"""Endpoints of workers: join, register, claim a job, report on it and end it.

The bearer token names the worker, except to join.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from tqstudio.engine.access.api_tokens import name_taken
from tqstudio.engine.access.worker_tokens import WorkerToken
from tqstudio.engine.admission.metadata import require_small
from tqstudio.engine.api.bodies import BoundedRoute
from tqstudio.engine.api.dependencies import TheActor, TheServices, TheWorker
from tqstudio.engine.assembly.services import Services
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs import jobs
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.engine.store.machine import quarantine, workers
from tqstudio.lifecycle import JobStatus
from tqstudio.protocol.answers import NewTokenView
from tqstudio.protocol.requests import (
    ClaimRequest,
    CompleteRequest,
    FailRequest,
    HeartbeatRequest,
    KeptRequest,
    Manifest,
    ProgressRequest,
    RangeRequest,
    RegisterRequest,
    ReleaseRequest,
    TestedRequest,
    WorkerMessage,
    WorkerTokenRequest,
)
from tqstudio.protocol.roles import TOKEN_ACTOR, Role
from tqstudio.protocol.worker_answers import (
    ClaimAnswer,
    HeartbeatAnswer,
    KeptAnswer,
    OutcomeAnswer,
    ProgressAnswer,
    RegisterAnswer,
    TestedAnswer,
    WorkerLeft,
)

router = APIRouter(prefix="/worker", route_class=BoundedRoute)


async def _disconnected(request: Request) -> Callable[[], Awaitable[bool]]:
    return request.is_disconnected


Disconnected = Annotated[Callable[[], Awaitable[bool]], Depends(_disconnected)]
"""Whether the client has hung up."""


def _message(kind: type[WorkerMessage]) -> Any:
    """Depend on a message whose instance has the worker's name in front: it fits no other worker's lease."""

    async def named(worker: TheWorker, body: WorkerMessage) -> WorkerMessage:
        return body.model_copy(update={"instance": f"{worker.name}/{body.instance}"})

    named.__annotations__["body"] = kind
    return Depends(named)


@router.post("/join")
async def join(services: TheServices, actor: TheActor, request: WorkerTokenRequest) -> NewTokenView:
    """Create a worker and its token, which replaces one that it got by the same joining token.

    It is answered once: the database has only its hash.
    """
    if services.pool.is_reserved(request.name):
        raise name_taken(request.name)
    joined_by = actor.removeprefix(TOKEN_ACTOR)
    token = await services.tokens.create(
        request.name, Role.WORKER, kind=request.kind.value, actor=actor, joined_by=joined_by
    )
    return {"name": request.name, "role": Role.WORKER.value, "token": token}


@router.post("/register")
async def register(
    services: TheServices, worker: TheWorker, body: Annotated[RegisterRequest, _message(RegisterRequest)]
) -> RegisterAnswer:
    for name, value in (("capabilities", body.capabilities), ("metadata", body.metadata)):
        require_small(name, value)
    await services.db.write(
        workers.register,
        worker.worker,
        instance=body.instance,
        pid=body.pid,
        pid_started=body.pid_started,
        encoder=body.encoder,
        capabilities=body.capabilities,
        metadata=body.metadata,
        now=now_us(),
    )
    services.running_jobs.record_contact(worker.worker)
    services.ranges.forget_worker(worker.name)
    settings = services.settings
    return {
        "worker": worker.worker,
        "name": worker.name,
        "heartbeat_s": settings.heartbeat_s,
        # A lease counts from when it was asked for: half of it must be left when the answer comes.
        "long_poll_s": min(settings.long_poll_s, settings.lease_s / 2),
        "ffmpeg_nice": settings.ffmpeg_nice,
        "stall_s": settings.stall_s,
        "time_limit_factor": settings.time_limit_factor,
        "time_limit_min_s": settings.time_limit_min_s,
        "time_limit_max_s": settings.time_limit_max_s,
        "disk_reserve_bytes": settings.disk_reserve_bytes,
        "disk_factor": settings.disk_factor,
        "confined": settings.require_confinement,
        "divides": settings.divide_jobs,
        "max_duration_s": settings.max_duration_s,
    }


@router.post("/leave")
async def leave(
    services: TheServices, worker: TheWorker, body: Annotated[WorkerMessage, _message(WorkerMessage)]
) -> WorkerLeft:
    """Record the end of a worker's process on another machine."""
    await services.db.write(
        workers.ended, worker.worker, instance=body.instance, now=now_us(), why="its program was stopped"
    )
    services.ranges.forget_worker(worker.name)
    return {"worker": worker.worker}


@router.post("/kept")
async def kept(
    services: TheServices, worker: TheWorker, body: Annotated[KeptRequest, _message(KeptRequest)]
) -> KeptAnswer:
    """Say which of the videos whose files a worker keeps have an open job: of others nothing is needed."""
    del worker

    def needed(db: Connection) -> list[int]:
        return [video for video in body.videos if jobs.open_job_of(db, video) is not None]

    return {"needed": await services.db.read(needed)}


@router.post("/claim")
async def claim(
    services: TheServices,
    worker: TheWorker,
    body: Annotated[ClaimRequest, _message(ClaimRequest)],
    disconnected: Disconnected,
) -> ClaimAnswer:
    return await services.dispatch.claim(worker, body, disconnected)


@router.post("/tested")
async def tested(
    services: TheServices, worker: TheWorker, body: Annotated[TestedRequest, _message(TestedRequest)]
) -> TestedAnswer:
    accepted = await services.db.write(
        quarantine.tested, worker.worker, instance=body.instance, problem=body.problem, now=now_us()
    )
    return {"accepted": accepted}


@router.post("/heartbeat")
async def heartbeat(
    services: TheServices, worker: TheWorker, body: Annotated[HeartbeatRequest, _message(HeartbeatRequest)]
) -> HeartbeatAnswer:
    return await services.reports.heartbeat(worker, body)


@router.post("/jobs/{job}/progress")
async def progress(
    services: TheServices,
    worker: TheWorker,
    job: int,
    body: Annotated[ProgressRequest, _message(ProgressRequest)],
) -> ProgressAnswer:
    control = await services.reports.progress(worker, job, body)
    if body.first is not None:
        token = LeaseToken(job, body.epoch, body.instance)
        check = partial(_require_received, services, worker, token, body.first)
        services.completion.publish_first(worker, token, body.first, check)
    live = services.running_jobs.jobs.get(job)
    return {"control": control, "divided": live is not None and live.divided}


async def _require_received(
    services: Services, worker: WorkerToken, token: LeaseToken, manifest: Manifest
) -> None:
    """Check that what a worker lists is what has arrived, if it may be on another machine."""
    if worker.name in services.worker_tokens.stored:
        await services.wings.require_received(token, manifest)


@router.post("/jobs/{job}/complete")
async def complete(
    services: TheServices,
    worker: TheWorker,
    job: int,
    body: Annotated[CompleteRequest, _message(CompleteRequest)],
) -> OutcomeAnswer:
    token = LeaseToken(job, body.epoch, body.instance)
    repeated = services.completion.is_publishing(token) or not services.running_jobs.leases.is_live(token)
    if not repeated:
        await _require_received(services, worker, token, body.manifest)
    return {"job": job, "status": (await services.completion.complete(worker, job, body)).value}


@router.post("/jobs/{job}/fail")
async def fail(
    services: TheServices, worker: TheWorker, job: int, body: Annotated[FailRequest, _message(FailRequest)]
) -> OutcomeAnswer:
    return {"job": job, "status": (await services.completion.fail(worker, job, body)).value}


@router.post("/jobs/{job}/range")
async def end_range(
    services: TheServices, worker: TheWorker, job: int, body: Annotated[RangeRequest, _message(RangeRequest)]
) -> OutcomeAnswer:
    """End the range that a worker made of a job that another one has."""
    del worker
    services.ranges.end(LeaseToken(job, body.epoch, body.instance), body.problem)
    return {"job": job, "status": JobStatus.IN_PROGRESS.value}


@router.post("/jobs/{job}/release")
async def release(
    services: TheServices,
    worker: TheWorker,
    job: int,
    body: Annotated[ReleaseRequest, _message(ReleaseRequest)],
) -> OutcomeAnswer:
    return {"job": job, "status": (await services.completion.release(worker, job, body)).value}
