"""The prober over a real database, with real processes that may die over any file."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tqstudio.config import Settings
from tqstudio.engine.host.clock import now_us
from tqstudio.engine.probing import prober as prober_module
from tqstudio.engine.probing.prober import Prober, ProbeResult
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.jobs import jobs
from tqstudio.engine.store.jobs.jobs import NewJob
from tqstudio.engine.store.library import videos
from tqstudio.engine.store.library.videos import NewVideo
from tqstudio.home import Home
from waiting import until_true

from .conftest import Hostile

Copy = Callable[[str], Path]


class Desk:
    """A queue of real files, and probers at work on it."""

    def __init__(self, home: Home, db: Database, program: str) -> None:
        self.home, self.db, self.program = home, db, program
        self.found: list[ProbeResult] = []
        self.prober: Prober

    def add(self, path: Path, *, priority: int = 0) -> int:
        """A waiting job for a file; the video's id."""
        return self.db.write_now(_add, path, priority)

    @asynccontextmanager
    async def at_work(self, **settings: Any) -> AsyncIterator[Prober]:
        self.prober = Prober(self.home, Settings(**settings), self.db, self._on_found, self.program)
        await self.prober.start()
        try:
            yield self.prober
        finally:
            await self.prober.stop()
            await until_true(lambda: not self.processes())

    def _on_found(self, looked: Sequence[ProbeResult]) -> None:
        self.found += looked

    @property
    def names(self) -> list[str]:
        """The files that were looked at, in the order in which that was stored."""
        return [os.path.basename(one.at.path).decode() for one in self.found]

    async def work_off(self) -> None:
        """Wait until all that waits now has been looked at, and reported."""
        before = len(self.found)
        waiting = {one.job for one in self.db.read_now(videos.unprobed, limit=1000)}
        await until_true(lambda: waiting <= {one.at.job for one in self.found[before:]})
        assert self.db.read_now(videos.unprobed, limit=1) == []

    def facts(self, video: int) -> Any:
        row = self.db.read_now(videos.get, video)
        assert row is not None
        return row.facts

    def problem(self, name: str) -> Any:
        [problem] = {
            str(one.problem): one.problem for one in self.found if one.at.path.endswith(name.encode())
        }.values()
        return problem

    def processes(self) -> list[int]:
        found = []
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                if self.program in child.cmdline():
                    found.append(child.pid)
        return found


def _add(db: Connection, path: Path, priority: int) -> int:
    found = path.stat()
    name = path.name
    video = videos.create(
        db,
        NewVideo(os.fsencode(path), b"/out", name, name, name, found.st_size, found.st_mtime_ns, "hash"),
        now=now_us(),
    )
    new = NewJob(video=video, profile="web", profile_json="{}", prefer_gpu=False, priority=priority)
    jobs.create(db, new, now=now_us(), actor="test")
    return video


