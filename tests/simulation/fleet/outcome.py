"""What a course comes to, and the invariants that it must keep."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from .constants import US, Fleet
from .leader import Load

_SEGMENT_S = 6

INVARIANTS = {
    "one_leader": "no supervisor leads while another one still acts",
    "one_owner": "no worker gets a job while another one may still encode it",
    "done_once": "no job ends twice",
    "published_once": "the ladder of a job is put in place once",
    "none_lost": "every job ends",
}


class Violation(Exception):
    """An invariant does not hold.

    Args:
        invariant: its name, of `INVARIANTS`.
    """

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}, {INVARIANTS[invariant]}: {what}")
        self.invariant = invariant


@dataclass(slots=True)
class Outcome:
    """Counts and times of a course; those ending in `_us` are µs."""

    span_us: int = 0
    claims: int = 0
    takeovers: int = 0
    line_cuts: int = 0
    requeued: int = 0
    refused: int = 0
    """Ends of jobs that were reported without a lease."""
    encoded_us: int = 0
    """Encodes, each job counted once."""
    again_us: int = 0
    """Encodes of segments that did not arrive, and were encoded again."""
    waits_us: list[int] = field(default_factory=list)
    """Of workers that had lost their job when they found the next leader; all others wait as in `Load`."""

    def busy(self, fleet: Fleet) -> float:
        """Share of their time for which the workers encode."""
        return (self.encoded_us + self.again_us) / (fleet.workers * self.span_us)

    def segments(self, encoded_us: int, fleet: Fleet, load: Load) -> int:
        """Segments of all qualities that are encoded in so much time."""
        return round(encoded_us / US * fleet.speed / load.slower / _SEGMENT_S * fleet.qualities)

    def wait_ms(self, load: Load, percent: float) -> float:
        """The wait of a claim that so many percent of all claims do not exceed."""
        usual, long = load.waits_us, sorted(self.waits_us)
        each = max(1, self.claims - len(long)) / len(usual)
        candidates = sorted({*usual, *long})
        low, high = 0, len(candidates) - 1
        while low < high:
            middle = (low + high) // 2
            reached = bisect_right(usual, candidates[middle]) * each + bisect_right(long, candidates[middle])
            low, high = (low, middle) if reached >= percent / 100 * self.claims else (middle + 1, high)
        return candidates[low] / 1000

    def digest(self) -> tuple[int, ...]:
        """Equal for equal courses."""
        return (
            self.span_us,
            self.claims,
            self.takeovers,
            self.line_cuts,
            self.requeued,
            self.encoded_us,
            self.again_us,
            *self.waits_us,
        )
