"""Builds the parts of a supervisor, and bundles them for the API and the periodic tasks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial

from tqstudio import __version__
from tqstudio.config import Settings
from tqstudio.engine.access.api_tokens import ApiTokens
from tqstudio.engine.access.worker_tokens import WorkerTokens
from tqstudio.engine.admission.admission import Admission
from tqstudio.engine.assembly.shutdown import IdleShutdown, Shutdown
from tqstudio.engine.assembly.wing_calls import Wings
from tqstudio.engine.files.bounded_io import BoundedIO
from tqstudio.engine.gates.load import LoadGate
from tqstudio.engine.gates.measure import VolumeReader
from tqstudio.engine.gates.opening_hours import Schedule
from tqstudio.engine.gates.volume_monitor import VolumeMonitor
from tqstudio.engine.host.ages import Ages
from tqstudio.engine.host.clock import MICROSECOND, RunningClock, now_us
from tqstudio.engine.host.waiting import Signal
from tqstudio.engine.intake import Intake
from tqstudio.engine.intake.missing_sources import MissingSources
from tqstudio.engine.live.event_stream import EventStream
from tqstudio.engine.live.forecasts import Forecasts
from tqstudio.engine.live.leases import Leases
from tqstudio.engine.live.metrics import Metrics
from tqstudio.engine.live.ranges import Ranges
from tqstudio.engine.live.recorder import Recorder
from tqstudio.engine.live.running_jobs import RunningJobs
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.outputs import output_check
from tqstudio.engine.outputs.publisher import Publisher
from tqstudio.engine.outputs.retention import Retention
from tqstudio.engine.outputs.workspace import Workspace
from tqstudio.engine.probing.prober import Prober, ProbeResult
from tqstudio.engine.queue.bulk_operations import BulkOperations
from tqstudio.engine.queue.changed_sources import ChangedSources
from tqstudio.engine.queue.completion import Completion
from tqstudio.engine.queue.dispatcher import Dispatcher
from tqstudio.engine.queue.lease_end import LeaseEnd
from tqstudio.engine.queue.operations import Operations
from tqstudio.engine.queue.recovery import Recovery
from tqstudio.engine.queue.reports import Reports
from tqstudio.engine.queue.stuck_workers import StuckWorkers
from tqstudio.engine.queue.undo import Undo
from tqstudio.engine.queue.worker_pool import WorkerPool
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.upkeep import WeeklyCheck
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.engine.store.library import folders
from tqstudio.engine.store.machine import supervisors
from tqstudio.home import Home
from tqstudio.protocol.requests import Manifest

_MIN_STOP_S = 1.5
"""Shorter gaps never count as a stop of the process, see `RunningClock`."""

_IDLE_PART_OF_STALL = 4
"""A job is shown as stalled after 1/N of the time after which its ffmpeg is killed."""


class Services:
    """The parts of a supervisor; `supervisor` starts and ends them.

    Args:
        on_probed: called with what the background probe found.
        until_idle: as of `IdleShutdown`.
    """

    def __init__(
        self,
        home: Home,
        settings: Settings,
        db: Database,
        ffmpeg: FFmpeg,
        event_stream: EventStream,
        on_probed: Callable[[Sequence[ProbeResult]], None],
        make_wings: Callable[[Services], Wings],
        *,
        until_idle: bool,
    ) -> None:
        self.home, self.settings, self.db = home, settings, db
        self.ffmpeg, self.event_stream = ffmpeg, event_stream
        self.started_at = now_us()
        """µs since 1970 in UTC."""
        self.until_idle = until_idle
        self.draining = False
        self.listen: str | None = None
        """URL of the TCP listener."""
        lease_us = int(settings.lease_s * MICROSECOND)
        row, self.uuid = db.write_now(
            lambda connection: supervisors.begin(
                connection,
                pid=os.getpid(),
                version=__version__,
                home="" if db.is_file else home.id(),
                name=settings.host_name,
                now=connection.now_us(),
                lease_us=int(settings.supervisor_lease_s * MICROSECOND),
            )
        )
        db.supervisor = row
        # Heartbeat interval and gap together are shorter than a lease.
        clock = RunningClock(int(max(_MIN_STOP_S, settings.lease_s / 4) * MICROSECOND))
        self._work, ended = Signal(), asyncio.Event()
        self.ages = Ages(home.clock, clock)
        self.running_jobs = RunningJobs(
            Leases(row, lease_us, int(settings.heartbeat_s * MICROSECOND), clock),
            idle_after_us=int(settings.stall_s * MICROSECOND / _IDLE_PART_OF_STALL),
            on_end=ended.set,
        )
        self.metrics = Metrics()
        self.bounded_io = BoundedIO()
        self.workspace = Workspace(db, self.uuid, self.bounded_io, allow_shared=settings.allow_shared_output)
        self.weekly_check = WeeklyCheck(db)
        self.shutdown = Shutdown(self.running_jobs, settings.drain_s, ended)
        self.lifetime = IdleShutdown(db, event_stream, self.shutdown, until_idle=until_idle)
        self._make_queue(lease_us)
        self._make_admission(on_probed)
        self.wings = make_wings(self)

    def _make_queue(self, lease_us: int) -> None:
        home, settings, db, work, metrics = self.home, self.settings, self.db, self._work, self.metrics
        running_jobs, workspace, io = self.running_jobs, self.workspace, self.bounded_io
        self.forecasts = forecasts = Forecasts(db, running_jobs)
        self.retention = retention = Retention(settings, db, workspace, io, self.ages)
        reader = VolumeReader(db, workspace, io)
        self.volumes = volumes = VolumeMonitor(home, settings, db, reader, retention, work.set)
        self.load_gate = LoadGate(settings, db)
        self.schedule = Schedule(settings, db, running_jobs, work.set)
        self.ranges = ranges = Ranges(
            running_jobs, enabled=settings.divide_jobs, lease_us=lease_us, on_offer=work.set
        )
        self.recorder = Recorder(running_jobs, ranges)
        self.reports = Reports(db, running_jobs, ranges, forecasts, metrics, settings.heartbeat_s)
        self.dispatch = Dispatcher(
            home, settings, db, running_jobs, ranges, workspace, volumes, metrics, work
        )
        self.changed_sources = ChangedSources(db, io, settings.settle_s, work.set)
        self.publisher = publisher = Publisher(
            home,
            db,
            running_jobs,
            workspace,
            io,
            # The wings are made last.
            lambda folder, publication: self.wings.make_files(folder, publication),
        )
        lease_end = LeaseEnd(db, running_jobs, publisher, quarantine_after=settings.quarantine_after)
        self.completion = completion = Completion(
            settings,
            db,
            workspace,
            lease_end,
            publisher,
            forecasts,
            volumes,
            metrics,
            self._require_valid,
        )
        self.recovery = Recovery(home, settings, db, running_jobs, lease_end, completion)
        self.worker_tokens = WorkerTokens()
        self.tokens = ApiTokens(db, self.worker_tokens)
        self.pool = WorkerPool(home, db, self.worker_tokens, self.ffmpeg.path, self.recovery.lost)
        self.stuck_workers = StuckWorkers(
            settings, db, running_jobs, ranges, workspace, io, completion, self.pool
        )
        self.operations = Operations(db, running_jobs, retention)
        self.bulk_operations = BulkOperations(db, retention)
        self.undo = Undo(
            db, running_jobs, self.ages, lambda *video: self.wings.undelete(*video), self.reload_folders
        )

    def _make_admission(self, on_probed: Callable[[Sequence[ProbeResult]], None]) -> None:
        home, settings, db = self.home, self.settings, self.db
        self.prober = Prober(home, settings, db, on_probed)
        self.admission = Admission(
            home,
            settings,
            db,
            # Each of the two offers files to the other; the wings are made last.
            on_left=lambda path: self.intake.look_again(path),
            on_settled=self.prober.wake,
            is_away=self.volumes.is_away,
            restore_deleted=lambda video, actor: self.wings.restore_deleted(video, actor),
        )
        self.intake = Intake(
            default_settle_s=settings.settle_s,
            rescan_s=settings.rescan_s,
            offer=self.admission.offer_settled,
            known=self.admission.known,
            rules=partial(db.read, folders.listing),
            include_temporary_files=settings.include_temporary_files,
        )
        self.missing_sources = MissingSources(db, self.intake.look_again)

    async def reload_folders(self) -> None:
        """Watch the drop folders as they are stored now."""
        await self.intake.set_folders(await self.db.read(folders.listing))

    async def check_output(self, output_root: bytes, *, must_answer: bool = True) -> None:
        """Check that an output can be used.

        Args:
            must_answer: as of `CheckBucket`.

        Raises:
            TqError: why it cannot.
        """
        await output_check.require_usable(
            output_root, self.bounded_io, allow_shared=self.settings.allow_shared_output
        )
        if self.home.bucket_url(output_root) is not None:
            await self.wings.check_bucket(output_root, must_answer=must_answer)

    async def _require_valid(self, token: LeaseToken, manifest: Manifest) -> None:
        if await self.workspace.has_received(token):
            await self.wings.require_valid(token, manifest)
