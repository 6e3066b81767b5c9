"""When a job runs again: pure arithmetic on counters and clocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tqstudio.errors import ErrorClass, ErrorCode, class_of
from tqstudio.lifecycle import Trigger

RESOURCE_WAIT_S = 15.0
"""How long a job that met a shortage stays out of the queue, so that it cannot spin on it."""


@dataclass(frozen=True, slots=True)
class RetryRules:
    """Backoff base and bound in seconds; `jitter` answers a number in 0…1."""

    backoff_s: float
    backoff_max_s: float
    jitter: Callable[[], float]

    def wait_s(self, failures: int) -> float:
        """Seconds before the next attempt after so many failures: base · 2ⁿ⁻¹, bounded, ±10 %."""
        bounded = min(self.backoff_max_s, self.backoff_s * 2.0 ** min(max(0, failures - 1), 30))
        return bounded * (0.9 + 0.2 * self.jitter())


def longest_wait_s(backoff_max_s: float) -> float:
    """Seconds that no wait of a job is longer than."""
    return max(RESOURCE_WAIT_S, backoff_max_s * 1.1)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a job after a failure."""

    trigger: Trigger
    attempts: int
    crashes: int
    wait_s: float | None
    """Seconds before it may be claimed again; None for at once or never."""
    code: ErrorCode
    exhausted: bool


DETERMINISTIC = frozenset((ErrorCode.ENCODER_EXIT, ErrorCode.OUTPUT_EMPTY, ErrorCode.OUTPUT_INVALID))
"""Mostly caused by the source: what comes twice with the same words would come a third time."""


def judge_failure(
    code: ErrorCode,
    *,
    attempts: int,
    crashes: int,
    max_attempts: int,
    rules: RetryRules,
    repeated: bool = False,
) -> Verdict:
    """What a reported failure means: fatal ones end the job, shortages cost nothing, others are counted.

    Args:
        repeated: the attempt before failed in the same way.
    """
    match class_of(code):
        case ErrorClass.FATAL:
            return Verdict(Trigger.FAIL_FINAL, attempts, crashes, None, code, exhausted=False)
        case ErrorClass.RESOURCE:
            return Verdict(Trigger.RELEASE, attempts, crashes, RESOURCE_WAIT_S, code, exhausted=False)
        case _:
            attempts += 1
            if attempts >= max_attempts:
                return Verdict(Trigger.FAIL_FINAL, max_attempts, crashes, None, code, exhausted=True)
            if repeated and code in DETERMINISTIC:
                return Verdict(Trigger.FAIL_FINAL, attempts, crashes, None, code, exhausted=False)
            return Verdict(
                Trigger.FAIL_RETRYABLE, attempts, crashes, rules.wait_s(attempts), code, exhausted=False
            )


def judge_loss(
    *, attempts: int, crashes: int, max_crashes: int, got_further: bool, had_got_further: bool
) -> Verdict:
    """What a lost worker means: at once again, until the crashes are used up and the job is poison.

    Args:
        got_further: a segment was finished since the crash before. Whoever gets on is no poison: a long
            encode outlives any number of deaths, and as segments are finite, it ends.
        had_got_further: the attempt that crashes now had gone on behind the place where the one before it
            had: what that one left was a fragment more, so its crash was the first in a row. What this one
            leaves, only the next will tell.
    """
    crashes = 1 if got_further else min(crashes, 1) + 1 if had_got_further else crashes + 1
    if crashes >= max_crashes:
        return Verdict(Trigger.FAIL_FINAL, attempts, max_crashes, None, ErrorCode.POISON, exhausted=True)
    return Verdict(Trigger.WORKER_LOST, attempts, crashes, None, ErrorCode.WORKER_LOST, exhausted=False)
