"""One standing supervisor for what does not change it, and offline parts on a database of their own."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import LiveSupervisor, Worker
from tqstudio import paths as sources
from tqstudio.config import Settings
from tqstudio.engine.store.db.database import Database
from tqstudio.home import Home
from tqstudio.protocol import calls


@pytest.fixture(scope="session")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSupervisor]:
    """A supervisor whose own worker is disabled, so that jobs stay as tests leave them."""
    live = LiveSupervisor(tmp_path_factory.mktemp("standing"), TQSTUDIO_SSE_KEEPALIVE_S="0.2")
    try:
        live.start()
        live.send(calls.worker_action("cpu-0", "disable"))
        yield live
    finally:
        live.clear_away()


_numbers = itertools.count()


class Desk:
    """The standing supervisor with small files to offer."""

    def __init__(self, live: LiveSupervisor, folder: Path) -> None:
        self.live, self.folder = live, folder

    def file(self, name: str | bytes | None = None, content: bytes = b"") -> Path:
        number = next(_numbers)
        shown = name if name is not None else f"clip-{number}.mp4"
        path = self.folder / (shown if isinstance(shown, str) else shown.decode("utf-8", "surrogateescape"))
        path.write_bytes(content or f"some video {number}".encode())
        return path

    def add(self, *paths: Path, **more: Any) -> list[Any]:
        call = calls.add([sources.encode(path) for path in paths or (self.file(),)], **more)
        return list(self.live.send(call)["results"])

    def job(self, **more: Any) -> int:
        [result] = self.add(**more)
        assert result["decision"] == "queued", result
        return int(result["job"])

    def act(self, operation: str, *ids: int, **more: Any) -> list[Any]:
        return list(self.live.send(calls.act(operation, ids, **more))["results"])

    def worker(self) -> Worker:
        return self.live.worker(f"test-{next(_numbers)}").register()

    def running(self, **more: Any) -> tuple[Worker, Any]:
        """A job in the hands of a worker that the test plays."""
        job = self.job(priority=1000, **more)
        worker = self.worker()
        claimed = worker.claim()
        assert claimed["job"] == job
        return worker, claimed

    def show(self, job: int) -> Any:
        return self.live.send(calls.job(job))

    def state(self, job: int) -> Any:
        """The job to compare with later, without the end of its lease.

        As a time of day that end varies by a few ms: it is computed from two clocks at each call.
        """
        return self.show(job) | {"lease_expires_at": None}


@pytest.fixture
def desk(standing: LiveSupervisor, tmp_path: Path) -> Iterator[Desk]:
    """Whatever a test leaves open is cancelled after it: the next one finds an empty queue."""
    yield Desk(standing, tmp_path)
    rows = standing.send(calls.jobs("state:pending,paused,running", limit=500))["jobs"]
    for row in rows:
        standing.send(calls.act("cancel", [row["id"]]))
    workers = standing.send(calls.workers())["workers"]
    for row in rows:
        if row["status"] == "in_progress":
            assert row["worker"] in {w["name"] for w in workers}


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder like /tmp: everybody may make files in it."""
    folder = Path(tempfile.mkdtemp(prefix="tqstudio-users-", dir="/tmp"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    return home


@pytest.fixture
def opened(home: Home) -> Iterator[Database]:
    db = Database(home.database)
    db.open()
    yield db
    db.close()


@pytest.fixture
def settings() -> Settings:
    return Settings()
