"""Constants of the model: measured costs of the leader, and the fleet that they are applied to."""

from __future__ import annotations

from dataclasses import dataclass

US = 1_000_000
"""Microseconds, in which all times of the model are, per second."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Processor time of the leader in ms for a call, and calls of a job.

    Measured by the benchmarks `service` and `postgresql`; docs/scale.md says when and where.
    """

    claim_ms: float = 5.1
    """A claim with the end of its job, on PostgreSQL; 3.1 on SQLite."""
    job_ms: float = 250.0
    """All that a job costs once: adding it, its claim, its inputs, its result and the publish."""
    progress_ms: float = 0.58
    heartbeat_ms: float = 0.42
    store_ms: float = 1.8
    """A segment, without its bytes."""
    store_ms_per_mb: float = 1.7
    small_ms: float = 1.2
    """A part of the log, a removal, a list of segments."""
    source_ms_per_mb: float = 1.3
    check_ms_per_s: float = 1.0
    """What a result costs per second of its video: each segment is read and compared again. Estimated."""
    progress_s: float = 0.5
    """Pause between two reports of a worker."""
    heartbeat_s: float = 10.0
    stores_per_s: float = 2.7
    """Segments, and the fragments of which they are made, per second of video: 0.67 for each quality."""
    smalls_per_s: float = 0.8
    sent_times: float = 2.0
    """How often the bytes of a ladder are sent: as fragments of two seconds, and as segments."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Size and surroundings of a fleet. Rates of faults are per worker, or of the leader."""

    workers: int = 1_000
    supervisors: int = 20
    jobs: int = 10_000_000
    seed: int = 1
    speed: float = 1.0
    """Seconds of video that a worker encodes in a second."""
    ladder_mb_per_s: float = 1.0
    """Bytes of all qualities per second of video: 1080p of the profile `web`."""
    source_mb_per_s: float = 1.0
    """0: the workers have mounted what the sources lie on (`--shared`)."""
    line_mb_per_s: float = 1_250.0
    """Of the leader's network, in each direction: 10 Gbit/s."""
    disk_mb_per_s: float = 187.0
    """Writes of the leader to the outputs, hashed and durable: benchmark `uploads`."""
    delay_ms: float = 0.5
    """From a worker to the leader."""
    lease_s: float = 60.0
    leader_lease_s: float = 30.0
    lease_scan_s: float = 15.0
    start_s: float = 3.0
    """How long a supervisor takes to start on a queue of a million jobs."""
    poll_s: float = 5.0
    """How often a supervisor that stands by looks at the lease of the leader."""
    median_s: float = 300.0
    """Length of a video; lengths are log-normal, at most 12 hours."""
    spread: float = 1.2
    line_fault_s: float = 3 * 86_400.0
    """Time between two cuts of a worker's line; half of them are shorter than `cut_s`."""
    cut_s: float = 20.0
    leader_fault_s: float = 86_400.0
    slow_disk_share: float = 0.01
    """Of the encodes, which take five times as long."""
    slow_output_share: float = 0.01
    """Of the publishes, which take a hundred times as long."""
    skew_s: float = 3_600.0
    """Largest error of a worker's clock."""

    @property
    def qualities(self) -> int:
        """Those of a 1080p of `web`."""
        return 4


@dataclass(frozen=True, slots=True)
class Rules:
    """What keeps a fleet safe. The tests take each away: an invariant has to notice."""

    waits_for_lease: bool = True
    """A supervisor takes over only after the lease of the one that led has run out."""
    keeps_leases_by_own_clock: bool = True
    """A worker counts its lease from when it asked, on its own clock; no time of a clock is sent."""
    compares_epochs: bool = True
    """The end of a job is accepted only under its present lease."""
    adopts: bool = True
    """A new leader watches over the running jobs of the one before."""
    settles: bool = True
    """A new leader finishes a publish that players see already."""
