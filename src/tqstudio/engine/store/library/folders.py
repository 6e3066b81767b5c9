"""Stores drop folders and their rules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import LargeBinary, delete, func, select, update

from tqstudio.engine.store import events
from tqstudio.engine.store.db import tables
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import Rows
from tqstudio.engine.store.dialects.expressions import upsert
from tqstudio.engine.store.jobs import undo
from tqstudio.events import EventKind
from tqstudio.lifecycle import AutorestartRule, JobStatus, Undoable
from tqstudio.paths import decode, display, encode

_AT_ONCE = 5_000
"""Ids in one statement."""


@dataclass(frozen=True, slots=True)
class FolderRow:
    """A drop folder. Paths are absolute bytes; `settle_s` None means the setting."""

    id: int
    path: bytes
    output_root: bytes
    profile: str
    watch: str
    enabled: bool
    recursive: bool
    patterns: tuple[str, ...]
    settle_s: float | None
    priority: int
    autorestart: AutorestartRule
    exclude: tuple[str, ...] = ()
    after_done: str = "keep"
    """`move` or `delete` sources whose ladder is published, or `keep` them."""
    done_dir: bytes | None = None
    """Where they are moved to."""
    duplicates: str = "encode"
    """Or `skip` new files with the content of a published source."""
    template: str = "{slug}"
    """Where ladders of new videos lie below the output."""
    audio: str = "skip"
    """Or `encode` sound without video."""
    hours: str = ""
    """When its jobs may run; empty: always."""
    max_attempts: int | None = None
    max_crashes: int | None = None
    """Limit of worker crashes in a row of its jobs; None, here and in `max_attempts`, means the settings."""


_FOLDERS = Rows(FolderRow, tables.folder, autorestart=None)
_COLUMNS = (*_FOLDERS.columns, *tables.folder.c["autorestart_limit", "autorestart_delay_s"])


def _row(row: Any) -> FolderRow:
    rule = AutorestartRule(row.autorestart_limit, row.autorestart_delay_s)
    return _FOLDERS.value(row, autorestart=rule)


def _stored(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the lists among the values of a folder to JSON."""
    lists = {key: json.dumps(list(values[key])) for key in ("patterns", "exclude") if key in values}
    return {**values, **lists}


def add(db: Connection, values: Mapping[str, Any], *, now: int) -> FolderRow | None:
    """Adds a folder; None if its path is already watched."""
    values = {**_stored(values), "created_at": now}
    new = upsert(tables.folder).on_conflict_do_nothing(index_elements=["path"]).returning(*_COLUMNS)
    row = db.execute(new, values).first()
    if row is None:
        return None
    events.append(db, EventKind.FOLDER_ADDED, now=now, actor="user", detail=display(row.path))
    return _row(row)


def change(
    db: Connection, folder: int, changes: Mapping[str, Any], *, now: int, actor: str | None = None
) -> FolderRow | None:
    """Changes rules of a folder; None if it does not exist. Args: `actor` is who can undo it."""
    given, before = _stored(changes), _plain(db, folder)
    changed = update(tables.folder).where(tables.folder.c.id == folder).values(given or {"id": folder})
    row = db.execute(changed.returning(*_COLUMNS)).first()
    if row is None:
        return None
    shown = {key: display(value) if isinstance(value, bytes) else value for key, value in given.items()}
    what = f"{display(row.path)}: {', '.join(f'{key} = {value}' for key, value in shown.items())}"
    events.append(db, EventKind.FOLDER_CHANGED, now=now, actor="user", detail=what)
    after = _plain(db, folder)
    if actor is not None and after != before:
        operation = Undoable.FOLDER_ON if given.get("enabled") else Undoable.FOLDER_OFF
        operation = operation if "enabled" in given else Undoable.FOLDER_CHANGED
        step = undo.UndoStep(folder, 0, 0, {"before": before, "after": after})
        undo.record(db, operation, [step], actor=actor, now=now)
    return _row(row)


