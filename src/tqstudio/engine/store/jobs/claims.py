"""Claims jobs for workers, and checks and ends leases.

Every write of a worker carries (job, epoch, instance) and must match the lease stored here. Its deadline is
kept by the supervisor that granted it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Select, and_, bindparam, func, insert, literal_column, select, union_all, update

from tqstudio.engine.store import events
from tqstudio.engine.store.db.connection import Connection, Row
from tqstudio.engine.store.db.rows import Rows
from tqstudio.engine.store.db.tables import attempt, const, gate, job, worker
from tqstudio.engine.store.db.tables import supervisor as supervisors
from tqstudio.engine.store.dialects.expressions import indexed_by
from tqstudio.engine.store.machine import statistics
from tqstudio.events import EventKind
from tqstudio.lifecycle import AttemptOutcome, Control, JobStatus

NO_LEASE = {
    "supervisor_id": None,
    "worker_id": None,
    "instance": None,
    "claimed_at": None,
    "control": Control.NONE,
    "step": None,
}
"""What every UPDATE that ends a lease sets."""


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
    waited_us: int | None = field(default=None, compare=False)
    """How long the job had been claimable; None for a lease that was granted before."""

    @property
    def token(self) -> LeaseToken:
        return LeaseToken(self.job, self.epoch, self.instance)


@dataclass(frozen=True, slots=True)
class LeaseToken:
    """Identifies a lease; a worker sends it with each write."""

    job: int
    epoch: int
    instance: str

    @property
    def values(self) -> dict[str, Any]:
        """The parameters of `IS_HELD` and `IS_ATTEMPT`."""
        return {"leased": self.job, "lease_epoch": self.epoch, "holder": self.instance}


IS_HELD = and_(
    job.c.id == bindparam("leased"),
    job.c.epoch == bindparam("lease_epoch"),
    job.c.instance == bindparam("holder"),
)
"""The condition that a job is held with a token. Only a job in progress has an instance (CHECK `lease`)."""
IS_ATTEMPT = and_(attempt.c.job_id == bindparam("leased"), attempt.c.epoch == bindparam("lease_epoch"))
"""The condition that an attempt is that of a lease."""


_LEASES = Rows(HeldLease, job, job="id", video="video_id", worker="processed_by", waited_us=None)
READY = and_(job.c.status == const(JobStatus.PENDING), job.c.not_before.is_(None), job.c.deleted_at.is_(None))
"""The condition of the partial index `ix_job_ready`."""


def _candidates(prefer_gpu: int, limit: Any) -> Select[*tuple[Any, ...]]:
    return (
        select(job.c.id, job.c.priority, job.c.created_at, job.c.ready_at, job.c.prefer_gpu)
        .with_hint(job, indexed_by("ix_job_ready"), "sqlite")
        .where(READY, job.c.prefer_gpu == literal_column(str(prefer_gpu)))
        .order_by(job.c.priority.desc(), job.c.created_at, job.c.id)
        .limit(limit)
    )


GPU_CANDIDATES = _candidates(1, 1)
CANDIDATES = union_all(
    select(_candidates(0, 1).subquery()), select(_candidates(1, bindparam("gpu_jobs")).subquery())
)
"""The first job that prefers no GPU, and the first `gpu_jobs` jobs that do, in no particular order."""

_MAY_WORK = select(worker.c.id).where(
    worker.c.id == bindparam("worker"),
    worker.c.instance == bindparam("instance"),
    worker.c.enabled == 1,
    worker.c.draining == 0,
    worker.c.quarantined_at.is_(None),
    worker.c.suspected_at.is_(None),
    ~select(gate.c.kind).exists(),
)
_CLAIM = (
    update(job)
    .where(job.c.id == bindparam("candidate"), READY)
    .values(
        status=JobStatus.IN_PROGRESS,
        epoch=job.c.epoch + 1,
        supervisor_id=bindparam("supervisor"),
        worker_id=bindparam("worker"),
        instance=bindparam("holder"),
        claimed_at=bindparam("now"),
        started_at=func.coalesce(job.c.started_at, bindparam("now")),
        last_progress_at=bindparam("now"),
        ready_at=None,
        processed_by_id=bindparam("worker"),
        processed_by=bindparam("name"),
        step=None,
    )
    .returning(*_LEASES.columns)
)
_EARLIER = select(func.count()).where(attempt.c.job_id == bindparam("job")).scalar_subquery()
_ATTEMPT = insert(attempt).values(
    job_id=bindparam("job"),
    number=_EARLIER + 1,
    epoch=bindparam("lease_epoch"),
    worker_id=bindparam("holder_id"),
    worker=bindparam("name"),
    instance=bindparam("holder"),
    started_at=bindparam("now"),
    log=bindparam("file"),
)


Fits = Callable[[Connection, int], bool]
"""Whether this job fits on its disks now."""


def claim(
    db: Connection,
    claimant: Claimant,
    *,
    supervisor: int,
    now: int,
    expired: Collection[LeaseToken] = (),
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
            return mine
    if not may_work(db, claimant):
        return None
    candidate = _pick(db, claimant, now=now, idle_gpus=idle_gpus, gpu_grace_us=gpu_grace_us)
    if candidate is None or not fits(db, candidate[0]):
        return None
    number, waited_us = candidate
    values = {"holder": claimant.instance, "name": claimant.name, "now": now}
    row = db.execute(
        _CLAIM, {**values, "candidate": number, "worker": claimant.id, "supervisor": supervisor}
    ).first()
    if row is None:
        return None
    lease = _LEASES.value(row, waited_us=waited_us)
    log = f"{lease.epoch}.log"
    db.execute(
        _ATTEMPT,
        {**values, "job": lease.job, "lease_epoch": lease.epoch, "holder_id": claimant.id, "file": log},
    )
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


def may_work(db: Connection, claimant: Claimant) -> bool:
    """Whether a worker may get a job: nothing has switched it off, and no gate is closed."""
    return db.execute(_MAY_WORK, {"worker": claimant.id, "instance": claimant.instance}).first() is not None


def _pick(
    db: Connection, claimant: Claimant, *, now: int, idle_gpus: int, gpu_grace_us: int
) -> tuple[int, int] | None:
    """Returns the next job for a worker, and for how many µs it has been claimable."""
    if claimant.kind == "gpu":
        first = db.execute(GPU_CANDIDATES).first()
        return None if first is None else (int(first[0]), _waited_us(first, now))
    rows = _in_order(db.execute(CANDIDATES, {"gpu_jobs": idle_gpus + 1}))
    for left_to_gpus, row in enumerate(rows):
        waited_us, prefers_gpu = _waited_us(row, now), row[4]
        if not prefers_gpu or left_to_gpus >= idle_gpus or waited_us >= gpu_grace_us:
            return int(row[0]), waited_us
    return None


def _waited_us(candidate: Row, now: int) -> int:
    _, _, created_at, ready_at, _ = candidate
    return int(now - (created_at if ready_at is None else ready_at))


def _in_order(candidates: Iterable[Row]) -> list[Row]:
    return sorted(candidates, key=lambda row: (-row[1], row[2], row[0]))


def is_ready(db: Connection, number: int) -> bool:
    """Whether a worker could get this job now."""
    return db.execute(select(job.c.id).where(job.c.id == number, READY)).first() is not None


def head(db: Connection) -> int | None:
    """Returns the next job for any worker; None if no job can be claimed."""
    rows = _in_order(db.execute(CANDIDATES, {"gpu_jobs": 1}))
    return int(rows[0][0]) if rows else None


_HELD = select(*_LEASES.columns).where(IS_HELD)


def held(db: Connection, token: LeaseToken) -> HeldLease | None:
    """Returns the lease of a token; None if it has ended, or never existed."""
    return _LEASES.first(db.execute(_HELD, token.values))


_RUNNING = (
    select(*_LEASES.columns)
    .with_hint(job, indexed_by("ix_job_instance"), "sqlite")
    .where(job.c.status == const(JobStatus.IN_PROGRESS))
)
_OF_INSTANCE = _RUNNING.where(job.c.instance == bindparam("instance"))
_GRANTED = _RUNNING.where(job.c.supervisor_id == bindparam("supervisor"))


def of_instance(db: Connection, instance: str) -> list[HeldLease]:
    """Returns the leases of a worker's process."""
    return [_LEASES.value(row) for row in db.execute(_OF_INSTANCE, {"instance": instance})]


