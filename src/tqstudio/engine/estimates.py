"""How long work takes on this machine: foretold from what was measured here, and held against the outcome.

A ladder's run decodes once and encodes every quality in step, so only its whole time is seen. Each run
corrects the costs of all its pieces by the ratio of taken to foretold; over runs of different ladders they
settle at values that explain them all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import Any

from tqstudio.engine.media.facts import SourceFacts
from tqstudio.engine.media.profiles import Profile
from tqstudio.engine.media.workload import Piece, Workload, workload
from tqstudio.engine.store.speeds import LAST_JOBS, Speed

OVERHEAD = "overhead"
"""What a job takes beside its encode: probe, verification, publishing."""

_DECODE_SHARE = 0.15
"""Cost of decoding a pixel ÷ encoding one, until measured: veryfast x264 on 2 cores, 0.1 – 0.2."""
_LEAST_WEIGHT = 0.2
"""A new measurement counts at least so much, so that a machine that changed is noticed."""
_MOST_CORRECTION = 4.0
"""One run says no more than this about its pieces: it may have been stopped by a laptop's lid."""
_LEAST_WORK_MEGAPIXELS = 100.0
"""Decoded and encoded; some 1.5 s of 720p, 35 s of 180p. To start ffmpeg takes 0.3 – 0.6 s, so that a clip of
one small picture would say 7 s a megapixel instead of 0.01."""
_LEAST_TRAINING_S = 2.0
"""Shorter runs measure the start of a process: a GPU is through with 100 megapixels sooner."""
_UNTRIED_ERROR = 0.5
"""Relative error that is assumed until a few jobs have shown a real one."""
_FEW = 3
_LEAST_ERROR = 0.05


@dataclass(frozen=True, slots=True)
class Foretold:
    """What was said of a run when it began."""

    work: Workload
    seconds: float | None
    """Of the whole job; None while nothing comparable was measured."""


def tells_of_speed(work: Workload) -> bool:
    """Whether a run has so much to do that its time is that of its work, and not of starting ffmpeg."""
    return sum(piece.megapixels for piece in work.pieces) >= _LEAST_WORK_MEGAPIXELS


class Estimates:
    """The measured costs, in memory; lives on the event loop alone."""

    def __init__(self, speeds: Iterable[Speed] = (), errors: Sequence[float] = ()) -> None:
        self._speeds = {speed.key: speed for speed in speeds}
        self._errors = list(errors)[:LAST_JOBS]

    # Foretelling

    def foretell(self, work: Workload) -> Foretold:
        encode = self.encode_s(work)
        overhead = self._speeds.get(OVERHEAD)
        rest = overhead.value if overhead else 0.0
        return Foretold(work, None if encode is None else encode + rest)

    def encode_s(self, work: Workload) -> float | None:
        """Seconds of the encode; None while nothing comparable was measured."""
        costs = [self._cost(piece, work) for piece in work.pieces]
        if None in costs:
            return None
        return sum((cost or 0) * piece.megapixels for cost, piece in zip(costs, work.pieces, strict=True))

    def _cost(self, piece: Piece, work: Workload) -> float | None:
        """Seconds per megapixel of a piece: measured, or that of the most similar piece that was."""
        exact = self._speeds.get(piece.key)
        if exact is not None:
            return exact.value
        if piece is work.decode:
            encoding = [cost for other in work.encode if (cost := self._cost(other, work)) is not None]
            return _DECODE_SHARE * median(encoding) if encoding else None
        words = piece.key.split(" ")
        for count in range(len(words) - 1, 0, -1):
            beginning = " ".join(words[:count]) + " "
            alike = [speed.value for key, speed in self._speeds.items() if key.startswith(beginning)]
            if alike:
                return median(alike)
        return None

    # Learning

    def learn(self, work: Workload, encode_s: float, rest_s: float) -> list[Speed]:
        """Correct the costs by a finished run; answers the changed ones, none where it had too little to do.

        Args:
            encode_s: seconds that the encode took.
            rest_s: seconds of everything else.
        """
        if not tells_of_speed(work):
            return []
        changed = [self._towards(OVERHEAD, rest_s)]
        if encode_s >= _LEAST_TRAINING_S:
            changed += self._correct(work, encode_s)
        self._speeds |= {speed.key: speed for speed in changed}
        return changed

    def _correct(self, work: Workload, taken: float) -> list[Speed]:
        foretold = self.encode_s(work)
        if not foretold:
            weight = sum(piece.megapixels for piece in work.encode) + _DECODE_SHARE * work.decode.megapixels
            cost = taken / weight
            return [Speed(piece.key, cost, 1) for piece in work.encode] + [
                Speed(work.decode.key, _DECODE_SHARE * cost, 1)
            ]
        ratio = min(_MOST_CORRECTION, max(1 / _MOST_CORRECTION, taken / foretold))
        return [self._towards(piece.key, (self._cost(piece, work) or 0) * ratio) for piece in work.pieces]

    def _towards(self, key: str, measured: float) -> Speed:
        before = self._speeds.get(key)
        if before is None:
            return Speed(key, measured, 1)
        weight = max(_LEAST_WEIGHT, 1 / (before.samples + 1))
        return Speed(key, before.value + weight * (measured - before.value), before.samples + 1)

    # Honesty

    def came_true(self, predicted_s: float | None, actual_s: float) -> None:
        """Note how a job's estimate compares with what it took."""
        if predicted_s is not None and actual_s > 0:
            self._errors = [abs(predicted_s - actual_s) / actual_s, *self._errors][:LAST_JOBS]

    @property
    def judged(self) -> int:
        """Finished jobs that an estimate was held against, the last 50 at most."""
        return len(self._errors)

    @property
    def error(self) -> float | None:
        """Median relative error of those; None when there are none."""
        return median(self._errors) if self._errors else None

    def range_s(self, eta_s: float) -> tuple[float, float]:
        """Where the end lies, as likely as not: the estimate, less and more by what it usually errs."""
        error = self.error if self.error is not None and self.judged >= _FEW else _UNTRIED_ERROR
        error = max(_LEAST_ERROR, error)
        return eta_s / (1 + error), eta_s * (1 + error)


def work_of(
    facts: Mapping[str, Any] | None,
    profile_json: str,
    encoder: str,
    *,
    requested: Iterable[str] | None = None,
    kept: Iterable[str] = (),
    done: Mapping[str, float] | None = None,
) -> Workload | None:
    """The work left of a job; None while its source is unknown or was probed by another version."""
    if not facts:
        return None
    try:
        return workload(
            SourceFacts.from_json(facts),
            _profile(profile_json),
            encoder,
            requested=None if requested is None else frozenset(requested),
            kept=frozenset(kept),
            done=done,
        )
    except (KeyError, TypeError, ValueError):
        return None


@lru_cache(maxsize=64)
def _profile(text: str) -> Profile:
    return Profile.from_json(json.loads(text))
