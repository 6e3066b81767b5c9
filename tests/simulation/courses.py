"""The worlds that are part of every run of the tests; each is simulated once for all its processes."""

from __future__ import annotations

import fcntl
import pickle
from pathlib import Path

from .faults import WEATHER
from .world import Outcome, simulate

STEPS = 5_000
"""Of trouble, in each world; the calm behind it comes on top."""
MIXED = tuple(("mixed", seed) for seed in range(5, 13))
OF_ONE_KIND = tuple((weather, seed) for weather in sorted(set(WEATHER) - {"mixed"}) for seed in (21, 22))
LEAST_STEPS = 100_000
"""That all of them have together."""


def course(weather: str, seed: int, kept: Path) -> Outcome:
    """What a world came to.

    Args:
        kept: a folder in which the processes of one run of the tests keep what they came to.

    Raises:
        Violation: of an invariant; it names the seed.
    """
    file, busy = kept / f"{weather}-{seed}", kept / f"{weather}-{seed}.busy"
    with busy.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            file.write_bytes(pickle.dumps(simulate(seed, STEPS, weather)))
    outcome: Outcome = pickle.loads(file.read_bytes())
    return outcome


def told(outcome: Outcome) -> tuple[str, int, int]:
    """For whoever reads the log of the tests: weather, seed, steps."""
    return outcome.weather, outcome.seed, outcome.steps
