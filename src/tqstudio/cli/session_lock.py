"""Which commands need the supervisor of a home just now: each holds a shared lock until its process ends.

Following asks now and then and is silent between, so the supervisor cannot tell who still counts on it. The
kernel can, and it forgets a command at any death.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tqstudio.home import Home

_held: int | None = None


def enter(home: Home) -> None:
    """Be counted from now on; waits for a command that is stopping the supervisor at this moment."""
    global _held
    # Where no file can be made there is no supervisor to count on either, or it is another user's.
    with contextlib.suppress(OSError):
        home.create()
        if _held is None:
            _held = os.open(home.in_use, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(_held, fcntl.LOCK_SH)


def alone() -> bool:
    """Whether no other command is counted. If so none is until `leave`: those that begin wait for it."""
    if _held is None:
        return True
    try:
        fcntl.flock(_held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def leave() -> None:
    """Be counted no longer."""
    global _held
    if _held is not None:
        os.close(_held)
        _held = None
