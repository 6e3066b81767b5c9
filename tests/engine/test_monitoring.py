"""Health, readiness and metrics of a real supervisor: while it works, while it does not, and while its
database hangs."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from harness import LiveSupervisor
from scrapes import scrape
from tqstudio.engine.live.metrics import Histogram, Metrics
from tqstudio.engine.monitoring.disks import Disk
from tqstudio.engine.monitoring.exposition import MAX_DISKS, _names
from tqstudio.engine.monitoring.latest import Latest
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.errors import ErrorClass, ErrorCode, TqError, class_of
from tqstudio.events import EventKind
from tqstudio.lifecycle import GateKind, JobStatus, WorkerStatus
from tqstudio.protocol import calls
from waiting import until

from .conftest import Desk
from .hung import HungDatabase

T = TypeVar("T")

BOUND_S = 2.0
"""What a hanging database may delay an answer."""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSupervisor]:
    """One for all tests that leave it ready, and without workers of theirs."""
    with started(tmp_path_factory.mktemp("live")) as live:
        yield live


@pytest.fixture
def own(tmp_path: Path) -> Iterator[LiveSupervisor]:
    with started(tmp_path) as live:
        yield live


@contextmanager
def started(root: Path) -> Iterator[LiveSupervisor]:
    live = LiveSupervisor(root / "home", TQSTUDIO_LISTEN="127.0.0.1:0", TQSTUDIO_DRAIN_S="60")
    try:
        yield live.start()
    finally:
        live.clear_away()


def kinds(answer: tuple[int, Any]) -> list[str]:
    """Why a supervisor is not well; its status must agree."""
    status, view = answer
    assert status == (503 if view["reasons"] else 200), view
    assert (view["ready"] if "ready" in view else view["healthy"]) is (status == 200)
    return [each["kind"] for each in view["reasons"]]


def ready(live: LiveSupervisor) -> list[str]:
    return kinds(live.raw("GET", "/ready"))


def becomes(live: LiveSupervisor, *reasons: str) -> None:
    """Wait until it is not ready for these reasons alone; status and doctor say the same."""
    until(lambda: ready(live) == list(reasons), f"not ready: {reasons}")
    shown = live.send(calls.status())["ready"]
    assert [each["kind"] for each in shown["reasons"]] == list(reasons)
    [check] = [each for each in live.send(calls.doctor())["checks"] if each["name"] == "ready"]
    assert check["level"] == ("warn" if reasons else "ok")
    for each in shown["reasons"]:
        assert each["reason"] in check["detail"]
        assert each["reason"] in live("status").out
    assert f"ready {str(not reasons).lower()}" in live("status", "--plain").out.splitlines()


def in_time(ask: Callable[[], T]) -> T:
    """Ask until a true answer comes within the bound; a busy machine may delay some."""

    def answer() -> T | None:
        began = time.monotonic()
        answer = ask()
        return answer if time.monotonic() - began < BOUND_S else None

    answered = until(answer, f"an answer within {BOUND_S:g} s")
    assert answered is not None
    return answered


@pytest.mark.slow
def test_ready_is_who_takes_jobs(live: LiveSupervisor) -> None:
    becomes(live)
    live.send(calls.pause_queue("Ada's secret film"))
    becomes(live, "user")
    live.send(calls.worker_action("cpu-0", "disable"))
    becomes(live, "user", "workers")
    live.send(calls.resume_queue())
    becomes(live, "workers")
    assert kinds(live.raw("GET", "/health")) == []
    live.send(calls.worker_action("cpu-0", "enable"))
    becomes(live)


@pytest.mark.slow
def test_it_is_not_ready_while_it_drains(own: LiveSupervisor, tmp_path: Path) -> None:
    becomes(own)
    desk = Desk(own, tmp_path)
    own.send(calls.worker_action("cpu-0", "disable"))
    worker, claimed = desk.running()
    becomes(own)
    own.send(calls.shutdown(drain=True))
    becomes(own, "draining")
    assert kinds(own.raw("GET", "/health")) == [], "it is healthy, and drains"
    worker.send(f"jobs/{claimed['job']}/fail", epoch=claimed["epoch"], code="NO_MEDIA", text="no")
    assert own.ended() == 0


@pytest.mark.fault(
    "The database does not answer",
    "`/health` and `/ready` answer 503 within two seconds, `/metrics` the last known values",
    area="database",
)
def test_a_hanging_database_is_reported_within_two_seconds(live: LiveSupervisor) -> None:
    becomes(live)
    before = scrape(live)
    assert before.value("database_up") == 1
    assert before.value("workers", status="idle") == 1
    with HungDatabase(live.home.database):
        for path in ("/health", "/ready"):
            # An answer of the last moment may still count.
            in_time(lambda path=path: kinds(live.raw("GET", path)) == ["database"])
        for _ in range(2):
            hung = in_time(lambda: scrape(live))
            assert hung.value("database_up") == 0
            assert hung.value("workers", status="idle") == 1, "the last known value"
            assert hung.names == before.names
    until(lambda: kinds(live.raw("GET", "/health")) == [], "it answers again")
    becomes(live)
    assert scrape(live).value("database_up") == 1


def test_without_a_token_only_health_is_answered(live: LiveSupervisor) -> None:
    url = live.send(calls.status())["supervisor"]["listen"]

    def ask(path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
        request = urllib.request.Request(f"{url}{path}", method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    live.send(calls.pause_queue("Ada's secret film"))
    until(lambda: ask("/ready")[0] == 503)
    for path in ("/health", "/ready"):
        status, body = ask(path)
        assert set(json.loads(body)) <= {"ready", "healthy", "reasons"}
        assert not [word for word in (b"Ada", b"/", b"cpu-0", b"home") if word in body]
        # A wrong token is no reason to count a container as dead.
        assert ask(path, Authorization="Bearer x")[0] == status
        assert ask(f"{path}/")[0] == ask(f"/v1{path}")[0] == ask(path, "POST")[0] == 401
        assert ask(f"{path}?x=1")[0] == 400
        assert ask(path, Host="evil.example")[0] == 400
        assert ask(path, Origin="https://evil.example")[0] == 403
    live.send(calls.resume_queue())
    assert ask("/metrics")[0] == ask("/openapi.json")[0] == 401
    for role, allowed in (("view", 200), ("admin", 200), ("worker", 403)):
        token = live.send(calls.create_token(f"of-{role}", role))["token"]
        status, body = ask("/metrics", Authorization=f"Bearer {token}")
        assert status == allowed
        assert str(live.home.root).encode() not in body
        assert ask("/health", Authorization=f"Bearer {token}")[0] == 200


@pytest.mark.slow
def test_labels_are_bounded_and_hold_no_names(own: LiveSupervisor, tmp_path: Path) -> None:
    desk = Desk(own, tmp_path)
    own.send(calls.worker_action("cpu-0", "disable"))
    worker, claimed = desk.running()
    for code in ("Ada's secret film", "ENCODER_EXIT"):
        worker.send(f"jobs/{claimed['job']}/fail", epoch=claimed["epoch"], code=code[:40], text="no")
        worker, claimed = desk.running()
    # A scrape waits 0.1 s for the disks; a later one shows what was found then.
    until(lambda: scrape(own).labels("disk_free_bytes", "output"), "the disks are known")
    found = scrape(own)
    assert found.value("failures_total", code="INTERNAL") == 1
    assert found.value("retry_attempts_total", code="ENCODER_EXIT") == 1
    assert found.value("concurrent_jobs") == found.value("jobs", status="in_progress") == 1
    assert found.value("queue_wait_seconds_count") == 3
    assert found.labels("failures_total", "code") == {
        code for code in ErrorCode if class_of(code) is not ErrorClass.REQUEST
    }
    assert found.labels("jobs", "status") == set(JobStatus)
    assert found.labels("workers", "status") == set(WorkerStatus)
    assert found.labels("gate_closed", "kind") == set(GateKind)
    assert found.labels("deliveries", "state") == {"waiting", "failing"}
    assert found.value("standbys") == found.value("leader_changes_total") == 0
    assert found.labels("disk_free_bytes", "output") == {"output"}
    assert found.value("disk_total_bytes", output="output") > found.value("disk_free_bytes", output="output")
    assert found.value("disk_reserve_bytes") == 1_000_000
    assert found.value("uptime_seconds") > 0
    assert found.labels("build_info", "version") == {own.send(calls.status())["supervisor"]["version"]}
    for name in ("Ada", "clip-", str(tmp_path), worker.name):
        assert name not in found.text


@pytest.mark.slow
def test_refused_claims_and_heartbeats_are_counted(own: LiveSupervisor) -> None:
    own.send(calls.worker_action("cpu-0", "disable"))
    before = scrape(own)
    worker = own.worker("twice").register()
    old, worker.instance = worker.instance, "a-newer-instance"
    worker.register()
    worker.send("heartbeat", jobs=[])
    assert worker.post("claim", instance=old, wait_s=0)[0] == 409
    after = scrape(own)
    assert after.value("acquire_conflicts_total") == before.value("acquire_conflicts_total") + 1
    assert after.value("heartbeats_total") > before.value("heartbeats_total")


def event(kind: EventKind, code: ErrorCode | None = None, target: JobStatus | None = None) -> EventRow:
    source = None if target is None else JobStatus.IN_PROGRESS
    return EventRow(1, 1, kind, 1, 1, None, source, target, "x", code, None)


def test_what_events_count() -> None:
    pending, failed = JobStatus.PENDING, JobStatus.FAILED
    metrics = Metrics()
    metrics.on_events(
        [
            event(EventKind.FAIL_RETRYABLE, ErrorCode.ENCODER_EXIT, pending),
            event(EventKind.FAIL_FINAL, ErrorCode.ENCODER_EXIT, failed),
            event(EventKind.FAIL_FINAL, ErrorCode.NO_MEDIA, failed),
            event(EventKind.FAIL_FINAL, ErrorCode.REPEATED_CRASHES, failed),
            event(EventKind.RELEASE, ErrorCode.DISK_LOW, pending),
            event(EventKind.WORKER_LOST, ErrorCode.WORKER_LOST, pending),
            event(EventKind.REQUEUED_STALE, ErrorCode.WORKER_LOST, pending),
            event(EventKind.REQUEUED_SUPERVISOR, None, pending),
            event(EventKind.ABORTED_SHUTDOWN, None, pending),
            event(EventKind.WARNING, ErrorCode.SOURCE_DAMAGED),
            event(EventKind.COMPLETE, None, JobStatus.DONE),
        ]
    )
    assert +metrics.recovered == {"worker_lost": 1, "stale": 1, "supervisor": 1}
    assert +metrics.failures == {
        "ENCODER_EXIT": 2,
        "NO_MEDIA": 1,
        "REPEATED_CRASHES": 1,
        "DISK_LOW": 1,
        "WORKER_LOST": 2,
    }
    assert +metrics.retries == {"ENCODER_EXIT": 1, "DISK_LOW": 1, "WORKER_LOST": 2}
    assert metrics.exhausted == 2


def test_a_histogram_counts_up_to_its_bounds() -> None:
    histogram = Histogram((1, 5))
    for value in (0, 1, 1.5, 5, 7):
        histogram.observe(value)
    assert histogram.cumulative() == [(1, 2), (5, 4), (float("inf"), 5)]
    assert histogram.sum == 14.5


def test_disks_have_distinct_labels_without_paths() -> None:
    paths = ["/a/site", "/b/site", "/c/site", "/", "/d/site-2", "/e/\x1b\udcff"]
    names = _names([Disk(Path(path), number, 1, 1) for number, path in enumerate(paths)])
    assert len(set(names)) == len(paths)
    assert names[:3] == ["site", "site-2", "site-3"]
    assert not any("/" in name or "\x1b" in name for name in names)
    many = [Disk(Path(f"/{number}/site"), number, 1, 1) for number in range(100)]
    assert len({*_names(many)}) == MAX_DISKS


# What may not answer.


class Source:
    """A value whose reads a test lets answer, or fail."""

    def __init__(self) -> None:
        self.reads = 0
        self.answers = asyncio.Event()
        self.error: Exception | None = None

    async def read(self) -> int:
        self.reads += 1
        number = self.reads
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        return number


def in_loop(test: Callable[[Source], Any]) -> None:
    async def run() -> None:
        await test(Source())

    asyncio.run(run())


def test_callers_share_a_read_and_wait_no_longer_than_its_bound() -> None:
    async def test(source: Source) -> None:
        latest = Latest(source.read, 0.1)
        assert await asyncio.gather(*(latest.refresh() for _ in range(50))) == [False] * 50
        assert (source.reads, latest.value) == (1, None)
        began = time.monotonic()
        assert not any([await latest.refresh() for _ in range(50)])
        assert time.monotonic() - began < 25 * 0.1, "the bound counts from the start of the read"
        source.answers.set()
        await asyncio.sleep(0)
        assert await latest.refresh()
        assert (source.reads, latest.value) == (1, 1)

    in_loop(test)


def test_the_last_value_stays_when_a_read_fails() -> None:
    async def test(source: Source) -> None:
        source.answers.set()
        latest = Latest(source.read, 5)
        assert await latest.refresh()
        source.error = TqError(ErrorCode.DATABASE_BUSY, "locked")
        async with asyncio.timeout(60):
            while await latest.refresh():  # noqa: ASYNC110 - a value counts as new for a moment
                await asyncio.sleep(0.02)
        assert latest.value == 1
        source.error = None
        assert await latest.refresh()
        assert latest.value == source.reads

    in_loop(test)
