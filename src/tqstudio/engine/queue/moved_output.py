"""Lets videos follow an output folder that a person moved."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from tqstudio.engine.files.bounded_io import BoundedIO
from tqstudio.engine.outputs import place
from tqstudio.engine.outputs.place import Place
from tqstudio.engine.outputs.workspace import Workspace
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import jobs
from tqstudio.engine.store.library import generations, publications, videos
from tqstudio.engine.store.library.videos import VideoRow
from tqstudio.lifecycle import JobStatus

_PAGE = 200
_Found = tuple[VideoRow, int | None]
"""A video, and the number of its current generation."""


@dataclass(slots=True)
class Moved:
    """What became of the videos of an output."""

    moved: int = 0
    left: list[tuple[int, str]] = field(default_factory=list)
    """Videos that did not follow, and why."""


async def follow(db: Database, workspace: Workspace, io: BoundedIO, old: bytes, new: bytes) -> Moved:
    """Point the videos of one output to another in which their ladders are now.

    A video stays if its ladder is not there, its job runs, or the other output has one of its source or slug.

    Raises:
        TqError: OUTPUT_IN_USE, another supervisor uses the new one; it does not answer.
        OSError: it cannot be read.
    """
    answer, after = Moved(), 0
    while True:
        page = await db.read(_page, after)
        if not page:
            return answer
        after = page[-1][0].id
        ours = [(row, number) for row, number in page if row.output_root == old and row.deleted_at is None]
        if not ours:
            continue
        there = await io.run(new, partial(_that_are_there, workspace, new, ours))
        for row, _ in ours:
            why = "its ladder is not there"
            if row.id in there:
                await asyncio.to_thread(db.require_lead)
                why = await db.write(_relocate, row, new)
            if why:
                answer.left.append((row.id, why))
            answer.moved += not why


def _page(db: Connection, after: int) -> list[_Found]:
    rows = videos.page(db, after=after, limit=_PAGE)
    current = [generations.current(db, row.id) for row in rows]
    return [(row, found.number if found else None) for row, found in zip(rows, current, strict=True)]


def _that_are_there(workspace: Workspace, new: bytes, found: Sequence[_Found]) -> set[int]:
    """The videos without a ladder, and those whose ladder is in the new output."""
    workspace.require_lock(new)
    return {row.id for row, number in found if number is None or _is_there(workspace, new, row, number)}


def _is_there(workspace: Workspace, new: bytes, row: VideoRow, number: int) -> bool:
    try:
        with Place.below(new, row.slug).hold() as folder:
            owns = place.belongs(folder, f"{workspace.uuid} {row.id}", number)
            return owns and folder.generation(number).is_dir() and folder.master.is_file()
    except OSError:
        return False


def _relocate(db: Connection, seen: VideoRow, new: bytes) -> str:
    """Point a video to its output; return why not, if nothing changed."""
    row, newest = videos.get(db, seen.id), jobs.newest_job_of(db, seen.id)
    if (newest and newest[1] is JobStatus.IN_PROGRESS) or publications.of_video(db, seen.id):
        return "its job runs; pause it"
    if row is None or _place_of(row) != _place_of(seen):
        return "it has changed; repeat the command"
    if videos.find(db, row.source, new) is not None:
        return "there is another video of its source"
    if not videos.relocate(db, row.id, new, row.slug):
        return f"there is another video in the folder {row.slug}"
    return ""


def _place_of(row: VideoRow) -> tuple[bytes, str, int | None, int | None]:
    return row.output_root, row.slug, row.generation, row.deleted_at
