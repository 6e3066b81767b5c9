"""Endpoints of the whole system: status, profiles, doctor, alerts, backup, log level and shutdown."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from fastapi import APIRouter

from tqstudio import __version__
from tqstudio.engine.api.bodies import BoundedRoute
from tqstudio.engine.api.dependencies import TheServices
from tqstudio.engine.api.folders import problem_of
from tqstudio.engine.api.views import delivery_problem, fill, iso
from tqstudio.engine.api.workers import worker_views
from tqstudio.engine.assembly.services import Services
from tqstudio.engine.gates.decide import Waits
from tqstudio.engine.host import logging_setup
from tqstudio.engine.host.clock import MICROSECOND, iso_time
from tqstudio.engine.media.plan.profile_catalogue import catalogue
from tqstudio.engine.monitoring import disks, settings
from tqstudio.engine.monitoring.readiness import readiness
from tqstudio.engine.store.db import backup
from tqstudio.engine.store.library import deliveries, folders
from tqstudio.engine.store.lists import pages
from tqstudio.engine.store.machine import gates, standbys, workers
from tqstudio.engine.store.machine.gates import GateRow
from tqstudio.errors import ErrorCode, TqError, in_one_line
from tqstudio.lifecycle import GateKind, JobStatus, WorkerStatus
from tqstudio.paths import data, decode, display, encode
from tqstudio.protocol import answers
from tqstudio.protocol.answers import check_view
from tqstudio.protocol.requests import (
    BackupRequest,
    JoinRequest,
    LeaveRequest,
    LogLevelRequest,
    ShutdownRequest,
)
from tqstudio.units import size

router = APIRouter(route_class=BoundedRoute)

_WORKING = (WorkerStatus.IDLE, WorkerStatus.BUSY)


_GATE_HINTS: Mapping[GateKind, str] = {
    GateKind.USER: "resume the queue with: tqstudio queue resume",
    GateKind.DISK: "check that disk; the queue resumes automatically",
    GateKind.LOAD: "nothing to do: the queue resumes automatically",
    GateKind.HOURS: "nothing to do: the queue resumes then; change the setting hours",
}


def gate_view(row: GateRow, waits: Waits | None = None, *, of_home: bool = False) -> answers.GateView:
    """Convert a gate.

    Args:
        waits: what a disk gate waits for; None for a database that cannot be written for another reason.
        of_home: space is short in the home, not for a single job.
    """
    code = None
    if row.kind is GateKind.DISK:
        code = (ErrorCode.DATABASE_UNWRITABLE if waits is None else waits.code).value
    view: answers.GateView = {
        "kind": row.kind.value,
        "code": code,
        "reason": row.reason,
        "since": iso_time(row.since),
        "until": iso(row.until),
        "hint": _GATE_HINTS[row.kind],
    }
    if waits is None:
        return view
    or_pause = "" if of_home else ", or pause the job that waits for it"
    if waits.of_files:
        view["reason"] = waits.why
        view["hint"] = "remove files there, because no inodes are left; the queue resumes automatically"
    elif waits.hint:
        view["hint"] = waits.hint
    else:
        view["path"], view["path_b64"] = data(waits.path), encode(waits.path)
        view["free"], view["needed"] = waits.free, waits.needed
        view["hint"] = f"free some space there{or_pause}; the queue resumes automatically"
        if 0 < waits.total < waits.needed:
            ways = "" if of_home else f"lower disk_reserve_bytes{or_pause}, or "
            view["hint"] = f"the disk has only {size(waits.total)} in total: {ways}choose a larger one"
    return view


@router.get("/status")
async def status(services: TheServices) -> answers.StatusView:
    """The state of the whole system."""
    counts = await services.db.read(pages.counts_by_status)
    shut = await _shut_gates(services)
    views = await worker_views(services)
    unfinished, worst = await services.db.reread(deliveries.unfinished)
    speeds = [live.speed for live in services.running_jobs.jobs.values() if live.speed]
    eta = await services.forecasts.of_queue(
        pending=counts[JobStatus.PENDING.value],
        workers=sum(1 for worker in views if worker["status"] in _WORKING),
    )
    return {
        "supervisor": await _supervisor(services),
        "ready": _readiness(services, views, shut),
        "jobs": counts,
        "workers": views,
        "gates": shut + await _no_worker(services, views, counts),
        "disk": await _disks(services),
        "folders": await _folder_problems(services),
        "deliveries": {"count": unfinished, "problem": delivery_problem(worst) if worst else None},
        "speed": sum(speeds) if speeds else None,
        "eta_s": eta["eta_s"] if eta else None,
        "eta": eta,
        "eta_error": {
            "median": services.forecasts.speed_model.error,
            "jobs": services.forecasts.speed_model.judged,
        },
    }


async def _supervisor(services: Services) -> answers.SupervisorView:
    rows = [] if services.db.is_file else await services.db.read(standbys.listing)
    view: answers.SupervisorView = {
        "pid": os.getpid(),
        "version": __version__,
        "started_at": iso(services.started_at) or "",
        "home": str(services.home.root),
        "draining": services.draining,
        "cleanup_partial": services.settings.cleanup_partial,
        "ffmpeg": services.ffmpeg.path,
        "ffmpeg_version": services.ffmpeg.version,
        "listen": services.listen,
        "name": services.settings.host_name,
        "standbys": [fill(answers.StandbyView, row) for row in rows],
    }
    if held_us := services.ages.held_us:
        ahead_s = services.ages.ahead_us / MICROSECOND
        view["clock_jump"] = {"ahead_s": ahead_s, "held_s": held_us / MICROSECOND}
    if (damage := services.weekly_check.damage) is not None:
        view["damage"] = answers.error_view(damage)
    return view


def _readiness(
    services: Services, views: list[answers.WorkerView], shut: list[answers.GateView]
) -> answers.ReadyView:
    return readiness(services, [worker["status"] for worker in views], [gate["kind"] for gate in shut])


async def _shut_gates(services: Services) -> list[answers.GateView]:
    rows = await services.db.read(gates.listing)
    of_database = services.volumes.of_database()
    if of_database is not None:
        # This gate cannot be stored, and takes precedence over a stored one.
        rows = [of_database, *(row for row in rows if row.kind is not GateKind.DISK)]
    home = os.fsencode(services.home.root)
    return [gate_view(row, services.volumes.figures(row), of_home=row.path == home) for row in rows]


async def _no_worker(
    services: Services, views: list[answers.WorkerView], counts: dict[str, int]
) -> list[answers.GateView]:
    """Report "no enabled worker" as a gate when jobs are pending."""
    if not counts[JobStatus.PENDING.value] or any(w["enabled"] and not w["draining"] for w in views):
        return []
    quarantined = [w["name"] for w in views if w["quarantine"]]
    names = [w["name"] for w in views]
    first = next(iter(quarantined or names), None)
    off = await services.db.read(workers.last_off)
    return [
        {
            "kind": "workers",
            "code": None,
            "reason": f"no worker is enabled; in quarantine: {', '.join(quarantined)}"
            if quarantined
            else "no worker is enabled",
            "since": iso(services.started_at if off is None else off) or "",
            "until": None,
            "hint": f"enable one with: tqstudio worker enable {first}"
            if first is not None
            else "add one with: tqstudio worker add",
        }
    ]


async def _disks(services: Services) -> list[answers.DiskView]:
    return [
        {
            "path": data(disk.path),
            "path_b64": encode(disk.path),
            "free": disk.free,
            "total": disk.total,
            "reserve": services.settings.disk_reserve_bytes,
        }
        for disk in await disks.of_outputs(services)
    ]


async def _folder_problems(services: Services) -> list[answers.FolderProblem]:
    rows = await services.db.reread(folders.listing)
    problems = ((row, problem_of(services, row)) for row in rows)
    return [{"id": row.id, "path": data(row.path), "problem": found} for row, found in problems if found]


@router.get("/load")
async def load(services: TheServices) -> answers.LoadView:
    """The load of the last twenty minutes."""
    return services.recorder.load


@router.get("/settings")
async def setting_list(services: TheServices) -> answers.SettingsView:
    """The settings, as they are since the supervisor's start."""
    return {"file": data(services.home.config), "settings": settings.views(services.settings)}


