"""Stores videos: one row per (source, output root), with the facts of the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from sqlalchemy import and_, bindparam, case, exists, func, insert, literal_column, select, update

from tqstudio.engine.store import events
from tqstudio.engine.store.db import tables
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import Rows, values_of
from tqstudio.engine.store.db.tables import const
from tqstudio.engine.store.dialects.expressions import indexed_by, json_value
from tqstudio.errors import ErrorCode, TqError
from tqstudio.events import EventKind
from tqstudio.lifecycle import WAITING, JobStatus
from tqstudio.paths import display
from tqstudio.protocol.answers import ErrorView


@dataclass(frozen=True, slots=True)
class VideoRow:
    """A video. Paths are bytes, `size` is in bytes, `facts` the probe's JSON."""

    id: int
    folder: int | None
    source: bytes
    output_root: bytes
    name: str
    title: str
    slug: str
    size: int
    mtime_ns: int
    quick_hash: str | None
    full_hash: str | None
    facts: Mapping[str, Any] | None
    generation: int | None
    """Id of the current generation."""
    deleted_at: int | None
    source_deleted_at: int | None = None
    """When the rule of its drop folder deleted the source."""
    viewable: str | None = None
    """The quality that is published before the others; None once they are, or before."""


_VIDEOS = Rows(VideoRow, tables.video, folder="folder_id", generation="generation_id")
_SELECT = select(*_VIDEOS.columns)

_IN_ROOT = tables.video.c.output_root == bindparam("root")
_FIND = _SELECT.where(tables.video.c.source == bindparam("source"), _IN_ROOT)


def find(db: Connection, source: bytes, output_root: bytes) -> VideoRow | None:
    return _VIDEOS.first(db.execute(_FIND, {"source": source, "root": output_root}))


_GET = _SELECT.where(tables.video.c.id == bindparam("video"))


def get(db: Connection, video: int) -> VideoRow | None:
    return _VIDEOS.first(db.execute(_GET, {"video": video}))


def unknown(video: int) -> TqError:
    """Returns the error for a video that does not exist."""
    return TqError(ErrorCode.NOT_FOUND, f"there is no video {video}", "list videos with: tqstudio video list")


def with_source(db: Connection, source: bytes) -> list[VideoRow]:
    """Returns the videos of a source, one per output."""
    found = _SELECT.where(tables.video.c.source == source).order_by(tables.video.c.id)
    return [_VIDEOS.value(row) for row in db.execute(found)]


def page(db: Connection, *, after: int, limit: int) -> list[VideoRow]:
    """Returns the videos after an id, oldest first."""
    found = _SELECT.where(tables.video.c.id > after).order_by(tables.video.c.id)
    return [_VIDEOS.value(row) for row in db.execute(found.limit(limit))]


def page_before(db: Connection, *, before: int, limit: int) -> list[VideoRow]:
    """Returns the videos before an id, newest first."""
    found = _SELECT.where(tables.video.c.id < before).order_by(tables.video.c.id.desc())
    return [_VIDEOS.value(row) for row in db.execute(found.limit(limit))]


@dataclass(frozen=True, slots=True)
class NewVideo:
    """The values of a new video."""

    source: bytes
    output_root: bytes
    name: str
    title: str
    slug: str
    """Requested slug; if taken or empty, `-<id>` is appended."""
    size: int
    mtime_ns: int
    quick_hash: str | None
    folder: int | None = None
    inode: int | None = None


_INSERT = insert(tables.video).returning(tables.video.c.id)


def create(db: Connection, new: NewVideo, *, now: int) -> int:
    """Adds a video and returns its id."""
    taken = not new.slug or _is_taken(db, new.output_root, new.slug)
    values = values_of(tables.video, new) | {
        "folder_id": new.folder,
        "name_lower": new.name.lower(),
        # A slug with the id needs the row first; until then the row has a random one.
        "slug": uuid4().hex if taken else new.slug,
        "created_at": now,
    }
    video = int(db.execute(_INSERT, values).scalar_one())
    if taken:
        _give_free_slug(db, video, new.output_root, f"{new.slug or 'video'}-{video}")
    return video


_WITH_SLUG = select(tables.video.c.id).where(_IN_ROOT, tables.video.c.slug == bindparam("slug"))


def _is_taken(db: Connection, output_root: bytes, slug: str) -> bool:
    return db.execute(_WITH_SLUG, {"root": output_root, "slug": slug}).first() is not None


def _set(db: Connection, video: int, **values: Any) -> None:
    db.execute(update(tables.video).where(tables.video.c.id == video).values(values))


def _give_free_slug(db: Connection, video: int, output_root: bytes, wanted: str) -> None:
    """Sets a slug that contains the id; appends a number if even that is taken."""
    slug, tries = wanted, 1
    while _is_taken(db, output_root, slug):
        tries += 1
        slug = f"{wanted}-{tries}"
    _set(db, video, slug=slug)


