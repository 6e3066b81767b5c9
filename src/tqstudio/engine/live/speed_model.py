"""Predicts encode times from the speeds measured on this machine, and records the prediction errors.

A run decodes once and encodes all qualities together, so only its total time is known. Each run corrects the
costs of all its pieces by actual ÷ predicted time; over runs of different ladders they converge.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import Any

from tqstudio.engine.live.workload import Piece, Workload, workload
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.source.facts import SourceFacts
from tqstudio.engine.store.machine.speeds import LAST_JOBS, Speed

OVERHEAD = "overhead"
"""Key of the cost of a job besides its encode: probe, verification, publishing."""

_DECODE_SHARE = 0.15
"""Cost of decoding a pixel ÷ encoding one, until measured; 0.1 – 0.2 for x264 veryfast on 2 cores."""
_MAX_WORK_S = 300.0
"""Maximum weight of earlier measurements, so that changes of the machine have an effect."""
_OVERHEAD_WORK_S = 60.0
"""Weight of a job for the cost of `OVERHEAD`, which does not depend on its length."""
_MAX_CORRECTION = 4.0
"""Maximum factor by which one run corrects its pieces: the machine may have been suspended."""
_START_S = 0.5
"""Time to start ffmpeg; measured 0.3 – 0.6 s."""
_MIN_WORK_MEGAPIXELS = 100.0
"""Decoded and encoded; about 1.5 s of 720p, 35 s of 180p. A clip of one small picture would measure 7 s per
megapixel instead of 0.01."""
_MIN_TRAINING_S = 2.0
"""Shorter runs mostly measure the start of a process: a GPU needs less for 100 megapixels."""

# Errors of estimates, as standard deviations of ln(actual ÷ predicted).
_PRIOR_ERROR = 0.4
"""Assumed error before there are outcomes; has the weight of `_PRIOR_JOBS` jobs."""
_PRIOR_JOBS = 1.5
_DECAY = 0.92
"""Weight of a job's error relative to the next newer one's, because load changes."""
_TYPICAL_JOB_S = 10.0
"""A job of this length has half the weight of a long one, because short ones are noisy."""
_LITTLE_WORK = 0.5
_LITTLE_WORK_S = 12.0
"""The error of a cost measured on this much work; it falls with the square root of the work."""
_OTHER_CONTENT_ERROR = 0.4
"""Added error of a cost that is not measured but taken from a similar piece."""
_UNKNOWN_JOB_ERROR = 1.0
"""Error of an unknown job that counts as an average one."""
_DEVIATIONS = 1.64
"""Half width of the range: covers 90 % of a normal distribution, and 80 % of real errors under load."""
_MIN_ERROR = 0.05
_MAX_ERROR = math.log(10)
"""Maximum error counted for one job: the machine may have been suspended."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction for a run when it began."""

    work: Workload
    seconds: float | None
    """For the whole job; None while nothing comparable was measured."""
    variance: float = 0.0
    """Variance of ln(actual ÷ predicted) due to costs that were not measured, or on little work."""


@dataclass(frozen=True, slots=True)
class _Cost:
    """Seconds per megapixel, and the standard deviation of their logarithm."""

    value: float
    error: float


def is_measurable(work: Workload) -> bool:
    """Whether a run has enough work that its time measures speed rather than the start of ffmpeg."""
    return sum(piece.megapixels for piece in work.pieces) >= _MIN_WORK_MEGAPIXELS


def pace_variance(spent_s: float) -> float:
    """Returns the variance of an estimate by a run's own pace after so many seconds."""
    return _error_after(spent_s) ** 2


def queue_variance(known: int, unknown: int) -> float:
    """Returns the added variance of a sum in which unknown jobs count as the average of the known ones."""
    return (_UNKNOWN_JOB_ERROR * unknown / (known + unknown)) ** 2 if known else 0.0


def _error_after(work_s: float) -> float:
    return _LITTLE_WORK * math.sqrt(_LITTLE_WORK_S / (_LITTLE_WORK_S / 5 + work_s))