@router.get("/profiles")
async def profile_list(services: TheServices) -> dict[str, list[answers.ProfileView]]:
    found = await asyncio.to_thread(catalogue, services.home.profiles, services.settings.profile)
    return {"profiles": found}


@router.get("/doctor")
async def doctor(services: TheServices) -> dict[str, list[answers.CheckView]]:
    """Checks that only the supervisor can do."""
    checks: list[answers.CheckView] = []
    views, shut = await worker_views(services), await _shut_gates(services)
    ready = _readiness(services, views, shut)
    why = "; ".join(each["reason"] for each in ready["reasons"])
    hint = "see the checks of workers and gates below"
    checks.append(check_view("ready", "warn" if why else "ok", why or "new jobs would be processed", hint))
    for worker in views:
        name = worker["name"]
        level: answers.CheckLevel = "ok"
        detail = f"{worker['status']}, {worker['encoder'] or 'no encoder known yet'}"
        hint = f"see {services.home.logs}/worker-{name}.log"
        if worker["status"] == "offline":
            level = "fail"
            if services.pool.announced(name):
                level, hint = "warn", f"start its program again, or remove it: tqstudio token revoke {name}"
        checks.append(check_view(f"worker {name}", level, detail, hint))
    for gate in shut:
        checks.append(check_view(f"gate {gate['kind']}", "fail", gate["reason"], gate["hint"]))
    for folder in await _folder_problems(services):
        problem = folder["problem"]
        detail = in_one_line(problem["code"], problem["message"])
        checks.append(check_view(f"folder {folder['id']}", "fail", detail, problem["hint"]))
    return {"checks": checks + [check for part in services.wings.parts for check in await part.checks()]}


