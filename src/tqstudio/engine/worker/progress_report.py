"""What a running job says of itself: written by the steps, read by the thread that posts it."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from tqstudio.lifecycle import Step

_PACE_WINDOW_S = 30.0
_PACE_LEAST_S = 2.0


class Report:
    """The live state of one job, in the shape of `requests.ProgressRequest`. Safe to use from any thread.

    Args:
        on_step: called, without a lock held, whenever a step begins.
    """

    def __init__(self, on_step: Callable[[], None] = lambda: None) -> None:
        self._lock = threading.Lock()
        self._on_step = on_step
        self._step = Step.PROBE
        self._progress = 0.0
        self._speed: float | None = None
        self._eta_s: float | None = None
        self._steps: dict[str, float] = {}
        self._renditions: list[dict[str, Any]] | None = None
        self._news: dict[str, Any] = {}

    @property
    def steps(self) -> dict[str, float]:
        """Seconds spent in each step that has ended."""
        with self._lock:
            return dict(self._steps)

    @property
    def progress(self) -> float:
        """0 – 100, never going back."""
        return self._progress

    def begin(self, step: Step) -> None:
        with self._lock:
            self._step = step
        self._on_step()

    def end(self, step: Step, seconds: float) -> None:
        with self._lock:
            self._steps[step.value] = round(seconds, 3)

    def advance(self, progress: float, speed: float | None = None, eta_s: float | None = None) -> None:
        """
        Args:
            progress: 0 – 100 of the whole job; less than before counts as before.
            speed: seconds of video per second.
        """
        with self._lock:
            self._progress = min(100.0, max(self._progress, progress))
            self._speed = speed if speed is not None and math.isfinite(speed) else None
            self._eta_s = eta_s

    def show(self, renditions: Sequence[dict[str, Any]]) -> None:
        """Replace what is known of the qualities (`requests.RenditionReport`)."""
        with self._lock:
            self._renditions = list(renditions)

    def tell(self, **news: Any) -> None:
        """Add what is said once: facts, content_id, argv, encoder, where it resumed. The newest counts."""
        with self._lock:
            self._news |= {key: value for key, value in news.items() if value is not None}

    def request(self) -> dict[str, Any]:
        """The state as a message, without the token. Its news are repeated until they are `delivered`."""
        with self._lock:
            return {
                "step": self._step.value,
                "progress": round(self._progress, 3),
                "speed": None if self._speed is None else round(self._speed, 3),
                "eta_s": None if self._eta_s is None else round(self._eta_s, 1),
                "renditions": self._renditions,
                "steps": dict(self._steps),
                **self._news,
            }

    def delivered(self, request: dict[str, Any]) -> None:
        """The supervisor has this message; what it told need not be told again."""
        with self._lock:
            self._news = {key: value for key, value in self._news.items() if request.get(key) is not value}


class Pace:
    """How long the rest takes, from the last half minute: a whole-job average lags behind a fallback or a
    busy machine.

    Args:
        clock: seconds, never going back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, float]] = deque()

    def eta_s(self, fraction: float) -> float | None:
        """Note how far it is (0 … 1); the seconds left, or None while nothing can be said."""
        now = self._clock()
        self._seen.append((now, fraction))
        while len(self._seen) > 2 and now - self._seen[0][0] > _PACE_WINDOW_S:
            self._seen.popleft()
        began, at_first = self._seen[0]
        if now - began < _PACE_LEAST_S or fraction <= at_first:
            return None
        return (1 - fraction) * (now - began) / (fraction - at_first)
