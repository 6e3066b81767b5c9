"""Hands jobs to workers and takes their results: everything the worker side of the API asks for.

A claim that finds nothing waits for a hint that there may be work; the database alone decides, so a hint
that is lost costs only the rest of the wait.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import structlog
from sqlalchemy import Connection

from tqstudio.config import Settings
from tqstudio.engine import publishing
from tqstudio.engine.live import Beat, LiveBoard, LiveJob
from tqstudio.engine.scheduling import MICROSECOND, RetryRules, now_us
from tqstudio.engine.store import claims, gates, generations, jobs, outcomes, progress, videos, workers
from tqstudio.engine.store.claims import Claimant, Lease, Token
from tqstudio.engine.store.database import Database
from tqstudio.engine.store.events import EventRow
from tqstudio.engine.store.progress import RenditionRow
from tqstudio.engine.store.transitions import look
from tqstudio.engine.views import place_of
from tqstudio.errors import ErrorClass, ErrorCode, TqError, class_of, code_of
from tqstudio.home import Home
from tqstudio.lifecycle import Control, GateKind, JobKind, JobStatus, RenditionStatus
from tqstudio.requests import (
    ClaimRequest,
    CompleteRequest,
    FailRequest,
    HeartbeatRequest,
    ProgressRequest,
    ReleaseRequest,
)
from tqstudio.schemas import ClaimedJob, HeartbeatAnswer
from tqstudio.sources import encode

_PUBLISH_LEASE_S = 600.0
"""A publish may wait for a slow disk; the lease must outlast it."""

_WAKING_TRIGGERS = frozenset({"gate_opened", "worker_enabled"})


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a worker's token speaks for."""

    worker: int
    name: str
    kind: str