def remove(db: Connection, folder: int, *, now: int, actor: str | None = None) -> bool:
    """Deletes a folder; its videos and jobs are kept. Args: `actor` is who can undo it."""
    if actor is not None and (before := _plain(db, folder)) is not None:
        found = select(tables.video.c.id).where(tables.video.c.folder_id == folder)
        former = {"before": before, "after": None, "videos": list(db.execute(found).scalars())}
        step = undo.UndoStep(folder, 0, 0, former)
        undo.record(db, Undoable.FOLDER_REMOVED, [step], actor=actor, now=now)
    db.execute(update(tables.video).where(tables.video.c.folder_id == folder).values(folder_id=None))
    gone = delete(tables.folder).where(tables.folder.c.id == folder).returning(tables.folder.c.path)
    path = db.execute(gone).scalar()
    if path is not None:
        events.append(db, EventKind.FOLDER_REMOVED, now=now, actor="user", detail=display(path))
    return path is not None


_PATHS = [column.name for column in tables.folder.c if isinstance(column.type, LargeBinary)]


def _plain(db: Connection, folder: int) -> dict[str, Any] | None:
    """Returns the row of a folder as JSON has it."""
    row = db.execute(select(tables.folder).where(tables.folder.c.id == folder)).mappings().first()
    return None if row is None else {k: encode(v) if isinstance(v, bytes) else v for k, v in row.items()}


def put_back(db: Connection, folder: int, former: Mapping[str, Any], *, now: int) -> bool:
    """Undoes a change or removal of a folder; False if it was changed since."""
    if _plain(db, folder) != former["after"]:
        return False
    row = {k: decode(v) if k in _PATHS and v is not None else v for k, v in former["before"].items()}
    if former["after"] is not None:
        db.execute(update(tables.folder).where(tables.folder.c.id == folder).values(row))
        kind = EventKind.FOLDER_CHANGED
    elif db.execute(upsert(tables.folder).on_conflict_do_nothing(), row).rowcount:
        kind, videos = EventKind.FOLDER_ADDED, former["videos"]
        for at in range(0, len(videos), _AT_ONCE):
            theirs = (tables.video.c.id.in_(videos[at : at + _AT_ONCE]), tables.video.c.folder_id.is_(None))
            db.execute(update(tables.video).where(*theirs).values(folder_id=folder))
    else:
        return False
    events.append(db, kind, now=now, actor="user", detail=display(row["path"]))
    return True


def exists(db: Connection, folder: int) -> bool:
    return db.execute(select(tables.folder.c.id).where(tables.folder.c.id == folder)).first() is not None


def paths(db: Connection) -> list[bytes]:
    """Returns the paths of all drop folders."""
    return list(db.execute(select(tables.folder.c.path)).scalars())


def listing(db: Connection) -> list[FolderRow]:
    return [_row(row) for row in db.execute(select(*_COLUMNS).order_by(tables.folder.c.id))]


def lengths(db: Connection, sources: Sequence[bytes]) -> dict[bytes, int]:
    """Returns the length in ms of each of these sources that is known; 0: it was not examined yet."""
    source, found = tables.video.c.source, select(tables.video.c.source, func.max(tables.video.c.length_ms))
    known: dict[bytes, int] = {}
    for at in range(0, len(sources), _AT_ONCE):
        some = found.where(source.in_(sources[at : at + _AT_ONCE])).group_by(source)
        known |= {row[0]: int(row[1]) for row in db.execute(some)}
    return known


def ended_since(db: Connection, since: int) -> dict[int, tuple[int, int]]:
    """Counts jobs done and failed since a time, by folder: {folder: (done, failed)}."""
    job, folder = tables.job.c, tables.video.c.folder_id
    done, failed = JobStatus.DONE, JobStatus.FAILED
    rows = db.execute(
        select(folder, *(func.count().filter(job.status == status) for status in (done, failed)))
        .join_from(tables.job, tables.video)
        .where(job.status.in_([done, failed]), job.completed_at >= since)
        .where(job.deleted_at.is_(None), folder.is_not(None))
        .group_by(folder)
    )
    return {int(row[0]): (int(row[1]), int(row[2])) for row in rows}
