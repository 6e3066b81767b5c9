"""Requeues jobs of workers that died, stopped their heartbeats, dropped the job, or ended at shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import shutil

from tqstudio.config import Settings
from tqstudio.engine.host.clock import MICROSECOND, now_us, since_boot
from tqstudio.engine.live.running_jobs import RunningJobs
from tqstudio.engine.parts.part import Part, Periodic
from tqstudio.engine.queue.completion import Completion
from tqstudio.engine.queue.lease_end import LeaseEnd
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import claims, outcomes
from tqstudio.engine.store.jobs.claims import HeldLease, LeaseToken
from tqstudio.engine.store.machine import standbys, supervisors, workers
from tqstudio.errors import ErrorCode, TqError
from tqstudio.events import EventKind
from tqstudio.home import Home, run_logs
from tqstudio.protocol.roles import Role

_PUBLISHES_WITHIN_S = 10.0
"""Longest wait at the end for publishes, whose disk may hang: the next supervisor finishes or undoes them."""


class Recovery(Part):
    """Ends the leases of workers that cannot end them. Their finished segments are kept."""

    def __init__(
        self,
        home: Home,
        settings: Settings,
        db: Database,
        running_jobs: RunningJobs,
        lease_end: LeaseEnd,
        completion: Completion,
    ) -> None:
        self._home, self._settings, self._db, self._running_jobs = home, settings, db, running_jobs
        self._lease_end, self._completion = lease_end, completion
        self.clock = running_jobs.leases.clock
        self._renewed_at = since_boot()
        """When the last renewal of the supervisor's lease was requested."""
        self._under_way: set[asyncio.Task[None]] = set()
        self._outlived: dict[str, list[LeaseToken]] = {}
        """Expired leases whose worker process still runs, by instance."""
        # Stored with the heartbeats of the workers, in one commit.
        self.every = (Periodic(settings.heartbeat_s, self.renew),)

    async def begin(self) -> None:
        """Takes over the jobs and remote workers of the supervisor before this one."""
        await self._db.write(workers.forget_processes)
        for row in await self._db.read(workers.listing):
            if row.registered_at is not None:
                self._running_jobs.record_contact(row.id)
        await self._take_over()

    async def renew(self) -> None:
        """Renews the lease of this supervisor in the database."""
        asked_at = since_boot()
        lease_us = int(self._settings.supervisor_lease_s * MICROSECOND)
        supervisor = self._running_jobs.leases.supervisor
        await self._db.write(lambda db: supervisors.renew(db, supervisor, now=db.now_us(), lease_us=lease_us))
        self._renewed_at = asked_at

    @property
    def lease_left_s(self) -> float:
        """How long no other supervisor may lead, if the lease is not renewed; counts while asleep."""
        return self._renewed_at + self._settings.supervisor_lease_s - since_boot()

    async def _take_over(self) -> None:
        """Takes over the jobs of supervisors whose lease has run out.

        Their local workers died with them, and those that this supervisor lent were ended: the jobs are
        requeued at once, without a crash. Remote workers may still run: they have `reconnect_s` for their
        next heartbeat.
        """
        lent_by = standbys.token_names(self._settings.host_name)[Role.JOIN]
        supervisor = self._running_jobs.leases.supervisor
        leases = await self._db.write(lambda db: claims.take_over(db, supervisor, now=db.now_us()))
        rows = await self._db.read(workers.listing) if leases else []
        remote = {row.id for row in rows if row.type == "remote" and row.joined_by != lent_by}
        local = [lease for lease in leases if lease.worker_id not in remote]
        for lease in leases:
            if lease.worker_id in remote:
                self._adopt(lease, grace_us=int(self._settings.reconnect_s * MICROSECOND))
        await asyncio.gather(*(self._clear_away(lease.token) for lease in local))
        why = "the supervisor ended while it was running"
        await asyncio.gather(*(self.requeue(lease, why) for lease in local))

    def _adopt(self, lease: HeldLease, *, grace_us: int | None = None) -> None:
        """Begins the lease of a job that is running already."""
        self._running_jobs.begin(
            lease.token, lease.worker, now_us(), lease.control, lease.progress, term_us=grace_us
        )

    async def lost(self, instance: str, worker: str, why: str, on_request: bool) -> None:
        """Requeues every job of a worker process that has ended.

        Args:
            on_request: whether it was asked to end; then it is no crash, even if it had just got a job.
        """
        for token in self._outlived.pop(instance, ()):
            await self._clear_away(token)
        crash = None if on_request else why
        for lease in await self._db.read(claims.of_instance, instance):
            if self._completion.is_publishing(lease.token):
                # In a task, so that the next worker process does not wait for the publish.
                task = asyncio.create_task(self._end_after_publish(lease, worker, crash))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)
            else:
                await self._end_lost(lease, worker, crash)

    async def _end_after_publish(self, lease: HeldLease, worker: str, crash: str | None) -> None:
        """As `_end_lost`; if it cannot be written, the scan requeues the job when its lease expires."""
        with contextlib.suppress(TqError):
            await self._end_lost(lease, worker, crash)

    async def _end_lost(self, lease: HeldLease, worker: str, crash: str | None) -> None:
        await self._clear_away(lease.token)
        if crash is None:
            await self.requeue(lease, "its worker was asked to end")
        else:
            await self.requeue_lost(lease, worker, crash)

    async def _clear_away(self, token: LeaseToken) -> None:
        """Removes the raw ffmpeg logs of a dead worker; the next attempt removes its scratch directory."""
        log = self._home.job_logs(token.job) / f"{token.epoch}.log"
        await asyncio.to_thread(shutil.rmtree, run_logs(log), ignore_errors=True)

    async def stop(self) -> None:
        """Waits for the tasks that `lost` started, and for publishes; not for one on a disk that hangs."""
        if running := {*self._under_way, *self._completion.publishing}:
            await asyncio.wait(running, timeout=_PUBLISHES_WITHIN_S)

    async def requeue(
        self, lease: HeldLease, why: str, event: EventKind = EventKind.REQUEUED_SUPERVISOR
    ) -> None:
        """Requeues a job without counting a failure or crash."""
        await self._completion.publish_ended(lease.token)
        await self._lease_end.end(
            lease.token,
            lambda db: outcomes.requeue(db, lease, now=now_us(), why=why, event=event),
        )

    async def requeue_lost(
        self, lease: HeldLease, worker: str, why: str, event: EventKind | None = None
    ) -> None:
        """Requeues a job of a lost worker and counts a crash."""
        # A running publish no longer needs the worker, so it is completed first.
        await self._completion.publish_ended(lease.token)
        await self._lease_end.end(
            lease.token,
            lambda db: outcomes.lose(db, lease, now=now_us(), worker=worker, why=why, event=event),
            blame=ErrorCode.WORKER_LOST,
        )

    async def scan(self) -> int:
        """Requeues jobs with expired leases and jobs that their worker dropped; returns how many.

        Checks leases only, never workers. An expired lease is not renewed any more, so nothing can change
        while its end is written.
        """
        await self._take_over()
        leases = self._running_jobs.leases
        # By the writer, whose answers come in the order of the commits: a lease that has ended by then is no
        # longer known here, one that was granted is.
        running = await self._db.write(claims.granted, self._running_jobs.leases.supervisor)
        for lease in running:
            if not leases.knows(lease.token):
                self._adopt(lease)  # its worker has never received the answer to its claim
        taken = 0
        for lease in running:
            token = lease.token
            if self._completion.is_publishing(token) or not leases.knows(token):
                continue
            if not leases.is_live(token):
                self._outlived.setdefault(token.instance, []).append(token)
                await self.requeue_lost(lease, lease.worker, "the lease expired", EventKind.REQUEUED_STALE)
            elif not leases.is_abandoned(token):
                continue
            elif leases.was_unreachable(token):
                why = "its worker could not reach the supervisor for a while"
                await self.requeue(lease, why, EventKind.REQUEUED_ABANDONED)
            else:
                await self.requeue_lost(
                    lease, lease.worker, "its worker dropped the job", EventKind.REQUEUED_ABANDONED
                )
            taken += 1
        return taken

    async def offline_workers(self) -> list[str]:
        """Marks workers from which nothing came for `offline_s` as offline; returns the names of new ones."""
        if not (found := self._running_jobs.offline_workers(self._settings.offline_s)):
            return []
        marked = await self._db.write(workers.mark_offline, found, now=now_us())
        # A heartbeat may have come while this was written.
        still = self._running_jobs.offline_workers(self._settings.offline_s)
        return [name for worker, name in marked if worker in still]
