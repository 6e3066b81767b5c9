"""Keeps the measured state of all volumes in use, and makes the queue or single jobs wait for them.

Each pass measures all volumes, updates the jobs that wait for their own, and closes or opens the disk gate.
It runs every `TICK_S`, when a job becomes ready, when a claim was refused, and on any change while the gate
is closed. Claims only read the last result; they count what running jobs still need, so no space is promised
twice. The reserve covers what other programs write in between.

Ticks measure only outputs in use: measuring locks an output, so that its disk could not be unmounted.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import structlog

from tqstudio.config import Settings
from tqstudio.engine.gates import decide, opening_hours
from tqstudio.engine.gates.decide import DATABASE_ROOM_BYTES, MeasuredPath, Use, Volumes, Waits
from tqstudio.engine.gates.measure import VolumeReader
from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.outputs.retention import Retention
from tqstudio.engine.parts.part import Part
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.jobs import claims, volume_waits
from tqstudio.engine.store.jobs.retry_rules import RESOURCE_WAIT_S
from tqstudio.engine.store.jobs.volume_waits import Waiting
from tqstudio.engine.store.machine import gates
from tqstudio.engine.store.machine.gates import GateRow, JobVolumes
from tqstudio.errors import UNWRITTEN, ErrorCode, Problem, TqError
from tqstudio.home import Home
from tqstudio.lifecycle import GateKind, JobStatus
from tqstudio.paths import display

TICK_S = 3.0
_HINT_INTERVAL_S = 0.2
"""Minimum between two looks because of hints, of which there may be thousands."""
_MARGIN = 0.05
"""Hysteresis: the share of additional space needed before a shut gate opens."""
_FIRST_WAIT_S = 10.0
_MAX_WAIT_S = 600.0
_CHECKED_AT_ONCE = 200
"""Waiting jobs whose volumes one look measures."""
BLOCKING = {
    ErrorCode.DISK_LOW: "is full",
    ErrorCode.OUTPUT_UNAVAILABLE: "is missing or fails",
    ErrorCode.OUTPUT_SHARED: "is writable by other users",
}
"""Failures of a job that shut the gate, in words."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A job that a claim may not take now; `waits` is None if its volumes have to be measured first."""

    job: int
    waits: Waits | None

    @property
    def alone(self) -> bool:
        """Whether the next job may be claimed instead."""
        return self.waits is not None and self.waits.alone


