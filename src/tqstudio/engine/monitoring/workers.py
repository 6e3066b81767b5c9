"""Derives the status of a worker from its row, its process and its heartbeats."""

from __future__ import annotations

from collections.abc import Iterable

from tqstudio.engine.assembly.services import Services
from tqstudio.engine.store.machine.workers import WorkerRow
from tqstudio.lifecycle import WorkerStatus, worker_status


def is_gone(services: Services, row: WorkerRow) -> bool:
    """Whether no process of a worker is running or starting."""
    if services.pool.note_of(row.name) is not None:
        return True
    return row.registered_at is None and not services.pool.has(row.name)


def status_of(services: Services, row: WorkerRow) -> WorkerStatus:
    alive = not is_gone(services, row) and (row.instance is not None or row.registered_at is None)
    since_contact_s = 0.0 if row.registered_at is None else services.running_jobs.since_contact_s(row.id)
    return worker_status(
        enabled=row.enabled and row.quarantine_reason is None,
        draining=row.draining,
        beat_age_s=since_contact_s if alive else None,
        offline_s=services.settings.offline_s,
        registered=row.registered_at is not None,
        busy=any(live.worker == row.name for live in services.running_jobs.jobs.values())
        or services.ranges.of_worker(row.name) is not None,
    )


def statuses(services: Services, rows: Iterable[WorkerRow]) -> list[WorkerStatus]:
    """Returns the statuses of all workers but those left over from an earlier, larger pool."""
    return [status_of(services, row) for row in rows if not services.pool.is_obsolete(row.name)]
