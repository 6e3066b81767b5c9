"""Stores videos: one row per (source, output root), with the facts of the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.events import EventKind
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


_COLUMNS = (
    "id, folder_id, source, output_root, name, title, slug, size, mtime_ns, quick_hash, full_hash, facts,"
    " generation_id, deleted_at"
)


def _row(row: Any) -> VideoRow:
    values = list(row)
    values[11] = None if values[11] is None else json.loads(values[11])
    return VideoRow(*values)


def find(db: Connection, source: bytes, output_root: bytes) -> VideoRow | None:
    row = db.execute(
        f"SELECT {_COLUMNS} FROM video WHERE source = :source AND output_root = :output_root",
        {"source": source, "output_root": output_root},
    ).first()
    return None if row is None else _row(row)


def get(db: Connection, video: int) -> VideoRow | None:
    row = db.execute(f"SELECT {_COLUMNS} FROM video WHERE id = :id", {"id": video}).first()
    return None if row is None else _row(row)


def page(db: Connection, *, after: int, limit: int) -> list[VideoRow]:
    """Returns the videos after an id, oldest first."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM video WHERE id > :after ORDER BY id LIMIT :limit",
        {"after": after, "limit": limit},
    )
    return [_row(row) for row in rows]


def page_before(db: Connection, *, before: int, limit: int) -> list[VideoRow]:
    """Returns the videos before an id, newest first."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM video WHERE id < :before ORDER BY id DESC LIMIT :limit",
        {"before": before, "limit": limit},
    )
    return [_row(row) for row in rows]


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


def create(db: Connection, new: NewVideo, *, now: int) -> int:
    """Adds a video and returns its id."""
    taken = not new.slug or _is_taken(db, new.output_root, new.slug)
    values = {
        "folder": new.folder,
        "source": new.source,
        "output_root": new.output_root,
        "name": new.name,
        "title": new.title,
        # A slug with the id needs the row first; until then the row has a random one.
        "slug": None if taken else new.slug,
        "size": new.size,
        "mtime_ns": new.mtime_ns,
        "quick_hash": new.quick_hash,
        "inode": new.inode,
        "now": now,
    }
    video = int(db.execute(_INSERT, values).scalar_one())
    if taken:
        _give_free_slug(db, video, new.output_root, f"{new.slug or 'video'}-{video}")
    return video


_INSERT = (
    "INSERT INTO video (folder_id, source, output_root, name, title, slug, size, mtime_ns, quick_hash,"
    " inode, created_at) VALUES (:folder, :source, :output_root, :name, :title,"
    " coalesce(:slug, hex(randomblob(16))), :size, :mtime_ns, :quick_hash, :inode, :now) RETURNING id"
)
_TAKEN = "SELECT 1 FROM video WHERE output_root = :output_root AND slug = :slug"


def _is_taken(db: Connection, output_root: bytes, slug: str) -> bool:
    return db.execute(_TAKEN, {"output_root": output_root, "slug": slug}).first() is not None


def _give_free_slug(db: Connection, video: int, output_root: bytes, wanted: str) -> None:
    """Sets a slug that contains the id; appends a number if even that is taken."""
    slug, tries = wanted, 1
    while _is_taken(db, output_root, slug):
        tries += 1
        slug = f"{wanted}-{tries}"
    db.execute("UPDATE video SET slug = :slug WHERE id = :id", {"slug": slug, "id": video})


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
    forget = ", facts = NULL, full_hash = :full_hash" if changed else ""
    db.execute(
        "UPDATE video SET size = :size, mtime_ns = :mtime_ns,"
        " probe_error = iif(size = :size AND mtime_ns = :mtime_ns"
        " AND json_extract(probe_error, '$.code') <> 'SOURCE_MISSING', probe_error, NULL),"
        " inode = coalesce(:inode, inode),"
        f" quick_hash = coalesce(:quick_hash, quick_hash), deleted_at = NULL{forget} WHERE id = :id",
        {
            "size": size,
            "mtime_ns": mtime_ns,
            "quick_hash": quick_hash,
            "inode": inode,
            "id": video,
            **({"full_hash": full_hash} if changed else {}),
        },
    )
    _mark_jobs(db, video)


def set_facts(db: Connection, video: int, facts: Mapping[str, Any], *, quick_hash: str | None) -> None:
    """Records the facts found by a worker."""
    db.execute(
        "UPDATE video SET facts = :facts, probe_error = NULL,"
        " quick_hash = coalesce(:quick_hash, quick_hash) WHERE id = :id",
        {"facts": json.dumps(dict(facts)), "quick_hash": quick_hash, "id": video},
    )
    _mark_jobs(db, video)


@dataclass(frozen=True, slots=True)
class Unprobed:
    """The source of a waiting job that was not probed yet; `size` in bytes."""

    job: int
    video: int
    path: bytes
    size: int
    mtime_ns: int


UNPROBED_SQL = (
    "SELECT job.id, video.id, video.source, video.size, video.mtime_ns"
    " FROM job INDEXED BY ix_job_unprobed CROSS JOIN video ON video.id = job.video_id"
    " WHERE job.unprobed = 1 AND job.status IN ('pending', 'paused') AND job.deleted_at IS NULL"
    " ORDER BY job.priority DESC, job.created_at, job.id LIMIT :limit"
)


def unprobed(db: Connection, *, limit: int) -> list[Unprobed]:
    """Returns the next work of the background probe, in queue order; constant cost at any queue length."""
    return [Unprobed(*row) for row in db.execute(UNPROBED_SQL, {"limit": limit})]


def set_probed(
    db: Connection, seen: Unprobed, *, facts: Mapping[str, Any] | None, error: ErrorView | None
) -> bool:
    """Records the result of the background probe: facts or an error.

    False, and nothing is recorded, if the path, size or time of the video has changed since; then its jobs
    are probed again. Facts that a worker found meanwhile are kept.
    """
    values = {
        "facts": None if facts is None else json.dumps(dict(facts)),
        "error": None if error is None else json.dumps(error),
        "id": seen.video,
        "path": seen.path,
        "size": seen.size,
        "mtime_ns": seen.mtime_ns,
    }
    taken = db.execute(
        "UPDATE video SET facts = coalesce(facts, :facts), probe_error = iif(facts IS NULL, :error, NULL)"
        " WHERE id = :id AND source = :path AND size = :size AND mtime_ns = :mtime_ns",
        values,
    )
    _mark_jobs(db, seen.video)
    return taken.rowcount == 1


def _mark_jobs(db: Connection, video: int) -> None:
    """Updates whether the video's jobs are on the work list of the background probe."""
    db.execute(
        "UPDATE job SET unprobed = 1 - unprobed WHERE video_id = :id"
        " AND unprobed <> (SELECT facts IS NULL AND probe_error IS NULL FROM video WHERE id = :id)",
        {"id": video},
    )


