"""Takes what becomes of jobs: results to publish, failures to judge, workers that died."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import structlog

from tqstudio.config import Settings
from tqstudio.engine import publishing
from tqstudio.engine.dispatch import Identity, require_lease, save_report
from tqstudio.engine.live import LiveBoard, LiveJob
from tqstudio.engine.scheduling import MICROSECOND, RetryRules, now_us
from tqstudio.engine.store import claims, gates, generations, outcomes, progress, videos, workers
from tqstudio.engine.store.claims import Lease, Token
from tqstudio.engine.store.connection import Connection
from tqstudio.engine.store.database import Database
from tqstudio.engine.store.transitions import look
from tqstudio.engine.views import place_of
from tqstudio.engine.workspace import Workspace
from tqstudio.errors import ErrorClass, ErrorCode, TqError, class_of, code_of
from tqstudio.lifecycle import Control, GateKind, JobStatus, RenditionStatus
from tqstudio.requests import CompleteRequest, FailRequest, ReleaseRequest

_PUBLISH_LEASE_S = 600.0
"""A publish may wait for a slow disk; the lease must outlast it."""


class Results:
    """Ends leases: by a worker's word, or for it when it died."""

    def __init__(self, settings: Settings, db: Database, board: LiveBoard, workspace: Workspace) -> None:
        self._db, self._board, self._workspace = db, board, workspace
        self._publishing: dict[Token, asyncio.Task[JobStatus]] = {}
        self._rules = RetryRules(settings.backoff_s, settings.backoff_max_s, random.random)
        self._log = structlog.get_logger()

    async def complete(self, who: Identity, job: int, request: CompleteRequest) -> JobStatus:
        """Publish what a worker made and mark the job done; a repeated call is answered as the first was.

        Raises:
            TqError: LOST_LEASE, NOT_FOUND; a failed publish is judged like a failure of the job.
        """
        token = Token(job, request.epoch, request.instance)
        task = self._publishing.get(token)
        if task is None:
            before = await self._db.read(claims.first_answer, token)
            if before is not None:
                return before
            task = asyncio.create_task(self._publish(who, token, request))
            self._publishing[token] = task
            task.add_done_callback(lambda _: self._publishing.pop(token, None))
        return await asyncio.shield(task)

    async def _publish(self, who: Identity, token: Token, request: CompleteRequest) -> JobStatus:
        lease_us = int(_PUBLISH_LEASE_S * MICROSECOND)
        if not await self._db.write(lambda db: claims.extend(db, [token], now=now_us(), lease_us=lease_us)):
            await require_lease(self._db, token)
        video, generation, number = await self._db.read(_publish_facts, token.job)
        place = place_of(video)
        manifest = request.manifest
        kept = [row for row in generation.renditions if row.name in manifest.keep] if generation else []
        kept_from = place.generation(generation.number) if generation else None
        try:
            owner = f"{self._workspace.uuid} {video.id}"
            current = generation.number if generation else None
            place = await asyncio.to_thread(publishing.own, place, owner, current)
            published = await asyncio.to_thread(
                publishing.publish,
                self._workspace.sink(video.output_root),
                place,
                number,
                manifest,
                kept,
                kept_from,
            )
        except OSError as error:
            failure = publishing.unwritable(place, error)
            return await self._failed(who, token, failure, request.steps_by_name())
        except TqError as error:
            return await self._failed(who, token, error, request.steps_by_name())
        except Exception as error:  # the lease was made long for the publish; it must not outlive a mistake
            self._log.exception("publish failed", job=token.job)
            failure = TqError(ErrorCode.INTERNAL, f"the ladder could not be published: {error!r}")
            return await self._failed(who, token, failure, request.steps_by_name())
        done = await self._db.write(self._record, who, token, video.id, place.slug, request, published)
        if not done:
            raise TqError(ErrorCode.LOST_LEASE, f"job {token.job} was taken back while it was published")
        self._board.end(token.job)
        await asyncio.to_thread(self._workspace.discard, video.output_root, video.id)
        return JobStatus.DONE

    def _record(
        self,
        db: Connection,
        who: Identity,
        token: Token,
        video: int,
        slug: str,
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
        videos.set_slug(db, video, slug)
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
            answer = self._settle(
                db,
                token,
                steps,
                lambda: outcomes.fail(db, token, failure, now=now, rules=self._rules, worker=who.name),
            )
            if answer is not None and error.code is ErrorCode.DISK_LOW:
                facts = look(db, token.job)
                video = videos.get(db, facts.video) if facts else None
                path = video.output_root if video else None
                gates.shut(db, GateKind.DISK, error.message, now=now, actor=who.name, path=path)
            return answer

        await self._forget_if_restarting(token)
        answer = await self._ended(token, await self._db.write(write))
        if class_of(error.code) is ErrorClass.FATAL:
            self._log.info("job failed", job=token.job, code=error.code.value, error=error.message)
        return answer

    async def release(self, who: Identity, job: int, request: ReleaseRequest) -> JobStatus:
        """The worker stopped on request; what a person asked is true now."""
        token = Token(job, request.epoch, request.instance)
        reason = request.reason if isinstance(request.reason, Control) else None
        steps = request.steps_by_name()

        def write(db: Connection) -> JobStatus | None:
            return self._settle(
                db,
                token,
                steps,
                lambda: outcomes.release(db, token, reason, now=now_us(), worker=who.name),
            )

        await self._forget_if_restarting(token)
        return await self._ended(token, await self._db.write(write))

    def _settle(
        self, db: Connection, token: Token, steps: dict[str, float], end: Callable[[], JobStatus | None]
    ) -> JobStatus | None:
        """End a lease with `end`, with its last report before and its renditions after it."""
        self._save_last(db, token, steps)
        before = look(db, token.job)
        answer = end()
        if answer is None:
            return None
        if before is not None and before.control is Control.RESTART:
            progress.reset_renditions(db, token.job)
        else:
            left = RenditionStatus.FAILED if answer is JobStatus.FAILED else RenditionStatus.PENDING
            progress.settle_renditions(db, token.job, running_becomes=left)
        return answer

    async def _forget_if_restarting(self, token: Token) -> None:
        """Before the job is claimable again: the next worker must not find what is to be forgotten."""
        if self._board_control(token) is Control.RESTART:
            await self._workspace.forget(token.job)

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
        await require_lease(self._db, token)
        raise TqError(ErrorCode.LOST_LEASE, f"job {token.job} belongs to another worker now")

    def _save_last(self, db: Connection, token: Token, steps: dict[str, float]) -> None:
        """Store the last report with the outcome, in its transaction."""
        live = self._board.jobs.get(token.job)
        if live is None or live.token != token:
            live = LiveJob(token, "", at=now_us())
        if live.step is None and not steps:
            return  # it ended before it said anything
        save_report(db, live, {**live.steps, **steps}, now_us())

    async def lost(self, instance: str, worker: str, why: str, told_to_end: bool) -> None:
        """Take back every job that this life of a worker held; what it finished stays on disk.

        A worker that was told to end, and had been handed a job at that moment, is no crash.
        """
        for lease in await self._db.read(claims.of_instance, instance):
            if told_to_end:
                await self.requeue(lease, "the supervisor ended")
            else:
                await self.take_back(lease, worker, why)

    async def requeue(self, lease: Lease, why: str) -> None:
        """Take back a job whose worker ended with its supervisor: nobody's fault, so nothing is counted."""
        token = Token(lease.job, lease.epoch, lease.instance)
        if lease.control is Control.RESTART:
            await self._workspace.forget(lease.job)

        def write(db: Connection) -> JobStatus | None:
            return self._settle(db, token, {}, lambda: outcomes.requeue(db, lease, now=now_us(), why=why))

        await self._db.write(write)
        self._board.end(lease.job)

    async def take_back(self, lease: Lease, worker: str, why: str, event: str | None = None) -> None:
        token = Token(lease.job, lease.epoch, lease.instance)
        publishing_now = self._publishing.get(token)
        if publishing_now is not None:
            # The worker has done its part; the supervisor finishes the publish without it.
            await asyncio.wait([publishing_now])
        await self._forget_if_restarting(token)

        def write(db: Connection) -> JobStatus | None:
            return self._settle(
                db,
                token,
                {},
                lambda: outcomes.lose(db, lease, now=now_us(), worker=worker, why=why, event=event),
            )

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


def _publish_facts(db: Connection, job: int) -> tuple[videos.VideoRow, generations.GenerationRow | None, int]:
    facts = look(db, job)
    video = videos.get(db, facts.video) if facts else None
    if video is None:
        raise TqError(ErrorCode.NOT_FOUND, f"there is no job {job}")
    return video, generations.current(db, video.id), generations.next_number(db, video.id)
