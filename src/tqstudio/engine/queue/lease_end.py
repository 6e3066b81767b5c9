"""Ends leases: stores the last report, the outcome and the renditions in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from tqstudio.engine.host.clock import now_us
from tqstudio.engine.live.running_jobs import LiveJob, RunningJobs
from tqstudio.engine.outputs.publisher import Publisher
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import progress
from tqstudio.engine.store.jobs.claims import LeaseToken
from tqstudio.engine.store.jobs.transitions import job_facts
from tqstudio.engine.store.machine import quarantine
from tqstudio.errors import ErrorCode
from tqstudio.lifecycle import Control, JobStatus, RenditionStatus

End = Callable[[Connection], JobStatus | None]
"""Ends a lease in the store; returns the job's status, None if the lease had ended before."""


class _Unsettled(Exception):
    """This lease has an unfinished publish, which has to be settled before the lease can end."""


class LeaseEnd:
    """Ends leases.

    Args:
        quarantine_after: different jobs failed in a row after which a worker must pass a test encode; 0:
            never.
    """

    def __init__(
        self, db: Database, running_jobs: RunningJobs, publisher: Publisher, *, quarantine_after: int
    ) -> None:
        self._db, self._running_jobs, self._publisher = db, running_jobs, publisher
        self.leases = running_jobs.leases
        self._quarantine_after = quarantine_after

    async def end(
        self,
        token: LeaseToken,
        how: End,
        steps: Mapping[str, float] | None = None,
        *,
        blame: ErrorCode | None = None,
    ) -> JobStatus | None:
        """Ends a lease; None if it had ended before.

        Args:
            steps: seconds spent in each step, where the last report does not contain them.
            blame: the error of the worker, if it failed.
        """
        end = partial(self._end, token=token, steps=dict(steps or {}), how=how, blame=blame)
        try:
            answer = await self._db.write(end, settled=False)
        except _Unsettled:
            if await self._publisher.finish_or_undo(token):
                return None
            answer = await self._db.write(end, settled=True)
        held = self._running_jobs.jobs.get(token.job)
        if answer is not None and held is not None and held.token == token:
            self._running_jobs.end(token.job)
        return answer

    def _end(
        self,
        db: Connection,
        *,
        token: LeaseToken,
        steps: dict[str, float],
        how: End,
        blame: ErrorCode | None,
        settled: bool,
    ) -> JobStatus | None:
        before = job_facts(db, token.job)
        if not settled and before is not None and before.publishes and before.is_held_by(token):
            raise _Unsettled
        self.save_last(db, token, steps)
        answer = how(db)
        if answer is None:
            return None
        if blame is not None and (before is None or before.control is Control.NONE):
            after = self._quarantine_after
            quarantine.failed(db, token.job, token.epoch, blame, after=after, now=now_us())
        if before is not None and before.control is Control.RESTART:
            progress.reset_renditions(db, token.job)
        else:
            left = RenditionStatus.FAILED if answer is JobStatus.FAILED else RenditionStatus.PENDING
            progress.settle_renditions(db, token.job, running_becomes=left, now=now_us())
        return answer

    def save_last(self, db: Connection, token: LeaseToken, steps: dict[str, float]) -> None:
        """Stores the last report."""
        live = self._running_jobs.jobs.get(token.job)
        if live is None or live.token != token:
            live = LiveJob(token, "", at=now_us())
        if live.step is None and not steps:
            return  # it ended before its first report
        last = replace(live, steps={**live.steps, **steps})
        progress.save(db, token, last, at=live.moved_at)
