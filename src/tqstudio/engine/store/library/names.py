"""Reads what videos are called, for reports that must not contain it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import or_, select

from tqstudio.engine.store.db import tables
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import Rows


@dataclass(frozen=True, slots=True)
class VideoNames:
    """What a video is called, with the path of its source."""

    id: int
    source: bytes
    name: str
    title: str
    slug: str


_NAMES = Rows(VideoNames, tables.video)


def of_videos(db: Connection, jobs: Collection[int], *, newest: int) -> list[VideoNames]:
    """Returns the names of the newest videos, and of those of some jobs."""
    video = tables.video.c
    of_jobs = select(tables.job.c.video_id).where(tables.job.c.id.in_(jobs))
    last = select(video.id).order_by(video.id.desc()).limit(newest)
    found = select(*_NAMES.columns).where(or_(video.id.in_(of_jobs), video.id.in_(last)))
    return [_NAMES.value(row) for row in db.execute(found)]
