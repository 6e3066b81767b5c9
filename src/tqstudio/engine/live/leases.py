"""Keeps the leases of running jobs in memory; every flush writes the renewals to the database.

A heartbeat shows that a process is alive, a lease that it owns a job, progress that the work advances. Only a
heartbeat that names a lease renews it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs import claims
from tqstudio.engine.store.jobs.claims import Token
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import JobStatus

_UNNAMED_HEARTBEATS = 2
"""One heartbeat may have been sent before the answer to the claim arrived, but not two."""


def lost(job: int, status: JobStatus | None = None) -> TqError:
    """Returns the error for a worker whose lease of a job has ended.

    Args:
        status: the job's present status, if known.
    """
    message = f"this lease of job {job} has ended"
    if status is JobStatus.IN_PROGRESS:
        message += ": the job now has another lease"
    elif status is not None:
        message += f": the job is now {status}"
    return TqError(ErrorCode.LOST_LEASE, message)


@dataclass(slots=True)
class _Held:
    token: Token
    since: int
    until: int
    unnamed: int = 0
    excused: bool = False


@dataclass(frozen=True, slots=True)
class Renewal:
    """A renewal of a lease that is not stored yet."""

    token: Token
    since: int
    """Time of the first heartbeat that is not stored. The stored lease was live then, and may have expired
    since."""
    heard: int
    """Time of the last heartbeat."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A lease that its worker no longer names in its heartbeats: it has dropped the job."""

    token: Token
    excused: bool
    """Whether it had to drop the job because its heartbeats could not be received for a while."""


class Leases:
    """The live leases; used on the event loop only. Times are µs of the supervisor's clock.

    Args:
        lease_us: how long a lease lasts after a heartbeat that named it.
        heartbeat_us: interval of a worker's heartbeats.
    """

    def __init__(self, lease_us: int, heartbeat_us: int) -> None:
        self._lease_us, self._heartbeat_us = lease_us, heartbeat_us
        self._held: dict[int, _Held] = {}
        self._renewals: dict[int, Renewal] = {}

    def begin(self, token: Token, now: int, until: int) -> None:
        """Adds the lease of a claimed job, which expires at `until`."""
        self._held[token.job] = _Held(token, now, until)

    def end(self, job: int) -> None:
        self._renewals.pop(job, None)
        self._held.pop(job, None)

    def is_live(self, token: Token, now: int) -> bool:
        """Whether the token's lease has neither ended nor expired."""
        held = self._held.get(token.job)
        return held is not None and held.token == token and held.until > now

    def heartbeat(self, instance: str, named: Collection[Token], now: int) -> list[Token]:
        """Processes a heartbeat of a worker's process; returns the renewed leases."""
        renewed = [token for token in named if self.is_live(token, now)]
        for token in renewed:
            held = self._held[token.job]
            held.until, held.unnamed = now + self._lease_us, 0
            waiting = self.renewal_of(token)
            self._renewals[token.job] = Renewal(token, waiting.since if waiting else now, now)
        for held in self._held.values():
            if held.token.instance == instance and held.token not in named:
                held.unnamed += 1
        return renewed

    def abandoned(self, now: int) -> list[Abandoned]:
        """Returns leases that their workers dropped, except those younger than a heartbeat."""
        return [
            Abandoned(held.token, held.excused)
            for held in self._held.values()
            if held.unnamed >= _UNNAMED_HEARTBEATS and now - held.since > self._heartbeat_us
        ]

    def renewals(self) -> list[Renewal]:
        """Returns the renewals that are not stored yet."""
        return list(self._renewals.values())

    def renewal_of(self, token: Token) -> Renewal | None:
        """Returns the renewal of one lease that is not stored yet; thread-safe."""
        waiting = self._renewals.get(token.job)
        return waiting if waiting is not None and waiting.token == token else None

    def take_renewals(self) -> list[Renewal]:
        """Returns and clears the renewals; the caller stores them."""
        renewals, self._renewals = list(self._renewals.values()), {}
        return renewals

    def put_back(self, renewals: Iterable[Renewal]) -> None:
        """Restores renewals that could not be stored, merged with newer ones."""
        for one in renewals:
            held, newer = self._held.get(one.token.job), self.renewal_of(one.token)
            if held is not None and held.token == one.token:
                self._renewals[one.token.job] = replace(newer or one, since=one.since)

    def renew_live(self, now: int, before: int) -> None:
        """Renews every lease that was live at `before` for a full term from `now`.

        Used after a time in which no heartbeat could arrive. Unstored renewals are included.
        """
        self._renewals = {}
        for held in self._held.values():
            if held.until > before:
                held.until, held.excused = now + self._lease_us, True
            else:
                held.until = min(held.until, now)  # still expired after the clock was set back


def store_renewals(db: Connection, renewals: Iterable[Renewal], lease_us: int) -> None:
    """Stores renewals; a lease that had expired before is not renewed."""
    for one in renewals:
        claims.extend(db, [one.token], now=one.since, lease_us=one.heard - one.since + lease_us)
