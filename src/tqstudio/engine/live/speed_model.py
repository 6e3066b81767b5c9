"""How long work takes on this machine: predicted from what was measured here, and compared with the outcome.

A ladder's run decodes once and encodes every quality in step, so only its whole time is seen. Each run
corrects the costs of all its pieces by the ratio of actual to predicted; over runs of different ladders they
settle at values that explain them all.
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
"""What a job takes beside its encode: probe, verification, publishing."""

_DECODE_SHARE = 0.15
"""Cost of decoding a pixel ÷ encoding one, until measured: veryfast x264 on 2 cores, 0.1 – 0.2."""
_MOST_WORK_S = 300.0
"""A cost weighs no more than so much work of the past, so that a machine that changed is noticed."""
_OVERHEAD_WORK_S = 60.0
"""What a job weighs for the cost of `OVERHEAD`, which does not depend on its length."""
_MOST_CORRECTION = 4.0
"""One run says no more than this about its pieces: it may have been stopped by a laptop's lid."""
_START_S = 0.5
"""To start ffmpeg takes 0.3 – 0.6 s, whatever there is to encode."""
_LEAST_WORK_MEGAPIXELS = 100.0
"""Decoded and encoded; some 1.5 s of 720p, 35 s of 180p. A clip of one small picture would say 7 s a
megapixel instead of 0.01."""
_LEAST_TRAINING_S = 2.0
"""Shorter runs measure the start of a process: a GPU is through with 100 megapixels sooner."""

# How far off an estimate may be, as the standard deviation of ln(actual ÷ predicted).
_UNTRIED = 0.4
"""Assumed until jobs have shown it; it weighs as `_UNTRIED_JOBS` of them."""
_UNTRIED_JOBS = 1.5
_FADING = 0.92
"""What a job's error weighs, in proportion to that of the next one: load comes and goes."""
_TYPICAL_JOB_S = 10.0
"""A job that took so long weighs half of a long one: what disturbs a few seconds says little of an hour."""
_LITTLE_WORK = 0.5
_LITTLE_WORK_S = 12.0
"""The error of a cost that was measured on so much work; it falls with the square root of the work."""
_UNLIKE = 0.4
"""More, where a cost is not measured but that of a similar piece."""
_NOT_KNOWN = 1.0
"""Of a job of which nothing is known, when it is taken for an average one."""
_DEVIATIONS = 1.64
"""Nine in ten of a normal distribution lie in the range, and eight in ten of what load does."""
_LEAST_ERROR = 0.05
_MOST_ERROR = math.log(10)
"""One job says no more than this: it may have been stopped by a laptop's lid."""


@dataclass(frozen=True, slots=True)
class Foretold:
    """What was predicted for a run when it began."""

    work: Workload
    seconds: float | None
    """Of the whole job; None while nothing comparable was measured."""
    doubt: float = 0.0
    """Variance of ln(actual ÷ predicted) that comes from what was not measured, or on little work."""


@dataclass(frozen=True, slots=True)
class _Cost:
    """Seconds per megapixel, and the standard deviation of their logarithm."""

    value: float
    error: float


def tells_of_speed(work: Workload) -> bool:
    """Whether a run has so much to do that its time is that of its work, and not of starting ffmpeg."""
    return sum(piece.megapixels for piece in work.pieces) >= _LEAST_WORK_MEGAPIXELS


def doubt_of_pace(spent_s: float) -> float:
    """The variance of what a run's own pace says after so many seconds."""
    return _error_after(spent_s) ** 2


def doubt_of_queue(known: int, unknown: int) -> float:
    """More variance of a sum in which unknown jobs count as the average of the known ones."""
    return (_NOT_KNOWN * unknown / (known + unknown)) ** 2 if known else 0.0


def _error_after(work_s: float) -> float:
    return _LITTLE_WORK * math.sqrt(_LITTLE_WORK_S / (_LITTLE_WORK_S / 5 + work_s))


