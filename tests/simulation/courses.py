"""The worlds that are part of every run of the tests; each is simulated once for all its processes."""

from __future__ import annotations

import fcntl
import pickle
from pathlib import Path

from .faults import FAULT_PROFILES
from .world import Outcome, simulate

STEPS = 5_000
"""Of trouble, in each world; the calm behind it comes on top."""
MIXED = tuple(("mixed", seed) for seed in range(5, 9))
OF_ONE_KIND = tuple((fault_profile, 21) for fault_profile in sorted(set(FAULT_PROFILES) - {"mixed"}))
MIN_STEPS = 50_000
"""That all of them have together."""


def course(fault_profile: str, seed: int, kept: Path) -> Outcome:
    """What a world came to.

    Args:
        kept: a folder in which the processes of one run of the tests keep what they came to.

    Raises:
        Violation: of an invariant; it names the seed.
    """
    file, busy = kept / f"{fault_profile}-{seed}", kept / f"{fault_profile}-{seed}.busy"
    with busy.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            file.write_bytes(pickle.dumps(simulate(seed, STEPS, fault_profile)))
    outcome: Outcome = pickle.loads(file.read_bytes())
    return outcome


def label(outcome: Outcome) -> tuple[str, int, int]:
    """For whoever reads the log of the tests: fault_profile, seed, steps."""
    return outcome.fault_profile, outcome.seed, outcome.steps
