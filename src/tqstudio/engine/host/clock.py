"""Clocks that are not affected by a suspended machine or a changed wall clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

NOTICEABLE_US = 1_000_000
"""Larger differences count as a changed wall clock or a suspended process."""


def since_boot() -> float:
    """Monotonic seconds, including the time of a suspend if the system supports that."""
    return _since_boot_us() / 1e6


def _since_boot_us() -> int:
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1000


def _wall_us() -> int:
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Drift:
    """How far the wall clock is ahead of the steady clock, in µs, and why."""

    total_us: int
    missed_us: int
    """The part during which the process or the machine was stopped."""

    @property
    def set_us(self) -> int:
        """The part by which the wall clock was set forward; negative when it was set back."""
        return self.total_us - self.missed_us

    @property
    def noticeable(self) -> bool:
        return abs(self.total_us) > NOTICEABLE_US


class SteadyClock:
    """Wall time that advances evenly.

    Leases are stored as wall times. A stopped supervisor gets no heartbeats, and the wall clock may be set
    by hours; neither may expire all leases, or extend one by hours. So this clock starts at the wall time,
    advances with the boot clock, and leaves out pauses of the process. `drift` measures its distance to the
    wall clock, and `catch_up` removes it once the leases were adjusted.

    Args:
        wall: µs since 1970.
        boot: monotonic µs, including the time of a suspend.
    """

    def __init__(self, wall: Callable[[], int] = _wall_us, boot: Callable[[], int] = _since_boot_us) -> None:
        self._wall, self._boot = wall, boot
        self._lock = threading.Lock()
        self._seen = boot()
        self._offset = wall() - self._seen
        self._missed = self._stopped = 0
        self._max_gap_us: int | None = None

    def watch(self, max_gap_us: int) -> None:
        """From now on the clock is read often: a longer gap means that the process was stopped."""
        with self._lock:
            self._seen = self._boot()
            self._max_gap_us = max_gap_us

    def now_us(self) -> int:
        """µs since 1970 in UTC."""
        with self._lock:
            return self._now()

    def running_us(self) -> int:
        """Monotonic µs without the time in which the process was stopped, for measuring durations."""
        with self._lock:
            self._now()
            return self._seen - self._stopped

    def _now(self) -> int:
        boot = self._boot()
        gap = boot - self._seen
        if self._max_gap_us is not None and gap > self._max_gap_us:
            self._offset -= gap
            self._missed += gap
            self._stopped += gap
        self._seen = max(boot, self._seen)
        return boot + self._offset

    def drift(self) -> Drift:
        with self._lock:
            return Drift(self._wall() - self._now(), self._missed)

    def catch_up(self, drift: Drift) -> None:
        """Set this clock to the wall clock, as measured by `drift`."""
        with self._lock:
            self._offset += drift.total_us
            self._missed -= drift.missed_us


WALL = SteadyClock()
"""The clock of this process."""


MICROSECOND = 1_000_000
"""Microseconds in a second: the unit of every stored time."""


def now_us() -> int:
    """Read the steady wall clock, in microseconds since 1970 in UTC; see `SteadyClock`."""
    return WALL.now_us()
