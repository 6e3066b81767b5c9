"""Predicts encode times from the rates measured on this machine, and records the prediction errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from tqstudio.engine.live.workload import Workload
from tqstudio.engine.store.machine.speeds import LAST_JOBS, Speed
from tqstudio.protocol.answers import EtaView

OVERHEAD = "overhead"
"""Key of the seconds of a job besides its encode: probe, verification, publishing."""

_MAX_WORK_S = 200.0
"""Maximum weight of earlier measurements, so that changes of the machine have an effect."""
_MAX_RUN_S = 100.0
"""Maximum weight of one run."""
_MAX_CORRECTION = 4.0
"""Maximum factor between two measurements: the machine may have been suspended."""
_FIRST_SPREAD = 3.0
"""Factor between an estimate and the ends of its range while few estimates were compared."""
_MIN_SPREAD = 1.05
_COVERED = 0.9
"""Share of the last estimates whose error is within the range: four of five later ones are, under load."""


class SpeedModel:
    """The measured rates, in memory; used on the event loop only.

    Args:
        outcomes: predicted and actual seconds of finished jobs, newest first.
    """

    def __init__(self, speeds: Iterable[Speed] = (), outcomes: Sequence[tuple[float, float]] = ()) -> None:
        self._speeds = {speed.key: speed for speed in speeds}
        self._outcomes = [pair for pair in outcomes if min(pair) > 0][:LAST_JOBS]

    @property
    def overhead_s(self) -> float:
        """Seconds of a job besides its encode; 0 until measured."""
        overhead = self._speeds.get(OVERHEAD)
        return overhead.value if overhead else 0.0

    def predict(self, work: Workload) -> float | None:
        """Predicts the seconds of a run; None while nothing comparable was measured."""
        rate = self._rate(work.key)
        return None if rate is None else rate * work.megapixels + self.overhead_s

    def _rate(self, key: str) -> float | None:
        """Returns the seconds per megapixel; of a source unlike those measured, the mean of the others."""
        if (exact := self._speeds.get(key)) is not None:
            return exact.value
        others = key.rpartition(" ")[0] + " "
        alike = [speed for each, speed in self._speeds.items() if each.startswith(others)]
        weight = sum(speed.work_s for speed in alike)
        return sum(speed.value * speed.work_s for speed in alike) / weight if weight else None

    def learn(self, work: Workload, encode_s: float, rest_s: float) -> list[Speed]:
        """Updates the rate by a finished run; returns what changed, nothing for a run with too little work.

        A run is weighted by its work: one of 2 s hardly changes what was measured on minutes.

        Args:
            encode_s: seconds of the encode.
            rest_s: seconds of all other steps.
        """
        if not work.is_measurable:
            return []
        encode_s, rest_s = max(0.1, encode_s), max(0.1, rest_s)  # corrections are factors: none of zero
        changed = [
            self._towards(OVERHEAD, rest_s, math.inf),
            self._towards(work.key, encode_s / work.megapixels, work.megapixels),
        ]
        self._speeds |= {speed.key: speed for speed in changed}
        return changed

    def _towards(self, key: str, measured: float, amount: float) -> Speed:
        before = self._speeds.get(key, Speed(key, measured, 0, 0.0))
        low, high = before.value / _MAX_CORRECTION, before.value * _MAX_CORRECTION
        measured = max(low, min(measured, high))
        weight = min(before.value * amount, _MAX_RUN_S)
        work_s = before.work_s + weight
        value = before.value + weight / work_s * (measured - before.value)
        return Speed(key, value, before.samples + 1, min(work_s, _MAX_WORK_S))

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

    def eta(self, seconds: float) -> EtaView:
        """Returns an estimate with the range that contains the actual time in at least four of five cases."""
        off = [max(predicted / actual, actual / predicted) for predicted, actual in self._outcomes]
        spread = max(_MIN_SPREAD, sorted([*off, _FIRST_SPREAD])[int(_COVERED * (len(off) + 1))])
        return {"eta_s": seconds, "low_s": seconds / spread, "high_s": seconds * spread}
