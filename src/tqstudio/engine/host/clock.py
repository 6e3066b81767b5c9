"""Reads the wall clock for stored times, and monotonic clocks for deadlines."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import structlog

MICROSECOND = 1_000_000
"""Microseconds in a second: the unit of every stored time."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now_us() -> int:
    """Returns the wall clock in microseconds since 1970 in UTC. It may be set; no lease depends on it."""
    return time.time_ns() // 1000


def iso_time(at: int) -> str:
    """Formats a stored time as ISO 8601 in UTC."""
    # Integers only: a float would sometimes lose the last millisecond.
    return (EPOCH + timedelta(microseconds=at)).isoformat(timespec="milliseconds")


def since_boot() -> float:
    """Returns monotonic seconds, including the time of a suspend if the system supports that."""
    return since_boot_us() / 1e6


def since_boot_us() -> int:
    """Returns what `since_boot` does, in microseconds."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1000


class RunningClock:
    """Monotonic µs without the time in which the process or the machine was stopped.

    A stopped supervisor receives no heartbeats, so that time must not count against a lease. It is found by
    reading the clock often: a longer gap between two reads is left out.

    Args:
        max_gap_us: the longest gap between two reads of a process that runs.
        boot: monotonic µs, including the time of a suspend.
    """

    def __init__(self, max_gap_us: int, boot: Callable[[], int] = since_boot_us) -> None:
        self._max_gap_us, self._boot = max_gap_us, boot
        self._seen = boot()
        self.stopped_us = 0
        """Sum of the gaps that were left out."""

    def now_us(self) -> int:
        boot = self._boot()
        if (gap := boot - self._seen) > self._max_gap_us:
            self.stopped_us += gap
            structlog.get_logger().warning("the process was stopped", seconds=gap / MICROSECOND)
        self._seen = boot
        return boot - self.stopped_us
