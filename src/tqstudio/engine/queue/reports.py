"""Receives heartbeats and progress reports of workers, and stores them in batches."""

from __future__ import annotations

import contextlib
from dataclasses import fields
from typing import cast

from tqstudio.engine.access.worker_tokens import WorkerToken
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.live import leases
from tqstudio.engine.live.forecasts import Forecasts
from tqstudio.engine.live.metrics import Metrics
from tqstudio.engine.live.ranges import Ranges
from tqstudio.engine.live.running_jobs import Heartbeat, LiveJob, RunningJobs
from tqstudio.engine.parts.part import Part, Periodic
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import claims, progress
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.engine.store.jobs.transitions import job_facts
from tqstudio.engine.store.library import crfs, videos
from tqstudio.engine.store.machine import workers
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import Control
from tqstudio.protocol.requests import HeartbeatRequest, ProgressRequest
from tqstudio.protocol.worker_answers import DecidedCrf, HeartbeatAnswer

_SAVE_S = 1.0
_KEPT = {each.name for each in fields(LiveJob)} & ProgressRequest.model_fields.keys()
"""What of a request is kept, under the same names."""


class Reports(Part):
    """Keeps what workers report about their jobs.

    Args:
        flush_s: how often heartbeats are stored.
    """

    def __init__(
        self,
        db: Database,
        running_jobs: RunningJobs,
        ranges: Ranges,
        forecasts: Forecasts,
        metrics: Metrics,
        flush_s: float,
    ) -> None:
        self._db, self._running_jobs, self._ranges = db, running_jobs, ranges
        self._forecasts, self._metrics = forecasts, metrics
        self.every = (Periodic(flush_s, self.flush_heartbeats), Periodic(_SAVE_S, self.save_progress))

    async def stop(self) -> None:
        """Store the last second of progress, unless the disk is full."""
        with contextlib.suppress(TqError):
            await self.save_progress(everything=True)

    async def heartbeat(self, caller: WorkerToken, request: HeartbeatRequest) -> HeartbeatAnswer:
        """Renews the leases named in a heartbeat and answers with the control requests of their jobs."""
        named = [LeaseToken(beat.job, beat.epoch, request.instance) for beat in request.jobs]
        self._metrics.heartbeats += 1
        self._running_jobs.record_heartbeat(
            Heartbeat(caller.worker, now_us(), request.instance, request.cpu_percent, request.memory_bytes)
        )
        ours = self._running_jobs.leases.heartbeat(request.instance, named)
        held = {*ours, *self._ranges.heartbeat(named)}
        return {
            "controls": {str(token.job): self._running_jobs.jobs[token.job].asked for token in ours},
            "lost": [token.job for token in named if token not in held],
        }

    async def progress(self, caller: WorkerToken, job: int, request: ProgressRequest) -> str:
        """Records a progress report and answers with what the worker is asked to do.

        Raises:
            TqError: LOST_LEASE, NOT_FOUND.
        """
        token = LeaseToken(job, request.epoch, request.instance)
        done = min((r.segments_done for r in request.renditions or ()), default=0)
        self._ranges.progress(token, done, request.blocked_s)
        if self._ranges.is_live(token):
            return Control.NONE.value
        if not self._running_jobs.leases.is_live(token):
            raise await lost_lease(self._db, job)
        now, held = now_us(), self._running_jobs.jobs[job]
        report = LiveJob(token, caller.name, at=now, **request.model_dump(include=_KEPT))
        merged = self._running_jobs.report(token, report, significant=_is_significant(held, report))
        if request.facts is not None:
            await self._db.write(self._facts, token, request.facts, request.content_id)
        if request.crfs is not None:
            await self._db.write(
                self._crfs, token, [cast(DecidedCrf, each.model_dump()) for each in request.crfs]
            )
        if merged.argv and merged.prediction is None:
            await self._forecasts.begin(merged)
        self._ranges.offer(token, request.division)
        if self._running_jobs.due(now) and merged.unsaved:
            await self.save_progress()
        return self._running_jobs.jobs[job].asked if job in self._running_jobs.jobs else Control.NONE.value

    def _facts(
        self, db: Connection, token: LeaseToken, facts: dict[str, object], content: str | None
    ) -> None:
        lease = claims.held(db, token)
        if lease is not None:
            videos.set_facts(db, lease.video, facts, quick_hash=content)

    def _crfs(self, db: Connection, token: LeaseToken, decided: list[DecidedCrf]) -> None:
        lease = claims.held(db, token)
        if lease is not None:
            crfs.add(db, lease.video, decided)

    async def save_progress(self, *, everything: bool = False) -> None:
        """Stores all due reports in one transaction."""
        now = now_us()
        due = self._running_jobs.due(now, everything=everything)
        if due:
            stored = await self._db.write(_save_all, due)
            self._saved(due, stored, now)

    async def flush_heartbeats(self) -> None:
        """Stores the workers' last heartbeats and all unsaved progress in one transaction."""
        heartbeats = [(each.worker, each.instance, each.at) for each in self._running_jobs.take_heartbeats()]
        now = now_us()
        due = self._running_jobs.due(now, everything=True)
        if heartbeats or due:
            stored = await self._db.write(_flush, heartbeats, due)
            self._saved(due, stored, now)

    def _saved(self, due: list[LiveJob], stored: list[float | None], now: int) -> None:
        for live, progress_now in zip(due, stored, strict=True):
            self._running_jobs.saved(live.token.job, now, progress_now)


async def lost_lease(db: Database, job: int) -> TqError:
    """Returns the error for a worker that has no live lease of a job: LOST_LEASE or NOT_FOUND."""
    facts = await db.read(job_facts, job)
    if facts is None:
        return TqError(ErrorCode.NOT_FOUND, f"there is no job {job}")
    return leases.lost(job, facts.status)


def _is_significant(before: LiveJob, now: LiveJob) -> bool:
    """Whether a report has to be stored soon: a new step, command, warning or rendition status."""
    if before.step != now.step or (now.argv and before.argv != now.argv):
        return True
    if now.warnings is not None and before.warnings != now.warnings:
        return True
    if now.renditions is None:
        return False
    return [r["status"] for r in before.renditions or ()] != [r["status"] for r in now.renditions]


def _save_all(db: Connection, due: list[LiveJob]) -> list[float | None]:
    return [progress.save(db, live.token, live, at=live.moved_at) for live in due]


def _flush(db: Connection, heartbeats: list[tuple[int, str, int]], due: list[LiveJob]) -> list[float | None]:
    workers.store_heartbeats(db, heartbeats)
    return _save_all(db, due)
