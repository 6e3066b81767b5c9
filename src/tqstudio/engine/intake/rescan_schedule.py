"""When a folder is looked through as a whole."""

from __future__ import annotations

import time

POLL_S = 5.0
"""Between two looks through a folder where inotify does not help, or which is gone."""

BREATH_S = 0.2
"""Between two looks that hints ask for, at least: removing a tree of folders asks a thousand times."""

_POLL_SHARE = 10
"""A polled folder is read for at most one part in this many of the time: a slow mount is left in peace."""

_IDLE_SHARE = 200
"""A watched folder takes at most one part in this many of a processor, 0.5 %, however large it is."""


class Pace:
    """Times are seconds of `time.monotonic`."""

    def __init__(self, rescan_s: float) -> None:
        self._rescan_s = rescan_s
        self._poll_s = min(rescan_s, POLL_S)
        self._asked = True
        self._next = 0.0
        self._earliest = 0.0

    def ask(self) -> None:
        """Make the next look due now."""
        self._asked = True

    def due(self, *, hints_lost: bool) -> float:
        if self._asked:
            return 0.0
        return min(self._next, self._earliest) if hints_lost else self._next

    def begin(self) -> None:
        """A look begins; what is asked from now on it may miss."""
        self._asked = False

    def end(self, *, polling: bool, took_s: float, cpu_s: float) -> None:
        now = time.monotonic()
        if polling:
            self._next = now + max(self._poll_s, took_s * _POLL_SHARE)
        else:
            self._next = now + max(self._rescan_s, cpu_s * _IDLE_SHARE)
        self._earliest = now + max(BREATH_S, took_s)

    def fail(self) -> None:
        self._next = time.monotonic() + self._poll_s
