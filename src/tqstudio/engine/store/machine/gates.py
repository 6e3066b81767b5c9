"""Stores closed gates, and reads what jobs need of their volumes. A closed gate stops all claims."""

from __future__ import annotations

from dataclasses import dataclass

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.events import EventKind
from tqstudio.lifecycle import GateKind


@dataclass(frozen=True, slots=True)
class GateRow:
    """A closed gate; `path` is the full volume of a disk gate, `since` µs since 1970 in UTC."""

    kind: GateKind
    reason: str
    path: bytes | None
    since: int


def shut(
    db: Connection, kind: GateKind, reason: str, *, now: int, actor: str, path: bytes | None = None
) -> bool:
    """Closes a gate; False if it is closed already."""
    made = db.execute(
        "INSERT INTO gate (kind, reason, path, since) VALUES (:kind, :reason, :path, :now)"
        " ON CONFLICT (kind) DO NOTHING",
        {"kind": kind.value, "reason": reason, "path": path, "now": now},
    ).rowcount
    if made:
        events.append(db, EventKind.GATE_SHUT, now=now, actor=actor, code=kind.value, detail=reason)
    return bool(made)


def reopen(db: Connection, kind: GateKind, *, now: int, actor: str) -> bool:
    """Opens a gate; False if it is open already."""
    gone = db.execute("DELETE FROM gate WHERE kind = :kind", {"kind": kind.value}).rowcount
    if gone:
        events.append(db, EventKind.GATE_OPENED, now=now, actor=actor, code=kind.value)
    return bool(gone)


def listing(db: Connection) -> list[GateRow]:
    rows = db.execute("SELECT kind, reason, path, since FROM gate ORDER BY since")
    return [GateRow(GateKind(row[0]), row[1], row[2], row[3]) for row in rows]


@dataclass(frozen=True, slots=True)
class Need:
    """What a job reads and writes: `size` is the size of its source in bytes."""

    job: int
    video: int
    output_root: bytes
    size: int
    name: str
    source: bytes
    folder: bytes | None
    """The drop folder of the source."""
    added_at: int
    """When the source was first seen, µs since 1970 in UTC."""


NEED_COLUMNS = (
    "job.id, video.id, video.output_root, video.size, video.name, video.source,"
    " (SELECT path FROM folder WHERE folder.id = video.folder_id), video.created_at"
)
"""The columns of a `Need`, in order, from `job` and `video`."""
_NEED = f"SELECT {NEED_COLUMNS} FROM job JOIN video ON video.id = job.video_id WHERE job.id = :job"
_RUNNING = (
    f"SELECT {NEED_COLUMNS} FROM job INDEXED BY ix_job_instance JOIN video ON video.id = job.video_id"
    " WHERE job.status = 'in_progress' AND job.id <> :job"
)


def need_of(db: Connection, job: int) -> Need | None:
    """Returns the need of a job; None if it does not exist."""
    row = db.execute(_NEED, {"job": job}).first()
    return None if row is None else Need(*row)


def running_needs(db: Connection, *, beside: int = 0) -> list[Need]:
    """Returns the needs of running jobs without that of `beside`."""
    return [Need(*row) for row in db.execute(_RUNNING, {"job": beside})]


_OUTPUTS_OF_RUNNING = (
    "SELECT DISTINCT video.output_root FROM job INDEXED BY ix_job_instance"
    " JOIN video ON video.id = job.video_id WHERE job.status = 'in_progress'"
)


def outputs_in_use(db: Connection) -> set[bytes]:
    """Returns the outputs of running jobs, and the paths of closed gates."""
    waited_for = {row.path for row in listing(db) if row.path is not None}
    return waited_for | {row[0] for row in db.execute(_OUTPUTS_OF_RUNNING)}


_BEGUN_AT = (
    "SELECT EXISTS (SELECT 1 FROM video JOIN job ON job.video_id = video.id"
    " WHERE video.output_root = :root AND job.progress > 0 AND job.status <> 'done')"
)
_LADDERS_AT = (
    "SELECT slug FROM video WHERE output_root = :root AND generation_id IS NOT NULL"
    " ORDER BY slug LIMIT :limit"
)


def work_at(db: Connection, output_root: bytes, *, limit: int = 100) -> tuple[bool, list[str]]:
    """Returns whether an output has work of unfinished jobs, and the folders of its ladders.

    Args:
        limit: maximum number of folders, in order of their names.
    """
    begun = bool(db.execute(_BEGUN_AT, {"root": output_root}).scalar())
    return begun, [row[0] for row in db.execute(_LADDERS_AT, {"root": output_root, "limit": limit})]
