"""A supervisor that is killed with an entry in its hands: there is one job, and the entry is acknowledged."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import LiveSupervisor
from object_storage import BUCKET, ObjectStorage, object_storage
from tqstudio.protocol import calls
from waiting import WAIT_S, until

from .conftest import MakeLive
from .server import Server
from .test_jobs import film, jobs_of


def killed_and_started(server: Server, make_live: MakeLive, live: LiveSupervisor) -> LiveSupervisor:
    assert live.process.wait(WAIT_S) == -signal.SIGKILL
    live.ended()
    assert server.left() == (1, 1)
    return make_live(FAIL_POINT="")


@pytest.mark.slow
@pytest.mark.fault(
    "The supervisor is killed before or after it adds an entry of Redis",
    "The entry comes again, and there is one job",
    area="supervisor",
)
@pytest.mark.parametrize("point", ["read", "added", "stored"])
def test_an_entry_makes_one_job_wherever_a_kill_comes(
    server: Server, make_live: MakeLive, roots: Path, point: str
) -> None:
    live = make_live(FAIL_POINT=f"redis.{point}")
    server.add(path=film(roots, "film.mp4"), key="order-1")
    live = killed_and_started(server, make_live, live)
    server.until_done()
    [job] = jobs_of(live)
    assert job["name"] == "film.mp4"
    assert server.refused() == {}
    # Another entry with the key makes no job either; the key is forgotten a day after it was acknowledged.
    server.add(path=film(roots, "other.mp4"), key="order-1")
    server.until_done()
    assert [each["id"] for each in jobs_of(live)] == [job["id"]]
    until(lambda: not _kept_for_ever(live), "the key ages")


def _kept_for_ever(live: LiveSupervisor) -> list[Any]:
    with contextlib.closing(sqlite3.connect(f"file:{live.home.database}?mode=ro", uri=True)) as db:
        return db.execute("SELECT key FROM idempotency WHERE at > 200000000000000000").fetchall()


@pytest.mark.slow
def test_what_a_dead_supervisor_has_read_is_claimed(server: Server, make_live: MakeLive, roots: Path) -> None:
    client: Any = server.client
    number = server.add(path=film(roots, "film.mp4"))
    client.xgroup_create("tqstudio:jobs", "tqstudio", id="0")
    client.xreadgroup("tqstudio", "attic", {"tqstudio:jobs": ">"})
    client.xclaim("tqstudio:jobs", "tqstudio", "attic", 0, [number], idle=60_000)
    # Of another one that was removed from the stream there is nothing to add.
    removed = server.add(path=film(roots, "removed.mp4"))
    client.xreadgroup("tqstudio", "attic", {"tqstudio:jobs": ">"})
    client.xclaim("tqstudio:jobs", "tqstudio", "attic", 0, [removed], idle=60_000)
    client.xdel("tqstudio:jobs", removed)
    live = make_live()
    until(lambda: client.xlen("tqstudio:jobs") == 0, "it is done")
    assert [job["name"] for job in jobs_of(live)] == ["film.mp4"]


@pytest.fixture
def storage() -> Iterator[ObjectStorage]:
    with object_storage() as storage:
        yield storage


@pytest.mark.slow
def test_a_url_is_fetched_once_although_the_supervisor_is_killed(
    server: Server, make_live: MakeLive, storage: ObjectStorage
) -> None:
    url = f"{storage.server}/{BUCKET}/raw/film.mp4"
    kind = {"Content-Type": "video/mp4"}
    with urllib.request.urlopen(urllib.request.Request(url, b"a film in a bucket", kind, method="PUT")):
        pass
    live = make_live(FAIL_POINT="redis.added")
    storage.configure(live.home)
    server.add(url=f"s3://{BUCKET}/raw/film.mp4", priority="low")
    missing = server.add(url=f"s3://{BUCKET}/raw/missing.mp4")
    assert live.process.wait(WAIT_S) == -signal.SIGKILL
    live.ended()
    live = make_live(FAIL_POINT="")
    server.until_done()
    until(lambda: jobs_of(live), "it is fetched")
    [job] = jobs_of(live)
    assert live.send(calls.job(job["id"]))["priority"] == -10
    assert [path.name for path in live.home.incoming.glob("*.mp4")] == ["film.mp4"]
    assert server.refused()[missing]["code"] == "NOT_FOUND"
