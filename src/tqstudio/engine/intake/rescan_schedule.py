"""Schedules the full scans of a folder."""

from __future__ import annotations

import time

POLL_S = 5.0
"""Interval of scans if inotify does not work, or the folder is missing."""

MIN_INTERVAL_S = 0.2
"""Minimum between two scans that hints request: removing a tree of folders requests a thousand."""

_POLL_SHARE = 10
"""Polling uses at most 1/N of the time, to spare slow mounts."""

_IDLE_SHARE = 200
"""Scans of a watched folder use at most 1/N of a processor core, however large it is."""


class RescanSchedule:
    """When the next scan of a folder is due; in seconds of `time.monotonic`."""

    def __init__(self, rescan_s: float) -> None:
        self._rescan_s = rescan_s
        self._poll_s = min(rescan_s, POLL_S)
        self._requested = True
        self._next = 0.0
        self._earliest = 0.0

    def request(self) -> None:
        """Make the next scan due now."""
        self._requested = True

    def due(self, *, hints_lost: bool) -> float:
        if self._requested:
            return 0.0
        return min(self._next, self._earliest) if hints_lost else self._next

    def begin(self) -> None:
        """Start a scan; later requests cause another one."""
        self._requested = False

    def end(self, *, polling: bool, took_s: float, cpu_s: float) -> None:
        now = time.monotonic()
        if polling:
            self._next = now + max(self._poll_s, took_s * _POLL_SHARE)
        else:
            self._next = now + max(self._rescan_s, cpu_s * _IDLE_SHARE)
        self._earliest = now + max(MIN_INTERVAL_S, took_s)

    def fail(self) -> None:
        self._next = time.monotonic() + self._poll_s