@router.post("/backup")
async def make_backup(services: TheServices, request: BackupRequest) -> answers.BackupView:
    """Copy the database to a new file, without interrupting anything."""
    target = decode(request.path_b64)
    if not target.startswith(b"/"):
        raise TqError(ErrorCode.BAD_REQUEST, f"{display(target)} is not an absolute path")
    copied = await asyncio.to_thread(backup.copy, services.db.address, Path(os.fsdecode(target)))
    return {"path": data(target), "path_b64": encode(target), "size": copied}


@router.put("/log-level")
async def set_log_level(request: LogLevelRequest) -> answers.LogLevelAnswer:
    """Change the log level of the supervisor until it shuts down."""
    return {"level": request.level, "before": logging_setup.set_level(request.level)}


@router.post("/shutdown")
async def shutdown(services: TheServices, request: ShutdownRequest) -> dict[str, object]:
    """Shut down at once, keeping finished fragments; with `drain`, when the running jobs have ended."""
    services.shutdown.request_by_api(request.drain)
    return {"stopping": True, "drain": request.drain}


@router.post("/commands")
async def join(services: TheServices, request: JoinRequest) -> answers.JoinAnswer:
    """Register a command that needs the supervisor. One that was started for a run waits for it."""
    services.lifetime.join(request.pid, stay=request.stay)
    return {"pid": os.getpid(), "draining": services.draining}


@router.post("/commands/leave")
async def leave(services: TheServices, request: LeaveRequest) -> answers.LeaveAnswer:
    """Unregister a command, and shut down a supervisor that was started for a run unless it is needed."""
    return {"needed_by": await services.lifetime.leave(request.pid, ignores_jobs=request.ignores_jobs)}
