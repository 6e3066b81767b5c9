"""Stores workers: their registration, heartbeats and the operator's intent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.events import EventKind


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker as stored. Times are µs since 1970 in UTC."""

    id: int
    name: str
    type: str
    kind: str
    device: str | None
    encoder: str | None
    enabled: bool
    draining: bool
    instance: str | None
    pid: int | None
    pid_started: float | None
    capabilities: Mapping[str, Any]
    metadata: Mapping[str, Any]
    registered_at: int | None
    last_heartbeat_at: int | None
    quarantine_reason: str | None
    """Why it is quarantined; None if it is not."""
    suspected_at: int | None
    """Since when it must pass a test encode before it gets a job."""

    @property
    def needs_test(self) -> bool:
        may_work = self.enabled and not self.draining and self.quarantine_reason is None
        return may_work and self.suspected_at is not None


_COLUMNS = (
    "id, name, type, kind, device, encoder, enabled, draining, instance, pid, pid_started, capabilities,"
    " metadata_json, registered_at, last_heartbeat_at, quarantine_reason, suspected_at"
)


def _row(row: Any) -> WorkerRow:
    values = list(row)
    values[6], values[7] = bool(values[6]), bool(values[7])
    values[11], values[12] = json.loads(values[11]), json.loads(values[12])
    return WorkerRow(*values)


def ensure(db: Connection, name: str, kind: str, *, device: str | None, now: int) -> WorkerRow:
    """Returns the worker of that name, created if needed, and resets its registration for a new process.

    The operator's `enabled` is kept; a drain ends with the process.
    """
    row = db.execute(
        "INSERT INTO worker (name, kind, device, registered_at) VALUES (:name, :kind, :device, NULL)"
        " ON CONFLICT (name) DO UPDATE SET kind = :kind, device = :device, draining = 0,"
        " instance = NULL, pid = NULL, registered_at = NULL, last_heartbeat_at = NULL,"
        " offline_at = NULL"
        f" RETURNING {_COLUMNS}",
        {"name": name, "kind": kind, "device": device, "now": now},
    ).one()
    return _row(row)


def register(
    db: Connection,
    worker: int,
    *,
    instance: str,
    pid: int,
    pid_started: float,
    encoder: str | None,
    capabilities: Mapping[str, Any],
    metadata: Mapping[str, Any],
    now: int,
) -> WorkerRow:
    """Registers a worker's process."""
    row = db.execute(
        "UPDATE worker SET instance = :instance, pid = :pid, pid_started = :pid_started,"
        " encoder = :encoder, capabilities = :capabilities, metadata_json = :metadata,"
        " registered_at = :now, last_heartbeat_at = NULL, offline_at = NULL"
        f" WHERE id = :worker RETURNING {_COLUMNS}",
        {
            "worker": worker,
            "instance": instance,
            "pid": pid,
            "pid_started": pid_started,
            "encoder": encoder,
            "capabilities": json.dumps(dict(capabilities)),
            "metadata": json.dumps(dict(metadata)),
            "now": now,
        },
    ).one()
    registered = _row(row)
    events.append(
        db,
        EventKind.WORKER_REGISTERED,
        now=now,
        actor=registered.name,
        worker=registered.name,
        detail=f"pid {pid}",
    )
    return registered


def store_heartbeats(db: Connection, seen: Sequence[tuple[int, str, int]]) -> None:
    """Stores the last heartbeats (worker, instance, µs); those of earlier processes are ignored."""
    for worker, instance, at in seen:
        values = {"worker": worker, "instance": instance, "at": at}
        db.execute(
            "UPDATE worker SET last_heartbeat_at = :at WHERE id = :worker AND instance = :instance", values
        )
        back = db.execute(
            "UPDATE worker SET offline_at = NULL WHERE id = :worker AND instance = :instance"
            " AND offline_at < :at RETURNING name",
            values,
        ).first()
        if back is not None:
            events.append(db, EventKind.WORKER_ONLINE, now=at, actor=back[0], worker=back[0])


