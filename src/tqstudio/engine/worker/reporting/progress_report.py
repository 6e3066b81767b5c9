"""Collects the progress of a running job: written by its steps, read by the heartbeat thread."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tqstudio.lifecycle import Step

if TYPE_CHECKING:
    from tqstudio.engine.media.encode.division import DivisiblePart

_PACE_WINDOW_S = 30.0
_MIN_PACE_S = 2.0


class Report:
    """The live state of one job, as in `requests.ProgressRequest`. Thread-safe.

    Whenever a step begins, `on_step` is called without the lock.

    Args:
        divides: whether the supervisor divides jobs; earlier versions refuse a report of what may be divided.
    """

    def __init__(self, on_step: Callable[[], None] = lambda: None, *, divides: bool = True) -> None:
        self._lock = threading.Lock()
        self._on_step, self.divides = on_step, divides
        self._step = Step.PROBE
        self._copied: float | None = None
        self._doing: str | None = None
        self._quality_s = 0.0
        self._progress = 0.0
        self._speed: float | None = None
        self._eta_s: float | None = None
        self._steps: dict[str, float] = {}
        self._cpu_s, self._peak_memory = 0.0, 0
        self._renditions: list[dict[str, Any]] | None = None
        self._division: dict[str, Any] | None = None
        self._details: dict[str, Any] = {}
        self.publish_first: Callable[[dict[str, Any]], None] = self._publish_first
        """Reports a quality to be published before the others, in the shape of `requests.Manifest`."""
        self.is_divided = False
        """Whether other workers make parts of the job, as the supervisor last answered."""

    @property
    def steps(self) -> dict[str, float]:
        """Seconds spent in each step that has ended."""
        with self._lock:
            return dict(self._steps)

    @property
    def progress(self) -> float:
        """0 – 100, never decreasing."""
        return self._progress

    def begin(self, step: Step) -> None:
        """Set the current step."""
        with self._lock:
            self._step, self._copied, self._doing = step, None, None
        self._on_step()

    def copied(self, percent: float) -> None:
        """Set how much of the source has been copied to this machine, before the first step."""
        with self._lock:
            self._copied = round(percent, 1)

    def doing(self, what: str | None) -> None:
        """Set what is shown in place of the step, until the next one begins."""
        with self._lock:
            self._doing = what

    def spend(self, quality_s: float) -> None:
        """Add seconds that were spent on `video.quality`."""
        with self._lock:
            self._quality_s += quality_s

    def end(self, step: Step, seconds: float) -> None:
        """Record the duration of a step."""
        with self._lock:
            self._steps[step.value] = round(seconds, 3)

    def advance(self, progress: float, speed: float | None = None, eta_s: float | None = None) -> None:
        """Update progress (0 – 100 of the whole job), seconds of video per second, and remaining seconds.

        A smaller progress than before is ignored.
        """
        with self._lock:
            self._progress = min(100.0, max(self._progress, progress))
            self._speed = speed if speed is not None and math.isfinite(speed) else None
            self._eta_s = eta_s

    def use(self, cpu_s: float, peak_memory: int) -> None:
        """Set the processor seconds of all ffmpeg runs, and the bytes of memory of the largest."""
        with self._lock:
            self._cpu_s, self._peak_memory = cpu_s, peak_memory

    def show(self, renditions: Sequence[dict[str, Any]]) -> None:
        """Replace the states of the qualities (`requests.RenditionReport`)."""
        with self._lock:
            self._renditions = list(renditions)

    def divide(self, division: DivisiblePart | None) -> None:
        """Set what other workers may make."""
        with self._lock:
            self._division = asdict(division) if division is not None else None

    def add(self, **details: Any) -> None:
        """Add values that are sent once: facts, content_id, argv, encoder, resume position. None is
        ignored."""
        with self._lock:
            self._details |= {key: value for key, value in details.items() if value is not None}

    def _publish_first(self, manifest: dict[str, Any]) -> None:
        self.add(first=manifest)
        self._on_step()

    def request(self) -> dict[str, Any]:
        """The state as a request body, without instance and epoch. Details are repeated until `delivered`."""
        with self._lock:
            return {
                "step": self._step.value,
                "copied": self._copied,
                **({"doing": self._doing} if self._doing else {}),
                **({"quality_s": round(self._quality_s, 3)} if self._quality_s else {}),
                "progress": round(self._progress, 3),
                "speed": None if self._speed is None else round(self._speed, 3),
                "eta_s": None if self._eta_s is None else round(self._eta_s, 1),
                "renditions": self._renditions,
                **({"division": self._division} if self.divides else {}),
                "steps": dict(self._steps),
                "cpu_s": round(self._cpu_s, 3),
                "peak_memory_bytes": self._peak_memory,
                **self._details,
            }

    def delivered(self, request: dict[str, Any]) -> None:
        """Remove the details of a delivered request, unless they have changed since."""
        with self._lock:
            details = self._details.items()
            self._details = {key: value for key, value in details if request.get(key) is not value}


class Pace:
    """Estimates the remaining time from the last 30 s of a monotonic clock.

    An average over the whole job reacts too slowly to a fallback or a busy machine.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, float]] = deque()

    def eta_s(self, fraction: float) -> float | None:
        """Record the progress (0 … 1) and return the remaining seconds; None while they are unknown."""
        now = self._clock()
        self._seen.append((now, fraction))
        while len(self._seen) > 2 and now - self._seen[0][0] > _PACE_WINDOW_S:
            self._seen.popleft()
        began, at_first = self._seen[0]
        if now - began < _MIN_PACE_S or fraction <= at_first:
            return None
        return (1 - fraction) * (now - began) / (fraction - at_first)
