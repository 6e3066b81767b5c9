"""Stores published generations and which one is current."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import and_, bindparam, func, insert, select, update

from tqstudio.engine.media.segments.checked import IFrame
from tqstudio.engine.store import events
from tqstudio.engine.store.db import tables
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import Rows, values_of
from tqstudio.engine.store.dialects.expressions import indexed_by
from tqstudio.events import EventKind


class PublishedFile(NamedTuple):
    """One segment of a rendition; `size` in bytes."""

    name: str
    size: int
    duration_s: float
    blake3: str | None = None
    """64 hex digits; None if an earlier tqstudio published it."""
    iframes: tuple[IFrame, ...] = ()
    """Key frames of a video segment; empty for other files, and if an earlier tqstudio published it."""


class WholeFileRow(NamedTuple):
    """A file of a generation with the whole video, to take away; `size` in bytes."""

    name: str
    size: int
    blake3: str


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One rendition of a generation. Rates in bits per second."""

    name: str
    kind: str
    width: int | None
    height: int | None
    frame_rate: float | None
    codecs: str
    duration_s: float
    average_bps: int
    peak_bps: int
    size: int
    settings_hash: str
    stream_key: str
    language: str | None
    title: str | None
    channels: int | None
    is_default: bool
    files: tuple[PublishedFile, ...]
    role: str = ""
    """Purpose: `commentary` or `description` for audio, `forced` or `captions` for subtitles, `captions` for
    video whose pictures carry closed captions; else empty."""
    surround_of: str | None = None
    """Name of the rendition with the same sound in fewer channels."""
    video_range: str = "SDR"
    """Dynamic range of video: `SDR`, `PQ` or `HLG`, as in playlists."""

    @property
    def init_size(self) -> int:
        """Bytes of its initialisation segment; 0 for subtitles, which have none."""
        return self.size - sum(file.size for file in self.files)

    def menu_name(self, fallback: str) -> str:
        """The name of a track in the menus of players."""
        known = self.language if self.language != "und" else None
        name = self.title or known or fallback
        return name if not self.role or self.role in name.lower() else f"{name} ({self.role})"


@dataclass(frozen=True, slots=True)
class GenerationRow:
    number: int
    settings_hash: str
    poster: str | None
    published_at: int
    renditions: tuple[PublishedRow, ...]
    omitted: Mapping[str, str] = field(default_factory=dict)
    """Renditions left out on purpose (dropped, or optional and failed): name → settings_hash."""
    retired_at: int | None = None
    files: tuple[WholeFileRow, ...] = ()


_MAX_DUPLICATES = 3
"""Most ladders offered for linking: the next is tried if one is damaged or has other settings."""
_PUBLISHED = Rows(PublishedRow, tables.published_rendition, files=None)
_GENERATIONS = Rows(GenerationRow, tables.generation, renditions=None, files=None)


def _file(
    name: str, size: int, duration_s: float, blake3: str | None = None, iframes: Sequence[Any] = ()
) -> PublishedFile:
    return PublishedFile(name, size, duration_s, blake3, tuple(map(IFrame._make, iframes)))


_GET = select(*_GENERATIONS.columns, tables.generation.c.files).where(
    tables.generation.c.id == bindparam("generation")
)
_RENDITIONS = (
    select(*_PUBLISHED.columns, tables.published_rendition.c.files)
    .where(tables.published_rendition.c.generation_id == bindparam("generation"))
    .order_by(tables.published_rendition.c.id)
)


def get(db: Connection, generation: int) -> GenerationRow | None:
    row = db.execute(_GET, {"generation": generation}).first()
    if row is None:
        return None
    renditions = tuple(
        _PUBLISHED.value(each, files=tuple(_file(*file) for file in json.loads(each.files)))
        for each in db.execute(_RENDITIONS, {"generation": generation})
    )
    files = tuple(WholeFileRow(*file) for file in json.loads(row.files))
    return _GENERATIONS.value(row, renditions=renditions, files=files)


_CURRENT = select(tables.video.c.generation_id).where(tables.video.c.id == bindparam("video"))


def current(db: Connection, video: int) -> GenerationRow | None:
    """Returns the current generation of a video."""
    found = db.execute(_CURRENT, {"video": video}).scalar()
    return None if found is None else get(db, found)


@dataclass(frozen=True, slots=True)
class DuplicateRow:
    """The published ladder of another video with the size and samples of a job's source."""

    video: int
    output_root: bytes
    slug: str
    full_hash: str | None
    generation: GenerationRow


