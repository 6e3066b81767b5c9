"""Takes what workers say of the end of their jobs: results to publish, failures to judge, releases."""

from __future__ import annotations

import asyncio
import random

import structlog

from tqstudio.config import Settings
from tqstudio.engine import publishing
from tqstudio.engine.dispatch import Identity, require_lease
from tqstudio.engine.endings import Endings
from tqstudio.engine.live import LiveBoard
from tqstudio.engine.scheduling import MICROSECOND, RetryRules, now_us
from tqstudio.engine.store import claims, gates, generations, outcomes, progress, videos
from tqstudio.engine.store.claims import Token
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
    """Ends leases by their worker's word."""

    def __init__(
        self, settings: Settings, db: Database, board: LiveBoard, workspace: Workspace, endings: Endings
    ) -> None:
        self._db, self._board, self._workspace, self._endings = db, board, workspace, endings
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
        self._endings.save_last(db, token, request.steps_by_name())
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
            answer = outcomes.fail(db, token, failure, now=now, rules=self._rules, worker=who.name)
            if answer is not None and error.code is ErrorCode.DISK_LOW:
                facts = look(db, token.job)
                video = videos.get(db, facts.video) if facts else None
                path = video.output_root if video else None
                gates.shut(db, GateKind.DISK, error.message, now=now, actor=who.name, path=path)
            return answer

        answer = await self._answer(token, await self._endings.end(token, write, steps))
        if class_of(error.code) is ErrorClass.FATAL:
            self._log.info("job failed", job=token.job, code=error.code.value, error=error.message)
        return answer

    async def release(self, who: Identity, job: int, request: ReleaseRequest) -> JobStatus:
        """The worker stopped on request; what a person asked is true now."""
        token = Token(job, request.epoch, request.instance)
        reason = request.reason if isinstance(request.reason, Control) else None

        def write(db: Connection) -> JobStatus | None:
            return outcomes.release(db, token, reason, now=now_us(), worker=who.name)

        return await self._answer(token, await self._endings.end(token, write, request.steps_by_name()))

    async def _answer(self, token: Token, ended: JobStatus | None) -> JobStatus:
        """What the worker is told: how the lease ended now, or how it had ended by an earlier such call.

        Raises:
            TqError: LOST_LEASE, NOT_FOUND.
        """
        if ended is not None:
            return ended
        first = await self._db.read(claims.first_answer, token)
        if first is not None:
            return first
        await require_lease(self._db, token)
        raise TqError(ErrorCode.LOST_LEASE, f"job {token.job} belongs to another worker now")

    async def publish_ended(self, token: Token) -> None:
        """Wait until no publish of this lease is under way."""
        if (task := self._publishing.get(token)) is not None:
            await asyncio.wait([task])


def _publish_facts(db: Connection, job: int) -> tuple[videos.VideoRow, generations.GenerationRow | None, int]:
    facts = look(db, job)
    video = videos.get(db, facts.video) if facts else None
    if video is None:
        raise TqError(ErrorCode.NOT_FOUND, f"there is no job {job}")
    return video, generations.current(db, video.id), generations.next_number(db, video.id)
