"""Run simulated worlds, one after the other: `make simulate STEPS=1000000 SEED=7`."""

from __future__ import annotations

import argparse
import sys
import time

from .audit import Violation
from .faults import FAULT_PROFILES
from .world import simulate

WORLD_STEPS = 100_000
"""Steps of one world: what is compared with its whole history would take ever longer."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument(
        "--faults", choices=list(FAULT_PROFILES), default="mixed", help="which faults there are"
    )
    chosen = parser.parse_args()
    seed = chosen.seed if chosen.seed is not None else time.time_ns() % 1_000_000
    for first in range(0, chosen.steps, WORLD_STEPS):
        steps = min(WORLD_STEPS, chosen.steps - first)
        if not _run(seed + first // WORLD_STEPS, steps, chosen.faults):
            return 1
    return 0


def _run(seed: int, steps: int, faults: str) -> bool:
    """Simulate one world and print how it went; False if it violated an invariant."""
    print(f"seed {seed}, faults {faults}, {steps} steps", flush=True)
    began = time.perf_counter()
    try:
        outcome = simulate(seed, steps, faults)
    except Violation as violation:
        print(violation, file=sys.stderr)
        return False
    seconds = time.perf_counter() - began
    jobs = ", ".join(f"{count} {status}" for status, count in sorted(outcome.jobs.items()))
    print(
        f"{outcome.steps} steps in {seconds:.1f} s ({outcome.steps / seconds:.0f}/s),"
        f" {outcome.commits} commits, {outcome.simulated_s / 3600:.1f} simulated hours; {jobs}"
    )
    print(f"trace {outcome.digest}", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
