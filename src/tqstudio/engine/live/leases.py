"""The running leases as heartbeats keep them; the database follows with every flush.

Three signals are kept apart: a heartbeat shows that a process lives, the lease says who owns a job, progress
that the work moves. Only a heartbeat that names a lease renews it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs import claims
from tqstudio.engine.store.jobs.claims import Token
from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import JobStatus

_UNNAMED_BEATS = 2
"""A single beat may have been on its way when the claim was answered; the next one cannot."""


def lost(job: int, status: JobStatus | None = None) -> TqError:
    """The refusal of a worker whose lease of a job has ended.

    Args:
        status: of the job now, where it is known.
    """
    said = f"this lease of job {job} has ended"
    if status is JobStatus.IN_PROGRESS:
        said += ": it runs under another one now"
    elif status is not None:
        said += f": the job is {status} now"
    return TqError(ErrorCode.LOST_LEASE, said)


@dataclass(slots=True)
class _Held:
    token: Token
    since: int
    until: int
    unnamed: int = 0
    excused: bool = False


@dataclass(frozen=True, slots=True)
class Renewal:
    """What the database is to know of a lease."""

    token: Token
    since: int
    """When the first beat was heard that it does not know of. The lease as it knows it was live then, and may
    have run out since."""
    heard: int
    """When the last one was."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A lease whose worker lives, beats, and does not name it: it has dropped the job."""

    token: Token
    excused: bool
    """For a while it could not be heard, so it had to drop it."""


class Leases:
    """Which leases are live, on the event loop alone. Times are µs of the supervisor's clock.

    Args:
        lease_us: how long a lease holds after a beat that named it.
        heartbeat_us: between two beats of a worker.
    """

    def __init__(self, lease_us: int, heartbeat_us: int) -> None:
        self._lease_us, self._heartbeat_us = lease_us, heartbeat_us
        self._held: dict[int, _Held] = {}
        self._renewals: dict[int, Renewal] = {}

    def begin(self, token: Token, now: int, until: int) -> None:
        """A job was claimed; the database says until when."""
        self._held[token.job] = _Held(token, now, until)

    def end(self, job: int) -> None:
        self._renewals.pop(job, None)
        self._held.pop(job, None)

    def is_live(self, token: Token, now: int) -> bool:
        """Whether the token's lease is live; one that ran out is so even before it was taken back."""
        held = self._held.get(token.job)
        return held is not None and held.token == token and held.until > now

    def hear(self, instance: str, named: Collection[Token], now: int) -> list[Token]:
        """Take the beat of one life of a worker; the leases that it renewed."""
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
        """Leases that their workers dropped; none that is younger than a heartbeat."""
        return [
            Abandoned(held.token, held.excused)
            for held in self._held.values()
            if held.unnamed >= _UNNAMED_BEATS and now - held.since > self._heartbeat_us
        ]

    def renewals(self) -> list[Renewal]:
        """Leases that were renewed, of which the database does not know."""
        return list(self._renewals.values())

    def renewal_of(self, token: Token) -> Renewal | None:
        """The same for one lease; may be asked from any thread."""
        waiting = self._renewals.get(token.job)
        return waiting if waiting is not None and waiting.token == token else None

    def take_renewals(self) -> list[Renewal]:
        """As `renewals`; from now on the caller sees to it that they are stored."""
        renewals, self._renewals = list(self._renewals.values()), {}
        return renewals

    def put_back(self, renewals: Iterable[Renewal]) -> None:
        """They could not be stored: the next ones are no later for it than these were."""
        for one in renewals:
            held, newer = self._held.get(one.token.job), self.renewal_of(one.token)
            if held is not None and held.token == one.token:
                self._renewals[one.token.job] = replace(newer or one, since=one.since)

    def begin_anew(self, now: int, before: int) -> None:
        """Give a whole term from `now` to every lease that was live at `before`: after a time in which no
        beat could be heard. Renewals that the database does not have yet are part of that."""
        self._renewals = {}
        for held in self._held.values():
            if held.until > before:
                held.until, held.excused = now + self._lease_us, True
            else:
                held.until = min(held.until, now)  # a clock that is set back revives nothing


def store_renewals(db: Connection, renewals: Iterable[Renewal], lease_us: int) -> None:
    """Let the database know of leases that were renewed; one that had run out before stays so."""
    for one in renewals:
        claims.extend(db, [one.token], now=one.since, lease_us=one.heard - one.since + lease_us)
