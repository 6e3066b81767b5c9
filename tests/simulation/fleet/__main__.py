"""Run the model of a large fleet: `make simulate FLEET=1 ARGS="--workers 200 --speed 0.15"`."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from typing import TypeVar

from .constants import Costs, Fleet, Rules
from .course import Course, mean_length_s
from .leader import Load, load
from .outcome import INVARIANTS, Outcome, Violation

T = TypeVar("T", Fleet, Costs)
SIZES = {
    # With so many faults and slow outputs that every rule is needed within seconds.
    "small": Fleet(
        workers=40,
        supervisors=3,
        jobs=3_000,
        line_fault_s=20_000,
        leader_fault_s=5_000,
        slow_output_share=0.3,
    ),
    "medium": Fleet(jobs=300_000),
    "full": Fleet(),
}
_STEPS = (10, 20, 50, 100, 200, 500, 1_000)


def main() -> int:
    arguments = _parser().parse_args()
    fleet, costs = _given(SIZES[arguments.size], arguments), _given(Costs(), arguments)
    print(
        f"{fleet.workers} workers, {fleet.supervisors} supervisors, {fleet.jobs} jobs, seed {fleet.seed};"
        f" mean length {mean_length_s(fleet):.0f} s, encoded at {fleet.speed:g}×"
    )
    print(
        f"\n{'workers':>8} {'processor':>10} {'network':>8} {'disk':>6} {'slower':>7} {'report':>8}"
        f" {'claim p50':>10} {'p99':>9}"
    )
    found = [_load(costs, fleet, each) for each in _STEPS if each < fleet.workers]
    found.append(_load(costs, fleet, fleet.workers))
    began = time.perf_counter()
    try:
        outcome = Course(fleet, costs, found[-1], Rules()).run()
    except Violation as violation:
        print(f"\nseed {fleet.seed}: {violation}", file=sys.stderr)
        return 1
    _report(fleet, found[-1], outcome)
    print(f"\nsimulated in {time.perf_counter() - began:.0f} s; kept: {', '.join(INVARIANTS)}")
    return 0


def _load(costs: Costs, fleet: Fleet, workers: int) -> Load:
    found = load(costs, dataclasses.replace(fleet, workers=workers), mean_length_s(fleet))
    print(
        f"{workers:>8} {found.processor:>10.0%} {found.line:>8.1%} {found.disk:>6.0%} {found.slower:>6.1f}×"
        f" {found.report_s:>6.2f} s {found.wait_ms(50):>7.0f} ms {found.wait_ms(99):>6.0f} ms",
        flush=True,
    )
    return found


def _report(fleet: Fleet, found: Load, outcome: Outcome) -> None:
    days = outcome.span_us / 86_400e6
    all_, again = (outcome.segments(us, fleet, found) for us in (outcome.encoded_us, outcome.again_us))
    p50, p99, p9999 = (outcome.wait_ms(found, percent) / 1000 for percent in (50, 99, 99.99))
    busy = outcome.busy(fleet)
    for line in (
        "",
        f"{days:.1f} days, {fleet.jobs / days:.0f} jobs a day; workers encode {busy:.1%} of the time",
        f"claims wait {p50:.3f} s (p50), {p99:.3f} s (p99), {p9999:.1f} s (p99.99);"
        f" {len(outcome.waits_us)} of {outcome.claims} had to wait for a new leader",
        f"{outcome.takeovers} takeovers, {outcome.line_cuts} cut lines, {outcome.requeued} jobs were given to"
        f" another worker, {outcome.refused} late ends were refused",
        f"{again} of {all_} segments were encoded twice ({again / all_:.4%})",
    ):
        print(line)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m simulation.fleet", description=__doc__)
    parser.add_argument("--size", choices=list(SIZES), default="full")
    for group in (Fleet, Costs):
        for each in dataclasses.fields(group):
            kind = int if each.type == "int" else float
            parser.add_argument(f"--{each.name.replace('_', '-')}", type=kind, metavar="N")
    return parser


def _given(values: T, arguments: argparse.Namespace) -> T:
    """Replace what was given on the command line."""
    given = {each.name: getattr(arguments, each.name) for each in dataclasses.fields(values)}
    return dataclasses.replace(values, **{name: value for name, value in given.items() if value is not None})


if __name__ == "__main__":
    sys.exit(main())
