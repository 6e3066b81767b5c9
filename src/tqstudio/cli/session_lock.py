"""Counts the commands that use the supervisor: each holds a shared lock until its process exits.

Polling commands have no open connection, so the supervisor cannot count them. The kernel releases the lock
however a command dies.
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
    """Register this process; waits while another command is stopping the supervisor."""
    global _held
    # Where no file can be created there is no supervisor to use either, or it is another user's.
    with contextlib.suppress(OSError):
        home.create()
        if _held is None:
            _held = os.open(home.in_use, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(_held, fcntl.LOCK_SH)


def alone() -> bool:
    """Whether no other command is registered. If so, new ones wait until `leave`."""
    if _held is None:
        return True
    try:
        fcntl.flock(_held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def leave() -> None:
    """Unregister this process."""
    global _held
    if _held is not None:
        os.close(_held)
        _held = None
