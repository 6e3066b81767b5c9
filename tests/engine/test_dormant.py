"""An optional part sleeps until something asks for it, and is a part like any other from then on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any

import pytest

from tqstudio.engine.parts.dormant import Dormant
from tqstudio.engine.parts.part import Part, Periodic
from tqstudio.engine.store import events
from tqstudio.engine.store.db import rows, tables
from tqstudio.engine.store.db.connection import Connection
from tqstudio.engine.store.db.database import Database
from tqstudio.engine.store.db.event_row import EventRow
from tqstudio.engine.store.machine import gates
from tqstudio.events import EventKind
from tqstudio.lifecycle import GateKind

WAKER = EventKind.FOLDER_ADDED


class Sleeper(Part):
    """Notes what runs of it."""

    triggers = (EventKind.PUBLISHED,)

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.every = (Periodic(60, self.work),)

    async def start(self) -> None:
        self.ran.append("start")

    async def stop(self) -> None:
        self.ran.append("stop")

    def on_events(self, events: Sequence[EventRow], /) -> None:
        self.ran += [event.trigger for event in events]

    async def work(self) -> None:
        self.ran.append("work")


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


def has_gate(db: Connection) -> bool:
    return rows.is_any(db, tables.gate)


def close_a_gate(db: Connection) -> None:
    gates.shut(db, GateKind.USER, "by hand", now=1, actor="test")


async def committed(db: Database, *kinds: EventKind) -> list[EventRow]:
    """Events of these kinds, as they are handed to parts."""

    def write(connection: Connection) -> list[EventRow]:
        seen = events.bounds(connection)[1]
        for kind in kinds:
            events.append(connection, kind, now=1, actor="test")
        return events.after(connection, seen, limit=10)

    return await db.write(write)


async def settle(db: Database) -> None:
    """Wait until tasks that read the database have gone on."""
    for _ in range(20):
        await db.read(has_gate)


@pytest.fixture
def part() -> Sleeper:
    return Sleeper()


@pytest.fixture
def dormant(opened: Database, part: Sleeper) -> Dormant:
    return Dormant(opened, part, has_gate, (WAKER,))


@in_a_loop
async def test_nothing_of_it_runs_while_nothing_asks_for_it(
    dormant: Dormant, part: Sleeper, opened: Database
) -> None:
    await dormant.start()
    dormant.on_events(await committed(opened, WAKER, EventKind.PUBLISHED))
    await settle(opened)
    await dormant.every[0].run()
    await dormant.stop()
    assert part.ran == []


@in_a_loop
async def test_rows_wake_it_at_the_start(dormant: Dormant, part: Sleeper, opened: Database) -> None:
    await opened.write(close_a_gate)
    await dormant.start()
    await dormant.every[0].run()
    dormant.on_events(await committed(opened, WAKER, EventKind.PUBLISHED))
    await dormant.stop()
    assert part.ran == ["start", "work", "published", "stop"]


@in_a_loop
async def test_an_event_wakes_it_and_is_handed_over(
    dormant: Dormant, part: Sleeper, opened: Database
) -> None:
    await dormant.start()
    await opened.write(close_a_gate)
    dormant.on_events(await committed(opened, EventKind.PUBLISHED))
    await settle(opened)
    assert part.ran == [], "no waker"
    dormant.on_events(await committed(opened, WAKER, EventKind.PUBLISHED))
    await settle(opened)
    assert part.ran == ["start", "published"]


@in_a_loop
async def test_a_request_wakes_it_once_and_not_after_the_end(dormant: Dormant, part: Sleeper) -> None:
    await asyncio.gather(*(dormant.wake() for _ in range(3)))
    assert part.ran == ["start"]
    await dormant.stop()
    await dormant.wake()
    assert part.ran == ["start", "stop"]


@in_a_loop
async def test_one_that_ends_asleep_never_starts(dormant: Dormant, part: Sleeper) -> None:
    await dormant.stop()
    await dormant.wake()
    assert part.ran == []


def test_it_hears_of_what_wakes_it_and_of_what_its_part_names(
    dormant: Dormant, part: Sleeper, opened: Database
) -> None:
    assert dormant.triggers == {WAKER, EventKind.PUBLISHED}
    part.triggers = None
    assert Dormant(opened, part, has_gate).triggers is None