_OWN = tables.video.alias("own")
_DUPLICATES = (
    select(*tables.video.c["id", "output_root", "slug", "full_hash", "generation_id"])
    .join_from(tables.job, _OWN, _OWN.c.id == tables.job.c.video_id)
    .join(tables.folder, tables.folder.c.id == _OWN.c.folder_id)
    .join(
        tables.video,
        and_(tables.video.c.size == _OWN.c.size, tables.video.c.quick_hash == _OWN.c.quick_hash),
    )
    .with_hint(tables.video, indexed_by("ix_video_size"), "sqlite")
    .where(
        tables.job.c.id == bindparam("job"),
        tables.job.c.from_folder == 1,
        # After a failure, or two crashes, the job does without.
        tables.job.c.attempts == 0,
        tables.job.c.crashes < 2,
        tables.folder.c.duplicates == "link",
        tables.video.c.generation_id.is_not(None),
        tables.video.c.deleted_at.is_(None),
        tables.video.c.id != _OWN.c.id,
    )
    .order_by(tables.video.c.id.desc())
    .limit(_MAX_DUPLICATES)
)


def duplicates(db: Connection, job: int) -> list[DuplicateRow]:
    """Returns the ladders that a job may link from by the rule of its drop folder, newest video first."""
    return [
        DuplicateRow(row.id, row.output_root, row.slug, row.full_hash, generation)
        for row in db.execute(_DUPLICATES, {"job": job})
        if (generation := get(db, row.generation_id)) is not None
    ]


def exists(db: Connection, video: int, number: int) -> bool:
    """Whether a generation of that number was ever recorded."""
    numbered = (tables.generation.c.video_id == video, tables.generation.c.number == number)
    return db.execute(select(tables.generation.c.id).where(*numbered)).first() is not None


def next_number(db: Connection, video: int) -> int:
    last = select(func.max(tables.generation.c.number)).where(tables.generation.c.video_id == video)
    return int(db.execute(last).scalar() or 0) + 1


def record(
    db: Connection,
    video: int,
    number: int,
    *,
    settings_hash: str,
    poster: str | None,
    renditions: Sequence[PublishedRow],
    omitted: Mapping[str, str] | None = None,
    files: Sequence[WholeFileRow] = (),
    job: int | None = None,
    now: int,
) -> int:
    """Records a generation, whose files are in place, as the current one; the previous one is retired."""
    current = (tables.generation.c.video_id == video, tables.generation.c.retired_at.is_(None))
    db.execute(update(tables.generation).where(*current).values(retired_at=now))
    values = {
        "video_id": video,
        "number": number,
        "settings_hash": settings_hash,
        "omitted": json.dumps(dict(omitted or {})),
        "files": json.dumps(files),
        "poster": poster,
        "published_at": now,
    }
    recorded = insert(tables.generation).returning(tables.generation.c.id)
    generation = int(db.execute(recorded, values).scalar_one())
    for rendition in renditions:
        of_rendition = values_of(tables.published_rendition, rendition)
        db.execute(insert(tables.published_rendition), of_rendition | {"generation_id": generation})
    db.execute(update(tables.video).where(tables.video.c.id == video).values(generation_id=generation))
    detail = f"generation {number}"
    events.append(db, EventKind.PUBLISHED, now=now, actor="supervisor", job=job, video=video, detail=detail)
    return generation


@dataclass(frozen=True, slots=True)
class Retired:
    id: int
    video: int
    number: int
    slug: str
    output_root: bytes


def retired_before(db: Connection, before: int, *, after: int = 0, limit: int = 50) -> list[Retired]:
    """Returns generations replaced before a time whose files still exist, by id."""
    generation, video = tables.generation.c, tables.video.c
    rows = db.execute(
        select(generation.id, generation.video_id, generation.number, video.slug, video.output_root)
        .join_from(tables.generation, tables.video)
        .where(
            generation.id > after,
            generation.retired_at < before,
            generation.removed_at.is_(None),
            generation.id.is_distinct_from(video.generation_id),
            # Those of a deleted video are in the archive with the current one, until it is back.
            ~select(tables.deletion.c.video_id).where(tables.deletion.c.video_id == video.id).exists(),
        )
        .order_by(generation.id)
        .limit(limit)
    )
    return [Retired(*row) for row in rows]


def removed(db: Connection, generation: int, video: int, number: int, *, now: int) -> None:
    db.execute(update(tables.generation).where(tables.generation.c.id == generation).values(removed_at=now))
    detail = f"generation {number}"
    events.append(db, EventKind.GENERATION_REMOVED, now=now, actor="retention", video=video, detail=detail)
