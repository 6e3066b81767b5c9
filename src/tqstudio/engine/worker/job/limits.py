"""How long an attempt may take, and how much memory an ffmpeg may have."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tqstudio.engine.media.plan.file_names import GPU_ENCODERS
from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.errors import ErrorCode, TqError

# Work grows with the pixels of the largest quality; a 720p weighs one, and nothing less than half of that.
_REFERENCE_PIXELS = 1280 * 720
_LEAST_WEIGHT = 0.5
_GPU_SHARE = 0.5

# On 2 processors a 1080p ladder of four rungs allocates 1.6 GB, of which it uses half, and a 2160p one of six
# 4.8 GB. The limit is above that: it ends what grows without bound before the system ends something else.
_LEAST_BYTES = 6_000_000_000
_SHARE_OF_MACHINE = 0.75


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """The settings of the time limit; seconds."""

    factor: float = 20
    """Of the source's length, for a largest quality of 720p made by a processor."""
    least_s: float = 300
    most_s: float = 12 * 3600

    def of(self, facts: SourceFacts, rungs: Iterable[Rung], encoder: str) -> float:
        """Seconds that the encode of an attempt may take.

        Args:
            rungs: what is to be made; the largest of them decides.
        """
        pixels = max((rung.pixels for rung in rungs), default=0)
        weight = max(_LEAST_WEIGHT, pixels / _REFERENCE_PIXELS) * (
            _GPU_SHARE if encoder in GPU_ENCODERS else 1
        )
        if not facts.duration_s:
            return self.most_s
        return min(self.most_s, max(self.least_s, facts.duration_s * self.factor * weight))


class Deadline:
    """When an attempt has taken too long.

    Args:
        limit_s: seconds from now.
        clock: seconds, never going back.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._until = clock() + limit_s

    def check(self) -> None:
        """
        Raises:
            TqError: TIMEOUT.
        """
        if self._clock() > self._until:
            raise TqError(
                ErrorCode.TIMEOUT,
                f"not finished after {self._limit_s:.0f} s, the limit for a video of this length and size",
                "raise time_limit_factor or time_limit_max_s; a retry goes on where it stopped",
            )


def memory_limit(machine_bytes: int) -> int:
    """Bytes that one ffmpeg may allocate on a machine with so much memory. What a source says of its size
    does not count: anybody can write it there."""
    return max(_LEAST_BYTES, int(machine_bytes * _SHARE_OF_MACHINE))
