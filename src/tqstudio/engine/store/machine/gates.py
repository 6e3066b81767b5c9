"""Stores closed gates, and reads what the disk gate checks. While a gate is closed, no job is claimed."""

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
    """A job's disk usage: `size` is the size of its source in bytes."""

    job: int
    video: int
    output_root: bytes
    size: int
    name: str
    source: bytes


_NEED = "SELECT job.id, video.id, video.output_root, video.size, video.name, video.source FROM job"
_NEEDS = (
    f"{_NEED} JOIN video ON video.id = job.video_id WHERE job.id = :job UNION ALL"
    f" {_NEED} INDEXED BY ix_job_instance JOIN video ON video.id = job.video_id"
    " WHERE job.status = 'in_progress' AND job.id <> :job"
)


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


def needs_with_running(db: Connection, job: int) -> tuple[Need | None, list[Need]]:
    """Returns the need of a job (None if it does not exist) and those of running jobs."""
    needs = [Need(*row) for row in db.execute(_NEEDS, {"job": job})]
    own = next((need for need in needs if need.job == job), None)
    return own, [need for need in needs if need is not own]