class Estimates:
    """The measured costs, in memory; lives on the event loop alone.

    Args:
        outcomes: predicted and actual seconds of finished jobs, newest first.
    """

    def __init__(self, speeds: Iterable[Speed] = (), outcomes: Sequence[tuple[float, float]] = ()) -> None:
        self._speeds = {speed.key: speed for speed in speeds}
        self._outcomes = list(outcomes)[:LAST_JOBS]

    # Predicting

    def foretell(self, work: Workload) -> Foretold:
        pieces = self._costs(work)
        if pieces is None:
            return Foretold(work, None)
        overhead = self._speeds.get(OVERHEAD)
        rest = overhead.value if overhead else 0.0
        costs = [(cost.value * megapixels, cost.error) for cost, megapixels in pieces]
        encode = sum(seconds for seconds, _ in costs)
        # The pieces of a run are measured together, so their errors add up and do not cancel out.
        error = sum(seconds * error for seconds, error in costs) / encode if encode else 0.0
        return Foretold(work, encode + rest + (_START_S if encode else 0.0), error**2)

    def encode_s(self, work: Workload) -> float | None:
        """Seconds of the encode, without its start; None while nothing comparable was measured."""
        pieces = self._costs(work)
        return None if pieces is None else sum(cost.value * megapixels for cost, megapixels in pieces)

    def _costs(self, work: Workload) -> list[tuple[_Cost, float]] | None:
        """The cost of each piece and its megapixels; None where one is not known."""
        found = []
        for piece in work.pieces:
            cost = self._cost(piece, work)
            if cost is None:
                return None
            found.append((cost, piece.megapixels))
        return found

    def _cost(self, piece: Piece, work: Workload) -> _Cost | None:
        """The cost of a piece: measured, or that of the most similar piece that was."""
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
        """Correct the costs by a finished run; answers the changed ones, none where it had too little to do.

        A run weighs as much as it worked: one of 2 s hardly moves what was measured on minutes.

        Args:
            encode_s: seconds that the encode took.
            rest_s: seconds of everything else.
        """
        if not tells_of_speed(work):
            return []
        changed = [self._towards(OVERHEAD, rest_s, _OVERHEAD_WORK_S)]
        if encode_s >= _LEAST_TRAINING_S:
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
        ratio = min(_MOST_CORRECTION, max(1 / _MOST_CORRECTION, taken / predicted))
        # A run that stood still for an hour has done no more work for that.
        work_s = min(taken, 2 * predicted)
        return [
            self._towards(piece.key, cost.value * ratio, work_s)
            for piece, (cost, _) in zip(work.pieces, pieces, strict=True)
        ]

    def _towards(self, key: str, measured: float, work_s: float) -> Speed:
        before = self._speeds.get(key, Speed(key, measured, 0, 0.0))
        held, work_s = min(before.work_s, _MOST_WORK_S), min(work_s, _MOST_WORK_S)
        value = before.value + work_s / (held + work_s) * (measured - before.value)
        return Speed(key, value, before.samples + 1, min(held + work_s, _MOST_WORK_S))

    # Honesty

    def came_true(self, predicted_s: float | None, actual_s: float) -> None:
        """Note how a job's estimate compares with what it took."""
        if predicted_s and actual_s > 0:
            self._outcomes = [(predicted_s, actual_s), *self._outcomes][:LAST_JOBS]

    @property
    def judged(self) -> int:
        """Finished jobs that an estimate was held against, the last 50 at most."""
        return len(self._outcomes)

    @property
    def error(self) -> float | None:
        """Median relative error of those; None when there are none."""
        errors = [abs(predicted - actual) / actual for predicted, actual in self._outcomes]
        return median(errors) if errors else None

    @property
    def _judged_variance(self) -> float:
        """How far off the last estimates were, as a variance of ln(actual ÷ predicted)."""
        total, weights = _UNTRIED**2 * _UNTRIED_JOBS, _UNTRIED_JOBS
        for age, (predicted, actual) in enumerate(self._outcomes):
            if predicted > 0 and actual > 0:
                weight = _FADING**age * actual / (actual + _TYPICAL_JOB_S)
                error = math.log(actual) - math.log(predicted)
                total += weight * min(abs(error), _MOST_ERROR) ** 2
                weights += weight
        return total / weights

    def range_s(self, eta_s: float, doubt: float = 0.0) -> tuple[float, float]:
        """Where the end lies in four of five cases at least.

        Args:
            doubt: variance beyond that of the estimates that were judged.
        """
        spread = math.exp(_DEVIATIONS * math.sqrt(self._judged_variance + doubt))
        spread = max(1 + _LEAST_ERROR, spread)
        return eta_s / spread, eta_s * spread


def _similar(costs: Sequence[tuple[float, float]]) -> _Cost | None:
    """The cost of a piece that is like these (value and error), and was not measured."""
    if not costs:
        return None
    return _Cost(median(value for value, _ in costs), max(error for _, error in costs) + _UNLIKE)


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
