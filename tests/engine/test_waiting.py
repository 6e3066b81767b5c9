"""Loops that look for work: what wakes them, what they survive, and that they end when they are cancelled."""

from __future__ import annotations

import asyncio
import math

import pytest

from tqstudio.engine.host.waiting import WakeableLoop
from waiting import until_true


async def _turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


@pytest.mark.parametrize("turns", range(5))
def test_a_cancellation_that_comes_with_a_wake_up_is_not_lost(turns: int) -> None:
    async def run() -> None:
        looks = 0

        async def once() -> float:
            nonlocal looks
            looks += 1
            return math.inf

        loop = WakeableLoop("test", once)
        task = asyncio.create_task(loop.run())
        await until_true(lambda: looks == 1)
        await _turns(3)
        loop.wake()
        await _turns(turns)
        task.cancel()
        await asyncio.wait((task,), timeout=10)
        assert task.cancelled()

    asyncio.run(run())


def test_it_looks_again_when_woken_or_due_and_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tqstudio.engine.host.waiting._PAUSE_S", 0.01)
    looks: list[float | None] = [None, 0.0, 0.01, math.inf, math.inf]

    async def once() -> float:
        if (wait_s := looks.pop(0)) is None:
            raise ZeroDivisionError
        return wait_s

    async def run() -> None:
        loop = WakeableLoop("test", once)
        task = asyncio.create_task(loop.run())
        await until_true(lambda: len(looks) == 1)
        loop.wake()
        await until_true(lambda: not looks)
        task.cancel()
        await asyncio.wait((task,), timeout=10)

    asyncio.run(run())
