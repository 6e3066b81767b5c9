"""One answer for all who ask at the same time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from harness import LiveSupervisor
from tqstudio.engine.api.system import Shared


def test_a_thousand_callers_cost_two_answers() -> None:
    async def ask() -> None:
        made = 0
        begun, proceed = asyncio.Event(), asyncio.Event()

        async def make() -> int:
            nonlocal made
            made += 1
            number = made
            begun.set()
            await proceed.wait()
            return number

        shared = Shared(make)
        first = asyncio.create_task(shared.get())
        await begun.wait()
        later = [asyncio.create_task(shared.get()) for _ in range(1_000)]
        await asyncio.sleep(0)
        later[0].cancel()
        proceed.set()
        assert await first == 1
        assert set(await asyncio.gather(*later[1:])) == {2}, (
            "what was begun before they asked is not for them"
        )
        assert await shared.get() == 3

    asyncio.run(ask())


def test_what_fails_fails_for_those_who_share_it_alone() -> None:
    async def ask() -> None:
        fails = True

        async def make() -> str:
            if fails:
                raise ValueError
            return "made"

        shared = Shared(make)
        answers = await asyncio.gather(*(shared.get() for _ in range(3)), return_exceptions=True)
        assert [type(each) for each in answers] == [ValueError] * 3
        fails = False
        assert await shared.get() == "made"

    asyncio.run(ask())


def test_the_status_is_answered_to_many_at_once(standing: LiveSupervisor) -> None:
    with ThreadPoolExecutor(50) as callers:
        answers = list(callers.map(lambda _: standing.raw("GET", "/v1/status"), range(200)))
    assert {status for status, _ in answers} == {200}
    assert {answer["supervisor"]["pid"] for _, answer in answers} == {standing.process.pid}
