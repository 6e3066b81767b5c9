"""Keeps jobs from running outside of hours: those of the queue and of a drop folder; ends a person's pause.

Checked every few seconds; the hours of a folder also when one of its jobs would start, and then the job waits
alone until the folder is found open. The worker of a job whose hours end releases it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from tqstudio import hours
from tqstudio.config import Settings
from tqstudio.engine.gates.decide import Waits
from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.live.running_jobs import RunningJobs
from tqstudio.engine.parts.part import Part, Periodic
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import folder_hours
from tqstudio.engine.store.machine import gates
from tqstudio.engine.store.machine.gates import GateRow, JobVolumes
from tqstudio.errors import MEANINGS, ErrorCode
from tqstudio.lifecycle import GateKind
from tqstudio.paths import display

_ACTOR = "supervisor"


def closed(need: JobVolumes) -> Waits | None:
    """Why a job may not start outside of the hours of its drop folder; None if it may."""
    if not need.hours or need.folder is None or hours.parse(need.hours).include(_now()):
        return None
    code = ErrorCode.OUTSIDE_HOURS
    why = f"jobs of {display(need.folder)} run in its hours only: {need.hours}"
    return Waits(need.folder, code, why, MEANINGS[code].hint)


_TICK_S = 3.0


class Schedule(Part):
    """Shuts and opens the gate of the queue's hours, ends pauses, ends waits for folders' hours, and has
    running jobs released whose hours have ended.

    Args:
        on_ready: called when jobs may have become claimable.
    """

    def __init__(
        self, settings: Settings, db: Database, running_jobs: RunningJobs, on_ready: Callable[[], object]
    ) -> None:
        self._hours, self._db, self._running_jobs = hours.parse(settings.hours), db, running_jobs
        self._on_ready = on_ready
        self.every = (Periodic(_TICK_S, self.tick, at_once=True),)
        self._reason = f"jobs run in these hours only: {settings.hours}"

    async def tick(self) -> None:
        """Compares hours and pauses with the clock."""
        now = _now()
        rules, shut, waits = await self._db.reread(_look)
        folders = {folder for folder, text in rules.items() if not hours.parse(text).include(now)}
        is_over = waits and await self._db.read(folder_hours.is_any_over, folders)
        if is_due := is_over or self._is_wrong(shut, now):
            await self._db.write(self._update_hours, folders, now)
        # Once the gate is shut, so that nothing is claimed again.
        needs = await self._db.read(gates.running_needs) if self._running_jobs.jobs else []
        is_open = self._hours.include(now)
        self._running_jobs.end_hours({need.job for need in needs if not is_open or closed(need) is not None})
        if is_due:
            self._on_ready()

    def _is_wrong(self, listed: Iterable[GateRow], now: datetime) -> bool:
        """Whether a gate has to be shut or opened."""
        shut = {gate.kind: gate for gate in listed}
        is_over = (pause := shut.get(GateKind.USER)) is not None and _is_over(pause, now)
        stored = shut[GateKind.HOURS].reason if GateKind.HOURS in shut else None
        return is_over or stored != (None if self._hours.include(now) else self._reason)

    def _update_hours(self, db: Connection, closed: set[int], now: datetime) -> None:
        at, kind = _us(now), GateKind.HOURS
        if self._hours.include(now):
            gates.reopen(db, kind, now=at, actor=_ACTOR)
        else:
            until = _us(self._hours.next_begin(now))
            if not gates.shut(db, kind, self._reason, now=at, actor=_ACTOR, until=until):
                gates.open_until(db, kind, reason=self._reason, until=until, now=at, actor=_ACTOR)
        if any(gate.kind is GateKind.USER and _is_over(gate, now) for gate in gates.listing(db)):
            gates.reopen(db, GateKind.USER, now=at, actor=_ACTOR)
        folder_hours.end_waits(db, closed, now=at)


def _look(db: Connection) -> tuple[dict[int, str], Sequence[GateRow], bool]:
    """Returns the hours of folders, the shut gates, and whether any job waits for hours."""
    return folder_hours.closing(db), gates.listing(db), folder_hours.is_any_over(db, ())


def _is_over(gate: GateRow, now: datetime) -> bool:
    return gate.until is not None and gate.until <= _us(now)


def _now() -> datetime:
    return datetime.fromtimestamp(now_us() / MICROSECOND, UTC)


def _us(moment: datetime) -> int:
    return int(moment.timestamp() * MICROSECOND)
