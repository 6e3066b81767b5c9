"""Assigns jobs to the workers that claim them.

A claim that finds no job waits for a hint that there may be one. Only the database decides, so a lost hint
just delays the claim.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic_core import from_json

from tqstudio.config import Settings
from tqstudio.engine.access.worker_tokens import WorkerToken
from tqstudio.engine.files.mounts import is_within
from tqstudio.engine.gates.volume_monitor import Refused, VolumeMonitor
from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.host.waiting import Signal
from tqstudio.engine.live.metrics import Metrics
from tqstudio.engine.live.ranges import Range, Ranges
from tqstudio.engine.live.running_jobs import RunningJobs
from tqstudio.engine.outputs import is_intact
from tqstudio.engine.outputs.place import Place
from tqstudio.engine.outputs.workspace import Workspace
from tqstudio.engine.parts.part import Part
from tqstudio.engine.queue.job_settings import kept_of
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.jobs import claims, volume_waits
from tqstudio.engine.store.jobs.assignments import Assignment, assignment_of
from tqstudio.engine.store.jobs.claims import Claimant, HeldLease, LeaseToken
from tqstudio.engine.store.jobs.folder_hours import FOREVER
from tqstudio.engine.store.jobs.retry_rules import RESOURCE_WAIT_S
from tqstudio.engine.store.jobs.transitions import job_facts
from tqstudio.engine.store.library import generations
from tqstudio.engine.store.library.generations import DuplicateRow, GenerationRow
from tqstudio.engine.store.machine import speeds, workers
from tqstudio.errors import ErrorCode, TqError
from tqstudio.events import EventKind
from tqstudio.home import Home
from tqstudio.lifecycle import JobKind
from tqstudio.paths import encode
from tqstudio.protocol.requests import ClaimRequest, RangeAbility
from tqstudio.protocol.worker_answers import ClaimAnswer, ClaimedJob, PublishedDuplicate
from tqstudio.source_files import is_audio_name

_MAX_DEFERRED = 50
"""Jobs that one transaction lets wait for their own volumes; the next one continues."""


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


def _intact(kept: dict[str, str], published: _Published) -> dict[str, str]:
    """Return the renditions in `kept` whose files are still as published."""
    rows = [row for row in published.generation.renditions if row.name in kept]
    return {row.name: row.settings_hash for row in rows if is_intact(published.folder, row)}


def _request_damaged(job: ClaimedJob, kept: dict[str, str]) -> None:
    """Keep only intact renditions and request the damaged ones, even if the job requested others only."""
    damaged = job["kept"].keys() - kept.keys()
    job["kept"] = kept
    if job["requested"] is not None:
        job["requested"] = [*job["requested"], *sorted(damaged - {*job["requested"]})]


class Dispatcher(Part):
    """Assigns jobs to workers.

    Args:
        work: set when a job or range may have become claimable.
    """

    triggers = frozenset({EventKind.GATE_OPENED, EventKind.WORKER_ENABLED})

    def __init__(
        self,
        home: Home,
        settings: Settings,
        db: Database,
        running_jobs: RunningJobs,
        ranges: Ranges,
        workspace: Workspace,
        volumes: VolumeMonitor,
        metrics: Metrics,
        work: Signal,
    ) -> None:
        self._home, self._settings, self._db = home, settings, db
        self._running_jobs, self._ranges = running_jobs, ranges
        self._workspace, self._volumes, self._metrics = workspace, volumes, metrics
        self._work = work
        self._waiting_gpus: dict[int, int] = {}
        self.closed = False
        """Set at shutdown: no more jobs are assigned."""

    def on_events(self, _events: Sequence[EventRow]) -> None:
        """Wake waiting claims; for new jobs the monitor does, when their volumes are measured."""
        self.wake()

    def wake(self) -> None:
        self._work.set()

    def close(self) -> None:
        """Assign no more jobs; waiting claims end."""
        self.closed = True
        self.wake()

    async def claim(
        self, caller: WorkerToken, request: ClaimRequest, disconnected: Callable[[], Awaitable[bool]]
    ) -> ClaimAnswer:
        """Claim the next job for a worker, waiting up to `wait_s` for one, or request a test encode.

        If no job waits, it gets a range of one that another worker has.

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
                await self._volumes.until_measured()
                work = self._work.next
                claimed = None
                # While the database cannot be written, wait for its gate instead of failing every claim.
                if self._db.refusal is None:
                    expired = self._running_jobs.leases.expired_of(request.instance)
                    claimed = await self._db.write(self._claim, claimant, expired, self._idle_gpus())
                if claimed == "test":
                    return {"job": None, "test": True}
                if isinstance(claimed, Refused):
                    if not claimed.alone:
                        await self._volumes.refused(claimed.job)
                    continue
                if claimed is not None:
                    lease, job = claimed.lease, claimed.job
                    if not self._running_jobs.leases.knows(lease.token):
                        self._running_jobs.begin(
                            lease.token, caller.name, now_us(), lease.control, lease.progress
                        )
                    elif not self._running_jobs.leases.heartbeat(request.instance, [lease.token]):
                        self._metrics.claim_conflicts += 1
                        continue  # it has expired while this claim waited for the database
                    if lease.waited_us is not None:
                        self._metrics.claimed(lease.waited_us)
                    if claimed.starts_over:
                        await self._workspace.start_over(lease.job)
                    if claimed.published is not None:
                        _request_damaged(
                            job, await asyncio.to_thread(_intact, job["kept"], claimed.published)
                        )
                    return {"job": job, "test": False}
                if request.ranges is not None and self._db.refusal is None:
                    part = await self._assign_range(claimant, request.ranges)
                    if part is not None:
                        return {"job": part, "test": False}
                left = deadline - loop.time()
                if left <= 0:
                    break
                try:
                    # A job can also become claimable for a CPU because `gpu_grace_s` is over.
                    async with asyncio.timeout(min(left, max(1.0, self._settings.gpu_grace_s / 4))):
                        await work.wait()
                except TimeoutError:
                    continue
            return {"job": None, "test": False}
        except TqError as error:
            if error.code is ErrorCode.LOST_LEASE:
                self._metrics.claim_conflicts += 1
            raise
        finally:
            if gpu:
                self._waiting_gpus[caller.worker] -= 1

    def _idle_gpus(self) -> int:
        return sum(1 for waiting in self._waiting_gpus.values() if waiting) + self._ranges.helping_gpus()

    def _claim(
        self, db: Connection, claimant: Claimant, expired: frozenset[LeaseToken], idle_gpus: int
    ) -> _Claimed | Refused | Literal["test"] | None:
        refused: Refused | None = None

        def fits(db: Connection, job: int) -> bool:
            nonlocal refused
            refused = self._volumes.judge(db, job)
            return refused is None

        for _ in range(_MAX_DEFERRED):
            refused = None
            lease = claims.claim(
                db,
                claimant,
                supervisor=self._running_jobs.leases.supervisor,
                now=now_us(),
                expired=expired,
                idle_gpus=idle_gpus,
                gpu_grace_us=int(self._settings.gpu_grace_s * MICROSECOND),
                fits=fits,
            )
            if lease is not None:
                return self._describe(db, lease)
            if refused is None or not refused.alone:
                break
            _wait_alone(db, refused)
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

    async def _assign_range(self, claimant: Claimant, ability: RangeAbility) -> ClaimedJob | None:
        if not self._ranges.is_any_offered or not await self._db.read(claims.may_work, claimant):
            return None
        found = self._ranges.assign(claimant.instance, claimant.name, claimant.kind, ability)
        if found is None:
            return None
        if self._running_jobs.divide(found.token.job):
            await self._db.write(speeds.forget_prediction, found.token.job)
        return await self._db.read(self._describe_range, found)

    def _describe_range(self, db: Connection, part: Range) -> ClaimedJob | None:
        number, epoch = part.token.job, part.token.epoch
        assignment, facts = assignment_of(db, number), job_facts(db, number)
        if facts is None:
            return None
        job = self._job(assignment, number, epoch, facts.video)
        log = f"{self._home.job_logs(number)}/{epoch}-{part.first}.log"
        return {**job, "requested": None, "first": False, "log": log, "range": part.assigned}

    def _describe(self, db: Connection, lease: HeldLease) -> _Claimed:
        assignment = assignment_of(db, lease.job)
        generation = generations.current(db, lease.video) if assignment.generation is not None else None
        published = None
        if generation is not None:
            place = Place.below(assignment.output_root, assignment.slug)
            published = _Published(place.generation(generation.number), generation)
        job = self._job(assignment, lease.job, lease.epoch, lease.video)
        job["kept"] = kept_of(assignment, generation)
        job["duplicates"] = [_offered(duplicate) for duplicate in generations.duplicates(db, lease.job)]
        return _Claimed(lease, job, published, assignment.starts_over)

    def _job(self, assignment: Assignment, number: int, epoch: int, video: int) -> ClaimedJob:
        # A source that was moved when it was done is no longer in its drop folder.
        folder = (
            assignment.folder
            if assignment.folder and is_within(assignment.source, assignment.folder)
            else None
        )
        return {
            "job": number,
            "epoch": epoch,
            "video": video,
            "attempt": assignment.attempt,
            "kind": assignment.kind.value,
            "source": {"kind": "file", "path_b64": encode(assignment.source)},
            "source_root_b64": encode(folder or os.path.dirname(assignment.source)),
            "drop_folder_b64": encode(folder) if folder else None,
            "refuses_sound": assignment.refuses_sound
            and not is_audio_name(os.path.basename(assignment.source)),
            "source_size": assignment.size,
            "source_mtime_ns": assignment.mtime_ns,
            "work_dir": {
                "kind": "file",
                "path_b64": encode(self._workspace.work_dir(assignment.output_root)),
            },
            "profile": from_json(assignment.profile_json),
            "requested": None if assignment.requested is None else list(assignment.requested),
            "dropped": list(assignment.dropped),
            "kept": {},
            "duplicates": [],
            "source_warnings": [],
            "facts": assignment.facts or None,
            "content_id": assignment.quick_hash,
            "full_hash": assignment.full_hash,
            "crfs": assignment.crfs,
            "first": assignment.generation is None and assignment.kind is not JobKind.RETRANSCODE,
            "log": f"{self._home.job_logs(number)}/{epoch}.log",
            "lease_s": self._settings.lease_s,
            "range": None,
        }


def _offered(duplicate: DuplicateRow) -> PublishedDuplicate:
    folder = Place.below(duplicate.output_root, duplicate.slug).generation(duplicate.generation.number)
    return {
        "video": duplicate.video,
        "folder_b64": encode(os.fsencode(folder)),
        "full_hash": duplicate.full_hash,
        "keys": {row.name: (row.settings_hash, row.stream_key) for row in duplicate.generation.renditions},
    }


def _wait_alone(db: Connection, refused: Refused) -> None:
    """Let a job wait for its volume or its hours, so that the next ones can be claimed."""
    waits, now = refused.waits, now_us()
    assert waits is not None
    is_closed = waits.code is ErrorCode.OUTSIDE_HOURS
    until = FOREVER if is_closed else now + int(RESOURCE_WAIT_S * MICROSECOND)
    volume_waits.begin(db, refused.job, now=now, until=until, code=waits.code, why=waits.why, hint=waits.hint)
