"""File systems that do not answer: looked at from a real one, and a studio with an output on it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import MakeSupervisor, until
from tqstudio import client
from tqstudio.engine import patience
from tqstudio.engine.patience import NoAnswer, Patience

from .hung import HungMount
from .test_disk_gate import Desk
from .test_results import bench_of, complete


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[HungMount]:
    mount = HungMount(tmp_path / "hung")
    yield mount
    mount.end()


def test_a_look_is_answered_as_any_call() -> None:
    async def looks() -> None:
        asked = Patience()
        assert await asked.look(b"/a", lambda: 7) == 7
        with pytest.raises(FileNotFoundError):
            await asked.look(b"/a", lambda: os.stat("/nonexistent"))
        assert await asyncio.gather(*(asked.look(b"/a", lambda n=n: n) for n in range(5))) == list(range(5))
        assert await asked.answers(b"/nonexistent"), "that is an answer"

    asyncio.run(looks())


def test_a_place_that_does_not_answer_costs_one_thread(
    hung: HungMount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 0.2)

    async def looks() -> None:
        asked, place = Patience(), os.fsencode(hung.folder)
        before = set(threading.enumerate())
        for _ in range(10):
            with pytest.raises(NoAnswer, match="does not answer"):
                await asked.look(place, lambda: os.statvfs(place))
        # By identity: a thread of another test may end meanwhile.
        assert len(set(threading.enumerate()) - before) == 1
        assert not await asked.answers(place)
        assert await asked.answers(b"/"), "other places are asked as before"
        hung.end()
        async with asyncio.timeout(30):
            while not await asked.answers(place):
                pass
        assert await asked.look(place, lambda: os.path.isdir(place))

    asyncio.run(looks())


def test_an_output_that_does_not_answer_costs_no_attempt(
    hung: HungMount, make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    live = make_supervisor(tmp_path / "home")
    desk = Desk(live.start(), tmp_path / "out", tmp_path)
    free = desk.add("free.mp4", 1000)
    desk.out = hung.folder
    stuck = desk.add("stuck.mp4", 1000)
    worker = desk.worker("one")
    job = until(worker.claim, "the job of the output that answers")
    assert job["job"] == free
    for _ in range(8):
        live.send(client.status())
    assert desk.worker("two").claim() is None
    [gate] = until(desk.gates, "the gate is shut")
    assert (gate["kind"], gate["hint"]) == ("disk", "see to that disk; the queue goes on by itself")
    assert "does not answer; stuck.mp4 waits for it" in gate["reason"]
    bench = bench_of(job)
    bench.rendition("360p", "made")
    assert complete(worker, job, bench)[1]["status"] == "done"
    # Nor does it keep the next supervisor from starting.
    live.stop()
    live.start()
    assert desk.show(stuck)["status"] == "pending"
    assert desk.show(stuck)["attempts"] == 0
    hung.end()
    assert until(desk.worker("three").claim, "it goes on by itself")["job"] == stuck
