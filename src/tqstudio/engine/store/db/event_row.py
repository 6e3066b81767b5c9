"""Defines a row of the event table, as passed to listeners after a commit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event. `at` is µs since 1970 in UTC; `source` and `target` are statuses."""

    seq: int
    at: int
    trigger: str
    """An `EventKind`."""
    job: int | None
    video: int | None
    worker: str | None
    source: str | None
    target: str | None
    actor: str
    code: str | None
    detail: str | None
    video_name: str | None = None
    """Also None where it was not read."""
