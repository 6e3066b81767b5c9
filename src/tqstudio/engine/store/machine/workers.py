"""Stores workers: their registration, heartbeats and the operator's intent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, func, or_, select, update

from tqstudio.engine.store import events
from tqstudio.engine.store.db import tables
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.rows import Rows
from tqstudio.engine.store.dialects.expressions import upsert
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
    capabilities: Mapping[str, Any]
    metadata: Mapping[str, Any]
    registered_at: int | None
    last_heartbeat_at: int | None
    quarantine_reason: str | None
    """Why it is quarantined; None if it is not."""
    suspected_at: int | None
    """Since when it must pass a test encode before it gets a job."""
    joined_by: str | None
    """Name of the token by which it joined."""

    @property
    def needs_test(self) -> bool:
        may_work = self.enabled and not self.draining and self.quarantine_reason is None
        return may_work and self.suspected_at is not None


_WORKERS = Rows(WorkerRow, tables.worker, metadata="metadata_json")
_SELECT = select(*_WORKERS.columns)
_NO_PROCESS = {"instance": None, "pid": None, "registered_at": None, "offline_at": None}


def ensure(
    db: Connection,
    name: str,
    kind: str,
    *,
    device: str | None = None,
    remote: bool = False,
    joined_by: str | None = None,
) -> WorkerRow:
    """Returns the worker of that name, created if needed, and resets its registration for a new process.

    The operator's `enabled` is kept; a drain ends with the process.

    Args:
        remote: whether its process is not ours, and may outlive this supervisor.
        joined_by: name of the token by which it joins.
    """
    kept_by = "remote" if remote else "local"
    given = {"kind": kind, "device": device, "type": kept_by, "joined_by": joined_by}
    reset = {**given, **_NO_PROCESS, "draining": 0, "last_heartbeat_at": None}
    new = upsert(tables.worker).values(name=name, **given)
    stored = new.on_conflict_do_update(index_elements=["name"], set_=reset).returning(*_WORKERS.columns)
    return _WORKERS.value(db.execute(stored).one())


_REGISTER = (
    update(tables.worker).where(tables.worker.c.id == bindparam("number")).returning(*_WORKERS.columns)
)


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
    values = {
        "instance": instance,
        "pid": pid,
        "pid_started": pid_started,
        "encoder": encoder,
        "capabilities": json.dumps(dict(capabilities)),
        "metadata_json": json.dumps(dict(metadata)),
        "registered_at": now,
        "last_heartbeat_at": None,
        "offline_at": None,
    }
    registered = _WORKERS.value(db.execute(_REGISTER, {"number": worker, **values}).one())
    name, detail = registered.name, f"pid {pid}"
    events.append(db, EventKind.WORKER_REGISTERED, now=now, actor=name, worker=name, detail=detail)
    return registered


_OF_PROCESS = update(tables.worker).where(
    tables.worker.c.id == bindparam("process_of"), tables.worker.c.instance == bindparam("process")
)
_HEARTBEAT = _OF_PROCESS.values(last_heartbeat_at=bindparam("at"))
_ONLINE = (
    _OF_PROCESS.where(tables.worker.c.offline_at < bindparam("at"))
    .values(offline_at=None)
    .returning(tables.worker.c.name)
)


def store_heartbeats(db: Connection, seen: Sequence[tuple[int, str, int]]) -> None:
    """Stores the last heartbeats (worker, instance, µs); those of earlier processes are ignored."""
    for worker, instance, at in seen:
        values = {"process_of": worker, "process": instance, "at": at}
        db.execute(_HEARTBEAT, values)
        back = db.execute(_ONLINE, values).scalar()
        if back is not None:
            events.append(db, EventKind.WORKER_ONLINE, now=at, actor=back, worker=back)


def mark_offline(db: Connection, worker_ids: Iterable[int], *, now: int) -> list[tuple[int, str]]:
    """Marks registered workers as offline until their next heartbeat; returns (id, name) of those."""
    row = tables.worker.c
    those = (row.id.in_(list(worker_ids)), row.offline_at.is_(None), row.registered_at.is_not(None))
    offline = update(tables.worker).where(*those).values(offline_at=now)
    gone = db.execute(offline.returning(row.id, row.name)).all()
    for _, name in sorted(map(tuple, gone)):
        events.append(db, EventKind.WORKER_OFFLINE, now=now, actor="supervisor", worker=name)
    return [(worker, name) for worker, name in gone]


def ended(db: Connection, worker: int, *, instance: str | None, now: int, why: str) -> None:
    """Clears the registration of a worker whose process has ended."""
    row = tables.worker.c
    # A parameter, because a comparison with None becomes IS NULL.
    its_own = or_(row.instance == bindparam("process"), row.instance.is_(None))
    gone = update(tables.worker).where(row.id == worker, its_own).values(_NO_PROCESS | {"pid_started": None})
    name = db.execute(gone.returning(row.name), {"process": instance}).scalar()
    if name is not None:
        events.append(db, EventKind.WORKER_ENDED, now=now, actor="supervisor", worker=name, detail=why)


_LIFTED = {"quarantined_at": None, "quarantine_reason": None, "suspected_at": None, "failed_jobs": "[]"}


def set_intent(
    db: Connection,
    name: str,
    *,
    enabled: bool | None = None,
    draining: bool | None = None,
    now: int,
    actor: str = "user",
) -> WorkerRow | None:
    """Enables, disables or drains a worker; None if it does not exist. Enabling lifts a quarantine."""
    intent = {"enabled": enabled, "draining": draining}
    row = db.execute(
        update(tables.worker)
        .where(tables.worker.c.name == name)
        .values({key: int(value) for key, value in intent.items() if value is not None})
        .values(_LIFTED if enabled else {})
        .returning(*_WORKERS.columns)
    ).first()
    if row is None:
        return None
    if draining:
        kind = EventKind.WORKER_DRAINED
    else:
        kind = EventKind.WORKER_ENABLED if enabled else EventKind.WORKER_DISABLED
    events.append(db, kind, now=now, actor=actor, worker=name)
    return _WORKERS.value(row)


_OFF = (EventKind.WORKER_DISABLED, EventKind.WORKER_DRAINED, EventKind.WORKER_QUARANTINED)


def last_off(db: Connection, *, limit: int = 10_000) -> int | None:
    """Returns when a worker was last disabled, drained or quarantined; None if not in the last events."""
    # These have no index, so only the end of the history is searched; while no job runs, they are there.
    event = tables.event.c
    last = select(event.at, event.trigger).order_by(event.seq.desc()).limit(limit).subquery()
    at: int | None = db.execute(select(func.max(last.c.at)).where(last.c.trigger.in_(_OFF))).scalar()
    return at


_BY_ID = _SELECT.where(tables.worker.c.id == bindparam("number"))


def by_id(db: Connection, worker: int) -> WorkerRow | None:
    return _WORKERS.first(db.execute(_BY_ID, {"number": worker}))


def by_name(db: Connection, name: str) -> WorkerRow | None:
    return _WORKERS.first(db.execute(_SELECT.where(tables.worker.c.name == name)))


def forget_processes(db: Connection) -> None:
    """Clears the registration of local workers at a supervisor's start."""
    local = update(tables.worker).where(tables.worker.c.type == "local")
    db.execute(local.values(_NO_PROCESS | {"draining": 0}))


def enable_local(db: Connection) -> None:
    """Enables a supervisor's own workers: on another machine than the last, `cpu-0` is another worker."""
    db.execute(update(tables.worker).where(tables.worker.c.type == "local").values(enabled=1, **_LIFTED))


def listing(db: Connection) -> list[WorkerRow]:
    rows = db.execute(_SELECT.order_by(tables.worker.c.kind.desc(), tables.worker.c.name))
    return [_WORKERS.value(row) for row in rows]