def mark_silent(db: Connection, silent: Iterable[int], *, now: int) -> list[tuple[int, str]]:
    """Marks registered workers as offline; returns (id, name) of those marked now. A later heartbeat clears
    the mark."""
    gone: list[tuple[int, str]] = []
    for worker in silent:
        marked = db.execute(
            "UPDATE worker SET offline_at = :now WHERE id = :id AND offline_at IS NULL"
            " AND registered_at IS NOT NULL RETURNING id, name",
            {"id": worker, "now": now},
        )
        gone += [(row[0], row[1]) for row in marked]
    for _, name in gone:
        events.append(db, EventKind.WORKER_OFFLINE, now=now, actor="supervisor", worker=name)
    return gone


def ended(db: Connection, worker: int, *, instance: str | None, now: int, why: str) -> None:
    """Clears the registration of a worker whose process has ended."""
    gone = db.execute(
        "UPDATE worker SET instance = NULL, pid = NULL, pid_started = NULL, registered_at = NULL,"
        " offline_at = NULL WHERE id = :worker AND (instance IS :instance OR instance IS NULL)"
        " RETURNING name",
        {"worker": worker, "instance": instance},
    ).first()
    if gone is not None:
        events.append(db, EventKind.WORKER_ENDED, now=now, actor="supervisor", worker=gone[0], detail=why)


_LIFTED = ", quarantined_at = NULL, quarantine_reason = NULL, suspected_at = NULL, failed_jobs = '[]'"


def set_intent(
    db: Connection, name: str, *, enabled: bool | None = None, draining: bool | None = None, now: int
) -> WorkerRow | None:
    """Enables, disables or drains a worker; None if it does not exist.

    Enabling lifts a quarantine.
    """
    row = db.execute(
        "UPDATE worker SET enabled = coalesce(:enabled, enabled),"
        " draining = coalesce(:draining, draining)"
        f"{_LIFTED if enabled else ''}"
        f" WHERE name = :name RETURNING {_COLUMNS}",
        {
            "name": name,
            "enabled": None if enabled is None else int(enabled),
            "draining": None if draining is None else int(draining),
        },
    ).first()
    if row is None:
        return None
    if draining:
        kind = EventKind.WORKER_DRAINED
    else:
        kind = EventKind.WORKER_ENABLED if enabled else EventKind.WORKER_DISABLED
    events.append(db, kind, now=now, actor="user", worker=name)
    return _row(row)


_LAST_OFF = (
    # These have no index, so only the end of the history is searched; while no job runs, they are there.
    "SELECT max(at) FROM (SELECT at, trigger FROM event ORDER BY seq DESC LIMIT :limit)"
    f" WHERE trigger IN ('{EventKind.WORKER_DISABLED}', '{EventKind.WORKER_DRAINED}',"
    f" '{EventKind.WORKER_QUARANTINED}')"
)


def last_off(db: Connection, *, limit: int = 10_000) -> int | None:
    """Returns when a worker was last disabled, drained or quarantined; None if not in the last events."""
    at: int | None = db.execute(_LAST_OFF, {"limit": limit}).scalar()
    return at


def by_id(db: Connection, worker: int) -> WorkerRow | None:
    row = db.execute(f"SELECT {_COLUMNS} FROM worker WHERE id = :id", {"id": worker}).first()
    return None if row is None else _row(row)


def by_name(db: Connection, name: str) -> WorkerRow | None:
    row = db.execute(f"SELECT {_COLUMNS} FROM worker WHERE name = :name", {"name": name}).first()
    return None if row is None else _row(row)


def forget_processes(db: Connection) -> None:
    """Clears the registration of local workers at a supervisor's start."""
    db.execute(
        "UPDATE worker SET instance = NULL, pid = NULL, registered_at = NULL, draining = 0,"
        " offline_at = NULL WHERE type = 'local'"
    )


def listing(db: Connection) -> list[WorkerRow]:
    return [_row(row) for row in db.execute(f"SELECT {_COLUMNS} FROM worker ORDER BY kind DESC, name")]
