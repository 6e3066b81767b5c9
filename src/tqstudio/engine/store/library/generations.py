"""Stores published generations and which one is current."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.events import EventKind


class PublishedFile(NamedTuple):
    """One segment of a rendition; `size` in bytes."""

    name: str
    size: int
    duration_s: float
    blake3: str | None = None
    """64 hex digits; None if an earlier tqstudio published it."""


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


@dataclass(frozen=True, slots=True)
class GenerationRow:
    id: int
    video: int
    number: int
    settings_hash: str
    poster: str | None
    published_at: int
    renditions: tuple[PublishedRow, ...]
    omitted: Mapping[str, str] = field(default_factory=dict)
    """Renditions left out on purpose (dropped, or optional and failed): name → settings_hash."""
    retired_at: int | None = None


_PUBLISHED = (
    "name, kind, width, height, frame_rate, codecs, duration_s, average_bps, peak_bps, size, settings_hash,"
    " stream_key, language, title, channels, is_default, files"
)


def _published(row: Any) -> PublishedRow:
    values = list(row)
    values[15] = bool(values[15])
    values[16] = tuple(PublishedFile(*file) for file in json.loads(values[16]))
    return PublishedRow(*values)


def get(db: Connection, generation: int) -> GenerationRow | None:
    row = db.execute(
        "SELECT id, video_id, number, settings_hash, poster, published_at, omitted, retired_at"
        " FROM generation WHERE id = :id",
        {"id": generation},
    ).first()
    if row is None:
        return None
    renditions = db.execute(
        f"SELECT {_PUBLISHED} FROM published WHERE generation_id = :id ORDER BY id", {"id": generation}
    )
    return GenerationRow(
        id=row[0],
        video=row[1],
        number=row[2],
        settings_hash=row[3],
        poster=row[4],
        published_at=row[5],
        renditions=tuple(_published(rendition) for rendition in renditions),
        omitted=json.loads(row[6]),
        retired_at=row[7],
    )


def current(db: Connection, video: int) -> GenerationRow | None:
    """Returns the current generation of a video."""
    found = db.execute("SELECT generation_id FROM video WHERE id = :id", {"id": video}).first()
    return None if found is None or found[0] is None else get(db, found[0])


def exists(db: Connection, video: int, number: int) -> bool:
    """Whether a generation of that number was ever recorded."""
    found = db.execute(
        "SELECT 1 FROM generation WHERE video_id = :video AND number = :number",
        {"video": video, "number": number},
    )
    return found.first() is not None


def next_number(db: Connection, video: int) -> int:
    return int(
        db.execute(
            "SELECT coalesce(max(number), 0) + 1 FROM generation WHERE video_id = :id", {"id": video}
        ).scalar_one()
    )


def record(
    db: Connection,
    video: int,
    number: int,
    *,
    settings_hash: str,
    poster: str | None,
    renditions: Sequence[PublishedRow],
    omitted: Mapping[str, str] | None = None,
    job: int | None = None,
    now: int,
) -> int:
    """Records a generation, whose files are in place, as the current one; the previous one is retired.

    Args:
        job: the job that created it.
    """
    db.execute(
        "UPDATE generation SET retired_at = :now WHERE video_id = :video AND retired_at IS NULL",
        {"now": now, "video": video},
    )
    generation = int(
        db.execute(
            "INSERT INTO generation (video_id, number, settings_hash, omitted, poster, published_at)"
            " VALUES (:video, :number, :settings_hash, :omitted, :poster, :now) RETURNING id",
            {
                "video": video,
                "number": number,
                "settings_hash": settings_hash,
                "omitted": json.dumps(dict(omitted or {})),
                "poster": poster,
                "now": now,
            },
        ).scalar_one()
    )
    for rendition in renditions:
        db.execute(
            f"INSERT INTO published (generation_id, {_PUBLISHED}) VALUES (:generation, :name, :kind,"
            " :width, :height, :frame_rate, :codecs, :duration_s, :average_bps, :peak_bps, :size,"
            " :settings_hash, :stream_key, :language, :title, :channels, :is_default, :files)",
            {
                **{field: getattr(rendition, field) for field in PublishedRow.__dataclass_fields__},
                "is_default": int(rendition.is_default),
                "files": json.dumps(rendition.files),
                "generation": generation,
            },
        )
    db.execute(
        "UPDATE video SET generation_id = :generation WHERE id = :video",
        {"generation": generation, "video": video},
    )
    events.append(
        db,
        EventKind.PUBLISHED,
        now=now,
        actor="supervisor",
        job=job,
        video=video,
        detail=f"generation {number}",
    )
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
    rows = db.execute(
        "SELECT g.id, g.video_id, g.number, v.slug, v.output_root FROM generation g"
        " JOIN video v ON v.id = g.video_id WHERE g.id > :after AND g.retired_at < :before"
        " AND g.removed_at IS NULL AND g.id IS NOT v.generation_id ORDER BY g.id LIMIT :limit",
        {"before": before, "after": after, "limit": limit},
    )
    return [Retired(*row) for row in rows]


def removed(db: Connection, generation: int, video: int, number: int, *, now: int) -> None:
    db.execute("UPDATE generation SET removed_at = :now WHERE id = :id", {"now": now, "id": generation})
    events.append(
        db,
        EventKind.GENERATION_REMOVED,
        now=now,
        actor="retention",
        video=video,
        detail=f"generation {number}",
    )
