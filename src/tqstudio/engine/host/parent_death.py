"""A child's tie to the supervisor that started it; `engine/children.py` is the other side."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import MutableMapping

PARENT = "TQSTUDIO_PARENT"
"""Names the supervisor's pid in the environment of its children."""

_PR_SET_PDEATHSIG = 1


def die_with_parent(environment: MutableMapping[str, str]) -> bool:
    """Ask the kernel to end this process with its parent; False when the parent is gone already.

    The name is taken out of the environment, so that nothing started from here takes it for its own.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = environment.pop(PARENT, "")
    return not parent or os.getppid() == int(parent)
