"""A migrated database, one transaction per test that is rolled back, and a queue driven through the store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import ClauseElement

import postgres
from tqstudio.engine.store.db.connection import Address, Connection, connect
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.schema import migrate
from tqstudio.engine.store.dialects import postgresql, sqlite
from tqstudio.engine.store.jobs import claims, jobs, operations, outcomes
from tqstudio.engine.store.jobs.claims import Claimant, HeldLease, LeaseToken
from tqstudio.engine.store.jobs.jobs import JobSpec, NewJob
from tqstudio.engine.store.jobs.outcomes import Failure
from tqstudio.engine.store.jobs.retry_rules import RetryRules
from tqstudio.engine.store.library import videos
from tqstudio.engine.store.library.videos import NewVideo
from tqstudio.engine.store.machine import supervisors, workers
from tqstudio.errors import ErrorCode
from tqstudio.lifecycle import Control, JobKind, JobStatus, Operation

NOW = 1_800_000_000_000_000
SECOND = 1_000_000
DATABASES = ["sqlite", "postgresql"]
"""What the store is tested on. A test that needs `database`, the file, runs on SQLite alone."""
OLDEST = f"postgresql {postgres.OLDEST}"
_ON_POSTGRESQL = {
    "test_claims": OLDEST,
    "test_operations": OLDEST,
    "test_outcomes": OLDEST,
    "test_database": "postgresql",
    "test_schema": "postgresql",
}
"""What runs on PostgreSQL again, and on which; `test_differential` compares all of the store on both."""
TV = JobSpec(profile="tv", profile_json="{}", prefer_gpu=True)
RULES = RetryRules(backoff_s=30, backoff_max_s=600, jitter=lambda: 0.5)


class Queue:
    """The store's functions with a clock in the test's hands."""

    def __init__(self, db: Connection) -> None:
        self.db = db
        self.now = NOW
        self._made = 0
        self.supervisor = supervisor_of(db)

    def wait(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)

    def video(self, name: str | None = None, *, slug: str | None = None, out: bytes = b"/out") -> int:
        self._made += 1
        name = name if name is not None else f"clip {self._made}.mp4"
        new = NewVideo(
            source=f"/in/{self._made}/{name}".encode("utf-8", "surrogateescape"),
            output_root=out,
            name=name,
            title=name,
            slug=slug if slug is not None else f"clip-{self._made}",
            size=1000,
            mtime_ns=1,
            quick_hash="hash",
        )
        return videos.create(self.db, new, now=self.now)

    def job(self, *, video: int | None = None, gpu: bool = False, **more: Any) -> int:
        of = self.video() if video is None else video
        new = NewJob(video=of, profile="web", profile_json="{}", prefer_gpu=gpu, **more)
        job = jobs.create(self.db, new, now=self.now, actor="test")
        assert job is not None
        return job

    def worker(self, name: str = "cpu-0", kind: str = "cpu", *, instance: str | None = None) -> Claimant:
        row = workers.ensure(self.db, name, kind, device=None)
        instance = instance or f"instance of {name}"
        workers.register(
            self.db,
            row.id,
            instance=instance,
            pid=1,
            pid_started=1.0,
            encoder="libx264",
            capabilities={},
            metadata={},
            now=self.now,
        )
        return Claimant(row.id, name, kind, instance)

    def claim(
        self,
        who: Claimant | None = None,
        *,
        idle_gpus: int = 0,
        grace_s: float = 60,
        expired: Collection[LeaseToken] = (),
    ) -> HeldLease | None:
        return claims.claim(
            self.db,
            who or self.worker(),
            supervisor=self.supervisor,
            now=self.now,
            expired=expired,
            idle_gpus=idle_gpus,
            gpu_grace_us=int(grace_s * SECOND),
        )

    def claimed(self, who: Claimant | None = None, **more: Any) -> HeldLease:
        """A new job in a worker's hands."""
        job = self.job(priority=999, **more)
        lease = self.claim(who)
        assert lease is not None
        assert lease.job == job
        return lease

    def promote(self) -> int:
        return jobs.promote_due(self.db, now=self.now, longest_us=660 * SECOND)

    def fail(
        self, lease: HeldLease, code: ErrorCode, text: str = "it broke", *, forgotten: bool = False
    ) -> JobStatus | None:
        failure = Failure(code, text, "mend it", f"{lease.epoch}.log")
        how = {"now": self.now, "rules": RULES, "worker": "cpu-0", "forgotten": forgotten}
        return outcomes.fail(self.db, token(lease), failure, **how)  # type: ignore[arg-type]

    def complete(self, lease: HeldLease) -> bool:
        return outcomes.complete(self.db, token(lease), now=self.now, worker="cpu-0", detail="generation 1")

    def release(self, lease: HeldLease, reason: Control | None = None) -> JobStatus | None:
        return outcomes.release(self.db, token(lease), reason, now=self.now, worker="cpu-0")

    def lose(self, lease: HeldLease, why: str = "killed by SIGKILL") -> JobStatus | None:
        return outcomes.lose(self.db, lease, now=self.now, worker="cpu-0", why=why)

    def do(self, job: int, operation: Operation) -> operations.Applied:
        applied = operations.operate(self.db, job, operation, now=self.now, actor="test")
        assert applied is not None
        return applied

    def in_status(self, status: JobStatus) -> int:
        """A job that got into this status as jobs do."""
        if status is JobStatus.PENDING:
            return self.job()
        if status is JobStatus.PAUSED:
            return self.job(hold=True)
        if status is JobStatus.CANCELLED:
            job = self.job()
            self.do(job, Operation.CANCEL)
            return job
        self._made += 1
        lease = self.claimed(self.worker(f"worker-{self._made}"), kind=JobKind.NEW)
        if status is JobStatus.DONE:
            assert self.complete(lease)
        if status is JobStatus.FAILED:
            assert self.fail(lease, ErrorCode.NO_MEDIA) is JobStatus.FAILED
        return lease.job

    def row(self, job: int) -> dict[str, Any]:
        found = self.db.execute("SELECT * FROM job WHERE id = :id", {"id": job}).mappings().one()
        return dict(found)

    def status(self, job: int) -> JobStatus:
        return JobStatus(self.row(job)["status"])

    def attempts(self, job: int) -> list[dict[str, Any]]:
        found = self.db.execute("SELECT * FROM attempt WHERE job_id = :id ORDER BY epoch", {"id": job})
        return [dict(row) for row in found.mappings()]

    def history(self, job: int | None = None) -> list[dict[str, Any]]:
        where = "" if job is None else "WHERE job_id = :job"
        found = self.db.execute(f"SELECT * FROM event {where} ORDER BY seq", {"job": job})
        return [dict(row) for row in found.mappings()]