@dataclass(frozen=True, slots=True)
class _Failure:
    """Number of failures of an output, when it is tried again, and what it lacked at the last failure."""

    tries: int
    due: float
    waits: Waits


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a look measures and decides about."""

    gate: GateRow | None
    next: list[JobVolumes]
    """Jobs that a claim was refused, or may get next."""
    running: list[JobVolumes]
    waiting: list[Waiting]
    decides: bool
    """Whether the gate may be shut or opened."""


class VolumeMonitor(Part):
    """Measures volumes, answers claims, and shuts and opens the disk gate.

    Args:
        on_ready: called when a job may have become claimable.
    """

    triggers = None

    def __init__(
        self,
        home: Home,
        settings: Settings,
        db: Database,
        reader: VolumeReader,
        retention: Retention,
        on_ready: Callable[[], object],
    ) -> None:
        self._settings, self._db, self._reader, self._retention = settings, db, reader, retention
        self._volumes = Volumes(MeasuredPath(Use.HOME, os.fsencode(home.root)), now_us())
        self._lock = asyncio.Lock()
        self._begun = 0
        """Looks that began."""
        self._hints: set[asyncio.Task[None]] = set()
        self._hinted = -_HINT_INTERVAL_S
        self._is_ahead = False
        """Whether the next look measures for jobs that no claim has asked for yet."""
        self._refused: set[int] = set()
        self._held: Waits | None = None
        """What the queue waits for while the gate is shut."""
        self._failures: dict[bytes, _Failure] = {}
        self._away: dict[bytes, Problem] = {}
        """The volumes that single jobs wait for."""
        self._on_ready = on_ready
        self._log = structlog.get_logger()

    # Claims

    def judge(self, db: Connection, job: int) -> Refused | None:
        """Why this job does not fit now; None if it does. Runs in the transaction of a claim."""
        need, running = gates.need_of(db, job), gates.running_needs(db, beside=job)
        volumes = self._volumes
        if need is None:
            return None
        if (closed := opening_hours.closed(need)) is not None:
            return Refused(job, closed)
        if not volumes.know(need, running):
            return Refused(job, None)
        waits = decide.fits(need, running, volumes, self._settings)
        return None if waits is None else Refused(job, waits)

    async def refused(self, job: int) -> None:
        """Look at the volumes of a job that a claim found too little space for, or no measurement."""
        self._refused.add(job)
        await self.look()

    def on_events(self, events: Sequence[EventRow]) -> None:
        """Look when a job became ready or ended early, and at any change while the gate is shut."""
        is_ready = any(event.target == JobStatus.PENDING for event in events)
        # It may have used more space than estimated.
        ended = any(e.source == JobStatus.IN_PROGRESS and e.target != JobStatus.DONE for e in events)
        now = time.monotonic()
        if self._held is not None or (now >= self._hinted + _HINT_INTERVAL_S and (is_ready or ended)):
            self._hinted, self._is_ahead = now, self._is_ahead or is_ready
            self._look_soon()
        elif is_ready:
            self._on_ready()

    async def until_measured(self) -> None:
        """Wait for the looks that were hinted at."""
        if self._hints:
            await asyncio.wait(self._hints)

    def _look_soon(self) -> None:
        task = asyncio.get_running_loop().create_task(self._look_and_wake())
        self._hints.add(task)
        task.add_done_callback(self._hints.discard)

    async def _look_and_wake(self) -> None:
        try:
            await self.look()
        except TqError as error:
            if error.code not in UNWRITTEN:
                self._log.exception("volumes not measured")
        except Exception:
            self._log.exception("volumes not measured")
        finally:
            self._on_ready()

    # A look

    async def look(self) -> None:
        """Measure all volumes in use and act on it. Calls during a look share the next one."""
        begun = self._begun
        async with self._lock:
            if self._begun == begun:
                self._begun += 1
                await self._look()

    async def _look(self) -> None:
        if self._db.refusal is not None:
            await self._try_database()
            return
        refused, self._refused = self._refused, set()
        is_ahead, self._is_ahead = self._is_ahead, False
        asks = refused or is_ahead
        plan = await (self._db.read(_plan, refused, is_ahead) if asks else self._db.reread(_plan))
        await self._measure(plan)
        await self._reader.unlock_unused()
        await self._update_waiting(plan.waiting)
        await self._update_gate(plan)

    async def _measure(self, plan: _Plan) -> None:
        wanted: dict[MeasuredPath, set[int]] = {self._volumes.home: set()}
        if plan.gate is not None and plan.gate.path in self._failures:
            wanted[MeasuredPath(Use.OUTPUT, plan.gate.path)] = set()
        places = [place for need in (*plan.next, *plan.running) for place in decide.places(need)]
        for each in plan.waiting:
            # Measuring the output would lock it.
            is_missing = each.code == ErrorCode.SOURCE_UNAVAILABLE
            places += decide.sources(each.need) if is_missing else decide.places(each.need)
        wanted |= {place: set() for place in places}
        # Only a decision about the gate needs the sizes of all stores; without them a claim may be refused.
        for need in (*plan.next, *plan.running) if plan.decides else ():
            wanted[MeasuredPath(Use.OUTPUT, need.output_root)].add(need.video)
        self._volumes = replace(self._volumes, states=await self._reader.measure(wanted))

    async def _update_waiting(self, waiting: Sequence[Waiting]) -> None:
        now = now_us()
        soon = now + int(2 * TICK_S * MICROSECOND)
        longer, back, self._away = [], [], {}
        for each in waiting:
            is_missing = each.code == ErrorCode.SOURCE_UNAVAILABLE
            waits = decide.waits_alone(each.need, self._volumes, is_missing=is_missing)
            if waits is None:
                back.append(each.need.job)
                continue
            self._away[waits.path] = Problem(waits.code, waits.why, waits.hint)
            if each.until <= soon:
                longer.append(each.need.job)
        if longer or back:
            until = now + int(RESOURCE_WAIT_S * MICROSECOND)
            await self._db.write(volume_waits.update_waits, longer=longer, back=back, now=now, until=until)
        if back:
            self._look_soon()

    async def _update_gate(self, plan: _Plan) -> None:
        """Shut the gate for a refused claim, or open it; free space before a job waits for it."""
        held = self._queue_waits(plan) if plan.decides else None
        if held is not None and held.needed and held.path != self._volumes.home.path:
            await self._retention.make_room(held.path)
            await self._measure(plan)
            held = self._queue_waits(plan)
        self._held = held
        if held is not None and plan.gate is None:
            await self._db.write(_shut, held, "supervisor")
        elif held is None and plan.gate is not None:
            await self._db.write(_open)

    def _queue_waits(self, plan: _Plan) -> Waits | None:
        """What the whole queue waits for.

        After an output failed during a job, the gate opens when space was freed, or after an exponential
        backoff: if the estimate is too low, the same job would otherwise fail again and again.
        """
        margin = 0.0 if plan.gate is None else _MARGIN
        for need in plan.next:
            waits = decide.fits(need, plan.running, self._volumes, self._settings, margin=margin)
            if waits is not None and not waits.alone:
                return waits
        now = time.monotonic()
        self._failures = {path: f for path, f in self._failures.items() if now < f.due + _MAX_WAIT_S}
        path = None if plan.gate is None else plan.gate.path
        if path is None or (failure := self._failures.get(path)) is None:
            return None
        state = self._volumes.states[MeasuredPath(Use.OUTPUT, path)]
        waits = decide.output_waits(path, state, self._settings, margin)
        enough = failure.waits.free + self._settings.disk_reserve_bytes * _MARGIN
        if now >= failure.due or state.free > enough:
            return None if plan.next else waits
        return waits or replace(failure.waits, free=state.free)

    # Failures of jobs

    async def block(self, root: bytes, error: TqError, *, actor: str) -> None:
        """Shut the gate for an output that failed during a job. Only errors in `BLOCKING` do that."""
        place, reason = MeasuredPath(Use.OUTPUT, root), error.message
        if (where := display(root)) not in reason:
            reason = f"the disk of {where} {BLOCKING[error.code]}: {reason}"
        async with self._lock:
            state = (await self._reader.measure({place: ()}))[place]
            waits = decide.output_waits(root, state, self._settings)
            if waits is None and error.code is ErrorCode.DISK_LOW and state.space is not None:
                waits = Waits.of_bytes(root, state.space, self._settings.disk_reserve_bytes, reason)
            self._held = waits or Waits(root, error.code, reason, error.hint)
            now, before = time.monotonic(), self._failures.get(root)
            if before is None or now >= before.due:
                tries = 0 if before is None else before.tries + 1
                due = now + min(_MAX_WAIT_S, _FIRST_WAIT_S * 2.0 ** min(tries, 20))
                self._failures[root] = _Failure(tries, due, replace(self._held, free=state.free))
            await self._db.write(_shut, replace(self._held, why=reason), actor)

    async def away(self, job: int) -> TqError | None:
        """SOURCE_UNAVAILABLE if the source of a job is away, or was for a moment; None if it was removed."""
        need = await self._db.read(gates.need_of, job)
        if need is None:
            return None
        states = await self._reader.measure(dict.fromkeys(decide.sources(need), ()))
        waits = decide.waits_alone(need, replace(self._volumes, states=states), is_missing=True)
        if waits is not None:
            return TqError(ErrorCode.SOURCE_UNAVAILABLE, f"{display(need.source)} is missing: {waits.why}")
        if await self._reader.exists(need.source):
            return TqError(
                ErrorCode.SOURCE_UNAVAILABLE,
                f"the file was missing for a moment; it is at {display(need.source)} again",
                "nothing to do: the job resumes automatically",
            )
        return None

    async def is_away(self, job: int) -> bool:
        """Whether the source of a job is missing because its disk is."""
        return await self.away(job) is not None

    # The database

    async def _try_database(self) -> None:
        """Try whether the database can be written to again."""
        home = self._volumes.home
        self._volumes = replace(self._volumes, states=await self._reader.measure({home: ()}))
        volume, gate = self._volumes.states[home].space, self.of_database()
        is_full = volume is not None and volume.free < DATABASE_ROOM_BYTES * (1 + _MARGIN)
        if gate is None or (is_full and self._db.is_file):
            return
        try:
            await self._db.write_again(_recorded, gate)
        except TqError as error:
            if error.code not in UNWRITTEN:
                raise
            return
        self._log.info("the database can be written again")

    # For display

    def of_database(self) -> GateRow | None:
        """The gate of a database that cannot be written to, and so cannot store it."""
        refusal = self._db.refusal
        if refusal is None:
            return None
        return GateRow(GateKind.DISK, refusal.error.message, self._volumes.home.path, refusal.since)

    def figures(self, gate: GateRow) -> Waits | None:
        """What a shut disk gate waits for; None for a file that cannot be written for another reason."""
        if gate.kind is not GateKind.DISK:
            return None
        if self._db.refusal is None:
            return self._held
        home, error = self._volumes.home, self._db.refusal.error
        if not self._db.is_file:
            return Waits(home.path, error.code, error.message, error.hint)  # no disk of this machine
        state = self._volumes.states.get(home)
        if state is None or state.space is None or error.code is not ErrorCode.DISK_LOW:
            return None
        short = decide.short_at_home(home.path, state.space)
        return short or Waits.of_bytes(home.path, state.space, DATABASE_ROOM_BYTES, gate.reason)

    def low_soon(self) -> list[Waits]:
        """The disks in use that may be too full soon."""
        return decide.low_soon(self._volumes, self._settings)

    def source_problem(self, folder: bytes) -> Problem | None:
        """Why the files of a drop folder are unavailable."""
        return self._reader.unmounted(folder) or self._away.get(folder)


def _plan(db: Connection, refused: Iterable[int] = (), is_ahead: bool = False) -> _Plan:
    gate = next((gate for gate in gates.listing(db) if gate.kind is GateKind.DISK), None)
    jobs = [job for job in refused if claims.is_ready(db, job)]
    decides = gate is not None or bool(jobs)
    if (gate is not None or is_ahead) and (head := claims.head(db)) is not None:
        jobs = [head] if gate is not None else [*jobs, head]
    needs = [need for job in jobs if (need := gates.need_of(db, job)) is not None]
    waiting = volume_waits.waiting(db, limit=_CHECKED_AT_ONCE)
    return _Plan(gate, needs, gates.running_needs(db), waiting, decides)


def _shut(db: Connection, waits: Waits, actor: str) -> None:
    gates.shut(db, GateKind.DISK, waits.why, now=now_us(), actor=actor, path=waits.path)


def _open(db: Connection) -> None:
    gates.reopen(db, GateKind.DISK, now=now_us(), actor="supervisor")


def _recorded(db: Connection, gate: GateRow) -> None:
    """Record the gate that could not be written while the disk was full."""
    if gates.shut(db, gate.kind, gate.reason, now=gate.since, actor="supervisor", path=gate.path):
        gates.reopen(db, gate.kind, now=now_us(), actor="supervisor")
