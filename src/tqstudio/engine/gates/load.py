"""The load gate: holds the queue while the machine is overloaded or short of memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from tqstudio.config import Settings
from tqstudio.engine.host import memory
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.parts.part import Part, Periodic
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.machine import gates
from tqstudio.lifecycle import GateKind
from tqstudio.units import size

_TICK_S = 3.0
HYSTERESIS = 0.2
"""A shut gate opens only at this fraction beyond its limit, so that it does not flap."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The load of the machine."""

    load: float
    """Load average of the last minute, per processor core."""
    memory_bytes: int
    """Memory available without swapping."""


def measure() -> Reading:
    return Reading(os.getloadavg()[0] / (os.cpu_count() or 1), memory.available())


class LoadGate(Part):
    """Holds the queue while the machine is overloaded. Running jobs continue.

    Args:
        measure: reads the load.
    """

    def __init__(self, settings: Settings, db: Database, measure: Callable[[], Reading] = measure) -> None:
        self._settings, self._db, self._measure = settings, db, measure
        self._shut: bool | None = None
        """None at first: an earlier supervisor may have left it shut."""
        self.every = (Periodic(_TICK_S, self.tick, at_once=True),)

    async def tick(self) -> None:
        if self._shut is None:
            shut = await self._db.read(gates.listing)
            self._shut = any(gate.kind is GateKind.LOAD for gate in shut)
        reason = pressed(self._settings, self._measure(), shut=self._shut)
        if (reason is not None) == self._shut:
            return
        await self._db.write(_shut_or_open, reason)
        self._shut = reason is not None


def _shut_or_open(db: Connection, reason: str | None) -> None:
    if reason is None:
        gates.reopen(db, GateKind.LOAD, now=now_us(), actor="supervisor")
    else:
        gates.shut(db, GateKind.LOAD, reason, now=now_us(), actor="supervisor")


def pressed(settings: Settings, reading: Reading, *, shut: bool) -> str | None:
    """Why no further job should start; None if one may.

    Args:
        shut: the gate is shut already.
    """
    minimum = settings.min_memory_bytes * (1 + HYSTERESIS if shut else 1)
    if reading.memory_bytes < minimum:
        return f"{size(reading.memory_bytes)} of memory are left, {size(minimum)} are needed to start a job"
    limit = settings.max_load * (1 - HYSTERESIS if shut else 1)
    if settings.max_load and reading.load > limit:
        return f"the load is {reading.load:.1f} per processor, at most {limit:.1f} is allowed to start a job"
    return None
