"""Stores drop folders and their rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.events import EventKind
from tqstudio.lifecycle import AutorestartRule
from tqstudio.paths import display


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


_COLUMNS = (
    "id, path, output_root, profile, watch, enabled, recursive, patterns, settle_s, priority,"
    " autorestart_limit, autorestart_delay_s"
)


def _row(row: Any) -> FolderRow:
    return FolderRow(
        row[0],
        row[1],
        row[2],
        row[3],
        row[4],
        bool(row[5]),
        bool(row[6]),
        tuple(json.loads(row[7])),
        row[8],
        row[9],
        AutorestartRule(row[10], row[11]),
    )


def add(db: Connection, values: Mapping[str, Any], *, now: int) -> FolderRow | None:
    """Adds a folder; None if its path is already watched."""
    row = db.execute(
        "INSERT INTO folder (path, output_root, profile, watch, recursive, patterns, settle_s, priority,"
        " autorestart_limit, autorestart_delay_s, created_at) VALUES (:path, :output_root, :profile,"
        " :watch, :recursive, :patterns, :settle_s, :priority, :autorestart_limit, :autorestart_delay_s,"
        f" :now) ON CONFLICT (path) DO NOTHING RETURNING {_COLUMNS}",
        {**values, "patterns": json.dumps(list(values["patterns"])), "now": now},
    ).first()
    if row is None:
        return None
    events.append(db, EventKind.FOLDER_ADDED, now=now, actor="user", detail=display(row[1]))
    return _row(row)


_CHANGEABLE = (
    "output_root",
    "profile",
    "watch",
    "enabled",
    "recursive",
    "patterns",
    "settle_s",
    "priority",
    "autorestart_limit",
    "autorestart_delay_s",
)


def change(db: Connection, folder: int, changes: Mapping[str, Any], *, now: int) -> FolderRow | None:
    """Changes rules of a folder; None if it does not exist."""
    given = {key: value for key, value in changes.items() if key in _CHANGEABLE}
    if "patterns" in given:
        given["patterns"] = json.dumps(list(given["patterns"]))
    assigned = ", ".join(f"{key} = :{key}" for key in given) or "id = id"
    row = db.execute(
        f"UPDATE folder SET {assigned} WHERE id = :id RETURNING {_COLUMNS}", {**given, "id": folder}
    ).first()
    if row is None:
        return None
    what = f"{display(row[1])}: {', '.join(given)}"
    events.append(db, EventKind.FOLDER_CHANGED, now=now, actor="user", detail=what)
    return _row(row)


def remove(db: Connection, folder: int, *, now: int) -> bool:
    """Deletes a folder; its videos and jobs are kept."""
    db.execute("UPDATE video SET folder_id = NULL WHERE folder_id = :id", {"id": folder})
    gone = db.execute("DELETE FROM folder WHERE id = :id RETURNING path", {"id": folder}).first()
    if gone is not None:
        events.append(db, EventKind.FOLDER_REMOVED, now=now, actor="user", detail=display(gone[0]))
    return gone is not None


def exists(db: Connection, folder: int) -> bool:
    return db.execute("SELECT 1 FROM folder WHERE id = :id", {"id": folder}).first() is not None


def listing(db: Connection) -> list[FolderRow]:
    return [_row(row) for row in db.execute(f"SELECT {_COLUMNS} FROM folder ORDER BY id")]


def ended_since(db: Connection, since: int) -> dict[int, tuple[int, int]]:
    """Counts jobs done and failed since a time, by folder: {folder: (done, failed)}."""
    rows = db.execute(
        "SELECT v.folder_id, sum(j.status = 'done'), sum(j.status = 'failed') FROM job j"
        " JOIN video v ON v.id = j.video_id WHERE j.status IN ('done', 'failed')"
        " AND j.completed_at >= :since AND j.deleted_at IS NULL AND v.folder_id IS NOT NULL"
        " GROUP BY v.folder_id",
        {"since": since},
    )
    return {int(row[0]): (int(row[1]), int(row[2])) for row in rows}
