"""Decides after a failure whether and when a job is retried, from its counters alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tqstudio.errors import ErrorClass, ErrorCode, class_of
from tqstudio.events import EventKind
from tqstudio.lifecycle import Trigger

RESOURCE_WAIT_S = 15.0
"""Backoff of a job that failed for lack of a resource, so that it does not loop."""


@dataclass(frozen=True, slots=True)
class RetryRules:
    """Base and upper bound of the backoff in seconds; `jitter` returns a number in 0…1."""

    backoff_s: float
    backoff_max_s: float
    jitter: Callable[[], float]

    def wait_s(self, failures: int) -> float:
        """Returns the backoff after so many failures, in seconds: base · 2ⁿ⁻¹, bounded, ±10 %."""
        bounded = min(self.backoff_max_s, self.backoff_s * 2.0 ** min(max(0, failures - 1), 30))
        return bounded * (0.9 + 0.2 * self.jitter())


def longest_wait_s(backoff_max_s: float) -> float:
    """Returns the longest possible backoff of a job, in seconds."""
    return max(RESOURCE_WAIT_S, backoff_max_s * 1.1)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What happens to a job after a failure."""

    trigger: Trigger
    attempts: int
    crashes: int
    wait_s: float | None
    """Backoff in seconds; None if it may be claimed at once or never."""
    code: ErrorCode
    exhausted: bool


DETERMINISTIC = frozenset((ErrorCode.ENCODER_EXIT, ErrorCode.OUTPUT_EMPTY, ErrorCode.OUTPUT_INVALID))
"""Usually caused by the source: the same error twice in a row is not retried again."""

MAX_CHANGES = 10
"""Changes of a source during attempts at its job after which the job fails."""


def judge_failure(
    code: ErrorCode,
    *,
    attempts: int,
    crashes: int,
    max_attempts: int,
    rules: RetryRules,
    repeated: bool = False,
    changes: int = 0,
    waits: bool = True,
) -> Verdict:
    """Judges a reported failure: fatal ones fail the job, lack of a resource is not counted, others are.

    A changed source is not counted either.

    Args:
        repeated: the previous attempt failed with the same error.
        changes: how often the source changed during earlier attempts.
        waits: whether the job may wait until a changed source has settled.
    """
    match class_of(code):
        case _ if code is ErrorCode.SOURCE_CHANGED:
            if waits and (changes + 1) % MAX_CHANGES:
                return Verdict(EventKind.RELEASE, attempts, crashes, RESOURCE_WAIT_S, code, exhausted=False)
            return Verdict(EventKind.FAIL_FINAL, attempts + 1, crashes, None, code, exhausted=True)
        case ErrorClass.FATAL:
            return Verdict(EventKind.FAIL_FINAL, attempts, crashes, None, code, exhausted=False)
        case ErrorClass.RESOURCE:
            return Verdict(EventKind.RELEASE, attempts, crashes, RESOURCE_WAIT_S, code, exhausted=False)
        case _:
            attempts += 1
            if attempts >= max_attempts:
                return Verdict(EventKind.FAIL_FINAL, max_attempts, crashes, None, code, exhausted=True)
            if repeated and code in DETERMINISTIC:
                return Verdict(EventKind.FAIL_FINAL, attempts, crashes, None, code, exhausted=False)
            return Verdict(
                EventKind.FAIL_RETRYABLE, attempts, crashes, rules.wait_s(attempts), code, exhausted=False
            )


def judge_loss(
    *, attempts: int, crashes: int, max_crashes: int, got_further: bool, had_got_further: bool
) -> Verdict:
    """Judges a worker crash: the job is requeued at once, or fails after `max_crashes` in a row.

    Args:
        got_further: a segment was finished since the previous crash, which resets the counter to this one.
        had_got_further: this attempt started later in the source than the previous one. That one therefore
            finished at least a fragment, so its crash counts as the first in a row.
    """
    crashes = 1 if got_further else min(crashes, 1) + 1 if had_got_further else crashes + 1
    if crashes >= max_crashes:
        return Verdict(
            EventKind.FAIL_FINAL, attempts, max_crashes, None, ErrorCode.REPEATED_CRASHES, exhausted=True
        )
    return Verdict(EventKind.WORKER_LOST, attempts, crashes, None, ErrorCode.WORKER_LOST, exhausted=False)
