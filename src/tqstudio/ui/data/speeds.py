"""Keeps the course of each running job's speed, as far as this UI has seen it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tqstudio.protocol.answers import JobLive

MOST_VALUES = 120
_MOST_JOBS = 64
_UNKNOWN_S = 6.0
"""Without a report for so long, the speed in between is unknown."""


class Course:
    """Speeds at equal intervals, which double when there are too many: so a curve never moves sideways."""

    def __init__(self, now: float) -> None:
        self.began, self.step_s = now, 1.0
        self.values: list[float | None] = []

    def add(self, now: float, speed: float | None) -> None:
        """Take a speed that holds from now on."""
        while (at := max(0, int((now - self.began) / self.step_s))) >= MOST_VALUES:
            # Of two the later one.
            self.values, self.step_s = self.values[1::2], self.step_s * 2
        missing = at - len(self.values)
        before = self.values[-1] if self.values and missing * self.step_s < _UNKNOWN_S else None
        self.values = [*self.values[:at], *[before] * missing, speed]


class Speeds:
    """The courses of the jobs that ran last, by job."""

    def __init__(self) -> None:
        self.of: dict[int, Course] = {}

    def take(self, updates: Iterable[JobLive], now: float) -> None:
        """Take the progress of running jobs, at a time in seconds."""
        for each in updates:
            course = self.of.pop(each["id"], None) or Course(now)
            course.add(now, each["speed"])
            self.of[each["id"]] = course
        while len(self.of) > _MOST_JOBS:
            del self.of[next(iter(self.of))]
