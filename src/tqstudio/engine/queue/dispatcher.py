"""Serves worker requests: claim, heartbeat, progress.

A claim that finds no job waits for a hint that there may be one. Only the database decides, so a lost hint
just delays the claim.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic_core import from_json

from tqstudio.config import Settings
from tqstudio.engine.gates.disk import DiskGate, NoRoom
from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.live import leases
from tqstudio.engine.live.forecasts import Forecasts
from tqstudio.engine.live.leases import Renewal, store_renewals
from tqstudio.engine.live.running_jobs import Heartbeat, LiveBoard, LiveJob
from tqstudio.engine.outputs import is_sound
from tqstudio.engine.outputs.place import Place
from tqstudio.engine.outputs.workspace import Workspace
from tqstudio.engine.queue.tokens import WorkerToken
from tqstudio.engine.retry import RESOURCE_WAIT_S
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.jobs import claims, progress
from tqstudio.engine.store.jobs.claims import Claimant, HeldLease, Token
from tqstudio.engine.store.jobs.progress import RenditionRow
from tqstudio.engine.store.jobs.transitions import job_facts
from tqstudio.engine.store.library import generations, videos
from tqstudio.engine.store.library.generations import GenerationRow
from tqstudio.engine.store.machine import workers
from tqstudio.errors import MEANINGS, ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.lifecycle import Control, JobKind, JobStatus
from tqstudio.paths import encode
from tqstudio.protocol.answers import ClaimAnswer, ClaimedJob, HeartbeatAnswer
from tqstudio.protocol.requests import ClaimRequest, HeartbeatRequest, ProgressRequest

_MAX_DEFERRED = 50
"""Jobs that one transaction defers because their disks do not respond; the next one continues."""
_WAKING_TRIGGERS = frozenset({"gate_opened", "worker_enabled"})


@dataclass(frozen=True, slots=True)
class _Claimed:
    """A claimed job, and what has to be done before the worker receives it."""

    lease: HeldLease
    job: ClaimedJob
    published: _Published | None
    starts_over: bool


@dataclass(frozen=True, slots=True)
class _Published:
    """The published generation and its folder."""

    folder: Path
    generation: GenerationRow


def _sound(kept: dict[str, str], published: _Published) -> dict[str, str]:
    """Returns the renditions in `kept` whose files are still as published."""
    rows = [row for row in published.generation.renditions if row.name in kept]
    return {row.name: row.settings_hash for row in rows if is_sound(published.folder, row)}


def _request_damaged(job: ClaimedJob, kept: dict[str, str]) -> None:
    """Keeps only intact renditions and requests the damaged ones, even if the job requested others only."""
    damaged = job["kept"].keys() - kept.keys()
    job["kept"] = kept
    if job["requested"] is not None:
        job["requested"] = [*job["requested"], *sorted(damaged - {*job["requested"]})]


class Dispatch:
    """Assigns jobs to workers and receives their heartbeats and progress reports."""

    def __init__(
        self,
        home: Home,
        settings: Settings,
        db: Database,
        board: LiveBoard,
        workspace: Workspace,
        forecasts: Forecasts,
        disk: DiskGate,
    ) -> None:
        self._home, self._settings, self._db, self._board = home, settings, db, board
        self._workspace, self._forecasts, self._disk = workspace, forecasts, disk
        self._work = asyncio.Event()
        self._waiting_gpus: dict[int, int] = {}
        self.closed = False
        """Set at shutdown: no more jobs are assigned."""

    # Claiming

    def hint(self, events: list[EventRow]) -> None:
        """Wakes waiting claims if the events may have made a job claimable."""
        if any(e.target == JobStatus.PENDING or e.trigger in _WAKING_TRIGGERS for e in events):
            self.wake()

    def wake(self) -> None:
        self._work.set()
        self._work = asyncio.Event()

    async def claim(
        self, caller: WorkerToken, request: ClaimRequest, disconnected: Callable[[], Awaitable[bool]]
    ) -> ClaimAnswer:
        """Claims the next job for a worker, waiting up to `wait_s` for one, or requests a test encode.

        Args:
            disconnected: whether the client has disconnected; then nothing is claimed.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.wait_s
        claimant = Claimant(caller.worker, caller.name, caller.kind, request.instance)
        gpu = caller.kind == "gpu"
        if gpu:
            self._waiting_gpus[caller.worker] = self._waiting_gpus.get(caller.worker, 0) + 1
        try:
            while not self.closed and not await disconnected():
                work = self._work
                claimed = None
                # While the database cannot be written, wait for its gate instead of failing every claim.
                if self._db.refusal is None:
                    claimed = await self._db.write(self._claim, claimant, self._idle_gpus())
                if claimed == "test":
                    return {"job": None, "test": True}
                if isinstance(claimed, NoRoom):
                    await self._disk.settle(claimed)
                    continue
                if claimed is not None:
                    lease, job = claimed.lease, claimed.job
                    if not lease.repeated or lease.job not in self._board.jobs:
                        self._board.begin(
                            lease.token,
                            caller.name,
                            now_us(),
                            lease.lease_expires_at,
                            lease.control,
                            lease.progress,
                        )
                    else:
                        # The lease starts at this claim: the worker has not received the first answer.
                        self._board.leases.heartbeat(request.instance, [lease.token], now_us())
                        await self.flush_heartbeats()
                    if claimed.starts_over:
                        await self._workspace.start_over(lease.job)
                    if claimed.published is not None:
                        _request_damaged(job, await asyncio.to_thread(_sound, job["kept"], claimed.published))
                    return {"job": job, "test": False}
                left = deadline - loop.time()
                if left <= 0:
                    break
                try:
                    # A job can also become claimable for a CPU because `gpu_grace_s` is over.
                    await asyncio.wait_for(work.wait(), min(left, max(1.0, self._settings.gpu_grace_s / 4)))
                except TimeoutError:
                    continue
            return {"job": None, "test": False}
        finally:
            if gpu:
                self._waiting_gpus[caller.worker] -= 1

    def _idle_gpus(self) -> int:
        return sum(1 for waiting in self._waiting_gpus.values() if waiting)

    def _claim(
        self, db: Connection, claimant: Claimant, idle_gpus: int
    ) -> _Claimed | NoRoom | Literal["test"] | None:
        refused: NoRoom | None = None

        def fits(db: Connection, job: int) -> bool:
            nonlocal refused
            refused = self._disk.judge(db, job)
            return refused is None

        for _ in range(_MAX_DEFERRED):
            refused = None
            lease = claims.claim(
                db,
                claimant,
                now=now_us(),
                lease_us=int(self._settings.lease_s * MICROSECOND),
                idle_gpus=idle_gpus,
                gpu_grace_us=int(self._settings.gpu_grace_s * MICROSECOND),
                fits=fits,
            )
            if lease is not None:
                return self._describe(db, lease)
            if refused is None or not refused.silence:
                break
            _defer(db, refused)
        if refused is not None:
            return refused
        row = workers.by_id(db, claimant.id)
        if row is None or row.instance != claimant.instance:
            raise TqError(
                ErrorCode.LOST_LEASE,
                f"a newer process is registered as worker {claimant.name}",
                "end this process, or register it again",
            )
        return "test" if row.needs_test else None

    def _describe(self, db: Connection, lease: HeldLease) -> _Claimed:
        asked = claims.assignment_of(db, lease.job)
        generation = generations.current(db, lease.video) if asked.generation is not None else None
        kept = {row.name: row.settings_hash for row in generation.renditions} if generation else {}
        if asked.kind is JobKind.RETRANSCODE:
            if asked.requested is None:
                kept = {}
            for name in asked.requested or ():
                kept.pop(name, None)
        for name in asked.dropped:
            kept.pop(name, None)
        published = None
        if generation is not None:
            place = Place.below(asked.output_root, asked.slug)
            published = _Published(place.generation(generation.number), generation)
        job: ClaimedJob = {
            "job": lease.job,
            "epoch": lease.epoch,
            "video": lease.video,
            "attempt": asked.attempt,
            "kind": asked.kind.value,
            "source": {"kind": "file", "path_b64": encode(asked.source)},
            "source_root_b64": encode(asked.folder or os.path.dirname(asked.source)),
            "drop_folder_b64": encode(asked.folder) if asked.folder else None,
            "source_size": asked.size,
            "source_mtime_ns": asked.mtime_ns,
            "sink": {"kind": "file", "path_b64": encode(self._workspace.sink(asked.output_root))},
            "profile": from_json(asked.profile_json),
            "requested": None if asked.requested is None else list(asked.requested),
            "dropped": list(asked.dropped),
            "kept": kept,
            "facts": asked.facts or None,
            "content_id": asked.quick_hash,
            "full_hash": asked.full_hash,
            "log": f"{self._home.job_logs(lease.job)}/{lease.epoch}.log",
            "lease_s": self._settings.lease_s,
        }
        return _Claimed(lease, job, published, asked.starts_over)

    # While a job runs

    async def heartbeat(self, caller: WorkerToken, request: HeartbeatRequest) -> HeartbeatAnswer:
        """Renews the leases named in a heartbeat and answers with the control requests of their jobs."""
        now = now_us()
        named = [Token(beat.job, beat.epoch, request.instance) for beat in request.jobs]
        self._board.record_heartbeat(
            Heartbeat(caller.worker, now, request.instance, request.cpu_percent, request.memory_bytes)
        )
        ours = self._board.leases.heartbeat(request.instance, named, now)
        return {
            "controls": {str(token.job): self._board.jobs[token.job].control.value for token in ours},
            "lost": [token.job for token in named if token not in ours],
            "enabled": True,
        }

    async def progress(self, caller: WorkerToken, job: int, request: ProgressRequest) -> Control:
        """Records a progress report and answers with the job's control request.

        Raises:
            TqError: LOST_LEASE, NOT_FOUND.
        """
        token = Token(job, request.epoch, request.instance)
        now = now_us()
        held = self._board.jobs.get(job)
        if held is None or not self._board.leases.is_live(token, now):
            held = await self._adopt(caller, token)
        reported = None
        if request.renditions is not None:
            reported = tuple(
                RenditionRow(**{**r.model_dump(), "status": r.status.value}) for r in request.renditions
            )
        report = LiveJob(
            token=token,
            worker=caller.name,
            step=request.step.value,
            progress=request.progress,
            speed=request.speed,
            eta_s=request.eta_s,
            renditions=reported,
            steps={step.value: seconds for step, seconds in request.steps.items()},
            argv=tuple(tuple(command) for command in request.argv) if request.argv else None,
            resumed_from=request.resumed_from,
            resumed_at_s=request.resumed_at_s,
            encoder=request.encoder,
            warnings=None
            if request.warnings is None
            else tuple({"code": each.code, "text": each.text} for each in request.warnings),
            quiet_s=request.quiet_s,
            at=now,
        )
        merged = self._board.report(token, report, significant=_is_significant(held, report))
        if request.facts is not None:
            await self._db.write(self._facts, token, request.facts, request.content_id)
        if merged.argv and merged.prediction is None:
            await self._forecasts.begin(merged)
        if self._board.due(now) and merged.unsaved:
            await self.save_progress()
        return self._board.jobs[job].control if job in self._board.jobs else Control.NONE

    async def _adopt(self, caller: WorkerToken, token: Token) -> LiveJob:
        """Accepts a report for a job unknown to this supervisor if its lease is live."""
        lease = await require_lease(self._db, token)
        self._board.begin(token, caller.name, now_us(), lease.lease_expires_at, lease.control, lease.progress)
        return self._board.jobs[token.job]

    def _facts(self, db: Connection, token: Token, facts: dict[str, object], content: str | None) -> None:
        lease = claims.live(db, token, now=now_us())
        if lease is not None:
            videos.set_facts(db, lease.video, facts, quick_hash=content)

    async def save_progress(self, *, everything: bool = False) -> None:
        """Stores all due reports in one transaction."""
        now = now_us()
        due = self._board.due(now, everything=everything)
        if due:
            stored = await self._db.write(_save_all, due, now)
            self._saved(due, stored, now)

    async def flush_heartbeats(self) -> None:
        """Stores all heartbeats and lease renewals since the last tick in one transaction."""
        renewals = self._board.leases.take_renewals()
        heartbeats = [(each.worker, each.instance, each.at) for each in self._board.take_heartbeats()]
        now = now_us()
        due = self._board.due(now, everything=True)
        if not renewals and not heartbeats and not due:
            return
        lease_us = int(self._settings.lease_s * MICROSECOND)
        try:
            stored = await self._db.write(_flush, renewals, heartbeats, due, now, lease_us)
        except BaseException:
            self._board.leases.put_back(renewals)
            raise
        self._saved(due, stored, now)

    def _saved(self, due: list[LiveJob], stored: list[float | None], now: int) -> None:
        for live, progress_now in zip(due, stored, strict=True):
            self._board.saved(live.token.job, now, progress_now)