def set_fingerprint(
    db: Connection,
    video: int,
    *,
    size: int,
    mtime_ns: int,
    quick_hash: str | None,
    full_hash: str | None = None,
    inode: int | None = None,
    changed: bool,
) -> None:
    """Records the state of the source; `changed` content also resets the facts and the full hash.

    A probe error that the source was missing is cleared.
    """
    row = tables.video.c
    was_there = json_value(row.probe_error, "code") != ErrorCode.SOURCE_MISSING
    same = and_(row.size == size, row.mtime_ns == mtime_ns, was_there)
    _set(
        db,
        video,
        size=size,
        mtime_ns=mtime_ns,
        probe_error=case((same, row.probe_error)),
        inode=func.coalesce(inode, row.inode),
        quick_hash=func.coalesce(quick_hash, row.quick_hash),
        deleted_at=None,
        source_deleted_at=None,
        **({"facts": None, "length_ms": 0, "full_hash": full_hash} if changed else {}),
    )
    _mark_jobs(db, video)


def _ms(facts: Mapping[str, Any]) -> int:
    return round(1000 * (facts.get("duration_s") or 0))


def set_facts(db: Connection, video: int, facts: Mapping[str, Any], *, quick_hash: str | None) -> None:
    """Records the facts found by a worker."""
    known = func.coalesce(quick_hash, tables.video.c.quick_hash)
    _set(db, video, facts=json.dumps(dict(facts)), probe_error=None, quick_hash=known, length_ms=_ms(facts))
    _mark_jobs(db, video)


@dataclass(frozen=True, slots=True)
class Unprobed:
    """The source of a waiting job that was not probed yet; `size` in bytes."""

    job: int
    video: int
    path: bytes
    size: int
    mtime_ns: int


UNPROBED = (
    select(tables.job.c.id, *tables.video.c["id", "source", "size", "mtime_ns"])
    .join_from(tables.job, tables.video)
    .with_hint(tables.job, indexed_by("ix_job_unprobed"), "sqlite")
    .where(
        tables.job.c.unprobed == literal_column("1"),
        tables.job.c.status.in_([const(status) for status in WAITING]),
        tables.job.c.deleted_at.is_(None),
    )
    .order_by(tables.job.c.priority.desc(), tables.job.c.created_at, tables.job.c.id)
    .limit(bindparam("limit"))
)


def unprobed(db: Connection, *, limit: int) -> list[Unprobed]:
    """Returns the next work of the background probe, in queue order; constant cost at any queue length."""
    return [Unprobed(*row) for row in db.execute(UNPROBED, {"limit": limit})]


_V = tables.video.c
_SET_PROBED = (
    update(tables.video)
    .where(_V.id == bindparam("video"), _V.source == bindparam("path"))
    .where(_V.size == bindparam("bytes"), _V.mtime_ns == bindparam("modified"))
    .values(
        facts=func.coalesce(_V.facts, bindparam("found")),
        length_ms=case((_V.facts.is_(None), bindparam("length")), else_=_V.length_ms),
        probe_error=case((_V.facts.is_(None), bindparam("error"))),
    )
)


def set_probed(
    db: Connection, seen: Unprobed, *, facts: Mapping[str, Any] | None, error: ErrorView | None
) -> bool:
    """Records the result of the background probe: facts or an error.

    False, and nothing is recorded, if the path, size or time of the video has changed since; then its jobs
    are probed again. Facts that a worker found meanwhile are kept.
    """
    values = {
        "video": seen.video,
        "path": seen.path,
        "bytes": seen.size,
        "modified": seen.mtime_ns,
        "found": None if facts is None else json.dumps(dict(facts)),
        "length": _ms(facts or {}),
        "error": None if error is None else json.dumps(error),
    }
    taken = db.execute(_SET_PROBED, values)
    _mark_jobs(db, seen.video)
    return taken.rowcount == 1


_IS_UNPROBED = select(tables.UNPROBED).where(tables.video.c.id == bindparam("video")).scalar_subquery()
_MARK_JOBS = (
    update(tables.job)
    .where(tables.job.c.video_id == bindparam("video"), tables.job.c.unprobed != _IS_UNPROBED)
    .values(unprobed=1 - tables.job.c.unprobed)
)


def _mark_jobs(db: Connection, video: int) -> None:
    """Updates whether the video's jobs are on the work list of the background probe."""
    db.execute(_MARK_JOBS, {"video": video})


def set_slug(db: Connection, video: int, slug: str) -> None:
    """Sets the folder below the output in which the video's ladder was published.

    Another video with this slug gets a new one, because the folder is not its own.
    """
    row, own = tables.video.c, tables.video.alias("own").c
    output_root = select(own.output_root).where(own.id == video).scalar_subquery()
    others = select(row.id, row.output_root).where(row.id != video)
    holder = db.execute(others.where(row.output_root == output_root, row.slug == slug)).first()
    if holder is not None:
        _give_free_slug(db, holder[0], holder[1], f"{slug}-{holder[0]}")
    _set(db, video, slug=slug)


_WITH_SIZE = tables.video.c.size == bindparam("size")
_WITH_INODE = _SELECT.with_hint(tables.video, indexed_by("ix_video_inode"), "sqlite").where(
    tables.video.c.inode == bindparam("inode"),
    _WITH_SIZE,
    tables.video.c.mtime_ns == bindparam("mtime_ns"),
    _IN_ROOT,
)


