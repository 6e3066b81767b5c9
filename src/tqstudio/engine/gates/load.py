"""The load gate: holds the queue while the machine is needed for something else, or is short of something."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from tqstudio.config import Settings
from tqstudio.engine.host import memory
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.machine import gates
from tqstudio.lifecycle import GateKind
from tqstudio.units import size

HYSTERESIS = 0.2
"""A shut gate opens only at this fraction beyond its limit, so that it does not flap."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The load of the machine."""

    load: float
    """Load average of the last minute, per processor core."""
    memory_bytes: int
    """Memory available without swapping."""
    program: str | None = None
    """One of `yield_to` that runs."""
    battery: float | None = None
    """Percent left in the battery that the machine runs on."""


def measure(settings: Settings) -> Reading:
    wanted = {name.strip() for name in settings.yield_to.split(",") if name.strip()}
    running = (process.info["name"] for process in psutil.process_iter(["name"])) if wanted else ()
    battery = None if settings.run_on_battery else psutil.sensors_battery()
    return Reading(
        os.getloadavg()[0] / (os.cpu_count() or 1),
        memory.available(),
        program=next((name for name in running if name in wanted), None),
        battery=battery.percent if battery is not None and battery.power_plugged is False else None,
    )


class LoadGate:
    """Holds the queue while the machine is overloaded or needed otherwise. Running jobs continue.

    Args:
        measure: reads the load.
    """

    def __init__(
        self, settings: Settings, db: Database, measure: Callable[[Settings], Reading] = measure
    ) -> None:
        self._settings, self._db, self._measure = settings, db, measure
        self._shut: bool | None = None
        """None at first: an earlier supervisor may have left it shut."""

    async def tick(self) -> None:
        if self._shut is None:
            shut = await self._db.read(gates.listing)
            self._shut = any(gate.kind is GateKind.BACKPRESSURE for gate in shut)
        reason = pressed(self._settings, self._measure(self._settings), shut=self._shut)
        if (reason is not None) == self._shut:
            return
        await self._db.write(_shut_or_open, reason)
        self._shut = reason is not None


def _shut_or_open(db: Connection, reason: str | None) -> None:
    if reason is None:
        gates.reopen(db, GateKind.BACKPRESSURE, now=now_us(), actor="supervisor")
    else:
        gates.shut(db, GateKind.BACKPRESSURE, reason, now=now_us(), actor="supervisor")


def pressed(settings: Settings, reading: Reading, *, shut: bool) -> str | None:
    """Why no further job should start; None if one may.

    Args:
        shut: the gate is shut already.
    """
    if reading.program is not None:
        return f"{reading.program} is running, and jobs start only without it"
    if reading.battery is not None:
        return f"the machine runs on battery ({reading.battery:.0f} % left)"
    minimum = settings.min_memory_bytes * (1 + HYSTERESIS if shut else 1)
    if reading.memory_bytes < minimum:
        return f"{size(reading.memory_bytes)} of memory are left, {size(minimum)} are needed to start a job"
    limit = settings.max_load * (1 - HYSTERESIS if shut else 1)
    if settings.max_load and reading.load > limit:
        return f"the load is {reading.load:.1f} per processor, at most {limit:.1f} is allowed to start a job"
    return None
