"""The queue as a whole: paused, let go on, its failures retried, its ended jobs taken off the list."""

from __future__ import annotations

from fastapi import APIRouter

from tqstudio.engine.api.dependencies import TheStudio
from tqstudio.engine.api.views import gate_view
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.machine import gates
from tqstudio.engine.store.machine.gates import GateRow
from tqstudio.lifecycle import PAUSED_WITHOUT_REASON, GateKind
from tqstudio.protocol.answers import ClearAnswer, GateView, RetryAnswer
from tqstudio.protocol.requests import QueueClear, QueuePause, QueueRetry

router = APIRouter(prefix="/queue")


@router.post("/pause")
async def pause(studio: TheStudio, request: QueuePause) -> GateView:
    """Hand out no more jobs; running ones go on and no job changes."""
    reason = request.reason or PAUSED_WITHOUT_REASON
    return gate_view(await studio.db.write(_shut_for_user, reason))


def _shut_for_user(db: Connection, reason: str) -> GateRow:
    gates.shut(db, GateKind.USER, reason, now=now_us(), actor="user")
    # In the same transaction: a resume may follow at once.
    return next(gate for gate in gates.listing(db) if gate.kind is GateKind.USER)


@router.post("/resume")
async def resume(studio: TheStudio) -> dict[str, bool]:
    opened = await studio.db.write(lambda db: gates.reopen(db, GateKind.USER, now=now_us(), actor="user"))
    return {"resumed": opened}


@router.post("/retry")
async def retry(studio: TheStudio, request: QueueRetry) -> RetryAnswer:
    """Let every failed job go again, of a batch or of all."""
    return await studio.all_jobs.retry_failed(request.batch)


@router.post("/clear")
async def clear(studio: TheStudio, request: QueueClear) -> ClearAnswer:
    """Take every ended job off the list, and on request forget the history."""
    deleted, removed = await studio.all_jobs.clear_ended()
    pruned = await studio.all_jobs.forget_history() if request.history else 0
    return {"deleted": deleted, "removed_segments": removed, "pruned": pruned}
