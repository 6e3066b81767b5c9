"""How long a worker waits before it asks an absent supervisor again; doubled from the first to the last."""

from __future__ import annotations

FIRST_S = 0.2
LAST_S = 3.0


def after(seconds: float) -> float:
    """The next wait."""
    return min(LAST_S, seconds * 2)
