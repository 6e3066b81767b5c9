"""The API requests of workers; `protocol/requests.py` defines their bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tqstudio.errors import UNANSWERED, UNWRITTEN, ErrorCode
from tqstudio.protocol.calls import Call

if TYPE_CHECKING:
    from tqstudio.protocol.worker_answers import (
        ClaimAnswer,
        HeartbeatAnswer,
        KeptAnswer,
        OutcomeAnswer,
        ProgressAnswer,
        RegisterAnswer,
        TestedAnswer,
        WorkerLeft,
    )

ASKED_AGAIN = UNANSWERED | UNWRITTEN | {ErrorCode.DATABASE_BUSY}
"""Codes with which a request is sent again: it was not answered, or cannot be stored for now."""


def register(body: dict[str, Any]) -> Call[RegisterAnswer]:
    """Register the worker; the answer has its settings."""
    return Call("POST", "/v1/worker/register", body=body)


def leave(instance: str) -> Call[WorkerLeft]:
    """Report the end of the process."""
    return Call("POST", "/v1/worker/leave", body={"instance": instance})


def kept(instance: str, videos: list[int]) -> Call[KeptAnswer]:
    """Ask which of these videos, whose files the worker keeps, have an open job."""
    return Call("POST", "/v1/worker/kept", body={"instance": instance, "videos": videos})


def claim(instance: str, wait_s: float, ranges: dict[str, Any] | None = None) -> Call[ClaimAnswer]:
    """Claim a job, or a range that `requests.RangeAbility` allows, waiting up to `wait_s` seconds for one."""
    body = {"instance": instance, "wait_s": wait_s, **({"ranges": ranges} if ranges else {})}
    return Call("POST", "/v1/worker/claim", body=body)


def tested(instance: str, problem: str) -> Call[TestedAnswer]:
    """Report a test encode: the reason of its failure, or an empty string."""
    return Call("POST", "/v1/worker/tested", body={"instance": instance, "problem": problem})


def heartbeat(
    instance: str, jobs: list[tuple[int, int]], cpu_percent: float, memory_bytes: int
) -> Call[HeartbeatAnswer]:
    """Renew the leases of these jobs, each given with its epoch."""
    return Call(
        "POST",
        "/v1/worker/heartbeat",
        body={
            "instance": instance,
            "jobs": [{"job": job, "epoch": epoch} for job, epoch in jobs],
            "cpu_percent": cpu_percent,
            "memory_bytes": memory_bytes,
        },
    )


def progress(job: int, body: dict[str, Any]) -> Call[ProgressAnswer]:
    """Report the progress of a job."""
    return Call("POST", f"/v1/worker/jobs/{job}/progress", body=body)


def end(job: int, verb: str, body: dict[str, Any]) -> Call[OutcomeAnswer]:
    """Report the outcome of a job; `verb` is complete, fail, release or range."""
    return Call("POST", f"/v1/worker/jobs/{job}/{verb}", body=body)
