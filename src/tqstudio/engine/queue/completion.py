"""Processes the final reports of workers: publishes results, judges failures, releases jobs."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from tqstudio.config import Settings
from tqstudio.engine.access.worker_tokens import WorkerToken
from tqstudio.engine.gates.volume_monitor import BLOCKING, VolumeMonitor
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.live.forecasts import Forecasts
from tqstudio.engine.live.metrics import Metrics
from tqstudio.engine.outputs.publisher import Publisher
from tqstudio.engine.outputs.workspace import Workspace
from tqstudio.engine.queue.lease_end import LeaseEnd
from tqstudio.engine.queue.reports import lost_lease
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import claims, outcomes
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.engine.store.jobs.retry_rules import RetryRules
from tqstudio.engine.store.jobs.transitions import job_facts
from tqstudio.engine.store.library import videos
from tqstudio.errors import ErrorClass, ErrorCode, TqError, class_of, code_of
from tqstudio.lifecycle import JobStatus
from tqstudio.protocol.requests import CompleteRequest, FailRequest, Manifest, ReleaseRequest


class Completion:
    """Ends leases as reported by their workers.

    Args:
        check: raises TqError for a result that must not be published.
    """

    def __init__(
        self,
        settings: Settings,
        db: Database,
        workspace: Workspace,
        lease_end: LeaseEnd,
        publisher: Publisher,
        forecasts: Forecasts,
        volumes: VolumeMonitor,
        metrics: Metrics,
        check: Callable[[LeaseToken, Manifest], Awaitable[None]],
    ) -> None:
        self._db, self._workspace, self._lease_end, self._publisher = db, workspace, lease_end, publisher
        self._forecasts, self._volumes, self._metrics = forecasts, volumes, metrics
        self._check = check
        self._keep_completed = settings.reuse_segments
        self._publishing: dict[LeaseToken, asyncio.Task[JobStatus]] = {}
        self._publishing_first: dict[LeaseToken, asyncio.Task[None]] = {}
        self._log = structlog.get_logger()
        self._rules = RetryRules(settings.backoff_s, settings.backoff_max_s, random.random)

    async def complete(self, caller: WorkerToken, job: int, request: CompleteRequest) -> JobStatus:
        """Publishes a worker's result and marks the job done; idempotent.

        A failed publish is judged like a failure of the job.

        Raises:
            TqError: LOST_LEASE, NOT_FOUND.
        """
        token = LeaseToken(job, request.epoch, request.instance)
        task = self._publishing.get(token)
        if task is None:
            if not self._lease_end.leases.is_live(token):
                return await self._answer(token, None)
            before = await self._db.read(claims.first_answer, token)
            if before is not None:
                return before
            task = asyncio.create_task(self._publish(caller, token, request))
            self._publishing[token] = task
            task.add_done_callback(lambda _: self._publishing.pop(token, None))
        return await asyncio.shield(task)

    async def _publish(self, caller: WorkerToken, token: LeaseToken, request: CompleteRequest) -> JobStatus:
        steps = request.steps_by_name()
        if await self._publisher.finish_or_undo(token):
            await self._forecasts.finished(token, None, steps)
            return JobStatus.DONE
        run, arrived_at, began = self._forecasts.run_of(token), now_us(), time.monotonic()
        try:
            await self._check_result(token, request.manifest)
            await self._publisher.publish(
                token, caller.name, request, lambda db: self._lease_end.save_last(db, token, steps)
            )
        except TqError as error:
            if class_of(error.code) is ErrorClass.REQUEST:
                raise
            return await self._failed(caller.name, token, error, steps)
        self._metrics.published(request, run, arrived_at, time.monotonic() - began)
        await self._forecasts.finished(token, run, steps)
        return JobStatus.DONE

    def publish_first(
        self,
        caller: WorkerToken,
        token: LeaseToken,
        manifest: Manifest,
        received: Callable[[], Awaitable[None]],
    ) -> None:
        """Starts to publish a quality of a running job before the others; idempotent.

        If it fails, the quality is published with the others.

        Args:
            received: raises TqError if what is listed is not what has arrived.
        """
        if token not in self._publishing_first and self._lease_end.leases.is_live(token):
            task = asyncio.create_task(self._publish_first(caller.name, token, manifest, received))
            self._publishing_first[token] = task
            task.add_done_callback(lambda _: self._publishing_first.pop(token, None))

    async def _publish_first(
        self, worker: str, token: LeaseToken, manifest: Manifest, received: Callable[[], Awaitable[None]]
    ) -> None:
        try:
            await received()
            await self._check(token, manifest)
            await self._publisher.publish_first(token, worker, manifest)
        except TqError as error:
            self._log.warning(
                "first quality not published", job=token.job, code=error.code.value, error=error.message
            )

    async def _check_result(self, token: LeaseToken, manifest: Manifest) -> None:
        try:
            await self._check(token, manifest)
        except TqError as error:
            if error.code is ErrorCode.OUTPUT_INVALID:
                # The next attempt must not continue from it.
                await self._forget_completed(token)
            raise

    async def fail(self, caller: WorkerToken, job: int, request: FailRequest) -> JobStatus:
        token = LeaseToken(job, request.epoch, request.instance)
        if not await self._may_end(token):
            return await self._answer(token, None)
        error = TqError(code_of(request.code), request.text, request.hint)
        return await self._failed(caller.name, token, error, request.steps_by_name())

    async def fail_for(self, worker: str, token: LeaseToken, error: TqError) -> None:
        """Ends the lease of a stuck worker with an error.

        Raises:
            TqError: LOST_LEASE if it had ended before.
        """
        await self._failed(worker, token, error, {})

    async def _failed(
        self, worker: str, token: LeaseToken, error: TqError, steps: dict[str, float]
    ) -> JobStatus:
        if error.code is ErrorCode.SOURCE_MISSING:
            error = await self._volumes.away(token.job) or error
        failure = outcomes.Failure(error.code, error.message, error.hint, f"{token.epoch}.log")
        forgotten = not self._keep_completed and class_of(error.code) is not ErrorClass.RESOURCE

        def write(db: Connection) -> JobStatus | None:
            return outcomes.fail(
                db, token, failure, now=now_us(), rules=self._rules, worker=worker, forgotten=forgotten
            )

        if error.code in BLOCKING and (root := await self._db.read(_output_of, token)) is not None:
            # Before the lease ends, so that no job is claimed between.
            await self._volumes.block(root, error, actor=worker)
        if forgotten:
            await self._forget_completed(token)
        return await self._answer(token, await self._lease_end.end(token, write, steps, blame=error.code))

    async def _forget_completed(self, token: LeaseToken) -> None:
        """Removes finished segments before the lease ends, while no other attempt can run."""
        if await self._db.read(claims.held, token) is not None:
            await self._workspace.forget(token.job)

    async def release(self, caller: WorkerToken, job: int, request: ReleaseRequest) -> JobStatus:
        """Ends the lease of a worker that stopped on request, and applies the control request."""
        token = LeaseToken(job, request.epoch, request.instance)
        if not await self._may_end(token):
            return await self._answer(token, None)
        reason = None if request.reason == "shutdown" else request.reason

        def write(db: Connection) -> JobStatus | None:
            return outcomes.release(db, token, reason, now=now_us(), worker=caller.name)

        return await self._answer(token, await self._lease_end.end(token, write, request.steps_by_name()))

    async def _may_end(self, token: LeaseToken) -> bool:
        """Whether the lease is live now, when the request arrived; waits for a publish under it."""
        live = self._lease_end.leases.is_live(token)
        await self.publish_ended(token)
        return live

    async def _answer(self, token: LeaseToken, ended: JobStatus | None) -> JobStatus:
        """Returns how the lease ended now, or how it had ended by an earlier identical call.

        Raises:
            TqError: LOST_LEASE, NOT_FOUND.
        """
        if ended is not None:
            return ended
        first = await self._db.read(claims.first_answer, token)
        if first is not None:
            return first
        raise await lost_lease(self._db, token.job)

    @property
    def publishing(self) -> list[asyncio.Task[Any]]:
        """The publishes that are running."""
        return [*self._publishing.values(), *self._publishing_first.values()]

    def is_publishing(self, token: LeaseToken) -> bool:
        """Whether the result of this lease is being published."""
        return token in self._publishing

    async def publish_ended(self, token: LeaseToken) -> None:
        """Waits until no publish of this lease is running."""
        found = self._publishing.get(token), self._publishing_first.get(token)
        if tasks := [task for task in found if task is not None]:
            await asyncio.wait(tasks)


def _output_of(db: Connection, token: LeaseToken) -> bytes | None:
    """Returns the output of a job; None if the token has lost it."""
    facts = job_facts(db, token.job)
    video = videos.get(db, facts.video) if facts is not None and facts.is_held_by(token) else None
    return None if video is None else video.output_root
