"""Decides whether the supervisor takes jobs, for `/ready`, `status` and `doctor`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tqstudio.engine.assembly.services import Services
from tqstudio.lifecycle import GateKind, WorkerStatus
from tqstudio.protocol.answers import ReadyView, Reason

SILENT: Reason = {"kind": "database", "reason": "the database does not answer"}
_UNWRITABLE: Reason = {"kind": "database", "reason": "the database cannot be written"}
_DRAINING: Reason = {"kind": "draining", "reason": "the supervisor is shutting down"}
_NO_WORKER: Reason = {"kind": "workers", "reason": "no enabled worker is running"}
# Without names and paths, which the stored reasons have: callers need no token.
_CLOSED: Mapping[GateKind, str] = {
    GateKind.USER: "the queue is paused",
    GateKind.DISK: "a disk is full, missing or does not answer",
    GateKind.LOAD: "the machine is too busy",
    GateKind.HOURS: "it is outside of the hours of the queue",
}
_WORKING = {WorkerStatus.IDLE, WorkerStatus.BUSY}


def readiness(services: Services, workers: Collection[str], closed: Collection[str]) -> ReadyView:
    """Decides whether a new job would be processed now.

    Args:
        workers: the statuses of all workers.
        closed: the kinds of the closed gates.
    """
    reasons: list[Reason] = [_DRAINING] if services.draining else []
    if unwritable := services.db.refusal is not None:
        reasons.append(_UNWRITABLE)
    for kind, reason in _CLOSED.items():
        # A database that cannot be written counts as a closed gate elsewhere.
        if kind in closed and not (unwritable and kind is GateKind.DISK):
            reasons.append({"kind": kind.value, "reason": reason})
    if _WORKING.isdisjoint(workers):
        reasons.append(_NO_WORKER)
    return {"ready": not reasons, "reasons": reasons}
