"""Leads the queue: starts the parts of a supervisor, waits until it is to end, and stops them in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from functools import partial

import structlog

from tqstudio.config import STOP_MARGIN_S, Settings
from tqstudio.engine.api.events import send_snapshots, send_sources
from tqstudio.engine.api.views import event_view
from tqstudio.engine.assembly.lead import Lead
from tqstudio.engine.assembly.maintenance import Maintenance
from tqstudio.engine.assembly.services import Services
from tqstudio.engine.assembly.workers import LocalWorkers, cpu_slots
from tqstudio.engine.host import children, home_lock, logging_setup, orphan_processes
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.host.home_guard import HomeGuard
from tqstudio.engine.host.service_manager import ServiceManager
from tqstudio.engine.http import tcp
from tqstudio.engine.http.doors import Doors
from tqstudio.engine.live.event_stream import EventStream
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.parts.part import Background, Parts
from tqstudio.engine.parts.scheduler import Timetable
from tqstudio.engine.queue import shutdown_summary
from tqstudio.engine.queue.shutdown_summary import ShutdownSummary
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.library import videos
from tqstudio.engine.store.machine import gates, supervisors
from tqstudio.engine.wings import ROUTERS, wings_of
from tqstudio.errors import TqError
from tqstudio.home import Home
from tqstudio.lifecycle import GateKind
from tqstudio.protocol import launch
from tqstudio.wings.standby.output_locks import OutputLocks


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
        self._log = structlog.get_logger()
        stream = EventStream(event_view)
        on_probed = partial(send_sources, stream)
        self.services = Services(
            home, settings, db, found, stream, on_probed, wings_of, until_idle=until_idle
        )
        children.mark(self.services.uuid, home.root)
        self._home_guard = HomeGuard(home, held, self.services.bounded_io, has_database=db.is_file)
        self._lead = Lead(settings, self.services.shutdown, lambda: self.services.recovery.lease_left_s)

    async def main(self) -> ShutdownSummary:
        """Lead until it is time to end; return a summary of the remaining jobs.

        Raises:
            Replaced: another supervisor leads.
            TqError: NOT_FOUND, the home or database was lost; or why it could not start.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.services.shutdown.request_by_signal)
        network = tcp.listen(self._settings)
        try:
            doors = Doors(self.services, ROUTERS, self._home_guard, network)
            parts = self._parts(doors)
            self._db.bind(parts.on_events, self._lead.lose)
            children.become_subreaper()
            if await OutputLocks(self.services, self._home_guard, self._manager).acquire():
                await self._prepare()
                await self._run(parts, doors)
            if self._lead.stands_by_again:
                raise Replaced
            left = await self._end()
        finally:
            if network is not None:
                # It may stand by, and lead again with the same port.
                network[0].close()
        self._lead.require()
        return left

    def _parts(self, doors: Doors) -> Parts:
        """What a supervisor does, in the order in which it starts."""
        s = self.services
        parts = Parts(
            s.metrics,
            s.reports,
            s.recorder,
            s.recovery,
            s.workspace,
            s.volumes,
            s.dispatch,
            doors,
            s.event_stream,
            Background(partial(send_snapshots, s)),
            Background(lambda: self._lead.watch_home(partial(self._home_guard.watch, doors.local.listen_on))),
            *([Background(self._lead.watch_lease)] if self._settings.standby else []),
            Background(s.lifetime.watch),
            Background(partial(self._manager.watch, self._status_line)),
            *s.wings.parts,
            s.load_gate,
            s.schedule,
            s.stuck_workers,
            s.changed_sources,
            s.publisher,
            Maintenance(s),
            Timetable(self._db, lambda: parts.periodic(), s.recovery.clock),
            LocalWorkers(s),
            s.prober,
            s.missing_sources,
            s.intake,
            s.admission,
            s.retention,
            Background(s.retention.sweep_scratch),  # a disk that fails here must not end the supervisor
        )
        return parts

    async def _prepare(self) -> None:
        """Take over what earlier supervisors have left, so that the first answers are right."""
        await self.services.recovery.begin()
        await asyncio.gather(
            # The first job finds out whether a disk is still full.
            self._db.write(lambda db: gates.reopen(db, GateKind.DISK, now=now_us(), actor="supervisor")),
            # The first status must show every worker, although their processes start later.
            self.services.pool.prepare(cpu_slots(self._settings)),
        )
        logging_setup.know(*await self._db.read(videos.output_roots))
        await self.services.publisher.undo_leftovers()
        await self.services.forecasts.load()
        await self.services.tokens.load()
        # Before the pool starts any worker of this supervisor.
        if ended := await asyncio.to_thread(orphan_processes.end_orphans, self.services.uuid):
            self._log.warning("ended processes of an earlier supervisor", pids=ended)

    async def _run(self, parts: Parts, doors: Doors) -> None:
        """Run the parts until it is time to end."""
        starting = asyncio.create_task(self._start(parts))
        ends = [asyncio.create_task(each) for each in (self._until_ended(), doors.until_broken())]
        try:
            await asyncio.wait([starting, *ends], return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                await starting
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (starting, *ends):
                task.cancel()
            await asyncio.wait([starting, *ends])
            if not self._lead.stands_by_again:
                # Else the process lives on; systemd would kill it after its timeout for a stop.
                self._manager.stopping()
            # A claim may have been in progress when the shutdown began.
            self.services.shutdown.worked_on |= set(self.services.running_jobs.jobs)
            self.services.dispatch.close()
            await parts.stop()

    async def _start(self, parts: Parts) -> None:
        await parts.start()
        launch.leave_output(self._home)
        self._log.info("supervisor started", pid=os.getpid())

    async def _until_ended(self) -> None:
        """Return when it is time to shut down; heartbeats, claims and the API are served until then."""
        await self.services.shutdown.requested()
        self.services.draining = True
        self.services.dispatch.close()
        self._manager.draining(self._settings.drain_s + STOP_MARGIN_S, self._status_line())
        await self.services.shutdown.until_due()

    async def _end(self) -> ShutdownSummary:
        """End the lease; return a summary of the remaining jobs."""
        left = await self._db.read(shutdown_summary.count, self.services.shutdown.worked_on)
        with contextlib.suppress(TqError):  # others wait until the lease runs out
            await self._db.write(supervisors.end, self.services.running_jobs.leases.supervisor)
        self._log.info("supervisor ended", left=left.left, begun=left.begun, paused=left.paused)
        return left

    def _status_line(self) -> str:
        running = len(self.services.running_jobs.jobs)
        return f"{'draining' if self.services.draining else 'ready'}, {running} running"
