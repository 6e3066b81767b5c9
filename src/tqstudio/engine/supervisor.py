"""Runs the queue of a supervisor: starts its parts, serves the API, and shuts them down in order.

Starts the socket first and workers last, because they need all of it. Signal handlers only set events.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import ssl
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import structlog

from tqstudio.config import STOP_MARGIN_S, Settings
from tqstudio.engine.api.events import send_snapshots, send_sources
from tqstudio.engine.api.views import event_view
from tqstudio.engine.host import (
    children,
    home_lock,
    logging_setup,
    memory,
    orphan_processes,
)
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.host.home_guard import HomeGuard
from tqstudio.engine.host.service_manager import ServiceManager
from tqstudio.engine.http import tcp
from tqstudio.engine.http.app import make_app
from tqstudio.engine.http.callers import SocketCallers, TcpCallers
from tqstudio.engine.http.server import Server, SocketServer
from tqstudio.engine.http.tcp import TcpServer
from tqstudio.engine.live.event_stream import EventStream
from tqstudio.engine.media.ffmpeg import hardware
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.media.ffmpeg.hardware import Device
from tqstudio.engine.media.ffmpeg.trial_results import Results
from tqstudio.engine.parts.maintenance import Maintenance
from tqstudio.engine.parts.services import Services
from tqstudio.engine.parts.shutdown import ShutdownMode
from tqstudio.engine.probing.prober import Prober
from tqstudio.engine.queue import shutdown_summary
from tqstudio.engine.queue.shutdown_summary import ShutdownSummary
from tqstudio.engine.queue.worker_pool import Slot, default_cpu_workers
from tqstudio.engine.standby.answers import Answers
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.library import folders, videos
from tqstudio.engine.store.machine import gates, supervisors
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.lifecycle import GateKind, JobStatus
from tqstudio.protocol import launch

_GPUS_WITHIN_S = 20.0
_LOOK_S = 1.0
"""Interval of tries to lock outputs, and of looks at the lease."""


class Replaced(Exception):
    """Another supervisor leads the queue now."""


class Supervisor:
    """A supervisor that leads its queue: `main` is its life, with the home locked and the database open."""

    def __init__(
        self,
        home: Home,
        settings: Settings,
        db: Database,
        found: FFmpeg,
        held: home_lock.HomeLock,
        manager: ServiceManager,
        *,
        until_idle: bool,
    ) -> None:
        self._home, self._settings, self._db, self._manager = home, settings, db, manager
        self._until_idle = until_idle
        self._log = structlog.get_logger()
        event_stream = EventStream(event_view)
        self.services = Services(home, settings, db, found, event_stream, until_idle=until_idle)
        children.mark(self.services.uuid, home.root)
        self._home_guard = HomeGuard(home, held, self.services.bounded_io, has_database=db.is_file)
        self._lost_home = ""
        """Why the home or the database was lost; empty while they are not."""
        self._is_replaced = False
        """Whether this supervisor stands by again, because another one leads."""
        self._source_checks: set[asyncio.Task[None]] = set()
        """Running tasks of `_look_for_sources`."""
        self._prober = Prober(home, settings, db, partial(send_sources, event_stream))
        self.services.admission.on_settled = self._prober.wake
        self._maintenance = Maintenance(self.services)

    # Life

    async def main(self) -> ShutdownSummary:
        loop = asyncio.get_running_loop()
        self._db.bind(loop)
        self._db.on_events = self._on_events
        self._db.on_lost_lead = self._on_lost_lead
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.services.shutdown.request_by_signal)
        network = tcp.listen(self._settings)
        try:
            return await self._lead(network)
        finally:
            if network is not None:
                # It may stand by, and lead again with the same port.
                network[0].close()

    async def _lead(self, network: tuple[socket.socket, ssl.SSLContext | None] | None) -> ShutdownSummary:
        """As `main`, with the listener of the settings."""
        children.become_subreaper()
        if not await self._lock_outputs():
            if self._stands_by_again:
                raise Replaced
            return await self._end()
        await self.services.recovery.begin()
        await asyncio.gather(
            # The first job finds out whether a disk is still full.
            self._db.write(lambda db: gates.reopen(db, GateKind.DISK, now=now_us(), actor="supervisor")),
            # The first status must show every worker, although their processes start later.
            self.services.pool.prepare(self._cpu_slots()),
        )
        logging_setup.know(*await self._db.read(videos.output_roots))
        await self.services.publisher.undo_leftovers()
        await self.services.forecasts.load()
        await self.services.tokens.load()
        # Before the pool starts any worker of this supervisor.
        if ended := await asyncio.to_thread(orphan_processes.end_orphans, self.services.uuid):
            self._log.warning("ended processes of an earlier supervisor", pids=ended)
        listener = self._home_guard.open_socket()
        app = make_app(self.services)
        server = SocketServer(SocketCallers(app, self.services.tokens))
        servers: list[Server] = [server]
        serving = [asyncio.create_task(server.serve(sockets=[listener]))]
        if network is not None:
            callers = TcpCallers(app, self.services.tokens, tcp.host_names(self._settings))
            network_server = TcpServer(callers, *network)
            self.services.listen = network_server.url
            await self._announce(network_server.url)
            servers.append(network_server)
            serving.append(asyncio.create_task(network_server.serve()))
        snapshots = asyncio.create_task(send_snapshots(self.services))
        guarding = asyncio.create_task(self._guard_home(server))
        watching = asyncio.create_task(self.services.lifetime.watch())
        reporting = asyncio.create_task(self._manager.watch(self._status_line))
        watches = [guarding, watching, reporting]
        if self._settings.standby:
            watches.append(asyncio.create_task(self._keep_lead()))
        buckets = [
            asyncio.create_task(each.loop.run()) for each in (self.services.deliveries, self.services.fetches)
        ]
        starting = asyncio.create_task(self._start_parts())
        for task in (snapshots, starting, *watches, *buckets):
            task.add_done_callback(self._report_failed)
        launch.leave_output(self._home)
        self._log.info("supervisor started", pid=os.getpid())
        try:
            waiting = asyncio.create_task(self._until_ended())
            # A server that ends because its socket failed ends the supervisor too.
            await asyncio.wait([waiting, *serving], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        finally:
            if not self._stands_by_again:
                # Else the process lives on; systemd would kill it after its timeout for a stop.
                self._manager.stopping()
            await self._end_parts(starting, snapshots)
            for task in (*watches, *buckets):
                task.cancel()
            for each in servers:
                each.end()
            await asyncio.gather(*serving)
            self._home_guard.close_socket()
            left = None if self._stands_by_again else await self._end()
        if left is None:
            raise Replaced
        if self._lost_home:
            raise TqError(
                ErrorCode.NOT_FOUND,
                f"the supervisor lost its home or database and shut down: {self._lost_home}",
                "start a new one with: tqstudio up",
            )
        return left

    async def _end(self) -> ShutdownSummary:
        """End the lease; return a summary of the remaining jobs."""
        left = await self._db.read(shutdown_summary.count, self.services.shutdown.worked_on)
        with contextlib.suppress(TqError):  # others wait until the lease runs out
            await self._db.write(supervisors.end, self.services.running_jobs.leases.supervisor)
        self._log.info("supervisor ended", left=left.left, begun=left.begun, paused=left.paused)
        return left

    async def _lock_outputs(self) -> bool:
        """Lock all outputs, so that no other supervisor of the same store writes there.

        One that has led until now, and was stopped, may still hold them: then wait for it. False if this one
        is asked to shut down meanwhile: then it must not touch them.

        Raises:
            TqError: OUTPUT_IN_USE.
        """
        try:
            await self._lock_all_outputs()
            return True
        except TqError as error:
            if not self._settings.standby:
                raise
            why = f"this supervisor waits for the one that has led before: {error.message}"
        self._log.warning("waiting for the supervisor that has led before", why=why)
        refusal = TqError(ErrorCode.REFUSED, why, "end that supervisor if it hangs")
        server = SocketServer(Answers(lambda: refusal, partial(self.services.shutdown.request_by_api, False)))
        serving = asyncio.create_task(server.serve(sockets=[self._home_guard.open_socket()]))
        reporting = asyncio.create_task(self._manager.watch(lambda: "waiting for outputs"))
        try:
            return await self._lock_outputs_in_time()
        finally:
            reporting.cancel()
            server.end()
            await serving
            self._home_guard.close_socket()

    async def _lock_outputs_in_time(self) -> bool:
        while True:
            self.services.recovery.clock.now_us()  # it has to be read often, see `RunningClock`
            await self.services.recovery.renew()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self.services.shutdown.requested()
                    return False
            with contextlib.suppress(TqError):
                await self._lock_all_outputs()
                return True

    async def _lock_all_outputs(self) -> None:
        async def lock_one(root: bytes) -> None:
            with contextlib.suppress(OSError):
                await self.services.bounded_io.run(root, partial(self.services.workspace.require_lock, root))

        await asyncio.gather(*map(lock_one, await self._db.read(videos.output_roots)))

    async def _guard_home(self, server: SocketServer) -> None:
        """Shut down once the home is lost: clients can no longer reach the supervisor."""
        self._give_up(await self._home_guard.watch(server.listen_on))

    def _on_lost_lead(self, why: TqError) -> None:
        if self._settings.standby:
            self._is_replaced = True
            self._log.warning("another supervisor may lead, standing by", why=why.message)
            self.services.shutdown.request(ShutdownMode.NOW)
        else:
            self._give_up(why.message)

    @property
    def _stands_by_again(self) -> bool:
        """Whether another supervisor leads now, and this process lives on."""
        return self._is_replaced and not self.services.shutdown.is_asked_for

    async def _announce(self, url: str) -> None:
        """Store where this supervisor is reached, for those that stand by."""
        address, certificate = tcp.announced(self._settings, url)
        row = self.services.running_jobs.leases.supervisor
        await self._db.write(supervisors.announce, row, url=address, certificate=certificate)

    async def _keep_lead(self) -> None:
        """Stand by again after the lease has run out, as when the database does not answer."""
        left_s = _LOOK_S
        while left_s > 0:
            await asyncio.sleep(min(left_s, _LOOK_S))
            left_s = self.services.recovery.lease_left_s
        why = f"its lease could not be renewed for {self._settings.supervisor_lease_s:g} s"
        self._on_lost_lead(TqError(ErrorCode.DATABASE_UNREACHABLE, why))

    def _give_up(self, why: str) -> None:
        self._lost_home = self._lost_home or why
        self._log.error("home or database lost, shutting down", why=self._lost_home)
        self.services.shutdown.request(ShutdownMode.NOW)

    async def _start_parts(self) -> None:
        await self.services.alerts.begin()
        self._maintenance.start()
        self._prober.start()
        finding = asyncio.create_task(asyncio.to_thread(self._find_gpus))
        # CPU workers use GPUs that only decode. One that hangs must not hold them up.
        await asyncio.wait([finding], timeout=_GPUS_WITHIN_S if self._settings.gpu_decode else 0)
        found = finding.result() if finding.done() and finding.exception() is None else []
        for slot in self._cpu_slots([device for device in found if not device.encoders]):
            self.services.pool.start(slot)
        await self.services.intake.start()
        await self.services.intake.set_folders(await self._db.read(folders.listing))
        for device in await finding:
            words = {"encoders": device.encoders, "decodes": device.decodes}
            self._log.info("gpu found", device=device.label, **words)
            if device.encoders:
                slot = Slot(device.name, "gpu", device.encoders, device.node, device.label, device.decodes)
                self.services.pool.start(slot)
        await self.services.retention.sweep_scratch()

    def _report_failed(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("a part failed", exc_info=error)

    def _find_gpus(self) -> list[Device]:
        settings = self._settings
        if not settings.uses_gpus:
            return []
        return hardware.discover(
            self.services.ffmpeg,
            decode=settings.gpu_decode,
            known=Results(self._home.gpu_trials),
            stopped=lambda: self.services.draining,
        )

    def _cpu_slots(self, decoders: Sequence[Device] = ()) -> list[Slot]:
        """The slots of the CPU workers, which share the GPUs that only decode."""
        chosen = self._settings.workers
        count = chosen or default_cpu_workers(os.cpu_count() or 1, memory.total())
        slots = [Slot(f"cpu-{index}", "cpu") for index in range(count)]
        if not decoders:
            return slots
        return [
            replace(slot, device=gpu.node, label=gpu.label, decodes=gpu.decodes)
            for slot, gpu in zip(slots, itertools.cycle(decoders), strict=False)
        ]

    async def _end_parts(self, starting: asyncio.Task[None], snapshots: asyncio.Task[None]) -> None:
        """Shut down the parts: intake, then workers, which still report, then the streams."""
        # A claim may have been in progress when the shutdown began.
        self.services.shutdown.worked_on |= set(self.services.running_jobs.jobs)
        self.services.dispatch.close()
        starting.cancel()
        await asyncio.wait([starting])
        self.services.admission.end()
        await self.services.intake.stop()
        await self._prober.stop()
        await self.services.pool.stop()
        await self.services.recovery.finish_requeues()
        self._maintenance.stop()
        await self.services.after_done.stop()
        await self.services.alerts.stop(patient=self._until_idle)
        with contextlib.suppress(TqError):  # the disk is full: the last second of progress is not stored
            await self.services.reports.save_progress(everything=True)
        snapshots.cancel()
        self.services.event_stream.stop()

    async def _until_ended(self) -> None:
        """Return when it is time to shut down; heartbeats, claims and the API are served until then."""
        await self.services.shutdown.requested()
        self.services.draining = True
        self.services.dispatch.close()
        self._manager.draining(self._settings.drain_s + STOP_MARGIN_S, self._status_line())
        await self.services.shutdown.until_due()

    def _status_line(self) -> str:
        running = len(self.services.running_jobs.jobs)
        return f"{'draining' if self.services.draining else 'ready'}, {running} running"

    # What happens

    def _on_events(self, events: list[EventRow]) -> None:
        self.services.event_stream.events(events)
        self.services.metrics.events(events)
        self.services.volumes.hint(events)
        self.services.dispatch.hint(events)
        self.services.workspace.hint(events)
        self._prober.hint(events)
        self.services.after_done.hint(events)
        self.services.deletions.hint(events)
        self.services.deliveries.hint(events)
        self.services.alerts.hint(events)
        missed = [
            event.video
            for event in events
            if event.video and (event.target, event.code) == (JobStatus.FAILED, ErrorCode.SOURCE_MISSING)
        ]
        if missed:
            task = asyncio.get_running_loop().create_task(self._look_for_sources(missed))
            self._source_checks.add(task)
            task.add_done_callback(self._source_checks.discard)

    async def _look_for_sources(self, missed: Sequence[int]) -> None:
        """Have the drop folders check for files that were missing when their jobs began."""
        for number in missed:
            video = await self._db.read(videos.get, number)
            if video is not None:
                self.services.intake.look_again(video.source)
