"""Fail points: named places at which the supervisor kills itself with SIGKILL. For tests only.

`TQSTUDIO_FAIL_POINT=publish.renamed tqstudio up` dies when that place is first reached, without flushing or
cleaning up. A fail point is a call of `reach` with its name; without the variable it does nothing.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "TQSTUDIO_FAIL_POINT"

_armed: str | None = None


def arm() -> None:
    """Read the variable and remove it from the environment, so that workers do not inherit it."""
    global _armed
    _armed = os.environ.pop(VARIABLE, None) or None


def reach(name: str) -> None:
    """Kill this process if the fail point is armed."""
    if name == _armed:
        os.kill(os.getpid(), signal.SIGKILL)
