"""Stores closed gates, and reads what jobs need of their volumes. A closed gate stops all claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, bindparam, delete, or_, select, update

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import Rows
from tqstudio.engine.store.db.tables import const, folder, gate, job, video
from tqstudio.engine.store.dialects.expressions import indexed_by, upsert
from tqstudio.events import EventKind
from tqstudio.lifecycle import GateKind, JobStatus


@dataclass(frozen=True, slots=True)
class GateRow:
    """A closed gate; `path` is the full volume of a disk gate, times are µs since 1970 in UTC."""

    kind: GateKind
    reason: str
    path: bytes | None
    since: int
    until: int | None = None
    """When it opens, if that is known."""


def shut(
    db: Connection,
    kind: GateKind,
    reason: str,
    *,
    now: int,
    actor: str,
    path: bytes | None = None,
    until: int | None = None,
) -> bool:
    """Closes a gate; False if it is closed already."""
    values = {"kind": kind, "reason": reason, "path": path, "since": now, "until": until}
    new = upsert(gate).on_conflict_do_nothing().returning(gate.c.kind)
    made = db.execute(new, values).first()
    if made:
        events.append(db, EventKind.GATE_CLOSED, now=now, actor=actor, code=kind.value, detail=reason)
    return made is not None


def reopen(db: Connection, kind: GateKind, *, now: int, actor: str) -> bool:
    """Opens a gate; False if it is open already."""
    gone = db.execute(delete(gate).where(gate.c.kind == kind)).rowcount
    if gone:
        events.append(db, EventKind.GATE_OPENED, now=now, actor=actor, code=kind.value)
    return bool(gone)


def open_until(
    db: Connection, kind: GateKind, *, reason: str, until: int | None, now: int, actor: str
) -> None:
    """Changes when a closed gate opens, and why it is closed; recorded if either differs."""
    differs = or_(gate.c.reason != reason, gate.c.until.is_distinct_from(until))
    changed = update(gate).where(gate.c.kind == kind, differs).values(reason=reason, until=until)
    if db.execute(changed).rowcount:
        events.append(db, EventKind.GATE_CLOSED, now=now, actor=actor, code=kind.value, detail=reason)


_LISTING = select(gate).order_by(gate.c.since)


def listing(db: Connection) -> list[GateRow]:
    return [GateRow(GateKind(row[0]), *row[1:]) for row in db.execute(_LISTING)]


@dataclass(frozen=True, slots=True)
class JobVolumes:
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
    hours: str | None = None
    """When jobs of that folder may run; empty: always."""
    facts: str | None = None
    """Facts of its source as JSON; None until they are known."""
    profile: str = ""
    """As JSON."""


def of_folder(column: ColumnElement[Any]) -> ScalarSelect[Any]:
    """Selects a value of the drop folder of a video; NULL if it has none."""
    return select(column).where(folder.c.id == video.c.folder_id).scalar_subquery()


NEED = Rows(
    JobVolumes,
    video,
    job=job.c.id,
    video="id",
    folder=of_folder(folder.c.path),
    added_at="created_at",
    hours=of_folder(folder.c.hours),
    profile=job.c.profile_json,
).columns
"""The columns of a `JobVolumes`, in order."""
_IS_RUNNING = job.c.status == const(JobStatus.IN_PROGRESS)
_BY_INSTANCE = indexed_by("ix_job_instance")
_NEEDS = select(*NEED).join_from(job, video)
_NEED_OF = _NEEDS.where(job.c.id == bindparam("number"))
_RUNNING_NEEDS = _NEEDS.with_hint(job, _BY_INSTANCE, "sqlite").where(
    _IS_RUNNING, job.c.id != bindparam("beside")
)


def need_of(db: Connection, number: int) -> JobVolumes | None:
    """Returns the need of a job; None if it does not exist."""
    row = db.execute(_NEED_OF, {"number": number}).first()
    return None if row is None else JobVolumes(*row)


def running_needs(db: Connection, *, beside: int = 0) -> list[JobVolumes]:
    """Returns the needs of running jobs without that of `beside`."""
    return [JobVolumes(*row) for row in db.execute(_RUNNING_NEEDS, {"beside": beside})]


def outputs_in_use(db: Connection) -> set[bytes]:
    """Returns the outputs of running jobs, and the paths of closed gates."""
    waited_for = {row.path for row in listing(db) if row.path is not None}
    running = select(video.c.output_root).distinct().join_from(job, video)
    rows = db.execute(running.with_hint(job, _BY_INSTANCE, "sqlite").where(_IS_RUNNING))
    return waited_for | {row[0] for row in rows}


def work_at(db: Connection, output_root: bytes, *, limit: int = 100) -> tuple[bool, list[str]]:
    """Returns whether an output has work of unfinished jobs, and the first folders of its ladders by name."""
    here = video.c.output_root == output_root
    unfinished = (here, job.c.progress > 0, job.c.status != JobStatus.DONE)
    begun = db.execute(select(job.c.id).join_from(video, job).where(*unfinished).limit(1)).first()
    ladders = select(video.c.slug).where(here, video.c.generation_id.is_not(None))
    slugs = [row[0] for row in db.execute(ladders.order_by(video.c.slug).limit(limit))]
    return begun is not None, slugs
