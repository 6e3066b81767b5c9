"""Endpoints of the whole system: status, profiles, doctor, backup and shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from fastapi import APIRouter, Request, Response
from pydantic_core import to_json

from tqstudio import __version__
from tqstudio.engine.api.dependencies import TheStudio
from tqstudio.engine.api.views import iso
from tqstudio.engine.api.views_system import gate_view
from tqstudio.engine.api.workers import worker_views
from tqstudio.engine.doctor import line
from tqstudio.engine.media.plan.profile_catalogue import catalogue
from tqstudio.engine.services import Services
from tqstudio.engine.store.db import backup
from tqstudio.engine.store.library import folders
from tqstudio.engine.store.lists import pages
from tqstudio.engine.store.machine import gates, workers
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import GateKind, JobStatus, WorkerStatus
from tqstudio.paths import data, decode, display, encode
from tqstudio.protocol.answers import (
    BackupView,
    CheckLevel,
    CheckView,
    DiskView,
    GateView,
    JoinAnswer,
    LeaveAnswer,
    ProfileView,
    StatusView,
    WorkerView,
)
from tqstudio.protocol.requests import BackupRequest, JoinRequest, LeaveRequest, ShutdownRequest

router = APIRouter()

_WORKING = (WorkerStatus.IDLE, WorkerStatus.BUSY)


@router.get("/status", response_model=StatusView)
async def status(request: Request) -> Response:
    """The state of the whole system. Requests that arrive while it is computed share the next answer."""
    shared: Shared[bytes] = request.app.state.status
    return Response(await shared.get(), media_type="application/json")


async def status_json(studio: Services) -> bytes:
    return to_json(await _status(studio))


async def _status(studio: Services) -> StatusView:
    counts = await studio.db.read(pages.counts_by_status)
    shut = await _shut_gates(studio)
    views = await worker_views(studio)
    speeds = [live.speed for live in studio.board.jobs.values() if live.speed]
    eta = await studio.forecasts.of_queue(
        pending=counts[JobStatus.PENDING.value],
        workers=sum(1 for worker in views if worker["status"] in _WORKING),
    )
    return {
        "supervisor": {
            "pid": os.getpid(),
            "version": __version__,
            "started_at": iso(studio.started_at) or "",
            "home": str(studio.home.root),
            "draining": studio.draining,
            "cleanup_partial": studio.settings.cleanup_partial,
            "ffmpeg": studio.ffmpeg.path,
            "ffmpeg_version": studio.ffmpeg.version,
        },
        "jobs": counts,
        "workers": views,
        "gates": shut + await _no_worker(studio, views, counts),
        "disk": await _disks(studio),
        "speed": sum(speeds) if speeds else None,
        "eta_s": eta["eta_s"] if eta else None,
        "eta": eta,
        "eta_error": {
            "median": studio.forecasts.estimates.error,
            "jobs": studio.forecasts.estimates.judged,
        },
    }


async def _shut_gates(studio: Services) -> list[GateView]:
    rows = await studio.db.read(gates.listing)
    of_database = studio.volumes.of_database()
    if of_database is not None:
        # This gate cannot be stored, and takes precedence over a stored one.
        rows = [of_database, *(row for row in rows if row.kind is not GateKind.DISK)]
    home = os.fsencode(studio.home.root)
    return [gate_view(row, studio.volumes.figures(row), of_home=row.path == home) for row in rows]


async def _no_worker(studio: Services, views: list[WorkerView], counts: dict[str, int]) -> list[GateView]:
    """Report "no enabled worker" as a gate when jobs are pending."""
    if not counts[JobStatus.PENDING.value] or any(w["enabled"] and not w["draining"] for w in views):
        return []
    quarantined = [w["name"] for w in views if w["quarantine"]]
    names = [w["name"] for w in views]
    off = await studio.db.read(workers.last_off)
    return [
        {
            "kind": "workers",
            "code": None,
            "reason": f"no worker is enabled; in quarantine: {', '.join(quarantined)}"
            if quarantined
            else "no worker is enabled",
            "since": iso(studio.started_at if off is None else off) or "",
            "hint": f"enable one with: tqstudio worker enable {next(iter(quarantined or names), 'NAME')}",
        }
    ]


async def _outputs(studio: Services) -> list[Path]:
    rows = await studio.db.read(folders.listing)
    at_work = await studio.db.read(gates.outputs_in_use)
    roots = {studio.admission.output_root(None), *(row.output_root for row in rows)} | at_work
    return [Path(os.fsdecode(root)) for root in sorted(roots)]


async def _disks(studio: Services) -> list[DiskView]:
    """The file systems of the outputs in use, each once, without those that do not answer."""
    found: dict[int, DiskView] = {}
    for path in await _outputs(studio):
        with contextlib.suppress(OSError):
            disk = await studio.bounded_io.run(os.fsencode(path), partial(_disk, path))
            if disk is not None:
                device, total, free = disk
                reserve = studio.settings.disk_reserve_bytes
                found.setdefault(
                    device,
                    {
                        "path": data(path),
                        "path_b64": encode(path),
                        "free": free,
                        "total": total,
                        "reserve": reserve,
                    },
                )
    return list(found.values())


def _disk(path: Path) -> tuple[int, int, int] | None:
    """Device, total and free bytes of the file system where a path is or will be."""
    existing = next((p for p in (path, *path.parents) if p.exists()), None)
    if existing is None:
        return None
    usage = shutil.disk_usage(existing)
    return existing.stat().st_dev, usage.total, usage.free


@router.get("/profiles")
async def profile_list(studio: TheStudio) -> dict[str, list[ProfileView]]:
    found = await asyncio.to_thread(catalogue, studio.home.profiles, studio.settings.profile)
    return {"profiles": found}


@router.get("/doctor")
async def doctor(studio: TheStudio) -> dict[str, list[CheckView]]:
    """Checks that only the supervisor can do."""
    checks: list[CheckView] = []
    for worker in await worker_views(studio):
        name = worker["name"]
        level: CheckLevel = "ok"
        detail = f"{worker['status']}, {worker['encoder'] or 'no encoder known yet'}"
        hint = f"see {studio.home.logs}/worker-{name}.log"
        if worker["status"] == "offline":
            level = "fail"
            if studio.pool.announced(name):
                level, hint = "warn", "start its program again, or restart the supervisor to remove it"
        checks.append(line(f"worker {name}", level, detail, hint))
    for gate in await _shut_gates(studio):
        checks.append(line(f"gate {gate['kind']}", "fail", gate["reason"], gate["hint"]))
    return {"checks": checks}


@router.post("/backup")
async def make_backup(studio: TheStudio, request: BackupRequest) -> BackupView:
    """Copy the database to a new file, without interrupting anything."""
    target = decode(request.path_b64)
    if not target.startswith(b"/"):
        raise TqError(ErrorCode.BAD_REQUEST, f"{display(target)} is not an absolute path")
    size = await asyncio.to_thread(backup.copy, studio.home.database, Path(os.fsdecode(target)))
    return {"path": data(target), "path_b64": encode(target), "size": size}


@router.post("/shutdown")
async def shutdown(studio: TheStudio, request: ShutdownRequest) -> dict[str, object]:
    """Shut down at once, keeping finished fragments; with `drain`, when the running jobs have ended."""
    studio.request_stop(request.drain)
    return {"stopping": True, "drain": request.drain}


@router.post("/commands")
async def join(studio: TheStudio, request: JoinRequest) -> JoinAnswer:
    """Register a command that needs the supervisor. One that was started for a run waits for it."""
    studio.lifetime.join(request.pid, stay=request.stay)
    return {"pid": os.getpid(), "draining": studio.draining}


@router.post("/commands/leave")
async def leave(studio: TheStudio, request: LeaveRequest) -> LeaveAnswer:
    """Unregister a command, and shut down a supervisor that was started for a run unless it is needed."""
    return {"needed_by": await studio.lifetime.leave(request.pid, ignores_jobs=request.ignores_jobs)}


T = TypeVar("T")


class Shared(Generic[T]):
    """Shares one computation among all callers that arrive before it begins: a thousand callers cost two.

    Args:
        make: computes an answer; no caller gets one that was begun before its call.
    """

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._current: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def get(self) -> T:
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._current))
            self._next.add_done_callback(lambda task: task.cancelled() or task.exception())
        # A caller that is cancelled must not cancel the answer of the others.
        return await asyncio.shield(self._next)

    async def _after(self, previous: asyncio.Task[T] | None) -> T:
        if previous is not None:
            await asyncio.wait([previous])
        self._current, self._next = self._next, None
        return await self._make()
