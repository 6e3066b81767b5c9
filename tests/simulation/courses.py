"""The worlds that are part of every run of the tests; each is simulated once in a process."""

from __future__ import annotations

from functools import cache

from .faults import WEATHER
from .world import Outcome, simulate

STEPS = 5_000
"""Of trouble, in each world; the calm behind it comes on top."""
MIXED = tuple(("mixed", seed) for seed in range(5, 15))
OF_ONE_KIND = tuple((weather, seed) for weather in sorted(set(WEATHER) - {"mixed"}) for seed in (21, 22))
LEAST_STEPS = 100_000
"""That all of them have together."""


@cache
def course(weather: str, seed: int) -> Outcome:
    """What a world came to.

    Raises:
        Violation: of an invariant; it names the seed.
    """
    return simulate(seed, STEPS, weather)


def told(outcome: Outcome) -> tuple[str, int, int]:
    """For whoever reads the log of the tests: weather, seed, steps."""
    return outcome.weather, outcome.seed, outcome.steps
