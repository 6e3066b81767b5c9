"""Claims jobs for workers, and checks and ends leases.

Every write of a worker carries (job, epoch, instance) and must match the lease stored here. Its deadline is
kept by the supervisor that granted it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection, Row
from tqstudio.events import EventKind
from tqstudio.lifecycle import AttemptOutcome, Control, JobKind, JobStatus

LEASE_FREE = (
    "supervisor_id = NULL, worker_id = NULL, instance = NULL, claimed_at = NULL, control = 'none',"
    " step = NULL"
)
"""Assignments of every UPDATE that ends a lease."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """The worker that claims: its row, kind, and instance (one run of its process)."""

    id: int
    name: str
    kind: str
    instance: str


@dataclass(frozen=True, slots=True)
class HeldLease:
    """The lease of a running job."""

    job: int
    video: int
    epoch: int
    worker_id: int
    worker: str
    instance: str
    control: Control
    attempts: int
    crashes: int
    max_attempts: int
    max_crashes: int
    progress: float
    """0–100, as stored."""
    repeated: bool = False
    """Whether the worker already had this lease."""

    @property
    def token(self) -> Token:
        return Token(self.job, self.epoch, self.instance)


@dataclass(frozen=True, slots=True)
class Token:
    """Identifies a lease; a worker sends it with each write."""

    job: int
    epoch: int
    instance: str


_LEASE_COLUMNS = (
    "id, video_id, epoch, worker_id, processed_by, instance, control, attempts, crashes,"
    " max_attempts, max_crashes, progress"
)


def _lease(row: Any, *, repeated: bool = False) -> HeldLease:
    return HeldLease(
        job=row[0],
        video=row[1],
        epoch=row[2],
        worker_id=row[3],
        worker=row[4],
        instance=row[5],
        control=Control(row[6]),
        attempts=row[7],
        crashes=row[8],
        max_attempts=row[9],
        max_crashes=row[10],
        progress=row[11],
        repeated=repeated,
    )


READY = "status = 'pending' AND not_before IS NULL AND deleted_at IS NULL"
"""The condition of the partial index `ix_job_ready`, verbatim, or SQLite would not use it."""


def _candidates(prefer_gpu: int, limit: str) -> str:
    return (
        "SELECT id, priority, created_at, ready_at, prefer_gpu FROM job INDEXED BY ix_job_ready"
        f" WHERE {READY} AND prefer_gpu = {prefer_gpu}"
        f" ORDER BY priority DESC, created_at, id LIMIT {limit}"
    )


GPU_CANDIDATES_SQL = _candidates(1, "1")
CANDIDATES_SQL = (
    f"SELECT * FROM ({_candidates(0, '1')}) UNION ALL SELECT * FROM ({_candidates(1, ':gpu_jobs')})"
)
"""The first job that prefers no GPU, and the first `gpu_jobs` jobs that do, in no particular order."""

_STANDING = (
    "SELECT enabled = 1 AND draining = 0 AND quarantined_at IS NULL AND suspected_at IS NULL"
    " AND instance = :instance"
    " AND NOT EXISTS (SELECT 1 FROM gate) FROM worker WHERE id = :worker"
)
"""Whether a worker may get a job."""
_CLAIM = (
    "UPDATE job SET status = 'in_progress', epoch = epoch + 1, worker_id = :worker, instance = :instance,"
    " supervisor_id = :supervisor, claimed_at = :now, started_at = coalesce(started_at, :now),"
    " last_progress_at = :now, ready_at = NULL, processed_by_id = :worker, processed_by = :name, step = NULL"
    f" WHERE id = :id AND {READY} RETURNING {_LEASE_COLUMNS}"
)
_ATTEMPT = (
    "INSERT INTO attempt (job_id, number, epoch, worker_id, worker, instance, started_at, log)"
    " VALUES (:job, (SELECT count(*) + 1 FROM attempt WHERE job_id = :job), :epoch, :worker, :name,"
    " :instance, :now, :log)"
)


Fits = Callable[[Connection, int], bool]
"""Whether this job fits on its disks now."""


def claim(
    db: Connection,
    claimant: Claimant,
    *,
    supervisor: int,
    now: int,
    expired: Collection[Token] = (),
    idle_gpus: int,
    gpu_grace_us: int,
    fits: Fits = lambda _db, _job: True,
) -> HeldLease | None:
    """Claims the next job for a worker, or returns the one that its instance has (after a lost answer).

    Nothing is claimed if `fits` refuses the next job: a smaller one would use the space it waits for.

    A GPU worker takes jobs that prefer a GPU. A CPU worker takes the first of all jobs, but leaves the
    first `idle_gpus` GPU-preferring ones to the idle GPU workers until they have been claimable for
    `gpu_grace_us`.

    Args:
        supervisor: the one that grants the lease and keeps its deadline.
        expired: leases of this instance that have expired; they are not given again.
    """
    for mine in of_instance(db, claimant.instance):
        if mine.worker_id == claimant.id and mine.token not in expired:
            return replace(mine, repeated=True)
    if not db.execute(_STANDING, {"worker": claimant.id, "instance": claimant.instance}).scalar():
        return None
    candidate = _pick(db, claimant, now=now, idle_gpus=idle_gpus, gpu_grace_us=gpu_grace_us)
    if candidate is None or not fits(db, candidate):
        return None
    values = {
        "id": candidate,
        "worker": claimant.id,
        "name": claimant.name,
        "instance": claimant.instance,
        "supervisor": supervisor,
        "now": now,
    }
    row = db.execute(_CLAIM, values).first()
    if row is None:
        return None
    lease = _lease(row)
    db.execute(_ATTEMPT, {**values, "job": lease.job, "epoch": lease.epoch, "log": f"{lease.epoch}.log"})
    events.append(
        db,
        EventKind.CLAIM,
        now=now,
        actor=claimant.name,
        job=lease.job,
        video=lease.video,
        worker=claimant.name,
        source=JobStatus.PENDING,
        target=JobStatus.IN_PROGRESS,
    )
    return lease


def _pick(db: Connection, claimant: Claimant, *, now: int, idle_gpus: int, gpu_grace_us: int) -> int | None:
    if claimant.kind == "gpu":
        row = db.execute(GPU_CANDIDATES_SQL).first()
        return None if row is None else int(row[0])
    rows = _in_order(db.execute(CANDIDATES_SQL, {"gpu_jobs": idle_gpus + 1}))
    for left_to_gpus, (job, _, created_at, ready_at, prefers_gpu) in enumerate(rows):
        waited = now - (ready_at if ready_at is not None else created_at)
        if not prefers_gpu or left_to_gpus >= idle_gpus or waited >= gpu_grace_us:
            return int(job)
    return None


def _in_order(candidates: Iterable[Row]) -> list[Row]:
    """Sorts by priority, age and id."""
    return sorted(candidates, key=lambda row: (-row[1], row[2], row[0]))


def is_ready(db: Connection, job: int) -> bool:
    """Whether a worker could get this job now."""
    return db.execute(f"SELECT 1 FROM job WHERE id = :job AND {READY}", {"job": job}).first() is not None


def head(db: Connection) -> int | None:
    """Returns the next job for any worker; None if no job can be claimed."""
    rows = _in_order(db.execute(CANDIDATES_SQL, {"gpu_jobs": 1}))
    return int(rows[0][0]) if rows else None


@dataclass(frozen=True, slots=True)
class Assignment:
    """The work of a claimed job. Paths are bytes, `size` is in bytes."""

    attempt: int
    """Number of the attempt."""
    kind: JobKind
    profile_json: str
    requested: tuple[str, ...] | None
    """Renditions to encode; None for all."""
    dropped: tuple[str, ...]
    source: bytes
    folder: bytes | None
    """The drop folder of the source."""
    size: int
    mtime_ns: int
    quick_hash: str | None
    full_hash: str | None
    facts: dict[str, Any] | None
    """The result of the probe, if any."""
    output_root: bytes
    slug: str
    generation: int | None
    """Id of the current generation."""
    starts_over: bool
    """Whether earlier work has to be removed first."""


_ASSIGNMENT = (
    "SELECT (SELECT count(*) FROM attempt WHERE job_id = job.id), kind, profile_json, requested, dropped,"
    " starts_over, source, (SELECT path FROM folder WHERE folder.id = folder_id), size, mtime_ns, quick_hash,"
    " full_hash, facts, output_root, slug, generation_id"
    " FROM job JOIN video ON video.id = job.video_id WHERE job.id = :job"
)


def assignment_of(db: Connection, job: int) -> Assignment:
    row = db.execute(_ASSIGNMENT, {"job": job}).one()
    attempt, kind, profile_json, requested, dropped, starts_over, *of_video = row
    source, folder, size, mtime_ns, quick_hash, full_hash, facts, root, slug, plays = of_video
    return Assignment(
        attempt=attempt,
        kind=JobKind(kind),
        profile_json=profile_json,
        requested=None if requested is None else tuple(from_json(requested)),
        dropped=tuple(from_json(dropped)),
        source=source,
        folder=folder,
        size=size,
        mtime_ns=mtime_ns,
        quick_hash=quick_hash,
        full_hash=full_hash,
        facts=None if facts is None else from_json(facts),
        output_root=root,
        slug=slug,
        generation=plays,
        starts_over=bool(starts_over),
    )


_MATCH = "id = :job AND epoch = :epoch AND instance = :instance"
"""A lease by its token. Only a job in progress has one (CHECK `lease`)."""
_HELD = f"SELECT {_LEASE_COLUMNS} FROM job WHERE {_MATCH}"


def held(db: Connection, token: Token) -> HeldLease | None:
    """Returns the lease of a token; None if it has ended, or never existed."""
    row = db.execute(_HELD, {"job": token.job, "epoch": token.epoch, "instance": token.instance}).first()
    return None if row is None else _lease(row)


_OF_INSTANCE = (
    f"SELECT {_LEASE_COLUMNS} FROM job INDEXED BY ix_job_instance"
    " WHERE status = 'in_progress' AND instance = :instance"
)


def of_instance(db: Connection, instance: str) -> list[HeldLease]:
    """Returns the leases of a worker's process."""
    return [_lease(row) for row in db.execute(_OF_INSTANCE, {"instance": instance})]


