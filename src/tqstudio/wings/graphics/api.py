"""Endpoints of what screens draw of a ladder: its picture, its film strip, and the bits of its segments."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from tqstudio.engine.api.bodies import BoundedRoute
from tqstudio.engine.api.dependencies import TheServices, the
from tqstudio.engine.api.jobs import no_such_job
from tqstudio.engine.outputs.place import place_of
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.library import generations, videos
from tqstudio.engine.store.library.generations import GenerationRow, PublishedRow
from tqstudio.engine.store.library.videos import VideoRow
from tqstudio.engine.store.lists import records
from tqstudio.errors import ErrorCode, TqError
from tqstudio.protocol.answers import BitsView, PictureView
from tqstudio.wings.graphics.pictures import Pictures

router = APIRouter(route_class=BoundedRoute)


def _newest(db: Connection, job: int) -> tuple[VideoRow, GenerationRow | None]:
    """The video of a job, and its published ladder."""
    record = records.one(db, job)
    video = None if record is None else videos.get(db, record["video"])
    if video is None:
        raise no_such_job(job)
    return video, generations.current(db, video.id)


def _ladder(db: Connection, job: int) -> GenerationRow:
    video, generation = _newest(db, job)
    if generation is None or video.deleted_at is not None:
        why = "is not published yet" if generation is None else "was deleted"
        raise TqError(ErrorCode.NOT_FOUND, f"the ladder of job {job} {why}", f"see: tqstudio job show {job}")
    return generation


@router.get("/jobs/{job}/picture")
async def picture(
    services: TheServices,
    pictures: Annotated[Pictures, the(Pictures)],
    job: int,
    kind: Literal["poster", "storyboard"] = "poster",
    width: Annotated[int, Query(ge=1, le=80)] = 80,
    height: Annotated[int, Query(ge=1, le=45)] = 45,
) -> PictureView:
    """The poster of a job's video, or pictures of its storyboard beside each other, in so many colours.

    Before its first ladder is published the poster is the one that its encode has stored.
    """
    video, generation = await services.db.read(_newest, job)
    if generation is None and kind == "poster" and video.deleted_at is None:
        store = services.workspace.work_dir(video.output_root) / "segments" / str(video.id)
        try:
            return await pictures.get(0, store, kind, width, height)
        except TqError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                raise
    generation = await services.db.read(_ladder, job)
    folder = place_of(video).generation(generation.number)
    return await pictures.get(generation.published_at, folder, kind, width, height)


@router.get("/jobs/{job}/bits")
async def bits(
    services: TheServices, job: int, points: Annotated[int, Query(ge=1, le=400)] = 100
) -> BitsView:
    """The bits per second of each quality along the video, as so many means."""
    generation = await services.db.read(_ladder, job)
    # Of sound alone, its rates.
    kind = "video" if any(row.kind == "video" for row in generation.renditions) else "audio"
    rows = [row for row in generation.renditions if row.kind == kind]
    return {
        "duration_s": max((row.duration_s for row in rows), default=0.0),
        "renditions": [
            {"name": row.name, "average_bps": row.average_bps, "bps": _means(row, points)} for row in rows
        ],
    }


def _means(row: PublishedRow, points: int) -> list[int]:
    """Mean rates of parts of a rendition, each of about as many segments as the others."""
    count = len(row.files)
    edges = [at * count // min(points, count) for at in range(min(points, count) + 1)] if count else []
    parts = [row.files[first:end] for first, end in pairwise(edges)]
    return [round(8 * sum(f.size for f in part) / sum(f.duration_s for f in part)) for part in parts]
