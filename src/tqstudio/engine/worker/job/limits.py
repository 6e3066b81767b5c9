"""Computes limits: of the source's length, of the time without a new segment, of ffmpeg's memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tqstudio.engine.media.plan.rungs import Rung
from tqstudio.engine.media.plan.video_codecs import CODECS, GPU_ENCODERS, encoder_for
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.errors import ErrorCode, TqError
from tqstudio.paths import display

# The time grows with the pixels of the largest quality: 720p has weight 1, smaller ones at least 0.5.
_REFERENCE_PIXELS = 1280 * 720
_MIN_WEIGHT = 0.5
_GPU_SHARE = 0.5

# On 2 processors a 1080p ladder of four rungs allocates 1.6 GB, of which it uses half, and a 2160p one of six
# rungs 4.8 GB. The limit is higher: it only stops unbounded growth before the OOM killer hits another
# process.
_MIN_BYTES = 6_000_000_000
_SHARE_OF_MACHINE = 0.75


MAX_DURATION_S = 48 * 3600.0
"""Longest source, if an earlier version of the supervisor does not say."""


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """The settings of the time limit."""

    factor: float = 20
    """Seconds per second of the source, for a largest quality of 720p encoded by the CPU."""
    least_s: float = 300
    most_s: float = 12 * 3600

    def of(self, facts: SourceFacts, rungs: Iterable[Rung], encoder: str) -> float:
        """The time without a new segment in seconds: the largest rung of each codec decides."""
        largest: dict[str, float] = {}
        for rung in rungs:
            used = encoder_for(rung.codec, encoder, hdr=rung.hdr)
            cost = _GPU_SHARE if used in GPU_ENCODERS else CODECS[rung.codec].cost
            weight = max(_MIN_WEIGHT, rung.pixels / _REFERENCE_PIXELS) * cost
            largest[rung.codec] = max(largest.get(rung.codec, 0), weight)
        if not facts.duration_s:
            return self.most_s
        # The codecs are encoded one after the other.
        weights = sum(largest.values()) or _MIN_WEIGHT
        return min(self.most_s, max(self.least_s, facts.duration_s * self.factor * weights))


class Deadline:
    """The deadline of the next segment, in seconds from the last one; `clock` gives monotonic seconds.

    However slow a machine is: work that advances is not ended.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._until = clock() + limit_s
        self._made = 0

    def advance(self, made: int) -> None:
        """Move the deadline if there are more segments than ever before: those made twice count once."""
        if made > self._made:
            self._made, self._until = made, self._clock() + self._limit_s

    def check(self) -> None:
        """Raise TIMEOUT after the deadline."""
        if self._clock() > self._until:
            raise TqError(
                ErrorCode.TIMEOUT,
                f"no new segment for {self._limit_s:.0f} s, the limit for a video of this length and size",
                "raise time_limit_factor or time_limit_max_s; a retry resumes where it stopped",
            )


def require_length(facts: SourceFacts, path: bytes, longest_s: float) -> None:
    """Refuse a source of which every few bytes could be an hour, and so thousands of segments.

    Raises:
        TqError: UNSUPPORTED.
    """
    if facts.duration_s > longest_s:
        raise TqError(
            ErrorCode.UNSUPPORTED,
            f"{display(path)} lasts {facts.duration_s / 3600:.1f} h, and max_duration_s allows"
            f" {longest_s / 3600:.1f} h",
            "raise max_duration_s if it is really that long, restart the supervisor, then retry",
        )


def memory_limit(machine_bytes: int) -> int:
    """The memory limit of one ffmpeg process in bytes. It does not depend on the untrusted size of a
    source."""
    return max(_MIN_BYTES, int(machine_bytes * _SHARE_OF_MACHINE))