def set_slug(db: Connection, video: int, slug: str) -> None:
    """Sets the folder below the output in which the video's ladder was published.

    Another video with this slug gets a new one, because the folder is not its own.
    """
    holder = db.execute(
        "SELECT id, output_root FROM video WHERE slug = :slug AND id <> :id"
        " AND output_root = (SELECT output_root FROM video WHERE id = :id)",
        {"slug": slug, "id": video},
    ).first()
    if holder is not None:
        _give_free_slug(db, holder[0], holder[1], f"{slug}-{holder[0]}")
    db.execute("UPDATE video SET slug = :slug WHERE id = :id", {"slug": slug, "id": video})


def with_inode(db: Connection, output_root: bytes, *, inode: int, size: int, mtime_ns: int) -> list[VideoRow]:
    """Returns the videos of an output whose source had this inode, size and time, under any name."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM video INDEXED BY ix_video_inode WHERE inode = :inode AND size = :size"
        " AND mtime_ns = :mtime_ns AND output_root = :output_root",
        {"inode": inode, "size": size, "mtime_ns": mtime_ns, "output_root": output_root},
    )
    return [_row(row) for row in rows]


def rename(
    db: Connection, before: VideoRow, source: bytes, *, name: str, title: str, job: int, now: int, actor: str
) -> bool:
    """Changes the path of a video whose source was renamed; False if it has changed already."""
    moved = db.execute(
        "UPDATE video SET source = :source, name = :name, title = :title WHERE id = :id AND source = :before",
        {"source": source, "name": name, "title": title, "id": before.id, "before": before.source},
    ).rowcount
    if moved:
        detail = f"{display(before.source)} is now {display(source)}"
        events.append(db, EventKind.RENAMED, now=now, actor=actor, job=job, video=before.id, detail=detail)
    return moved == 1


def want_slug(db: Connection, video: int, output_root: bytes, slug: str) -> None:
    """Sets the slug of a renamed video without a ladder, or a similar one that is free."""
    if not slug or _is_taken(db, output_root, slug):
        _give_free_slug(db, video, output_root, f"{slug or 'video'}-{video}")
    else:
        db.execute("UPDATE video SET slug = :slug WHERE id = :id", {"slug": slug, "id": video})


def adopt(db: Connection, video: int, folder: int) -> None:
    """Assigns a video that was added by hand to a drop folder."""
    db.execute("UPDATE video SET folder_id = :folder WHERE id = :id", {"folder": folder, "id": video})


def set_full_hash(db: Connection, video: int, full_hash: str) -> None:
    db.execute("UPDATE video SET full_hash = :full WHERE id = :id", {"full": full_hash, "id": video})


def output_roots(db: Connection) -> list[bytes]:
    """Returns every output root, one lookup each: DISTINCT would read the index of all videos."""
    roots: list[bytes] = []
    while True:
        row = db.execute(
            "SELECT min(output_root) FROM video WHERE output_root > :after",
            {"after": roots[-1] if roots else b""},
        ).one()
        if row[0] is None:
            return roots
        roots.append(row[0])


def known_sources(db: Connection, folder: int) -> dict[bytes, tuple[int, int, int]]:
    """Returns the sources of a drop folder: {path: (video, size, mtime_ns)}.

    Without those whose newest job failed because they were missing, so that they are added again if found.
    """
    rows = db.execute(
        "SELECT source, id, size, mtime_ns FROM video WHERE folder_id = :folder AND deleted_at IS NULL"
        " AND id NOT IN (SELECT video_id FROM job INDEXED BY ix_job_status WHERE status = 'failed'"
        " AND error_code = 'SOURCE_MISSING' AND deleted_at IS NULL AND NOT EXISTS (SELECT 1 FROM job later"
        " WHERE later.video_id = job.video_id AND later.id > job.id AND later.deleted_at IS NULL))",
        {"folder": folder},
    )
    return {row[0]: (row[1], row[2], row[3]) for row in rows}
