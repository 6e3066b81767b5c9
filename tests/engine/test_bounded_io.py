"""File systems that do not answer: looked at from a real one, and a studio with an output on it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import MakeSupervisor
from tqstudio import paths
from tqstudio.engine.files import bounded_io
from tqstudio.engine.files.bounded_io import BoundedIO, NoAnswer
from tqstudio.protocol import calls
from waiting import until

from .hung import HungMount
from .test_completion import bench_of, complete
from .test_disk_gate import Desk


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[HungMount]:
    mount = HungMount(tmp_path / "hung")
    yield mount
    mount.end()


def test_a_look_is_answered_as_any_call() -> None:
    async def looks() -> None:
        bounded = BoundedIO()
        assert await bounded.run(b"/a", lambda: 7) == 7
        with pytest.raises(FileNotFoundError):
            await bounded.run(b"/a", lambda: os.stat("/nonexistent"))
        assert await asyncio.gather(*(bounded.run(b"/a", lambda n=n: n) for n in range(5))) == list(range(5))
        assert await bounded.answers(b"/nonexistent"), "that is an answer"

    asyncio.run(looks())


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts what it runs."""

    steps = 0

    def call_soon(self, *args: Any, **more: Any) -> asyncio.Handle:
        self.steps += 1
        return super().call_soon(*args, **more)


def test_each_answer_wakes_one_of_those_who_wait() -> None:
    """Or a thousand callers would wake each other half a million times."""

    def steps(callers: int) -> int:
        async def looks() -> None:
            bounded = BoundedIO()
            await asyncio.gather(*(bounded.run(b"/a", lambda: 7) for _ in range(callers)))

        with asyncio.Runner(loop_factory=CountingLoop) as runner:
            runner.run(looks())
            loop = runner.get_loop()
            assert isinstance(loop, CountingLoop)
            return loop.steps

    assert steps(200) < 6 * steps(50)


def test_a_late_answer_is_reported_to_who_waits_and_the_place_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounded_io, "TIMEOUT_S", 0.2)
    answers = threading.Event()

    async def looks() -> None:
        bounded = BoundedIO()
        waiting = [asyncio.create_task(bounded.run(b"/a", answers.wait)) for _ in range(20)]
        assert [type(each) for each in await asyncio.gather(*waiting, return_exceptions=True)] == [
            NoAnswer
        ] * 20
        answers.set()
        async with asyncio.timeout(30):
            while not await bounded.answers(b"/a"):
                pass
        cancelled = [asyncio.create_task(bounded.run(b"/a", lambda: 7)) for _ in range(20)]
        await asyncio.sleep(0)
        for each in cancelled[::2]:
            each.cancel()
        assert (await asyncio.gather(*cancelled, return_exceptions=True))[1::2] == [7] * 10
        assert not bounded._places, "nothing is kept of a place that owes no answer"

    asyncio.run(looks())


def test_a_place_that_does_not_answer_costs_one_thread(
    hung: HungMount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_io, "TIMEOUT_S", 0.2)

    async def looks() -> None:
        bounded, place = BoundedIO(), os.fsencode(hung.folder)
        before = set(threading.enumerate())
        for _ in range(10):
            with pytest.raises(NoAnswer, match="does not answer"):
                await bounded.run(place, lambda: os.statvfs(place))
        # By identity: a thread of another test may end meanwhile.
        assert len(set(threading.enumerate()) - before) == 1
        assert not await bounded.answers(place)
        assert await bounded.answers(b"/"), "other paths are asked as before"
        hung.end()
        async with asyncio.timeout(30):
            while not await bounded.answers(place):
                pass
        assert await bounded.run(place, lambda: os.path.isdir(place))

    asyncio.run(looks())


@pytest.mark.slow
@pytest.mark.fault(
    "A network mount does not answer",
    "Its jobs wait with `DISK_NOT_RESPONDING`; others run, and the supervisor answers",
    area="disks",
)
@pytest.mark.parametrize("which", ["output", pytest.param("source", marks=pytest.mark.slow)])
def test_a_disk_that_does_not_answer_holds_up_no_other_job(
    hung: HungMount, make_supervisor: MakeSupervisor, tmp_path: Path, which: str
) -> None:
    hung.end()
    live = make_supervisor(tmp_path / "home")
    desk = Desk(live.start(), tmp_path / "out", tmp_path)
    files = [(hung.folder if which == "source" else tmp_path) / f"{number}.mp4" for number in range(60)]
    for file in files:
        file.write_bytes(b"video")
    out = hung.folder if which == "output" else desk.out
    call = calls.add([paths.encode(file) for file in files], output_b64=paths.encode(out))
    stuck = [result["job"] for result in live.send(call)["results"]]
    free = desk.add("free.mp4", 1000)
    # The next supervisor has not measured the disk while it answered.
    live.stop()
    mount = HungMount(hung.folder)
    try:
        live.start()
        # They are next, and more than one transaction passes over.
        worker = desk.worker("one")
        job = until(worker.claim, "the job whose disks answer")
        assert job["job"] == free
        for _ in range(8):
            live.send(calls.status())
        assert desk.gates() == []
        waiting = desk.show(stuck[0])
        assert (waiting["status"], waiting["attempts"]) == ("pending", 0)
        assert waiting["error"]["code"] == "DISK_NOT_RESPONDING"
        assert waiting["error"]["message"] == f"the file system of {hung.folder} does not answer"
        bench = bench_of(job)
        bench.rendition("360p", "made")
        assert complete(worker, job, bench)[1]["status"] == "done"
        # Nor does it keep the next supervisor from starting.
        live.stop()
        live.start()
        assert desk.show(stuck[0])["attempts"] == 0
    finally:
        mount.end()
    assert until(desk.worker("three").claim, "it continues by itself")["job"] in stuck
