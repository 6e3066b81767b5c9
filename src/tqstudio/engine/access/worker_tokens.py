"""Issues the tokens of worker processes and maps tokens to workers."""

from __future__ import annotations

import secrets
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerToken:
    """The worker that a token belongs to."""

    worker: int
    name: str
    kind: str


class WorkerTokens:
    """Maps tokens to workers, in memory: tokens expire with the worker process or the supervisor."""

    def __init__(self) -> None:
        self._by_token: dict[str, WorkerToken] = {}
        self.stored: set[str] = set()
        """Names of workers with a token in the database, which outlives the supervisor."""

    def issue(self, worker: int, name: str, kind: str) -> str:
        """Issues a token and revokes those of earlier processes of this worker."""
        self.revoke_of(worker)
        token = secrets.token_urlsafe(24)
        self._by_token[token] = WorkerToken(worker, name, kind)
        return token

    def of(self, token: str) -> WorkerToken | None:
        return self._by_token.get(token)

    def knows(self, name: str) -> bool:
        """Whether a worker of this name has a token."""
        return name in self.stored or self.issued(name)

    def issued(self, name: str) -> bool:
        """Whether a worker of this name has a token that expires with the supervisor."""
        return any(identity.name == name for identity in self._by_token.values())

    def revoke_of(self, worker: int) -> None:
        for token in [token for token, identity in self._by_token.items() if identity.worker == worker]:
            del self._by_token[token]

    def revoke(self, token: str) -> None:
        self._by_token.pop(token, None)