class SpeedModel:
    """The measured costs, in memory; used on the event loop only.

    Args:
        outcomes: predicted and actual seconds of finished jobs, newest first.
    """

    def __init__(self, speeds: Iterable[Speed] = (), outcomes: Sequence[tuple[float, float]] = ()) -> None:
        self._speeds = {speed.key: speed for speed in speeds}
        self._outcomes = list(outcomes)[:LAST_JOBS]

    # Predicting

    def predict(self, work: Workload) -> Prediction:
        pieces = self._costs(work)
        if pieces is None:
            return Prediction(work, None)
        overhead = self._speeds.get(OVERHEAD)
        rest = overhead.value if overhead else 0.0
        costs = [(cost.value * megapixels, cost.error) for cost, megapixels in pieces]
        encode = sum(seconds for seconds, _ in costs)
        # The pieces of a run are measured together, so their errors add up instead of cancelling out.
        error = sum(seconds * error for seconds, error in costs) / encode if encode else 0.0
        return Prediction(work, encode + rest + (_START_S if encode else 0.0), error**2)

    def encode_s(self, work: Workload) -> float | None:
        """Predicts the seconds of the encode without its start; None if nothing comparable was measured."""
        pieces = self._costs(work)
        return None if pieces is None else sum(cost.value * megapixels for cost, megapixels in pieces)

    def _costs(self, work: Workload) -> list[tuple[_Cost, float]] | None:
        """Returns the cost and megapixels of each piece; None if one is unknown."""
        found = []
        for piece in work.pieces:
            cost = self._cost(piece, work)
            if cost is None:
                return None
            found.append((cost, piece.megapixels))
        return found

    def _cost(self, piece: Piece, work: Workload) -> _Cost | None:
        """Returns the measured cost of a piece, or that of the most similar measured pieces."""
        exact = self._speeds.get(piece.key)
        if exact is not None:
            return _Cost(exact.value, _error_after(exact.work_s))
        if piece is work.decode:
            encoding = [cost for other in work.encode if (cost := self._cost(other, work)) is not None]
            return _similar([(_DECODE_SHARE * cost.value, cost.error) for cost in encoding])
        words = piece.key.split(" ")
        for count in range(len(words) - 1, 0, -1):
            beginning = " ".join(words[:count]) + " "
            alike = [speed for key, speed in self._speeds.items() if key.startswith(beginning)]
            if alike:
                return _similar([(speed.value, _error_after(speed.work_s)) for speed in alike])
        return None

    # Learning

    def learn(self, work: Workload, encode_s: float, rest_s: float) -> list[Speed]:
        """Corrects the costs by a finished run; returns those changed, none for a run with too little work.

        A run is weighted by its work: one of 2 s hardly changes what was measured on minutes.

        Args:
            encode_s: seconds of the encode.
            rest_s: seconds of all other steps.
        """
        if not is_measurable(work):
            return []
        changed = [self._towards(OVERHEAD, rest_s, _OVERHEAD_WORK_S)]
        if encode_s >= _MIN_TRAINING_S:
            changed += self._correct(work, encode_s - _START_S)
        self._speeds |= {speed.key: speed for speed in changed}
        return changed

    def _correct(self, work: Workload, taken: float) -> list[Speed]:
        pieces = self._costs(work)
        predicted = sum(cost.value * megapixels for cost, megapixels in pieces or ())
        if not pieces or not predicted:
            weight = sum(piece.megapixels for piece in work.encode) + _DECODE_SHARE * work.decode.megapixels
            cost = taken / weight
            return [Speed(piece.key, cost, 1, taken) for piece in work.encode] + [
                Speed(work.decode.key, _DECODE_SHARE * cost, 1, taken)
            ]
        ratio = min(_MAX_CORRECTION, max(1 / _MAX_CORRECTION, taken / predicted))
        # A run that was suspended for an hour has done no more work.
        work_s = min(taken, 2 * predicted)
        return [
            self._towards(piece.key, cost.value * ratio, work_s)
            for piece, (cost, _) in zip(work.pieces, pieces, strict=True)
        ]

    def _towards(self, key: str, measured: float, work_s: float) -> Speed:
        before = self._speeds.get(key, Speed(key, measured, 0, 0.0))
        held, work_s = min(before.work_s, _MAX_WORK_S), min(work_s, _MAX_WORK_S)
        value = before.value + work_s / (held + work_s) * (measured - before.value)
        return Speed(key, value, before.samples + 1, min(held + work_s, _MAX_WORK_S))

    # Accuracy

    def record_outcome(self, predicted_s: float | None, actual_s: float) -> None:
        """Records predicted and actual time of a job."""
        if predicted_s and actual_s > 0:
            self._outcomes = [(predicted_s, actual_s), *self._outcomes][:LAST_JOBS]

    @property
    def judged(self) -> int:
        """Number of finished jobs with a prediction, at most the last 50."""
        return len(self._outcomes)

    @property
    def error(self) -> float | None:
        """Median relative error of those; None without any."""
        errors = [abs(predicted - actual) / actual for predicted, actual in self._outcomes]
        return median(errors) if errors else None

    @property
    def _judged_variance(self) -> float:
        """Variance of ln(actual ÷ predicted) of the last predictions."""
        total, weights = _PRIOR_ERROR**2 * _PRIOR_JOBS, _PRIOR_JOBS
        for age, (predicted, actual) in enumerate(self._outcomes):
            if predicted > 0 and actual > 0:
                weight = _DECAY**age * actual / (actual + _TYPICAL_JOB_S)
                error = math.log(actual) - math.log(predicted)
                total += weight * min(abs(error), _MAX_ERROR) ** 2
                weights += weight
        return total / weights

    def range_s(self, eta_s: float, variance: float = 0.0) -> tuple[float, float]:
        """Returns the range that contains the actual time in at least four of five cases.

        Args:
            variance: variance in addition to that of the recorded predictions.
        """
        spread = math.exp(_DEVIATIONS * math.sqrt(self._judged_variance + variance))
        spread = max(1 + _MIN_ERROR, spread)
        return eta_s / spread, eta_s * spread


def _similar(costs: Sequence[tuple[float, float]]) -> _Cost | None:
    """Returns the cost of an unmeasured piece that is similar to these (value and error)."""
    if not costs:
        return None
    return _Cost(median(value for value, _ in costs), max(error for _, error in costs) + _OTHER_CONTENT_ERROR)


def work_of(
    facts: Mapping[str, Any] | None,
    profile_json: str,
    encoder: str,
    *,
    requested: Iterable[str] | None = None,
    kept: Iterable[str] = (),
    done: Mapping[str, float] | None = None,
) -> Workload | None:
    """Returns the remaining work of a job; None if its source is not probed, or by another version."""
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
