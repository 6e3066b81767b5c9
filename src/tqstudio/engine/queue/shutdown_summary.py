"""Counts the jobs that remain at the shutdown of a supervisor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs.transitions import job_facts
from tqstudio.engine.store.lists.pages import counts_by_status
from tqstudio.lifecycle import JobStatus

_LEFT = (JobStatus.PENDING, JobStatus.IN_PROGRESS)
"""Jobs still in progress could not be released (disk full) or belong to a remote worker."""


@dataclass(frozen=True, slots=True)
class ShutdownSummary:
    """Numbers of remaining jobs."""

    left: int
    """Jobs that start or resume automatically."""
    begun: int
    """Those of `left` that were running when the shutdown began."""
    paused: int
    """Paused jobs, not part of `left`."""


def count(db: Connection, worked_on: Iterable[int]) -> ShutdownSummary:
    """Counts the remaining jobs.

    Args:
        worked_on: the jobs that were running when the shutdown began.
    """
    counts = counts_by_status(db)
    facts = [job_facts(db, job) for job in worked_on]
    return ShutdownSummary(
        left=sum(counts[status.value] for status in _LEFT),
        begun=sum(1 for job in facts if job is not None and not job.deleted and job.status in _LEFT),
        paused=counts[JobStatus.PAUSED.value],
    )
