"""That nothing is offered before it is complete."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tqstudio.engine.intake import settling
from waiting import until_true

from .conftest import NEVER_S, World, watching, writing


def test_a_file_that_a_process_writes_is_not_offered_until_closed(world: World) -> None:
    async def run() -> None:
        async with watching(world), writing(world.root / "slow.mp4") as writer:
            # A file that comes later has settled: so has, by its stat tuple, the one that is held open.
            (world.root / "later.mp4").write_bytes(b"video")
            await world.offered(b"later.mp4")
            await writer.send("more")
            await world.catch_up()
            assert b"slow.mp4" not in world.names
            assert world.state.settling == 1
            await writer.send("close")
            await world.offered(b"slow.mp4")
            assert world.state.settling == 0

    asyncio.run(run())


def test_closing_a_file_that_has_long_settled_offers_it_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only the hint of the close is left to bring it.
    monkeypatch.setattr(settling, "BUSY_RETRY_S", NEVER_S)
    (world.root / "held.mp4").write_bytes(b"video")

    async def run() -> None:
        async with writing(world.root / "held.mp4", "update") as writer, watching(world, settle_s=0.1):
            await until_true(lambda: world.state.settling == 1)
            (world.root / "later.mp4").write_bytes(b"video")
            await world.offered(b"later.mp4")
            assert b"held.mp4" not in world.names
            await writer.send("close")
            await world.offered(b"held.mp4")

    asyncio.run(run())


@pytest.mark.parametrize("outside", [False, True])
def test_a_rename_into_place_counts_at_once(world: World, tmp_path: Path, outside: bool) -> None:
    source = tmp_path / "x.bin" if outside else world.root / "x.mp4.part"

    async def run() -> None:
        async with watching(world, settle_s=NEVER_S):
            source.write_bytes(b"video")
            os.rename(source, world.root / "x.mp4")
            await world.offered(b"x.mp4")
            # Onto a file that was offered before.
            source.write_bytes(b"another video")
            os.rename(source, world.root / "x.mp4")
            await until_true(lambda: world.names == [b"x.mp4", b"x.mp4"])

    asyncio.run(run())


def test_a_rename_does_not_complete_a_file_that_is_still_written(world: World) -> None:
    part = world.root / "x.mp4.part"

    async def run() -> None:
        async with watching(world, settle_s=NEVER_S), writing(part) as writer:
            os.rename(part, world.root / "x.mp4")
            await world.catch_up()
            assert b"x.mp4" not in world.names
            await writer.send("close")
            await world.offered(b"x.mp4")

    asyncio.run(run())


def test_renaming_a_file_that_is_waited_for_says_nothing(world: World) -> None:
    async def run() -> None:
        async with watching(world, settle_s=NEVER_S):
            (world.root / "a.mp4").write_bytes(b"vid")
            await until_true(lambda: world.state.settling == 1)
            os.rename(world.root / "a.mp4", world.root / "b.mp4")
            await world.catch_up()
            assert world.names == [b"sentinel.mp4"]
            assert world.state.settling == 1

    asyncio.run(run())


def test_temporary_names_are_ignored(world: World) -> None:
    names = ["a.mp4.part", "b.tmp", "c.mp4.crdownload", ".d.mp4", "e.mp4~"]

    async def run() -> None:
        for name in names[:2]:
            (world.root / name).write_bytes(b"video")
        async with watching(world, settle_s=0):
            for name in names[2:]:
                (world.root / name).write_bytes(b"video")
            await world.catch_up()
            world.intake.rescan_soon()
            await world.catch_up("second.mp4")
            assert world.state.settling == 0
            assert world.skipped == {}

    asyncio.run(run())
    assert world.names == [b"sentinel.mp4", b"second.mp4"]


def test_an_empty_file_waits_until_it_fills(world: World) -> None:
    async def run() -> None:
        async with watching(world):
            (world.root / "a.mp4").touch()
            await until_true(lambda: world.skipped.get("a.mp4", "").startswith("empty"))
            assert world.state.settling == 0
            (world.root / "a.mp4").write_bytes(b"video")
            await world.offered(b"a.mp4")
            assert world.skipped == {}

    asyncio.run(run())


@pytest.mark.parametrize("watch", ["inotify", "polling"])
def test_a_file_that_goes_away_while_it_is_waited_for_is_forgotten(world: World, watch: str) -> None:
    async def run() -> None:
        async with watching(world, settle_s=NEVER_S, watch=watch, rescan_s=0.2):
            (world.root / "a.mp4").write_bytes(b"video")
            await until_true(lambda: world.state.settling == 1)
            (world.root / "a.mp4").unlink()
            await until_true(lambda: world.state.settling == 0)

    asyncio.run(run())
    assert world.offers == []
