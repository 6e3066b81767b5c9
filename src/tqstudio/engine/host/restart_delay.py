"""Delays the restarts of a child process that keeps dying."""

from __future__ import annotations

import time
from collections import deque

DEATHS_WINDOW_S = 60.0
FREE_DEATHS = 2
"""Deaths in the window that are followed by an immediate restart; later restarts are delayed."""
FIRST_RESTART_WAIT_S = 0.5
MAX_RESTART_WAIT_S = 30.0


class RestartDelay:
    """The delays of one child, which grow with its deaths in the window."""

    def __init__(self) -> None:
        self._deaths: deque[float] = deque()

    def after(self, lived_s: float) -> float:
        """Count a death now, after so many seconds of life; returns the delay in seconds."""
        now = time.monotonic()
        self._deaths.append(now)
        while now - self._deaths[0] > DEATHS_WINDOW_S:
            self._deaths.popleft()
        return restart_wait_s(len(self._deaths), lived_s)


def restart_wait_s(deaths: int, lived_s: float) -> float:
    """Return the delay of a restart in seconds, after so many deaths within a minute.

    It counts from the last start: a process that lived longer is replaced at once. It is short at first, so
    that a job runs again within two seconds after the third death.
    """
    if deaths <= FREE_DEATHS:
        return 0.0
    apart_s = min(MAX_RESTART_WAIT_S, FIRST_RESTART_WAIT_S * 2.0 ** (deaths - FREE_DEATHS - 1))
    return max(0.0, apart_s - lived_s)
