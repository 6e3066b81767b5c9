"""Named places in the supervisor at which it ends itself by SIGKILL. For tests only.

`TQSTUDIO_FAIL_POINT=publish.renamed tqstudio up` dies the first time that place is reached, as a power cut
would have it: nothing is flushed, nothing is cleaned up. A place is a call of `reach` with its name; without
the variable that call compares two values and returns.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "TQSTUDIO_FAIL_POINT"

_armed: str | None = None


def arm() -> None:
    """Read the variable and take it out of the environment: workers do not inherit it."""
    global _armed
    _armed = os.environ.pop(VARIABLE, None) or None


def reach(name: str) -> None:
    """End here if a test asked for it."""
    if name == _armed:
        os.kill(os.getpid(), signal.SIGKILL)
