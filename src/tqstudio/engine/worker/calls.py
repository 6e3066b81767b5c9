"""The requests a worker makes of the supervisor, as values; bodies as `requests.py` checks them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tqstudio.protocol.calls import Call

if TYPE_CHECKING:
    from tqstudio.protocol.answers import (
        ClaimAnswer,
        HeartbeatAnswer,
        OutcomeAnswer,
        ProgressAnswer,
        RegisterAnswer,
        TestedAnswer,
    )


def register(body: dict[str, Any]) -> Call[RegisterAnswer]:
    return Call("POST", "/v1/worker/register", body=body)


def claim(instance: str, wait_s: float) -> Call[ClaimAnswer]:
    return Call("POST", "/v1/worker/claim", body={"instance": instance, "wait_s": wait_s})


def tested(instance: str, problem: str) -> Call[TestedAnswer]:
    """Args: `problem` says why the test encode failed; empty when it passed."""
    return Call("POST", "/v1/worker/tested", body={"instance": instance, "problem": problem})


def heartbeat(
    instance: str, jobs: list[tuple[int, int]], cpu_percent: float, memory_bytes: int
) -> Call[HeartbeatAnswer]:
    """Args:
    jobs: (job, epoch) of every lease that is to be renewed.
    """
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
    return Call("POST", f"/v1/worker/jobs/{job}/progress", body=body)


def end(job: int, verb: str, body: dict[str, Any]) -> Call[OutcomeAnswer]:
    """`verb` is complete, fail or release."""
    return Call("POST", f"/v1/worker/jobs/{job}/{verb}", body=body)
