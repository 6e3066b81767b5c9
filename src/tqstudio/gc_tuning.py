"""How often Python looks for garbage: seldom.

By default it looks each time 700 objects have come. What a start makes stays, so that looking then is in vain
and a ninth of the time: 0.93 s of processor time until the supervisor's modules are loaded, 0.83 s with this.
"""

from __future__ import annotations

import gc

_OBJECTS = 10_000
"""New ones, since the last look: some megabytes if all of them are garbage, half a millisecond to look at."""


def look_seldom() -> None:
    """For the life of this process; to be called before most of what it needs is imported."""
    gc.set_threshold(_OBJECTS)