class Dispatch:
    """The desk at which workers ask for jobs and hand in results."""

    def __init__(
        self, home: Home, settings: Settings, db: Database, board: LiveBoard, *, store_uuid: str
    ) -> None:
        self._home, self._settings, self._db, self._board = home, settings, db, board
        self._store_uuid = store_uuid
        self._work = asyncio.Event()
        self._publishing: dict[int, asyncio.Task[JobStatus]] = {}
        self._waiting_gpus: dict[int, int] = {}
        self.closed = False
        """No job is handed out any more: the supervisor stops."""
        self.rules = RetryRules(settings.backoff_s, settings.backoff_max_s, random.random)
        self._log = structlog.get_logger()

    # Claiming

    def hint(self, events: list[EventRow]) -> None:
        """Something happened; wake the waiting claims if it may have made a job claimable."""
        if any(e.target == JobStatus.PENDING or e.trigger in _WAKING_TRIGGERS for e in events):
            self.wake()

    def wake(self) -> None:
        self._work.set()
        self._work = asyncio.Event()

    async def claim(
        self, who: Identity, request: ClaimRequest, gone: Callable[[], Awaitable[bool]]
    ) -> ClaimedJob | None:
        """The next job for this worker, waiting up to `wait_s` for one; None when there is none.

        Args:
            gone: whether the client has hung up; nothing is claimed for one that has.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.wait_s
        claimant = Claimant(who.worker, who.name, who.kind, request.instance)
        gpu = who.kind == "gpu"
        if gpu:
            self._waiting_gpus[who.worker] = self._waiting_gpus.get(who.worker, 0) + 1
        try:
            while not self.closed and not await gone():
                work = self._work
                claimed = await self._db.write(self._claim, claimant, self._idle_gpus())
                if claimed is not None:
                    lease, job = claimed
                    if not lease.repeated or lease.job not in self._board.jobs:
                        token = Token(lease.job, lease.epoch, lease.instance)
                        self._board.begin(token, who.name, now_us())
                    return job
                left = deadline - loop.time()
                if left <= 0:
                    return None
                try:
                    # A job can also become due for a CPU by the mere passing of the GPU's grace.
                    await asyncio.wait_for(work.wait(), min(left, max(1.0, self._settings.gpu_grace_s / 4)))
                except TimeoutError:
                    continue
            return None
        finally:
            if gpu:
                self._waiting_gpus[who.worker] -= 1

    def _idle_gpus(self) -> int:
        return sum(1 for waiting in self._waiting_gpus.values() if waiting)

    def _claim(self, db: Connection, claimant: Claimant, idle_gpus: int) -> tuple[Lease, ClaimedJob] | None:
        lease = claims.claim(
            db,
            claimant,
            now=now_us(),
            lease_us=int(self._settings.lease_s * MICROSECOND),
            idle_gpus=idle_gpus,
            gpu_grace_us=int(self._settings.gpu_grace_s * MICROSECOND),
        )
        return None if lease is None else (lease, self._describe(db, lease))

    def _describe(self, db: Connection, lease: Lease) -> ClaimedJob:
        video = videos.get(db, lease.video)
        if video is None:
            raise TqError(ErrorCode.INTERNAL, f"job {lease.job} has no video")
        spec = jobs.spec_of(db, lease.job)
        generation = generations.current(db, lease.video)
        kept = {row.name: row.settings_hash for row in generation.renditions} if generation else {}
        if spec.kind is JobKind.RETRANSCODE:
            if spec.requested is None:
                kept = {}
            for name in spec.requested or ():
                kept.pop(name, None)
        for name in spec.dropped:
            kept.pop(name, None)
        return {
            "job": lease.job,
            "epoch": lease.epoch,
            "video": lease.video,
            "attempt": lease.attempts + lease.crashes + 1,
            "kind": spec.kind.value,
            "source": {"kind": "file", "path_b64": encode(video.source)},
            "source_size": video.size,
            "source_mtime_ns": video.mtime_ns,
            "sink": {"kind": "file", "path_b64": encode(self.sink(video.output_root))},
            "profile": json.loads(spec.profile_json),
            "requested": None if spec.requested is None else list(spec.requested),
            "kept": kept,
            "facts": dict(video.facts) if video.facts else None,
            "content_id": video.quick_hash,
            "log": str(self._home.job_logs(lease.job) / f"{lease.epoch}.log"),
            "lease_s": self._settings.lease_s,
        }

    def sink(self, output_root: bytes) -> Path:
        """The folder on the output's file system that workers write to: two homes may share an output."""
        return Path(os.fsdecode(output_root)) / ".tqstudio" / self._store_uuid

    # While a job runs

    async def heartbeat(self, who: Identity, request: HeartbeatRequest) -> HeartbeatAnswer:
        """A sign of life. Leases of this instance that it does not name are taken back."""
        now = now_us()
        named = [Token(beat.job, beat.epoch, request.instance) for beat in request.jobs]
        held = {
            live.token.job: live
            for live in self._board.jobs.values()
            if live.token.instance == request.instance
        }
        ours = [token for token in named if token.job in held and held[token.job].token == token]
        self._board.beat(
            Beat(who.worker, now, request.instance, request.cpu_percent, request.memory_bytes), ours
        )
        return {
            "controls": {str(token.job): held[token.job].control.value for token in ours},
            "lost": [token.job for token in named if token not in ours],
            "enabled": True,
        }

    async def progress(self, who: Identity, job: int, request: ProgressRequest) -> Control:
        """Take a report; answers what a person asked of the job meanwhile.

        Raises:
            TqError: LOST_LEASE, NOT_FOUND.
        """
        token = Token(job, request.epoch, request.instance)
        held = self._board.jobs.get(job)
        if held is None or held.token != token:
            held = await self._adopt(who, token)
        now = now_us()
        reported = None
        if request.renditions is not None:
            reported = tuple(
                RenditionRow(**{**r.model_dump(), "status": r.status.value}) for r in request.renditions
            )
        report = LiveJob(
            token=token,
            worker=who.name,
            step=request.step.value,
            progress=request.progress,
            speed=request.speed,
            eta_s=request.eta_s,
            renditions=reported,
            steps={step.value: seconds for step, seconds in request.steps.items()},
            argv=tuple(tuple(command) for command in request.argv) if request.argv else None,
            resumed_from=request.resumed_from,
            encoder=request.encoder,
            at=now,
        )
        merged = self._board.report(token, report, significant=_is_significant(held, report))
        if request.facts is not None:
            await self._db.write(self._facts, token, request.facts, request.content_id)
        if self._board.due(now) and merged.unsaved:
            await self.save_progress()
        return self._board.jobs[job].control if job in self._board.jobs else Control.NONE

    async def _adopt(self, who: Identity, token: Token) -> LiveJob:
        """A report of a job that this supervisor has not seen yet: believed if the lease is live."""
        await self._require_lease(token)
        facts = await self._db.read(look, token.job)
        self._board.begin(token, who.name, now_us())
        if facts is not None:
            self._board.control(token.job, facts.control)
        return self._board.jobs[token.job]

    def _facts(self, db: Connection, token: Token, facts: dict[str, object], content: str | None) -> None:
        lease = claims.live(db, token, now=now_us())
        if lease is not None:
            videos.set_facts(db, lease.video, facts, quick_hash=content)

    async def save_progress(self, *, everything: bool = False) -> None:
        """Store the reports that are due, all in one transaction."""
        now = now_us()
        due = self._board.due(now, everything=everything)
        if due:
            await self._db.write(_save_all, due, now)
            for live in due:
                self._board.saved(live.token.job, now)

    async def flush_beats(self) -> None:
        """One transaction for all beats and lease renewals since the last tick."""
        renewals = self._board.take_renewals()
        beats = [(beat.worker, beat.at) for beat in self._board.beats.values()]
        now = now_us()
        due = self._board.due(now, everything=True)
        if not renewals and not beats and not due:
            return
        await self._db.write(_flush, renewals, beats, due, now, int(self._settings.lease_s * MICROSECOND))
        for live in due:
            self._board.saved(live.token.job, now)

    # How a job ends

    async def complete(self, who: Identity, job: int, request: CompleteRequest) -> JobStatus:
        """Publish what a worker made and mark the job done; a repeated call is answered as the first was.

        Raises:
            TqError: LOST_LEASE, NOT_FOUND; a failed publish is judged like a failure of the job.
        """
        task = self._publishing.get(job)
        if task is None:
            token = Token(job, request.epoch, request.instance)
            before = await self._db.read(claims.first_answer, token)
            if before is not None:
                return before
            task = asyncio.create_task(self._publish(who, token, request))
            self._publishing[job] = task
            task.add_done_callback(lambda _: self._publishing.pop(job, None))
        return await asyncio.shield(task)

    async def _publish(self, who: Identity, token: Token, request: CompleteRequest) -> JobStatus:
        lease_us = int(_PUBLISH_LEASE_S * MICROSECOND)
        if not await self._db.write(lambda db: claims.extend(db, [token], now=now_us(), lease_us=lease_us)):
            await self._require_lease(token)
        video, generation, number = await self._db.read(_publish_facts, token.job)
        place = place_of(video)
        manifest = request.manifest
        kept = [row for row in generation.renditions if row.name in manifest.keep] if generation else []
        kept_from = place.generation(generation.number) if generation else None
        try:
            published = await asyncio.to_thread(
                publishing.publish, self.sink(video.output_root), place, number, manifest, kept, kept_from
            )
        except TqError as error:
            return await self._failed(who, token, error, request.steps_by_name())
        done = await self._db.write(self._record, who, token, video.id, request, published)
        if not done:
            raise TqError(ErrorCode.LOST_LEASE, f"job {token.job} was taken back while it was published")
        self._board.end(token.job)
        await asyncio.to_thread(self.discard_work, video.output_root, video.id)
        return JobStatus.DONE

    def _record(
        self,
        db: Connection,
        who: Identity,
        token: Token,
        video: int,
        request: CompleteRequest,
        published: publishing.PublishedFiles,
    ) -> bool:
        now = now_us()
        self._save_last(db, token, request.steps_by_name())
        warnings = "; ".join(request.manifest.warnings)
        detail = f"generation {published.number}" + (f"; {warnings}" if warnings else "")
        if not outcomes.complete(db, token, now=now, worker=who.name, detail=detail):
            return False
        generations.record(
            db,
            video,
            published.number,
            settings_hash=request.manifest.settings_hash,
            poster=published.poster,
            renditions=published.renditions,
            now=now,
        )
        if request.full_hash:
            videos.set_full_hash(db, video, request.full_hash)
        progress.settle_renditions(db, token.job, running_becomes=RenditionStatus.COMPLETED)
        return True

    async def fail(self, who: Identity, job: int, request: FailRequest) -> JobStatus:
        token = Token(job, request.epoch, request.instance)
        error = TqError(code_of(request.code), request.text, request.hint)
        return await self._failed(who, token, error, request.steps_by_name())

    async def _failed(
        self, who: Identity, token: Token, error: TqError, steps: dict[str, float]
    ) -> JobStatus:
        failure = outcomes.Failure(error.code, error.message, error.hint, f"{token.epoch}.log")

        def write(db: Connection) -> JobStatus | None:
            now = now_us()
            self._save_last(db, token, steps)
            answer = outcomes.fail(db, token, failure, now=now, rules=self.rules, worker=who.name)
            if answer is not None:
                left = RenditionStatus.FAILED if answer is JobStatus.FAILED else RenditionStatus.PENDING
                progress.settle_renditions(db, token.job, running_becomes=left)
                if error.code is ErrorCode.DISK_LOW:
                    video = look(db, token.job)
                    row = videos.get(db, video.video) if video else None
                    gates.shut(
                        db,
                        GateKind.DISK,
                        error.message,
                        now=now,
                        actor=who.name,
                        path=row.output_root if row else None,
                    )
            return answer

        answer = await self._ended(token, await self._db.write(write))
        if class_of(error.code) is ErrorClass.FATAL:
            self._log.info("job failed", job=token.job, code=error.code.value, error=error.message)
        return answer

    async def release(self, who: Identity, job: int, request: ReleaseRequest) -> JobStatus:
        """The worker stopped on request; what a person asked is true now."""
        token = Token(job, request.epoch, request.instance)
        reason = request.reason if isinstance(request.reason, Control) else None
        steps = request.steps_by_name()

        def write(db: Connection) -> tuple[JobStatus | None, Control]:
            self._save_last(db, token, steps)
            before = look(db, token.job)
            answer = outcomes.release(db, token, reason, now=now_us(), worker=who.name)
            wished = before.control if before is not None and answer is not None else Control.NONE
            if wished is Control.RESTART:
                progress.reset_renditions(db, token.job)
            elif answer is not None:
                progress.settle_renditions(db, token.job, running_becomes=RenditionStatus.PENDING)
            return answer, wished

        if self._board_control(token) is Control.RESTART:
            # Before the job is claimable again: the next worker must not find what is to be forgotten.
            await self.forget_work(job)
        answer, _ = await self._db.write(write)
        return await self._ended(token, answer)

    def _board_control(self, token: Token) -> Control:
        held = self._board.jobs.get(token.job)
        return held.control if held is not None and held.token == token else Control.NONE

    async def _ended(self, token: Token, answer: JobStatus | None) -> JobStatus:
        if answer is not None:
            held = self._board.jobs.get(token.job)
            if held is not None and held.token == token:
                self._board.end(token.job)
            return answer
        first = await self._db.read(claims.first_answer, token)
        if first is not None:
            return first
        await self._require_lease(token)
        raise TqError(ErrorCode.LOST_LEASE, f"job {token.job} belongs to another worker now")

    async def _require_lease(self, token: Token) -> None:
        if await self._db.read(look, token.job) is None:
            raise TqError(ErrorCode.NOT_FOUND, f"there is no job {token.job}")
        if await self._db.read(lambda db: claims.live(db, token, now=now_us())) is None:
            raise TqError(ErrorCode.LOST_LEASE, f"job {token.job} belongs to another worker now")

    def _save_last(self, db: Connection, token: Token, steps: dict[str, float]) -> None:
        """Store the last report with the outcome, in its transaction."""
        live = self._board.jobs.get(token.job)
        if live is None or live.token != token:
            live = LiveJob(token, "", at=now_us())
        _save(db, live, {**live.steps, **steps}, now_us())

    # When a worker dies

    async def lost(self, instance: str, worker: str, why: str) -> None:
        """Take back every job that this life of a worker held; what it finished stays on disk."""
        for lease in await self._db.read(claims.of_instance, instance):
            await self.take_back(lease, worker, why)

    async def take_back(self, lease: Lease, worker: str, why: str, event: str | None = None) -> None:
        publishing_now = self._publishing.get(lease.job)
        if publishing_now is not None:
            # The worker has done its part; the supervisor finishes the publish without it.
            await asyncio.wait([publishing_now])
        token = Token(lease.job, lease.epoch, lease.instance)
        if self._board_control(token) is Control.RESTART:
            await self.forget_work(lease.job)

        def write(db: Connection) -> JobStatus | None:
            self._save_last(db, token, {})
            answer = outcomes.lose(db, lease, now=now_us(), worker=worker, why=why, event=event)
            if answer is not None:
                left = RenditionStatus.FAILED if answer is JobStatus.FAILED else RenditionStatus.PENDING
                progress.settle_renditions(db, lease.job, running_becomes=left)
            return answer

        answer = await self._db.write(write)
        held = self._board.jobs.get(lease.job)
        if answer is not None and held is not None and held.token == token:
            self._board.end(lease.job)

    async def recover(self) -> int:
        """Take back the jobs whose lease has run out; looks at nothing but the lease."""
        overdue = await self._db.read(lambda db: claims.expired(db, now=now_us()))
        for lease in overdue:
            row = await self._db.read(workers.by_id, lease.worker_id)
            name = row.name if row else "?"
            await self.take_back(lease, name, "the lease ran out", event="requeued:stale")
        return len(overdue)

    # Files of unfinished work

    async def forget_work(self, job: int) -> None:
        """Remove the finished segments of a job that starts over."""
        facts = await self._db.read(look, job)
        video = await self._db.read(videos.get, facts.video) if facts else None
        if video is not None:
            await asyncio.to_thread(self.discard_work, video.output_root, video.id)

    def discard_work(self, output_root: bytes, video: int) -> None:
        """Empty a video's segment store."""
        shutil.rmtree(self.sink(output_root) / "segments" / str(video), ignore_errors=True)


