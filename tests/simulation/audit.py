"""Looks at the database after every commit: what changed, and whether that may be."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tqstudio.engine.store.events import EventRow
from tqstudio.lifecycle import TERMINAL

if TYPE_CHECKING:
    from .world import World

Row = Mapping[str, Any]

_WATCHED = {"job": "id", "attempt": "job_id", "rendition": "job_id", "generation": "video_id", "video": "id"}
_EVENTS = "SELECT seq, at, trigger, job_id, video_id, worker, source, target, actor, code, detail FROM event"
FULL_EVERY = 400
"""Commits between two looks at everything."""


class Violation(AssertionError):
    """Something is so that must never be so."""


@dataclass
class JobChange:
    """What one commit did to one job."""

    audit: Audit
    job: int
    before: Row | None
    """Its row before; None for a new job."""
    after: Row
    events: list[EventRow]
    open_attempts: list[Row]
    marks: set[str]
    """Who reported what its renditions say."""

    def require(self, holds: object, why: str) -> None:
        if not holds:
            raise Violation(f"job {self.job}: {why}\n  {self._difference()}\n  {self.events}")

    def _difference(self) -> str:
        before = self.before or {}
        told = ("status", "epoch", "instance", "lease_expires_at", "attempts", "crashes")
        return ", ".join(
            f"{name}: {before.get(name)!r} -> {value!r}"
            for name, value in self.after.items()
            if value != before.get(name) or name in told
        )


@dataclass
class Commit:
    """What one commit did."""

    audit: Audit
    events: list[EventRow]
    jobs: dict[int, JobChange] = field(default_factory=dict)
    videos: set[int] = field(default_factory=set)


class Audit:
    """Keeps the last known row of every job, and holds each commit to the invariants."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.commits = 0
        self.known: dict[int, Row] = {}
        self.open: set[int] = set()
        """Jobs that have not ended and are not deleted."""
        self.signs: Counter[tuple[int, int, str]] = Counter()
        """Signs of life that may still renew a lease, by (job, epoch, instance)."""
        self.claiming: Counter[str] = Counter()
        """Claims under way, by instance: one that finds the lease of an earlier claim renews it."""
        self.answers: dict[tuple[int, int, str], str] = {}
        self.marks: dict[int, set[str]] = {}
        self.shut: set[str] = set()
        self._seq = 0
        self._columns: list[str] = []
        self.raw: sqlite3.Connection = sqlite3.connect(":memory:")

    @property
    def now(self) -> int:
        """The wall clock, µs."""
        return self.world.clock.wall // 1000

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

    def after_commit(self) -> None:
        from . import invariants

        touched = self.raw.execute("SELECT DISTINCT kind, id FROM touched").fetchall()
        events = [
            EventRow(*row) for row in self.raw.execute(f"{_EVENTS} WHERE seq > ? ORDER BY seq", (self._seq,))
        ]
        if not touched and not events:
            return
        self.raw.execute("DELETE FROM touched")
        self.commits += 1
        if events:
            self._seq = events[-1].seq
        commit = Commit(self, events)
        for kind, number in touched:
            if kind in ("generation", "video"):
                commit.videos.add(number)
            elif number not in commit.jobs:
                commit.jobs[number] = self._change(number, events)
        for invariant in invariants.OF_A_COMMIT:
            invariant(commit)
        for change in commit.jobs.values():
            for check in invariants.OF_A_JOB:
                check(change)
            self._keep(change.job, change.after)
        if self.commits % FULL_EVERY == 0:
            self.everything()

    def _keep(self, job: int, row: Row) -> None:
        self.known[job] = row
        if row["status"] in TERMINAL or row["deleted_at"] is not None:
            self.open.discard(job)
        else:
            self.open.add(job)

    def everything(self) -> None:
        """Hold the whole database and the published folders to the invariants."""
        from . import invariants

        for invariant in invariants.OF_THE_WHOLE:
            invariant(self)

    def job(self, job: int) -> Row:
        row = self.raw.execute("SELECT * FROM job WHERE id = ?", (job,)).fetchone()
        if row is None:
            raise Violation(f"job {job} is gone from the database")
        return dict(zip(self._columns, row, strict=True))

    def events_of(self, job: int) -> list[EventRow]:
        rows = self.raw.execute(f"{_EVENTS} WHERE job_id = ? ORDER BY seq", (job,))
        return [EventRow(*row) for row in rows]

    def _change(self, job: int, events: list[EventRow]) -> JobChange:
        attempts = self.raw.execute(
            "SELECT epoch, instance, worker_id, worker, encoder FROM attempt"
            " WHERE job_id = ? AND ended_at IS NULL",
            (job,),
        )
        names = ("epoch", "instance", "worker_id", "worker", "encoder")
        marks = self.raw.execute("SELECT DISTINCT encoder FROM rendition WHERE job_id = ?", (job,))
        return JobChange(
            self,
            job,
            self.known.get(job),
            self.job(job),
            [event for event in events if event.job == job],
            [dict(zip(names, row, strict=True)) for row in attempts],
            {row[0] for row in marks if row[0]},
        )

    # What the outside knows

    def credit(self, job: int, epoch: int, instance: str) -> None:
        """A sign of life of the holder of a lease has arrived: it may be renewed once."""
        self.signs[job, epoch, instance] += 1

    def told(self, job: int, epoch: int, instance: str, status: str) -> None:
        """A worker was told that its job has ended."""
        first = self.answers.setdefault((job, epoch, instance), status)
        if first != status:
            raise Violation(f"job {job} epoch {epoch}: its end was answered {first}, then {status}")
        row = self.raw.execute(
            "SELECT instance, ended_at, answer FROM attempt WHERE job_id = ? AND epoch = ?", (job, epoch)
        ).fetchone()
        if row is None or row[0] != instance or row[1] is None or row[2] != status:
            raise Violation(
                f"job {job} epoch {epoch}: {instance} was told {status}, and the attempt is {row}"
            )
