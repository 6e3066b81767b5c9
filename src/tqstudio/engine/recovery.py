"""Takes jobs back from workers that died, fell silent, or ended with their supervisor."""

from __future__ import annotations

from tqstudio.engine.endings import Endings
from tqstudio.engine.results import Results
from tqstudio.engine.scheduling import now_us
from tqstudio.engine.store import claims, outcomes, workers
from tqstudio.engine.store.claims import Lease
from tqstudio.engine.store.database import Database
from tqstudio.engine.workspace import Workspace
from tqstudio.lifecycle import Control


class Recovery:
    """Ends the leases of workers that cannot do it themselves. What they finished stays on disk."""

    def __init__(self, db: Database, endings: Endings, results: Results, workspace: Workspace) -> None:
        self._db, self._endings, self._results, self._workspace = db, endings, results, workspace

    async def lost(self, instance: str, worker: str, why: str, told_to_end: bool) -> None:
        """Take back every job that this life of a worker held.

        A worker that was told to end, and had been handed a job at that moment, is no crash.
        """
        for lease in await self._db.read(claims.of_instance, instance):
            if told_to_end:
                await self.requeue(lease, "the supervisor ended")
            else:
                await self.take_back(lease, worker, why)

    async def requeue(self, lease: Lease, why: str) -> None:
        """Take back a job whose worker ended with its supervisor: nobody's fault, so nothing is counted."""
        await self._results.publish_ended(lease.token)
        if lease.control is Control.RESTART:
            await self._workspace.forget(lease.job)
        await self._endings.end(lease.token, lambda db: outcomes.requeue(db, lease, now=now_us(), why=why))

    async def take_back(self, lease: Lease, worker: str, why: str, event: str | None = None) -> None:
        """Take back a job from a worker that is lost; that is counted as a crash."""
        # The worker may have done its part; the supervisor finishes the publish without it.
        await self._results.publish_ended(lease.token)
        await self._endings.end(
            lease.token,
            lambda db: outcomes.lose(db, lease, now=now_us(), worker=worker, why=why, event=event),
        )

    async def scan(self) -> int:
        """Take back the jobs whose lease has run out; looks at nothing but the lease."""
        overdue = await self._db.read(lambda db: claims.expired(db, now=now_us()))
        for lease in overdue:
            row = await self._db.read(workers.by_id, lease.worker_id)
            name = row.name if row else "?"
            await self.take_back(lease, name, "the lease ran out", event="requeued:stale")
        return len(overdue)
