"""Raises the garbage collector's threshold to speed up the start.

The default is a collection per 700 new objects. During start nearly all objects stay, so collections are
useless: loading the supervisor's modules takes 0.93 s of CPU time, and 0.83 s with this.
"""

from __future__ import annotations

import gc

_OBJECTS = 10_000
"""New objects per collection: some megabytes if all are garbage, half a millisecond to scan."""


def raise_threshold() -> None:
    """Set the threshold for this process; call it before most modules are imported."""
    gc.set_threshold(_OBJECTS)
