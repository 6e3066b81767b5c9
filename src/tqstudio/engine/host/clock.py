"""Clocks that neither a suspended machine nor a clock that is set can mislead."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

NOTICEABLE_US = 1_000_000
"""A wall clock that is further away than this was set, or nobody could look at it for a while."""


def since_boot() -> float:
    """Seconds that never go back, those of a suspend included where the system can tell them."""
    return _since_boot_us() / 1e6


def _since_boot_us() -> int:
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1000


def _wall_us() -> int:
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Drift:
    """How far the wall clock is ahead of a steady one, in µs, and why."""

    total_us: int
    missed_us: int
    """Of these, the time in which nobody looked at the clock: the process or the machine was stopped."""

    @property
    def set_us(self) -> int:
        """Of these, how far the wall clock was set forward; negative when it was set back."""
        return self.total_us - self.missed_us

    @property
    def noticeable(self) -> bool:
        return abs(self.total_us) > NOTICEABLE_US


class SteadyClock:
    """Wall time that goes on evenly.

    Leases are stored as wall times. While a supervisor is stopped no heartbeat can be taken, and a wall clock
    may be set by hours; neither may end leases in bulk, or let one last for hours. So this clock goes on
    from where it stood, and leaves out every silence that is longer than its owner's patience. `drift` says
    how far the wall clock is away, and `catch_up` goes there once the leases were seen to.

    Args:
        wall: µs since 1970.
        boot: µs that never go back, with those of a suspend.
    """

    def __init__(self, wall: Callable[[], int] = _wall_us, boot: Callable[[], int] = _since_boot_us) -> None:
        self._wall, self._boot = wall, boot
        self._lock = threading.Lock()
        self._seen = boot()
        self._offset = wall() - self._seen
        self._missed = self._silent = 0
        self._patience_us: int | None = None

    def watch(self, patience_us: int) -> None:
        """From now on somebody asks for the time often: a longer silence means that nobody could."""
        with self._lock:
            self._seen = self._boot()
            self._patience_us = patience_us

    def now_us(self) -> int:
        """µs since 1970 in UTC."""
        with self._lock:
            return self._now()

    def running_us(self) -> int:
        """µs that somebody was there to see; never set, so that two of them tell how long something took."""
        with self._lock:
            self._now()
            return self._seen - self._silent

    def _now(self) -> int:
        boot = self._boot()
        silence = boot - self._seen
        if self._patience_us is not None and silence > self._patience_us:
            self._offset -= silence
            self._missed += silence
            self._silent += silence
        self._seen = max(boot, self._seen)
        return boot + self._offset

    def drift(self) -> Drift:
        with self._lock:
            return Drift(self._wall() - self._now(), self._missed)

    def catch_up(self, drift: Drift) -> None:
        """Go on from where the wall clock was."""
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
