"""Holds one row of the event table; the database hands the rows of a commit to its listeners."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EventRow:
    """One line of the history. `at` is µs since 1970 in UTC; `source` and `target` are statuses."""

    seq: int
    at: int
    trigger: str
    job: int | None
    video: int | None
    worker: str | None
    source: str | None
    target: str | None
    actor: str
    code: str | None
    detail: str | None