def granted(db: Connection, supervisor: int) -> list[HeldLease]:
    """Returns the leases that a supervisor has granted or taken over."""
    return [_LEASES.value(row) for row in db.execute(_GRANTED, {"supervisor": supervisor})]


def take_over(db: Connection, supervisor: int, *, now: int) -> list[HeldLease]:
    """Takes over the jobs of supervisors whose lease has run out; returns their leases."""
    row = supervisors.c
    ended = select(row.id).where(row.id != supervisor, row.expires_at <= now)
    statement = update(job).where(job.c.status == JobStatus.IN_PROGRESS, job.c.supervisor_id.in_(ended))
    taken = db.execute(statement.values(supervisor_id=supervisor).returning(*_LEASES.columns))
    return [_LEASES.value(row) for row in taken]


_END_ATTEMPT = update(attempt).where(IS_ATTEMPT)


def end_attempt(
    db: Connection,
    lease: HeldLease,
    outcome: AttemptOutcome,
    *,
    now: int,
    answer: JobStatus,
    code: str | None = None,
    error: str | None = None,
    until_last_progress: bool = False,
    bytes_out: int = 0,
) -> None:
    """Ends the attempt of a lease; the rest as in `statistics.record`."""
    ended = {"ended_at": now, "outcome": outcome, "answer": answer, "error_code": code, "error_text": error}
    db.execute(_END_ATTEMPT, {**lease.token.values, **ended})
    statistics.record(
        db,
        lease.job,
        lease.epoch,
        now=now,
        status=answer,
        until_last_progress=until_last_progress,
        bytes_out=bytes_out,
    )


def first_answer(db: Connection, token: LeaseToken) -> JobStatus | None:
    """Returns the answer to the complete, fail or release of this token; None if there was none.

    A worker that lost the answer repeats the call and must get the same one.
    """
    mine = (IS_ATTEMPT, attempt.c.instance == bindparam("holder"))
    answered = select(attempt.c.answer).where(*mine, attempt.c.outcome != AttemptOutcome.LOST)
    answer = db.execute(answered, token.values).scalar()
    return None if answer is None else JobStatus(answer)
