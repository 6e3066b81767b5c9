"""Endpoints for people to list and control workers; those that workers call are in `worker_api`."""

from __future__ import annotations

import structlog
from fastapi import APIRouter

from tqstudio.engine.api.bodies import BoundedRoute
from tqstudio.engine.api.dependencies import TheActor, TheServices
from tqstudio.engine.api.views import fill, iso
from tqstudio.engine.assembly.services import Services
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.monitoring.workers import is_gone, status_of
from tqstudio.engine.store.machine import workers
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import WorkerKind
from tqstudio.paths import readable
from tqstudio.protocol.answers import WorkerView
from tqstudio.protocol.requests import AddWorkerRequest, WorkerTokenRequest

router = APIRouter(route_class=BoundedRoute)


async def worker_views(services: Services) -> list[WorkerView]:
    """All workers, except those left over from an earlier number of workers."""
    rows = await services.db.read(workers.listing)
    return [view_of(services, row) for row in rows if not services.pool.is_obsolete(row.name)]


def view_of(services: Services, row: workers.WorkerRow) -> WorkerView:
    running_jobs = services.running_jobs
    live = next((live for live in running_jobs.jobs.values() if live.worker == row.name), None)
    part = services.ranges.of_worker(row.name) if live is None else None
    beat = running_jobs.heartbeats.get(row.id) if row.instance else None
    last_contact = max(row.last_heartbeat_at or 0, beat.at if beat else 0) or None
    note = services.pool.note_of(row.name)
    if note is None and is_gone(services, row):
        note = "no process of this worker is registered"
    sound = row.quarantine_reason is None
    if not sound and note is None:
        advice = f"check their logs, then: tqstudio worker enable {row.name}"
        note = f"in quarantine: {row.quarantine_reason}; {advice}"
    busy = live is not None or part is not None
    host = row.metadata.get("host")
    if note is None and host:
        note = f"on {readable(str(host))}"
    return fill(
        WorkerView,
        row,
        type="remote" if host else row.type,
        status=status_of(services, row).value,
        enabled=row.enabled and sound and (busy or not row.draining),
        draining=row.draining and busy,
        last_heartbeat_at=iso(last_contact),
        job=live.token.job if live else part.token.job if part else None,
        step=live.shown_step if live else part.shown_step if part else None,
        speed=live.speed if live else None,
        cpu_percent=beat.cpu_percent if beat else None,
        memory_bytes=beat.memory_bytes if beat else None,
        note=note,
        quarantine=row.quarantine_reason,
    )


@router.get("/workers")
async def listing(services: TheServices) -> dict[str, list[WorkerView]]:
    return {"workers": await worker_views(services)}


@router.post("/workers/tokens")
async def new_token(services: TheServices, request: WorkerTokenRequest) -> dict[str, object]:
    """Create a token for a worker that the pool does not spawn. It is shown once and expires with the
    supervisor."""
    if services.pool.has(request.name):
        raise TqError(
            ErrorCode.REFUSED, f"{request.name} is the name of a local worker", "choose another name"
        )
    row = await services.db.write(workers.ensure, request.name, request.kind.value, device=None)
    token = services.worker_tokens.issue(row.id, row.name, row.kind)
    return {"worker": row.id, "name": row.name, "token": token}


@router.post("/workers")
async def add(services: TheServices, actor: TheActor, request: AddWorkerRequest) -> WorkerView:
    """Start one more CPU worker on this machine, until the supervisor ends."""
    del request
    name = await services.pool.add()
    structlog.get_logger().info("worker added", worker=name, actor=actor)
    # One of that name may have been disabled before it was removed.
    row = await services.db.write(
        lambda db: workers.set_intent(db, name, enabled=True, now=now_us(), actor=actor)
    )
    assert row is not None
    return view_of(services, row)


@router.delete("/workers/{name}")
async def remove(services: TheServices, actor: TheActor, name: str) -> dict[str, object]:
    """End a worker and take it off the list; its job is requeued, with its finished segments."""
    row = await services.db.read(workers.by_name, name)
    if row is None or services.pool.is_obsolete(name):
        raise _unknown(name)
    if row.kind == WorkerKind.GPU and not services.pool.announced(name):
        raise TqError(
            ErrorCode.REFUSED,
            f"{name} belongs to a GPU of this machine, and would be back at the next start",
            f"disable it: tqstudio worker disable {name}",
        )
    job = view_of(services, row)["job"]
    if services.pool.has(name):
        services.pool.remove(name)
    else:
        await _end_elsewhere(services, row, actor)
    structlog.get_logger().info("worker removed", worker=name, actor=actor)
    return {"removed": name, "job": job}


async def _end_elsewhere(services: Services, row: workers.WorkerRow, actor: str) -> None:
    """Take the token of a worker that the pool has not started, and requeue its job."""
    if row.name in services.worker_tokens.stored:
        await services.tokens.revoke(row.name, actor=actor)
    services.worker_tokens.revoke_of(row.id)
    if row.instance is not None:
        why = "it was removed"
        await services.db.write(workers.ended, row.id, instance=row.instance, now=now_us(), why=why)
        services.ranges.forget_worker(row.name)
        await services.recovery.lost(row.instance, row.name, why, True)


@router.post("/workers/{name}/{verb}")
async def intent(services: TheServices, actor: TheActor, name: str, verb: str) -> WorkerView:
    """Enable, disable or drain a worker; one that drains finishes its job and gets no more."""
    changes: dict[str, dict[str, bool]] = {
        "enable": {"enabled": True, "draining": False},
        "disable": {"enabled": False},
        "drain": {"draining": True},
    }
    if verb not in changes:
        raise TqError(ErrorCode.NOT_FOUND, f"a worker cannot {verb}", "use enable, disable or drain")
    row = None
    if not services.pool.is_obsolete(name):
        row = await services.db.write(
            lambda db: workers.set_intent(db, name, now=now_us(), actor=actor, **changes[verb])
        )
    if row is None:
        raise _unknown(name)
    return view_of(services, row)


def _unknown(name: str) -> TqError:
    return TqError(
        ErrorCode.NOT_FOUND, f"there is no worker {name}", "list workers with: tqstudio worker list"
    )
