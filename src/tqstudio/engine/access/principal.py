"""Defines the caller of a request: its name in events, and what it may do."""

from __future__ import annotations

from dataclasses import dataclass

from tqstudio.engine.access.worker_tokens import WorkerToken
from tqstudio.protocol.roles import Role


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of a request."""

    actor: str
    """Its name in events."""
    role: Role
    worker: WorkerToken | None = None
    """The worker in whose name it acts."""
    token: int | None = None
    """Id of the stored token that it presented."""
    expires_at: int | None = None
    """When that token expires, µs since 1970 in UTC."""


OWNER = Principal("user", Role.OWNER)
"""The user on the socket, without a token."""
ANYONE = Principal("anyone", Role.ANYONE)
"""The caller of an open endpoint; a token, if there is one, is not checked."""


def of_worker(worker: WorkerToken) -> Principal:
    """The caller with the token of a worker process."""
    return Principal(worker.name, Role.WORKER, worker)