def with_inode(db: Connection, output_root: bytes, *, inode: int, size: int, mtime_ns: int) -> list[VideoRow]:
    """Returns the videos of an output whose source had this inode, size and time, under any name."""
    values = {"root": output_root, "inode": inode, "size": size, "mtime_ns": mtime_ns}
    return [_VIDEOS.value(row) for row in db.execute(_WITH_INODE, values)]


_PUBLISHED_WITH_SIZE = (
    _SELECT.with_hint(tables.video, indexed_by("ix_video_size"), "sqlite")
    .where(_WITH_SIZE, _IN_ROOT, tables.video.c.generation_id.is_not(None))
    .where(tables.video.c.deleted_at.is_(None))
    .order_by(tables.video.c.id)
)


_PUBLISHED_LIKE = _PUBLISHED_WITH_SIZE.where(
    tables.video.c.quick_hash == bindparam("samples"), tables.video.c.source_deleted_at.is_(None)
)


def published_like(db: Connection, output_root: bytes, *, size: int, samples: str | None) -> list[VideoRow]:
    """Returns the videos of an output with a ladder whose source has this size and quick hash.

    Without those whose source was deleted on purpose.
    """
    values = {"root": output_root, "size": size, "samples": samples}
    return [_VIDEOS.value(row) for row in db.execute(_PUBLISHED_LIKE, values)]


def published_with_size(db: Connection, output_root: bytes, size: int) -> list[VideoRow]:
    """Returns the videos of an output with a ladder whose source has this size in bytes."""
    values = {"root": output_root, "size": size}
    return [_VIDEOS.value(row) for row in db.execute(_PUBLISHED_WITH_SIZE, values)]


def rename(
    db: Connection, old: VideoRow, to: bytes, *, name: str, title: str, job: int | None, now: int, actor: str
) -> bool:
    """Changes the path of a video whose source was renamed; False if it has changed already."""
    row = tables.video.c
    unmoved = update(tables.video).where(row.id == old.id, row.source == old.source)
    names = {"name": name, "name_lower": name.lower(), "title": title}
    moved = db.execute(unmoved.values(source=to, **names)).rowcount
    if moved:
        detail = f"{display(old.source)} is now {display(to)}"
        events.append(db, EventKind.RENAMED, now=now, actor=actor, job=job, video=old.id, detail=detail)
    return moved == 1


def want_slug(db: Connection, video: int, output_root: bytes, slug: str) -> None:
    """Sets the slug of a renamed video without a ladder, or a similar one that is free."""
    if not slug or _is_taken(db, output_root, slug):
        _give_free_slug(db, video, output_root, f"{slug or 'video'}-{video}")
    else:
        _set(db, video, slug=slug)


def relocate(db: Connection, video: int, output_root: bytes, slug: str) -> bool:
    """Points a video to another output; False if that has one with its slug."""
    if _is_taken(db, output_root, slug):
        return False
    _set(db, video, output_root=output_root)
    return True


def adopt(db: Connection, video: int, folder: int) -> None:
    """Assigns a video that was added by hand to a drop folder."""
    _set(db, video, folder_id=folder)


def set_full_hash(db: Connection, video: int, full_hash: str) -> None:
    _set(db, video, full_hash=full_hash)


def set_viewable(db: Connection, video: int, quality: str | None) -> None:
    """Records which quality alone is published of a video; None for none, or the whole ladder."""
    _set(db, video, viewable=quality)


def output_roots(db: Connection) -> list[bytes]:
    """Returns every output root, one lookup each: DISTINCT would read the index of all videos, and before
    PostgreSQL 18 bytes have no minimum."""
    root = tables.video.c.output_root
    first = select(root).order_by(root).limit(1)
    roots: list[bytes] = []
    while found := db.execute(first.where(root > (roots or [b""])[-1])).scalar():
        roots.append(found)
    return roots


def known_sources(db: Connection, folder: int) -> dict[bytes, tuple[int, int, int]]:
    """Returns the sources of a drop folder: {path: (video, size, mtime_ns)}.

    Without those whose file was deleted on purpose, or whose newest job failed because they were missing, so
    that they are added again if found.
    """
    video, job, later = tables.video.c, tables.job.c, tables.job.alias("later").c
    again = exists().where(later.video_id == job.video_id, later.id > job.id, later.deleted_at.is_(None))
    missing = (
        select(job.video_id)
        .with_hint(tables.job, indexed_by("ix_job_status"), "sqlite")
        .where(job.status == JobStatus.FAILED, job.error_code == ErrorCode.SOURCE_MISSING)
        .where(job.deleted_at.is_(None), ~again)
    )
    known = (video.folder_id == folder, video.source_deleted_at.is_(None), video.id.not_in(missing))
    found = select(video.source, video.id, video.size, video.mtime_ns).where(*known)
    rows = db.execute(found.order_by(video.id))
    return {row[0]: (row[1], row[2], row[3]) for row in rows}
