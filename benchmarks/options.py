"""How much is measured. `--quick` shows that everything runs; its figures say little."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes and repetitions of all benchmarks."""

    rounds: int = 3
    """Of everything that takes long; what is compared takes turns in each."""
    clip_s: int = 60
    """Long enough that no job ends while the reactions are measured on it."""
    jobs: int = 1_000_000
    """In the table, for the claims."""
    ui_jobs: int = 100_000
    """In the queue, for the UI."""
    ui_pages: int = 1_400
    """Job pages that are opened and closed in one UI."""
    backoff: int = 50_000
    """More jobs that wait for a later time, for the second half of the claims."""
    claims: int = 1_000
    """Per round and case, one client."""
    list_jobs: int = 1_000_000
    """In the table, for the pages of the list."""
    pages: int = 40
    """Per round and case."""
    deaths: int = 20
    """Of a worker that encodes."""
    hashed_mb: int = 1_000
    """Size of the file that is hashed."""
    idle_s: float = 20
    burst: int = 10_000
    """Files renamed into a drop folder."""
    watch_s: float = 120
    """At rest, with a hundred drop folders: two of their scans."""
    starts: int = 9
    """Of each command."""
    wakeups: int = 300
    """Of a waiting worker, per round and database."""


QUICK = Options(
    rounds=1,
    clip_s=6,
    jobs=2_000,
    ui_jobs=2_000,
    ui_pages=20,
    backoff=1_000,
    claims=80,
    list_jobs=10_000,
    pages=5,
    deaths=2,
    hashed_mb=50,
    idle_s=2,
    burst=200,
    watch_s=2,
    starts=3,
    wakeups=10,
)