_RUNNING = f"SELECT {_LEASE_COLUMNS} FROM job INDEXED BY ix_job_instance WHERE status = 'in_progress'"


def running(db: Connection) -> list[HeldLease]:
    return [_lease(row) for row in db.execute(_RUNNING)]


def granted(db: Connection, supervisor: int) -> list[HeldLease]:
    """Returns the leases that a supervisor has granted or taken over."""
    rows = db.execute(f"{_RUNNING} AND supervisor_id = :supervisor", {"supervisor": supervisor})
    return [_lease(row) for row in rows]


def take_over(db: Connection, supervisor: int, *, now: int) -> list[HeldLease]:
    """Takes over the jobs of supervisors whose lease has run out; returns their leases."""
    rows = db.execute(
        "UPDATE job SET supervisor_id = :supervisor WHERE status = 'in_progress' AND supervisor_id IN"
        " (SELECT id FROM supervisor WHERE id <> :supervisor AND expires_at <= :now)"
        f" RETURNING {_LEASE_COLUMNS}",
        {"supervisor": supervisor, "now": now},
    )
    return [_lease(row) for row in rows]


_END_ATTEMPT = (
    "UPDATE attempt SET ended_at = :now, outcome = :outcome, answer = :answer, error_code = :code,"
    " error_text = :error WHERE job_id = :job AND epoch = :epoch"
)


def end_attempt(
    db: Connection,
    lease: HeldLease,
    outcome: AttemptOutcome,
    *,
    now: int,
    answer: JobStatus,
    code: str | None = None,
    error: str | None = None,
) -> None:
    db.execute(
        _END_ATTEMPT,
        {
            "now": now,
            "outcome": outcome.value,
            "answer": answer.value,
            "code": code,
            "error": error,
            "job": lease.job,
            "epoch": lease.epoch,
        },
    )


def first_answer(db: Connection, token: Token) -> JobStatus | None:
    """Returns the answer to the complete, fail or release of this token; None if there was none.

    A worker that lost the answer repeats the call and must get the same one.
    """
    row = db.execute(
        "SELECT answer FROM attempt WHERE job_id = :job AND epoch = :epoch AND instance = :instance"
        " AND outcome <> 'lost'",
        {"job": token.job, "epoch": token.epoch, "instance": token.instance},
    ).first()
    return None if row is None or row[0] is None else JobStatus(row[0])
