"""Makes a child process die with its supervisor; `children` is the supervisor's side."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import MutableMapping

PARENT = "TQSTUDIO_PARENT"
"""Environment variable of child processes with the supervisor's pid."""

_PR_SET_PDEATHSIG = 1


def die_with_parent(environment: MutableMapping[str, str]) -> bool:
    """Make the kernel kill this process when its parent dies; False if the parent is already dead.

    Removes the variable from the environment, so that child processes do not inherit it.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = environment.pop(PARENT, "")
    return not parent or os.getppid() == int(parent)
