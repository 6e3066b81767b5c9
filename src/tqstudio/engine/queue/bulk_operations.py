"""Applies operations to all jobs, in small transactions, so that claims are not blocked."""

from __future__ import annotations

import uuid

from tqstudio.engine.host.clock import now_us
from tqstudio.engine.outputs.retention import Retention
from tqstudio.engine.queue.operations import result_of
from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import jobs, operations, undo
from tqstudio.engine.store.library import deletions
from tqstudio.events import EventKind
from tqstudio.lifecycle import TERMINAL, JobStatus, Operation, Undoable
from tqstudio.protocol.answers import ActionResult, RetryAnswer

_STEP = 200
_FORGOTTEN_AT_ONCE = 5_000


class BulkOperations:
    def __init__(self, db: Database, retention: Retention) -> None:
        self._db, self._retention = db, retention

    async def retry_failed(self, batch: str | None, *, actor: str) -> RetryAnswer:
        """Retries failed jobs, except those whose video has a newer job.

        Args:
            batch: only those of this batch.
        """
        answer: RetryAnswer = {"retried": 0, "refused": []}
        after = 0
        while ids := await self._db.read(jobs.failed, after=after, batch=batch, limit=_STEP):
            for result in await self._db.write(_operate_all, ids, Operation.RETRY, actor):
                if result["ok"]:
                    answer["retried"] += 1
                else:
                    answer["refused"].append(result)
            after = ids[-1]
        return answer

    async def clear_ended(self, *, actor: str) -> tuple[int, int]:
        """Deletes every finished, failed and cancelled job from the list; ladders are kept.

        Returns:
            How many, and how many finished segments of failed and cancelled ones were removed with them.
        """
        deleted = removed = 0
        bulk = uuid.uuid4().hex
        for status in sorted(TERMINAL):
            after = 0
            while ids := await self._db.read(jobs.with_status, status, after=after, limit=_STEP):
                results = await self._db.write(_delete_all, ids, actor, bulk)
                deleted += sum(result["ok"] for result in results)
                if status is not JobStatus.DONE:
                    removed += sum((await self._retention.jobs_deleted(ids)).values())
                after = ids[-1]
        return deleted, removed

    async def forget_files(self) -> int:
        """Deletes what is known of all videos that have no open job; returns of how many."""
        forgotten = 0
        while step := await self._db.write(deletions.forget, limit=_STEP):
            forgotten += step
        return forgotten

    async def forget_history(self, *, actor: str) -> int:
        """Deletes all events up to now, also those of running jobs, and records one `pruned` event."""
        _, last = await self._db.read(events.bounds)
        forgotten = 0
        while step := await self._db.write(events.forget, through=last, limit=_FORGOTTEN_AT_ONCE):
            forgotten += step
        if forgotten:
            await self._db.write(_record_pruned, forgotten, actor)
        return forgotten


def _operate_all(db: Connection, ids: list[int], operation: Operation, actor: str) -> list[ActionResult]:
    now = now_us()
    return [result_of(job, operations.operate(db, job, operation, now=now, actor=actor)) for job in ids]


def _delete_all(db: Connection, ids: list[int], actor: str, bulk: str) -> list[ActionResult]:
    before = undo.states(db, ids)
    results = _operate_all(db, ids, Operation.DELETE, actor)
    steps = undo.changed(db, before)
    undo.record(db, Undoable.DELETE, steps, actor=actor, now=now_us(), bulk=bulk)
    return results


def _record_pruned(db: Connection, count: int, actor: str) -> None:
    detail = f"{count} events, the whole history"
    events.append(db, EventKind.PRUNED, now=now_us(), actor=actor, detail=detail)