def supervisor_of(db: Connection) -> int:
    """The supervisor that grants leases in a test; its row is made if there is none."""
    known: int | None = db.execute("SELECT max(id) FROM supervisor").scalar()
    return known or supervisors.begin(db, pid=1, version="1", now=NOW, lease_us=60 * SECOND)[0]


def token(lease: HeldLease) -> LeaseToken:
    return LeaseToken(lease.job, lease.epoch, lease.instance)


def migrated(program: str, folder: Path) -> Address:
    """A new database of one of `DATABASES`; that of SQLite is in this folder."""
    made = empty(program, folder / "tqstudio.db")
    migrate(made)
    return made


def empty(program: str, file: Path) -> Address:
    """Where one of these programs may make a new database; SQLite in this file."""
    if program == "sqlite":
        return file
    return postgres.empty_database(postgres.OLDEST if program == OLDEST else postgres.NEWEST)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what uses a database on SQLite, and the core of the store on PostgreSQL in the slow tests."""
    chosen = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "program" not in metafunc.fixturenames or "program" in chosen:
        return
    again = _ON_POSTGRESQL.get(metafunc.module.__name__.rpartition(".")[2])
    slow = [pytest.param(again, marks=pytest.mark.slow)] if again else []
    metafunc.parametrize("program", ["sqlite", *slow], indirect=True, scope="session")


@pytest.fixture(scope="session")
def program(request: pytest.FixtureRequest) -> str:
    """The program whose database is tested."""
    return str(request.param)


@pytest.fixture(scope="session")
def address(program: str, tmp_path_factory: pytest.TempPathFactory) -> Address:
    """The address of a migrated database; use it through `rolled_back`."""
    return migrated(program, tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="session")
def database(address: Address) -> Path:
    """The file of the migrated database, for what only SQLite has."""
    if not isinstance(address, Path):
        pytest.skip("is about SQLite's file")
    return address


@contextmanager
def rolled_back(address: Address) -> Iterator[Queue]:
    """A queue in one transaction that leaves nothing behind."""
    connection = connect(address)
    connection.begin()
    try:
        yield Queue(connection)
    finally:
        connection.rollback()
        connection.close()


@pytest.fixture
def queue(address: Address) -> Iterator[Queue]:
    with rolled_back(address) as queue:
        yield queue


@pytest.fixture
def db(queue: Queue) -> Connection:
    return queue.db


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Writers of PostgreSQL wait for one another only for a moment."""
    monkeypatch.setitem(postgresql._SESSION, "lock_timeout", "200ms")
    postgresql.engine_of.cache_clear()
    yield
    postgresql.engine_of.cache_clear()


@pytest.fixture
def opened(program: str, tmp_path: Path) -> Iterator[Database]:
    """A database of its own, which keeps what is written."""
    folder = tmp_path / "it's 100%?"
    folder.mkdir()
    opened = Database(migrated(program, folder))
    opened.open()
    yield opened
    opened.close()
    opened.close()


Plan = Callable[..., list[str]]


@pytest.fixture
def plan(database: Path, db: Connection) -> Plan:
    """Returns SQLite's plan of a statement with these values."""
    dialect = sqlite.engine_of(database).dialect

    def explained(statement: ClauseElement, **values: Any) -> list[str]:
        compiled = statement.compile(dialect=dialect)
        given = compiled.construct_params(values)
        ordered = [given[name] for name in compiled.positiontup] if compiled.positiontup else given
        return [row[3] for row in db.raw.execute(f"EXPLAIN QUERY PLAN {compiled}", ordered)]

    return explained