def _publish_facts(db: Connection, job: int) -> tuple[videos.VideoRow, generations.GenerationRow | None, int]:
    facts = look(db, job)
    video = videos.get(db, facts.video) if facts else None
    if video is None:
        raise TqError(ErrorCode.NOT_FOUND, f"there is no job {job}")
    return video, generations.current(db, video.id), generations.next_number(db, video.id)


def _is_significant(before: LiveJob, now: LiveJob) -> bool:
    """Whether the database should have this report soon: a step began, or a rendition changed its status."""
    if before.step != now.step or (now.argv and before.argv != now.argv):
        return True
    if now.renditions is None:
        return False
    return [r.status for r in before.renditions or ()] != [r.status for r in now.renditions]


def _save(db: Connection, live: LiveJob, steps: dict[str, float], now: int) -> None:
    progress.save(
        db,
        live.token,
        step=live.step,
        progress=live.progress,
        reported=live.renditions,
        steps=steps,
        argv=live.argv,
        resumed_from=live.resumed_from,
        encoder=live.encoder,
        at=live.at,
        now=now,
    )


def _save_all(db: Connection, due: list[LiveJob], now: int) -> None:
    for live in due:
        _save(db, live, dict(live.steps), now)


def _flush(
    db: Connection,
    renewals: list[Token],
    beats: list[tuple[int, int]],
    due: list[LiveJob],
    now: int,
    lease_us: int,
) -> None:
    claims.extend(db, renewals, now=now, lease_us=lease_us)
    workers.beats(db, beats)
    _save_all(db, due, now)
