"""Keeps the deadlines of the leases of running jobs, in memory.

The database knows who owns a job (worker, epoch, instance), the supervisor that granted the lease knows until
when, on its own clock: neither a changed wall clock nor a database that does not respond can expire a lease.
A heartbeat shows that a process is alive, a lease that it owns a job, progress that the work advances. Only a
heartbeat that names a lease renews it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tqstudio.engine.host.clock import RunningClock
from tqstudio.engine.store.jobs.claims import LeaseToken
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
        message += ": it has expired, or the job now has another lease"
    elif status is not None:
        message += f": the job is now {status}"
    return TqError(ErrorCode.LOST_LEASE, message)


@dataclass(slots=True)
class _Held:
    token: LeaseToken
    since: int
    until: int
    stopped_us: int
    """What the clock had left out when the lease began."""
    unnamed: int = 0
    """Heartbeats of its worker in a row that did not name it."""


class Leases:
    """The leases that a supervisor has granted; used on the event loop only.

    Args:
        supervisor: its row in the database.
        lease_us: how long a lease lasts after a heartbeat that named it.
        heartbeat_us: interval of a worker's heartbeats.
        clock: the clock of the deadlines.
    """

    def __init__(self, supervisor: int, lease_us: int, heartbeat_us: int, clock: RunningClock) -> None:
        self._lease_us, self._heartbeat_us = lease_us, heartbeat_us
        self.supervisor, self.clock = supervisor, clock
        self._held: dict[int, _Held] = {}

    def begin(self, token: LeaseToken, term_us: int | None = None) -> None:
        """Adds the lease of a claimed job; it lasts for `term_us`, by default as after a heartbeat."""
        now = self.clock.now_us()
        until = now + (self._lease_us if term_us is None else term_us)
        self._held[token.job] = _Held(token, now, until, self.clock.stopped_us)

    def end(self, job: int) -> None:
        self._held.pop(job, None)

    def knows(self, token: LeaseToken) -> bool:
        """Whether the token's lease has not ended; it may have expired."""
        held = self._held.get(token.job)
        return held is not None and held.token == token

    def remaining_us(self, token: LeaseToken) -> int:
        """Returns how long the token's lease lasts without another heartbeat; 0 if it expired or ended."""
        return max(0, self._held[token.job].until - self.clock.now_us()) if self.knows(token) else 0

    def is_live(self, token: LeaseToken) -> bool:
        """Whether the token's lease has neither ended nor expired."""
        return self.remaining_us(token) > 0

    def expired_of(self, instance: str) -> frozenset[LeaseToken]:
        """Returns the expired leases of a worker's process that were not taken back yet."""
        tokens = [held.token for held in self._held.values() if held.token.instance == instance]
        return frozenset(token for token in tokens if not self.is_live(token))

    def heartbeat(self, instance: str, named: Collection[LeaseToken]) -> list[LeaseToken]:
        """Processes a heartbeat of a worker's process; returns the renewed leases."""
        renewed = [token for token in named if self.is_live(token)]
        for token in renewed:
            held = self._held[token.job]
            held.until, held.unnamed = self.clock.now_us() + self._lease_us, 0
        for held in self._held.values():
            if held.token.instance == instance and held.token not in named:
                held.unnamed += 1
        return renewed

    def is_abandoned(self, token: LeaseToken) -> bool:
        """Whether its worker no longer names a lease in its heartbeats, so has dropped the job."""
        held = self._held.get(token.job)
        if held is None or held.token != token or held.unnamed < _UNNAMED_HEARTBEATS:
            return False
        return self.clock.now_us() - held.since > self._heartbeat_us

    def was_unreachable(self, token: LeaseToken) -> bool:
        """Whether this process was stopped during a lease, so that its worker had to drop the job."""
        return self.knows(token) and self._held[token.job].stopped_us < self.clock.stopped_us
