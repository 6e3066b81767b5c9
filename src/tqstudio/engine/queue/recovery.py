"""Takes jobs back from workers that died, fell silent, dropped them, or ended with their supervisor."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Sequence

import structlog

from tqstudio.config import Settings
from tqstudio.engine.host.clock import (
    MICROSECOND,
    WALL,
    Drift,
    SteadyClock,
)
from tqstudio.engine.live.leases import Renewal, store_renewals
from tqstudio.engine.live.running_jobs import LiveBoard
from tqstudio.engine.queue.completion import Results
from tqstudio.engine.queue.lease_end import LeaseEnd
from tqstudio.engine.retry import (
    longest_wait_s,
)
from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import claims, jobs, outcomes
from tqstudio.engine.store.jobs.claims import HeldLease, Token
from tqstudio.engine.store.machine import workers
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home, run_logs

_LEAST_PATIENCE_S = 1.5


class Recovery:
    """Ends the leases of workers that cannot do it themselves. What they finished stays on disk.

    Args:
        clock: the one that all leases are measured by.
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
        """Leases that ran out while their worker's process went on, by its instance."""
        self._was_set_back = False
        """The clock goes on from an earlier time, and the database has the leases of the later one."""
        self._log = structlog.get_logger()

    async def begin(self) -> None:
        """Settle what an earlier supervisor left; the lock proves that it is gone.

        Its own workers died with it: their jobs go again at once, and nothing is counted. Remote workers may
        live on: they have `grace_s` to be heard.
        """
        # A longer silence than this is the supervisor's own, or the database's; beats and patience together
        # fit into a lease.
        patience_us = int(max(_LEAST_PATIENCE_S, self._settings.lease_s / 4) * MICROSECOND)
        self._clock.watch(patience_us)
        self._db.watch(patience_us, self._after_hang)
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

    async def lost(self, instance: str, worker: str, why: str, told_to_end: bool) -> None:
        """Take back every job that this life of a worker held: its process has ended.

        A worker that was told to end, and had been handed a job at that moment, is no crash.
        """
        for token in self._outlived.pop(instance, ()):
            await self._clear_away(token)
        crash = None if told_to_end else why
        for lease in await self._db.read(claims.of_instance, instance):
            if self._results.is_publishing(lease.token):
                # It waits for the publish; the worker's successor need not.
                task = asyncio.create_task(self._end_behind_publish(lease, worker, crash))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)
            else:
                await self._end_lost(lease, worker, crash)

    async def _end_behind_publish(self, lease: HeldLease, worker: str, crash: str | None) -> None:
        """As `_end_lost`; where it cannot be written the scan takes the job back when its lease runs out."""
        with contextlib.suppress(TqError):
            await self._end_lost(lease, worker, crash)

    async def _end_lost(self, lease: HeldLease, worker: str, crash: str | None) -> None:
        await self._clear_away(lease.token)
        if crash is None:
            await self.requeue(lease, "the supervisor ended")
        else:
            await self.take_back(lease, worker, crash)

    async def _clear_away(self, token: Token) -> None:
        """Remove what a dead worker's ffmpegs were saying; its scratch directory goes with the next."""
        log = self._home.job_logs(token.job) / f"{token.epoch}.log"
        await asyncio.to_thread(shutil.rmtree, run_logs(log), ignore_errors=True)

    async def settled(self) -> None:
        """Wait for what `lost` left to be done behind a publish."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def requeue(self, lease: HeldLease, why: str, event: str = "requeued:supervisor") -> None:
        """Take back a job that is not run any more through nobody's fault: nothing is counted."""
        await self._results.publish_ended(lease.token)
        await self._endings.end(
            lease.token,
            lambda db: outcomes.requeue(db, lease, now=self._clock.now_us(), why=why, event=event),
        )

    async def take_back(
        self, lease: HeldLease, worker: str, why: str, event: str | None = None, *, only_expired: bool = False
    ) -> bool:
        """Take back a job from a worker that is lost; that is counted as a crash.

        Args:
            only_expired: not when a heartbeat has renewed the lease meanwhile.
        """
        # The worker may have done its part; the supervisor finishes the publish without it.
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
        """Take back the jobs whose lease ran out, and those that their worker dropped; answers how many.

        Looks at leases alone, never at workers. All beats must have been flushed before; one that has come
        since, while the database was slow, counts too, and is stored with the next.
        """
        overdue = await self._db.read(lambda db: claims.expired(db, now=self._clock.now_us()))
        names = {row.id: row.name for row in await self._db.read(workers.listing)} if overdue else {}
        taken = 0
        for lease in overdue:
            heard = self._board.leases.renewal_of(lease.token) is not None
            if heard or self._results.is_publishing(lease.token):
                continue
            self._outlived.setdefault(lease.instance, []).append(lease.token)
            taken += await self.take_back(
                lease,
                names.get(lease.worker_id, "?"),
                "the lease ran out",
                "requeued:stale",
                only_expired=True,
            )
        return taken + await self._take_abandoned()

    async def _take_abandoned(self) -> int:
        """Jobs that a living worker no longer names. It says so by its beats; nothing waits for the lease."""
        dropped = self._board.leases.abandoned(self._clock.now_us())
        for abandoned in dropped:
            token = abandoned.token
            live = self._board.jobs.get(token.job)
            lease = await self._db.read(claims.live, token, now=self._clock.now_us())
            if lease is None or self._results.is_publishing(token):
                continue
            if abandoned.excused:
                why = "its worker could not reach the supervisor for a while"
                await self.requeue(lease, why, "requeued:abandoned")
            else:
                name = live.worker if live else "?"
                await self.take_back(lease, name, "its worker dropped the job", "requeued:abandoned")
        return len(dropped)

    async def silent_workers(self) -> list[str]:
        """Take note of workers that have not been heard for `offline_s`; the names of those that are new.

        All beats must have been flushed before: a beat that comes in between wins.
        """
        now = self._clock.now_us()
        before = now - int(self._settings.offline_s * MICROSECOND)
        silent = await self._db.write(lambda db: workers.find_silent(db, before=before, now=now))
        beats = self._board.beats
        return [name for worker, name in silent if worker not in beats or beats[worker].at <= before]

    async def keep_time(self) -> None:
        """Catch up with the wall clock when it was set, or nobody looked at it for a while.

        Nobody could be heard in that time, or the expiries are meaningless by the clock as it is now: every
        lease that was live gets a whole term, once.
        """
        drift = self._clock.drift()
        if not drift.noticeable:
            return
        # Behind a hang of the database, if there is one: it knows again then which leases are live.
        await self._db.write(self._stay_expired, drift, self._board.leases.renewals())
        if drift.total_us < 0:
            # In this order no lease looks expired in between; forward it is the other way round.
            self._go_on(drift)
            self._was_set_back = True
            try:
                await self._db.write(self._begin_anew, drift, ahead_us=0)
            finally:
                self._was_set_back = False
        else:
            await self._db.write(self._begin_anew, drift, ahead_us=drift.total_us)
            self._go_on(drift)

    def _go_on(self, drift: Drift) -> None:
        """From where the wall clock is, and with every lease: no beat is heard between the two."""
        before = self._clock.now_us()
        self._clock.catch_up(drift)
        self._board.leases.begin_anew(before + drift.total_us, before)

    def _stay_expired(self, db: Connection, drift: Drift, heard: Sequence[Renewal]) -> None:
        store_renewals(db, heard, int(self._settings.lease_s * MICROSECOND))
        before = self._clock.now_us()
        claims.stay_expired(db, now=before + drift.total_us, before=before)

    def _begin_anew(self, db: Connection, drift: Drift, *, ahead_us: int) -> None:
        # By the clock as it is when the turn has come; what was claimed meanwhile was so by the same.
        before = self._clock.now_us()
        jobs.shift_backoff(db, drift.set_us)
        self._extend_all(db, _why(drift), before=before, now=before + ahead_us)

    def _after_hang(self, db: Connection, waited_us: int) -> None:
        """Beats were heard and renewed leases, and the database could not be told: it knows them as run out.

        Every lease that was live when the hang began gets a whole term. One whose worker fell silent since
        then runs out a term later than it would have.
        """
        if self._was_set_back:
            return  # by this clock they are live, all of them, until they begin anew in a moment
        now = self._clock.now_us()
        why = f"the database did not answer for {waited_us / MICROSECOND:.1f} s"
        self._extend_all(db, why, before=now - waited_us, now=now)

    def _extend_all(self, db: Connection, why: str, *, before: int, now: int) -> None:
        lease_us = int(self._settings.lease_s * MICROSECOND)
        running = claims.begin_anew(db, now=now, before=before, lease_us=lease_us)
        workers.hear_all(db, now=now)
        detail = f"{why}; leases of running jobs: {running}"
        events.append(db, "leases_extended", now=now, actor="supervisor", detail=detail)
        self._log.warning("leases extended", why=why, running=running)


def _why(drift: Drift) -> str:
    seconds = drift.set_us / MICROSECOND
    was_set = f"the clock was set {'forward' if seconds > 0 else 'back'} by {abs(seconds):.1f} s"
    if not drift.missed_us:
        return was_set
    stopped = f"the supervisor or the machine was stopped for {drift.missed_us / MICROSECOND:.1f} s"
    return f"{stopped}, and {was_set}" if abs(drift.set_us) > MICROSECOND else stopped