@pytest.fixture
def desk(home: Home, opened: Database, hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(prober_module, "LEAVE_TO_WORKERS_S", 0.01)
    return Desk(home, opened, hostile.program)


def test_one_process_looks_at_every_file_in_the_order_of_the_queue(
    desk: Desk, hostile: Hostile, copy: Copy
) -> None:
    made = [desk.add(copy(f"{n:03}.mp4"), priority=n % 2) for n in range(80)]

    async def run() -> None:
        async with desk.at_work():
            await desk.work_off()

    asyncio.run(run())
    assert all(desk.facts(video)["video"]["width"] == 320 for video in made)
    assert hostile.names == [f"{n:03}.mp4" for n in (*range(1, 80, 2), *range(0, 80, 2))]
    assert desk.names == hostile.names
    assert len({pid for pid, _ in hostile.asked}) == 1


def test_what_kills_it_is_remembered_and_the_next_continues(desk: Desk, hostile: Hostile, copy: Copy) -> None:
    deadly = copy("crash.mp4")
    first, last = desk.add(deadly), desk.add(copy("good.mp4"))

    async def run() -> None:
        for _ in range(2):
            async with desk.at_work():
                await desk.work_off()
                await until_true(lambda: desk.facts(last))
        # Touched: it is another file now, for all that is known.
        desk.db.write_now(
            lambda db: videos.set_fingerprint(
                db, first, size=deadly.stat().st_size, mtime_ns=5, quick_hash="hash", changed=False
            )
        )
        os.utime(deadly, ns=(5, 5))
        async with desk.at_work():
            await desk.work_off()

    asyncio.run(run())
    # Twice each time: once, something else may have killed it.
    assert hostile.names == ["crash.mp4", "crash.mp4", "good.mp4", "crash.mp4", "crash.mp4"]
    assert desk.facts(first) is None
    problem = desk.problem("crash.mp4")
    assert problem["code"] == "SOURCE_UNREADABLE"
    assert ": it was killed by SIGABRT" in problem["message"]


def test_what_hangs_is_given_up_and_the_next_continues(desk: Desk, hostile: Hostile, copy: Copy) -> None:
    stuck, last = desk.add(copy("hang.mp4")), desk.add(copy("good.mp4"))

    async def run() -> None:
        async with desk.at_work(probe_timeout_s=1):
            await desk.work_off()

    asyncio.run(run())
    assert hostile.names == ["hang.mp4", "good.mp4"]
    assert (desk.facts(stuck), desk.problem("hang.mp4")["code"]) == (None, "TIMEOUT")
    assert "within 1 s" in desk.problem("hang.mp4")["message"]
    assert desk.facts(last) is not None


def test_a_process_that_a_user_killed_costs_no_file(desk: Desk, hostile: Hostile, copy: Copy) -> None:
    video = desk.add(copy("wait.mp4"))

    async def run() -> None:
        async with desk.at_work():
            await until_true(lambda: hostile.asked)
            hostile.go()
            os.kill(hostile.asked[0][0], signal.SIGKILL)
            await desk.work_off()

    asyncio.run(run())
    assert hostile.names == ["wait.mp4", "wait.mp4"]
    assert desk.facts(video) is not None
    assert [one.problem for one in desk.found] == [None]


def test_an_idle_one_is_let_go_and_comes_back_for_work(desk: Desk, hostile: Hostile, copy: Copy) -> None:
    first = desk.add(copy("one.mp4"))

    async def run() -> None:
        async with desk.at_work(probe_idle_s=0.05) as prober:
            await until_true(lambda: desk.facts(first))
            await until_true(lambda: not desk.processes())
            second = desk.add(copy("two.mp4"))
            prober.wake()
            await until_true(lambda: desk.facts(second))

    asyncio.run(run())
    assert len({pid for pid, _ in hostile.asked}) == 2


def test_nothing_is_started_for_nothing(desk: Desk, hostile: Hostile) -> None:
    async def run() -> None:
        async with desk.at_work() as prober:
            for _ in range(3):
                prober.wake()
                await until_true(lambda: not prober._hinted.is_set())
                assert not desk.processes()

    asyncio.run(run())
    assert hostile.asked == []


def test_a_file_that_is_not_the_one_in_the_queue_has_no_facts(desk: Desk, copy: Copy) -> None:
    path = copy("good.mp4")
    video = desk.add(path)
    os.utime(path, ns=(5, 5))

    async def run() -> None:
        async with desk.at_work():
            await desk.work_off()

    asyncio.run(run())
    assert (desk.facts(video), desk.problem("good.mp4")["code"]) == (None, "SOURCE_CHANGED")


def test_a_file_that_changed_meanwhile_is_looked_at_again(desk: Desk, hostile: Hostile, copy: Copy) -> None:
    path = copy("wait.mp4")
    video = desk.add(path)

    def change(db: Connection) -> None:
        os.utime(path, ns=(5, 5))
        size = path.stat().st_size
        videos.set_fingerprint(db, video, size=size, mtime_ns=5, quick_hash="other", changed=True)

    async def run() -> None:
        async with desk.at_work():
            await until_true(lambda: hostile.asked)
            await desk.db.write(change)
            hostile.go()
            await desk.work_off()

    asyncio.run(run())
    assert desk.facts(video) is not None
    assert hostile.names == ["wait.mp4", "wait.mp4"]
    assert [one.at.mtime_ns for one in desk.found] == [5], "what was true of the earlier file is not reported"


def test_it_leaves_the_processor_to_files_that_are_being_queued(
    desk: Desk, hostile: Hostile, copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.add(copy("wait.mp4"), priority=1)
    for number in range(prober_module._BATCH):
        desk.add(copy(f"{number}.mp4"))

    async def run() -> None:
        async with desk.at_work():
            await until_true(lambda: hostile.asked)
            monkeypatch.setattr(prober_module, "LEAVE_TO_WORKERS_S", 600.0)
            desk.prober.wake()
            hostile.go()
            await until_true(lambda: len(desk.found) >= prober_module._BATCH)
            # Enough turns to begin with the next one.
            for _ in range(5):
                await desk.db.read(videos.unprobed, limit=1)

    asyncio.run(run())
    assert len(hostile.names) == prober_module._BATCH


def test_a_program_that_does_not_start_blames_no_file(desk: Desk, copy: Copy) -> None:
    desk.program = "no_such_program"
    desk.add(copy("good.mp4"))

    async def run() -> None:
        async with desk.at_work():
            await until_true(lambda: desk.home.probe_log.exists() and desk.home.probe_log.read_text())
            await until_true(lambda: not desk.processes())

    asyncio.run(run())
    assert len(desk.db.read_now(videos.unprobed, limit=9)) == 1
    assert desk.found == []


def test_it_ends_in_the_middle_of_a_file(desk: Desk, hostile: Hostile, copy: Copy) -> None:
    desk.add(copy("hang.mp4"))

    async def run() -> None:
        async with desk.at_work():
            await until_true(lambda: hostile.asked)
            assert len(desk.processes()) == 1

    asyncio.run(run())
    assert len(desk.db.read_now(videos.unprobed, limit=9)) == 1, "it is looked at when the next one runs"