async def require_lease(db: Database, token: Token) -> HeldLease:
    """Returns the live lease of a token.

    Raises:
        TqError: NOT_FOUND or LOST_LEASE.
    """
    facts = await db.read(job_facts, token.job)
    if facts is None:
        raise TqError(ErrorCode.NOT_FOUND, f"there is no job {token.job}")
    lease = await db.read(claims.live, token, now=now_us())
    if lease is None:
        raise leases.lost(token.job, facts.status)
    return lease


def _is_significant(before: LiveJob, now: LiveJob) -> bool:
    """Whether a report has to be stored soon: a new step, command, warning or rendition status."""
    if before.step != now.step or (now.argv and before.argv != now.argv):
        return True
    if now.warnings is not None and before.warnings != now.warnings:
        return True
    if now.renditions is None:
        return False
    return [r.status for r in before.renditions or ()] != [r.status for r in now.renditions]


def save_report(db: Connection, live: LiveJob, steps: dict[str, float], now: int) -> float | None:
    """Stores a report with the seconds spent in each step; see `progress.save`."""
    return progress.save(
        db,
        live.token,
        step=live.step,
        progress=live.progress,
        reported=live.renditions,
        steps=steps,
        argv=live.argv,
        resumed_from=live.resumed_from,
        resumed_at_s=live.resumed_at_s,
        encoder=live.encoder,
        warnings=live.warnings,
        at=live.moved_at,
        now=now,
    )


def _defer(db: Connection, refused: NoRoom) -> None:
    """Defers a job whose disk does not respond, so that the next ones can be claimed."""
    now, code = now_us(), ErrorCode.DISK_SILENT
    claims.defer(
        db,
        refused.needs[0].job,
        now=now,
        until=now + int(RESOURCE_WAIT_S * MICROSECOND),
        code=code,
        why=refused.silence,
        hint=MEANINGS[code].hint,
    )


def _save_all(db: Connection, due: list[LiveJob], now: int) -> list[float | None]:
    return [save_report(db, live, dict(live.steps), now) for live in due]


def _flush(
    db: Connection,
    renewals: list[Renewal],
    heartbeats: list[tuple[int, str, int]],
    due: list[LiveJob],
    now: int,
    lease_us: int,
) -> list[float | None]:
    store_renewals(db, renewals, lease_us)
    workers.store_heartbeats(db, heartbeats)
    return _save_all(db, due, now)
