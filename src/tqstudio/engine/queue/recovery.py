"""Requeues jobs of workers that died, stopped their heartbeats, dropped the job, or ended at shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Sequence

import structlog

from tqstudio.config import Settings
from tqstudio.engine.host.clock import MICROSECOND, WALL, Drift, SteadyClock
from tqstudio.engine.live.leases import Renewal, store_renewals
from tqstudio.engine.live.running_jobs import LiveBoard
from tqstudio.engine.queue.completion import Results
from tqstudio.engine.queue.lease_end import LeaseEnd
from tqstudio.engine.retry import longest_wait_s
from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import claims, jobs, outcomes
from tqstudio.engine.store.jobs.claims import HeldLease, Token
from tqstudio.engine.store.machine import workers
from tqstudio.errors import ErrorCode, TqError
from tqstudio.events import EventKind
from tqstudio.home import Home, run_logs

_MIN_HANG_S = 1.5


class Recovery:
    """Ends the leases of workers that cannot end them. Their finished segments are kept.

    Args:
        clock: the clock of all leases.
    """

    def __init__(
        self,
        home: Home,
        settings: Settings,
        db: Database,
        board: LiveBoard,
        endings: LeaseEnd,
        results: Results,
        clock: SteadyClock = WALL,
    ) -> None:
        self._home, self._settings, self._db, self._board = home, settings, db, board
        self._endings, self._results = endings, results
        self._clock = clock
        self._under_way: set[asyncio.Task[None]] = set()
        self._outlived: dict[str, list[Token]] = {}
        """Expired leases whose worker process still runs, by instance."""
        self._was_set_back = False
        """Whether the clock was set back while the database still has leases by the old time."""
        self._log = structlog.get_logger()

    async def begin(self) -> None:
        """Recovers the jobs of an earlier supervisor; the lock proves that it has ended.

        Its local workers died with it: their jobs are requeued at once, without a crash. Remote workers
        may still run: they have `grace_s` for their next heartbeat.
        """
        # A longer gap counts as a hang of the supervisor or the database. Heartbeat interval and gap together
        # are shorter than a lease.
        hang_us = int(max(_MIN_HANG_S, self._settings.lease_s / 4) * MICROSECOND)
        self._clock.watch(hang_us)
        self._db.watch(hang_us, self._after_hang)
        await self._db.write(self._grant_grace)
        now = self._clock.now_us()
        leases = await self._db.read(claims.running)
        remote = {row.id: row for row in await self._db.read(workers.listing) if row.type == "remote"}
        for lease in leases:
            if lease.worker_id in remote:
                name = remote[lease.worker_id].name
                self._board.begin(lease.token, name, now, lease.lease_expires_at, stored=lease.progress)
        why = "the supervisor ended while it was running"
        local = [lease for lease in leases if lease.worker_id not in remote]
        await asyncio.gather(*(self._clear_away(lease.token) for lease in local))
        await asyncio.gather(*(self.requeue(lease, why) for lease in local))

    def _grant_grace(self, db: Connection) -> None:
        now = self._clock.now_us()
        workers.forget_processes(db, now=now)
        longest_us = int(longest_wait_s(self._settings.backoff_max_s) * MICROSECOND)
        jobs.bound_backoff(db, now=now, longest_us=longest_us)
        claims.grant(db, now=now, grace_us=int(self._settings.grace_s * MICROSECOND))

    async def lost(self, instance: str, worker: str, why: str, on_request: bool) -> None:
        """Requeues every job of a worker process that has ended.

        Args:
            on_request: whether it was asked to end; then it is no crash, even if it had just got a job.
        """
        for token in self._outlived.pop(instance, ()):
            await self._clear_away(token)
        crash = None if on_request else why
        for lease in await self._db.read(claims.of_instance, instance):
            if self._results.is_publishing(lease.token):
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
            await self.requeue(lease, "the supervisor ended")
        else:
            await self.requeue_lost(lease, worker, crash)

    async def _clear_away(self, token: Token) -> None:
        """Removes the raw ffmpeg logs of a dead worker; the next attempt removes its scratch directory."""
        log = self._home.job_logs(token.job) / f"{token.epoch}.log"
        await asyncio.to_thread(shutil.rmtree, run_logs(log), ignore_errors=True)

    async def settled(self) -> None:
        """Waits for the tasks that `lost` started."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def requeue(
        self, lease: HeldLease, why: str, event: EventKind = EventKind.REQUEUED_SUPERVISOR
    ) -> None:
        """Requeues a job without counting a failure or crash."""
        await self._results.publish_ended(lease.token)
        await self._endings.end(
            lease.token,
            lambda db: outcomes.requeue(db, lease, now=self._clock.now_us(), why=why, event=event),
        )

    async def requeue_lost(
        self,
        lease: HeldLease,
        worker: str,
        why: str,
        event: EventKind | None = None,
        *,
        only_expired: bool = False,
    ) -> bool:
        """Requeues a job of a lost worker and counts a crash.

        Args:
            only_expired: not if a heartbeat has renewed the lease meanwhile.
        """
        # A running publish no longer needs the worker, so it is completed first.
        await self._results.publish_ended(lease.token)
        ended = await self._endings.end(
            lease.token,
            lambda db: outcomes.lose(
                db,
                lease,
                now=self._clock.now_us(),
                worker=worker,
                why=why,
                event=event,
                only_expired=only_expired,
            ),
            blame=ErrorCode.WORKER_LOST,
        )
        return ended is not None

    async def scan(self) -> int:
        """Requeues jobs with expired leases and jobs that their worker dropped; returns how many.

        Checks leases only, never workers. All heartbeats must have been flushed before; later ones count too
        and are stored with the next flush.
        """
        overdue = await self._db.read(lambda db: claims.expired(db, now=self._clock.now_us()))
        names = {row.id: row.name for row in await self._db.read(workers.listing)} if overdue else {}
        taken = 0
        for lease in overdue:
            heard = self._board.leases.renewal_of(lease.token) is not None
            if heard or self._results.is_publishing(lease.token):
                continue
            self._outlived.setdefault(lease.instance, []).append(lease.token)
            taken += await self.requeue_lost(
                lease,
                names.get(lease.worker_id, "?"),
                "the lease expired",
                EventKind.REQUEUED_STALE,
                only_expired=True,
            )
        return taken + await self._take_abandoned()

    async def _take_abandoned(self) -> int:
        """Requeues jobs that a running worker no longer names in its heartbeats, before the lease expires."""
        dropped = self._board.leases.abandoned(self._clock.now_us())
        for abandoned in dropped:
            token = abandoned.token
            live = self._board.jobs.get(token.job)
            lease = await self._db.read(claims.live, token, now=self._clock.now_us())
            if lease is None or self._results.is_publishing(token):
                continue
            if abandoned.excused:
                why = "its worker could not reach the supervisor for a while"
                await self.requeue(lease, why, EventKind.REQUEUED_ABANDONED)
            else:
                name = live.worker if live else "?"
                await self.requeue_lost(
                    lease, name, "its worker dropped the job", EventKind.REQUEUED_ABANDONED
                )
        return len(dropped)

    async def silent_workers(self) -> list[str]:
        """Marks workers without a heartbeat for `offline_s` as silent; returns the names of new ones.

        All heartbeats must have been flushed before; one that arrives meanwhile wins.
        """
        now = self._clock.now_us()
        before = now - int(self._settings.offline_s * MICROSECOND)
        silent = await self._db.write(lambda db: workers.find_silent(db, before=before, now=now))
        heartbeats = self._board.heartbeats
        return [
            name for worker, name in silent if worker not in heartbeats or heartbeats[worker].at <= before
        ]

    async def keep_time(self) -> None:
        """Renews all live leases after the wall clock was set, or this process was suspended.

        No heartbeat could arrive in that time, or the expiry times no longer fit the clock: every lease that
        was live gets a full term, once.
        """
        drift = self._clock.drift()
        if not drift.noticeable:
            return
        # Waits for the end of a database hang, after which the stored leases are up to date again.
        await self._db.write(self._keep_expired, drift, self._board.leases.renewals())
        if drift.total_us < 0:
            # In this order no lease looks expired in between; for a clock set forward it is the opposite.
            self._catch_up(drift)
            self._was_set_back = True
            try:
                await self._db.write(self._renew_live, drift, ahead_us=0)
            finally:
                self._was_set_back = False
        else:
            await self._db.write(self._renew_live, drift, ahead_us=drift.total_us)
            self._catch_up(drift)

    def _catch_up(self, drift: Drift) -> None:
        """Moves clock and leases to the wall clock without awaiting: no heartbeat arrives in between."""
        before = self._clock.now_us()
        self._clock.catch_up(drift)
        self._board.leases.renew_live(before + drift.total_us, before)

    def _keep_expired(self, db: Connection, drift: Drift, heard: Sequence[Renewal]) -> None:
        store_renewals(db, heard, int(self._settings.lease_s * MICROSECOND))
        before = self._clock.now_us()
        claims.keep_expired(db, now=before + drift.total_us, before=before)

    def _renew_live(self, db: Connection, drift: Drift, *, ahead_us: int) -> None:
        # Read the clock inside the transaction, as claims do.
        before = self._clock.now_us()
        jobs.shift_backoff(db, drift.set_us)
        self._extend_all(db, _why(drift), before=before, now=before + ahead_us)

    def _after_hang(self, db: Connection, waited_us: int) -> None:
        """Renews the leases that expired in the database only because it could not store heartbeats.

        Every lease that was live when the hang began gets a full term, even if its worker has stopped since.
        """
        if self._was_set_back:
            return  # by this clock all are live; `keep_time` renews them next
        now = self._clock.now_us()
        why = f"the database did not respond for {waited_us / MICROSECOND:.1f} s"
        self._extend_all(db, why, before=now - waited_us, now=now)

    def _extend_all(self, db: Connection, why: str, *, before: int, now: int) -> None:
        lease_us = int(self._settings.lease_s * MICROSECOND)
        running = claims.renew_live(db, now=now, before=before, lease_us=lease_us)
        workers.touch_all(db, now=now)
        detail = f"{why}; leases of running jobs: {running}"
        events.append(db, EventKind.LEASES_EXTENDED, now=now, actor="supervisor", detail=detail)
        self._log.warning("leases extended", why=why, running=running)


def _why(drift: Drift) -> str:
    seconds = drift.set_us / MICROSECOND
    was_set = f"the clock was set {'forward' if seconds > 0 else 'back'} by {abs(seconds):.1f} s"
    if not drift.missed_us:
        return was_set
    stopped = f"the supervisor or the machine was stopped for {drift.missed_us / MICROSECOND:.1f} s"
    return f"{stopped}, and {was_set}" if abs(drift.set_us) > MICROSECOND else stopped
