"""Looks at the database after every commit: what changed, and whether that may be."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.events import EventKind
from tqstudio.lifecycle import TERMINAL

if TYPE_CHECKING:
    from .world import World

Row = Mapping[str, Any]

_UNSURE_US = 2_000_000
"""The clock of the leases leaves out whole gaps between two looks, also the second of each that was none."""
_WATCHED = {
    "job": "id",
    "attempt": "job_id",
    "rendition": "job_id",
    "generation": "video_id",
    "video": "id",
    "event": "seq",
}
_EVENTS = "SELECT seq, at, trigger, job_id, video_id, worker, source, target, actor, code, detail FROM event"
_ATTEMPT = ("epoch", "instance", "worker_id", "worker", "encoder")
FULL_EVERY = 400
"""Commits between two looks at everything."""


class Violation(AssertionError):
    """Something is so that must never be so; `invariant` is the name of the rule that says so."""

    invariant = ""


@dataclass(frozen=True)
class Streak:
    """Crashes of a job in a row, how many finished segments the last left, and where it had resumed."""

    crashes: int = 0
    segments: int = 0
    resumed_at_s: float = 0.0


@dataclass
class JobChange:
    """What one commit did to one job."""

    audit: Audit
    job: int
    before: Row | None
    """Its row before; None for a new job."""
    after: Row
    events: list[EventRow]

    @property
    def moves(self) -> list[EventRow]:
        """Those of its events that changed its status."""
        return [event for event in self.events if event.target and event.target != event.source]

    @cached_property
    def open_attempts(self) -> list[Row]:
        attempts = self.audit.raw.execute(
            f"SELECT {', '.join(_ATTEMPT)} FROM attempt WHERE job_id = ? AND ended_at IS NULL", (self.job,)
        )
        return [dict(zip(_ATTEMPT, row, strict=True)) for row in attempts]

    @cached_property
    def renditions(self) -> list[tuple[str | None, int]]:
        """Who reported each, and its finished segments."""
        return self.audit.raw.execute(
            "SELECT encoder, segments_done FROM rendition WHERE job_id = ?", (self.job,)
        ).fetchall()

    @property
    def segments(self) -> int:
        """Finished segments of all qualities, as far as the engine knows."""
        return sum(done for _, done in self.renditions)

    def resumed_at_s(self, ended_at: int) -> float:
        """Where in the media the attempt had resumed that ended then, as far as the engine knows."""
        found = self.audit.raw.execute(
            "SELECT coalesce(max(resumed_at_s), 0) FROM attempt WHERE job_id = ? AND ended_at = ?",
            (self.job, ended_at),
        ).fetchone()
        return float(found[0])

    def require(self, holds: object, why: str) -> None:
        if not holds:
            raise Violation(f"job {self.job}: {why}\n  {self._difference()}\n  {self.events}")

    def _difference(self) -> str:
        before = self.before or {}
        always = ("status", "epoch", "instance", "attempts", "crashes")
        return ", ".join(
            f"{name}: {before.get(name)!r} -> {value!r}"
            for name, value in self.after.items()
            if value != before.get(name) or name in always
        )


@dataclass
class Commit:
    """What one commit did."""

    audit: Audit
    events: list[EventRow]
    jobs: dict[int, JobChange] = field(default_factory=dict)
    videos: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Refused:
    """A worker got the answer that a job is not its own any more."""

    audit: Audit
    job: int
    epoch: int
    instance: str


@dataclass(frozen=True)
class Heard:
    """A worker got the answer that its heartbeat has renewed a lease."""

    audit: Audit
    job: int
    epoch: int
    instance: str


@dataclass(frozen=True)
class Answered:
    """What a worker got as the answer to the end of its job."""

    audit: Audit
    job: int
    epoch: int
    instance: str
    status: str


class Audit:
    """Keeps the last known row of every job, and holds each commit to the invariants.

    Args:
        only: names of the invariants that count; empty for all.
    """

    def __init__(self, world: World, only: frozenset[str]) -> None:
        self.world, self._only = world, only
        self.commits = 0
        self.known: dict[int, Row] = {}
        self.open: set[int] = set()
        """Jobs that have not ended and are not deleted."""
        self.seen: set[tuple[str, str | None, str]] = set()
        """Every (trigger, source, target) of an event."""
        self.lease_until: dict[tuple[int, int, str], int] = {}
        """Until when a lease lasts at the longest, by (job, epoch, instance), in `running_us`."""
        self.claiming: Counter[str] = Counter()
        """Claims under way, by instance: one that finds the lease of its own process renews it."""
        self.claimed_until: dict[str, int] = {}
        """Until when a lease lasts at the longest that the last claim of an instance renewed."""
        self.expired: set[tuple[int, int, str]] = set()
        """Leases that had run out when a request of their holder arrived."""
        self.ended_in_time: set[tuple[int, int, str]] = set()
        """Leases whose end their holder reported before they had run out."""
        self.answers: dict[tuple[int, int, str], str] = {}
        self.marks: dict[int, set[str]] = {}
        self.streaks: dict[int, Streak] = {}
        self.heard: dict[tuple[int, int], tuple[object, int]] = {}
        """Segments that the last report of a lease named, and to which life of the supervisor."""
        self.assured_until: dict[tuple[int, int, str], tuple[object, int]] = {}
        """Which life of the supervisor assured a holder that the job is its own, and for how long it then is
        at least, µs since boot."""
        self.blamed: dict[str, set[int]] = {}
        """The different jobs that each worker failed since it did one."""
        self.shut: set[str] = set()
        self._changes = 0
        self._columns: list[str] = []
        self.raw: sqlite3.Connection = sqlite3.connect(":memory:")

    @property
    def now(self) -> int:
        """The wall clock, µs."""
        return self.world.clock.wall // 1000

    @property
    def boot_us(self) -> int:
        return self.world.clock.boot // 1000

    @property
    def _lease_us(self) -> int:
        return int(self.world.settings.lease_s * 1_000_000)

    @property
    def running_us(self) -> int:
        """µs since boot without the time in which the supervisor or the machine stood still."""
        return self.boot_us - self.world.stopped_us

    def attach(self, raw: sqlite3.Connection) -> None:
        """Have the connection that writes note which rows it touches."""
        self.raw = raw
        raw.execute("CREATE TEMP TABLE touched (kind TEXT, id INTEGER)")
        for table, key in _WATCHED.items():
            for verb, side in (("INSERT", "new"), ("UPDATE", "new"), ("DELETE", "old")):
                raw.execute(
                    f"CREATE TEMP TRIGGER {table}_{verb.lower()} AFTER {verb} ON main.{table}"
                    f" BEGIN INSERT INTO touched VALUES ('{table}', {side}.{key}); END"
                )
        self._columns = [row[1] for row in raw.execute("PRAGMA table_info(job)")]
        self._changes = raw.total_changes

    def after_commit(self) -> None:
        if self.raw.total_changes == self._changes:
            return
        touched = self.raw.execute("SELECT DISTINCT kind, id FROM touched").fetchall()
        if touched:
            self.raw.execute("DELETE FROM touched")
            self._hold_commit(touched)
        self._changes = self.raw.total_changes

    def _hold_commit(self, touched: list[tuple[str, int]]) -> None:
        from . import invariants

        self.commits += 1
        commit = Commit(self, self._events([number for kind, number in touched if kind == "event"]))
        for event in commit.events:
            if event.trigger == EventKind.CLAIM and event.job is not None:
                row = self.job(event.job)
                self.grant(event.job, row["epoch"], row["instance"], self.boot_us)
        self.seen |= {(e.trigger, e.source, e.target or e.code or "") for e in commit.events}
        for kind, number in touched:
            if kind in ("generation", "video"):
                commit.videos.add(number)
            elif kind != "event" and number not in commit.jobs:
                commit.jobs[number] = self._change(number, commit.events)
        self.hold(invariants.OF_A_COMMIT, commit)
        for change in commit.jobs.values():
            self.hold(invariants.OF_A_JOB, change)
            self._keep(change.job, change.after)
        if self.commits % FULL_EVERY == 0:
            self.everything()

    def _events(self, numbers: list[int]) -> list[EventRow]:
        if not numbers:
            return []
        rows = self.raw.execute(
            f"{_EVENTS} WHERE seq BETWEEN ? AND ? ORDER BY seq", (min(numbers), max(numbers))
        )
        return [EventRow(*row) for row in rows]

    def hold(self, rules: Iterable[Callable[[Any], None]], subject: Any) -> None:
        """Hold something to those of its invariants that count.

        Raises:
            Violation: with the name of the invariant.
        """
        for rule in rules:
            if self.counts(rule.__name__):
                try:
                    rule(subject)
                except Violation as violation:
                    violation.invariant = rule.__name__
                    raise

    def counts(self, name: str) -> bool:
        return not self._only or name in self._only

    def _keep(self, job: int, row: Row) -> None:
        self.known[job] = row
        if row["status"] in TERMINAL or row["deleted_at"] is not None:
            self.open.discard(job)
        else:
            self.open.add(job)

    def everything(self) -> None:
        """Hold the whole database and the published folders to the invariants."""
        from . import invariants

        self.hold(invariants.OF_THE_WHOLE, self)

    def job(self, job: int) -> Row:
        row = self.raw.execute("SELECT * FROM job WHERE id = ?", (job,)).fetchone()
        if row is None:
            raise Violation(f"job {job} is gone from the database")
        return dict(zip(self._columns, row, strict=True))

    def events_of(self, job: int) -> list[EventRow]:
        rows = self.raw.execute(f"{_EVENTS} WHERE job_id = ? ORDER BY seq", (job,))
        return [EventRow(*row) for row in rows]

    def _change(self, job: int, events: list[EventRow]) -> JobChange:
        mine = [event for event in events if event.job == job]
        return JobChange(self, job, self.known.get(job), self.job(job), mine)

    # What the outside knows

    def grant(self, job: int, epoch: int, instance: str, arrived_us: int) -> None:
        """A lease begins: at the claim, or at one that asks for the answer again.

        Args:
            arrived_us: when that request arrived, µs since boot.
        """
        self.lease_until[job, epoch, instance] = self.running_us + self._lease_us
        self._assure(job, epoch, instance, arrived_us)

    def claim_ended(self, instance: str) -> None:
        """A claim was answered, or failed after it renewed a lease."""
        self.claiming[instance] -= 1
        self.claimed_until[instance] = self.running_us + self._lease_us

    def arrived(self, job: int, epoch: int, instance: str, *, ends: bool = False) -> None:
        """A heartbeat that names a lease has arrived, or the report of its end."""
        token = job, epoch, instance
        if self.lease_until.get(token, 0) + _UNSURE_US <= self.running_us:
            self.expired.add(token)
        elif ends:
            self.ended_in_time.add(token)
        else:
            self.lease_until[token] = self.running_us + self._lease_us

    def renewed(self, job: int, epoch: int, instance: str, arrived_us: int) -> None:
        """A worker got the answer that it has a job, to a request that arrived at `arrived_us`."""
        from . import invariants

        self._assure(job, epoch, instance, arrived_us)
        self.hold(invariants.OF_A_HEARTBEAT, Heard(self, job, epoch, instance))

    def _assure(self, job: int, epoch: int, instance: str, since_us: int) -> None:
        life, until = self.assured_until.get((job, epoch, instance), (None, 0))
        longer = max(since_us + self._lease_us, until if life is self.world.life else 0)
        self.assured_until[job, epoch, instance] = self.world.life, longer

    def is_assured(self, job: int, epoch: int, instance: str) -> bool:
        """Whether a worker got that answer within a lease, by the supervisor that runs now."""
        life, until = self.assured_until.get((job, epoch, instance), (None, 0))
        return life is self.world.life and self.boot_us < until

    def refused(self, job: int, epoch: int, instance: str) -> None:
        """A worker got the answer that it has a job no more."""
        from . import invariants

        self.hold(invariants.OF_A_REFUSAL, Refused(self, job, epoch, instance))

    def answered(self, job: int, epoch: int, instance: str, status: str) -> None:
        """A worker got the answer that its job has ended."""
        from . import invariants

        self.hold(invariants.OF_AN_ANSWER, Answered(self, job, epoch, instance, status))
