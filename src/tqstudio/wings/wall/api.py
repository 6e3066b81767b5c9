"""Endpoint of the wall: the running jobs, and which worker made which of their segments."""

from __future__ import annotations

from fastapi import APIRouter

from tqstudio.engine.api.bodies import BoundedRoute
from tqstudio.engine.api.dependencies import TheServices
from tqstudio.engine.api.jobs import rows_of
from tqstudio.engine.live.recorder import Recorded
from tqstudio.engine.store.lists import records
from tqstudio.protocol.answers import JobRow, WallJob, WallQuality, WallView

router = APIRouter(route_class=BoundedRoute)

_MOST = 50
"""Jobs: more do not fit on a screen."""


@router.get("/wall")
async def wall(services: TheServices, job: int | None = None) -> WallView:
    """The running jobs, or one of them, with the course of their speeds and who made their segments."""
    recorded, running = services.recorder.jobs, services.running_jobs.jobs
    wanted = sorted(running)[:_MOST] if job is None else [job] if job in running else []
    found = await services.db.read(records.by_ids, wanted)
    rows = [row for row in rows_of(services, found) if row["status"] == "in_progress"]
    workers: dict[str, int] = {}
    jobs = [_job(row, recorded.get(row["id"]) or Recorded(), workers) for row in rows]
    return {"workers": list(workers), "jobs": jobs}


def _job(row: JobRow, recorded: Recorded, workers: dict[str, int]) -> WallJob:
    """Args: `workers` is the number of each worker that is named so far; new ones are added."""
    return {
        "id": row["id"],
        "name": row["name"],
        "profile": row["profile"],
        "source": row["source"],
        "step": row["step"],
        "progress": row["progress"],
        "speed": row["speed"],
        "eta": row["eta"],
        "speeds": [round(each, 2) for each in recorded.speeds.values],
        "qualities": [
            _quality(row, at, recorded, workers)
            for at, each in enumerate(row["renditions"])
            if each["status"] != "skipped" and each["segments_total"]
        ],
    }


def _quality(row: JobRow, at: int, recorded: Recorded, workers: dict[str, int]) -> WallQuality:
    of, division = row["renditions"][at], row["division"]

    def number(worker: str) -> int:
        return workers.setdefault(worker, len(workers))

    is_made = of["status"] == "in_progress"
    front = [(recorded.front(of["name"]), number(row["worker"] or ""))] if is_made else []
    if division is not None and of["name"] in division["renditions"]:
        front += [(each["first"] + each["done"], number(each["worker"])) for each in division["ranges"]]
    return {
        "name": of["name"],
        "status": of["status"],
        "encoder": of["encoder"],
        "progress": round(of["progress"], 1),
        "speed": of["speed"],
        "segments_total": of["segments_total"],
        "made": [
            (None if maker is None else number(maker) if maker else -1, count)
            for maker, count in recorded.runs(of["name"])
        ],
        "front": front,
    }
