"""Exponential backoff of a worker that cannot reach the supervisor."""

from __future__ import annotations

FIRST_S = 0.2
LAST_S = 3.0


def after(seconds: float) -> float:
    """The delay after one of `seconds`."""
    return min(LAST_S, seconds * 2)
