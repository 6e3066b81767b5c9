"""What a supervisor that ends leaves to the next one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.jobs.transitions import look
from tqstudio.engine.store.lists.pages import counts_by_status
from tqstudio.lifecycle import JobStatus

_LEFT = (JobStatus.PENDING, JobStatus.IN_PROGRESS)
"""In progress is still what could not be given back: the disk is full, or its worker is not ours."""


@dataclass(frozen=True, slots=True)
class Remainder:
    """Numbers of jobs."""

    left: int
    """That go on, or begin, by themselves."""
    begun: int
    """Of these the ones that were in the hands of a worker when the end began."""
    paused: int
    """That wait for a person; none of them is left."""


def count(db: Connection, worked_on: Iterable[int]) -> Remainder:
    """
    Args:
        worked_on: the jobs that were in the hands of a worker when the end began.
    """
    counts = counts_by_status(db)
    facts = [look(db, job) for job in worked_on]
    return Remainder(
        left=sum(counts[status.value] for status in _LEFT),
        begun=sum(1 for job in facts if job is not None and not job.deleted and job.status in _LEFT),
        paused=counts[JobStatus.PAUSED.value],
    )
