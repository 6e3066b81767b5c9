"""Many files at once: offered in groups, each once, and none before it is complete."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import IO

import pytest

from tqstudio.engine.intake import folder_watcher
from tqstudio.engine.media.source.fingerprint import Digest
from tqstudio.engine.store.library.folders import FolderRow
from tqstudio.errors import ErrorCode, TqError
from waiting import until_true

from .conftest import World, put, watching

NAMES = [b"0.mp4", b"1.mp4", b"2.mp4", b"3.mp4"]


@pytest.fixture
def burst(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Four files in a folder that offers two at a time."""
    monkeypatch.setattr(folder_watcher, "_TOGETHER", 2)
    for name in NAMES:
        put(world.root, name)
    return world


def during_the_first_offer(world: World, act: Callable[[], None]) -> None:
    offer, acts = world.offer, [act]

    async def acting(row: FolderRow, files: Mapping[bytes, Digest | None]) -> Sequence[Exception | None]:
        if acts:
            acts.pop()()
        return await offer(row, files)

    world.offer = acting  # type: ignore[method-assign]


def test_files_are_offered_in_groups_and_in_name_order(burst: World) -> None:
    async def run() -> None:
        async with watching(burst, settle_s=0):
            await burst.offered(*NAMES)
            await burst.catch_up()

    asyncio.run(run())
    assert burst.names == [*NAMES, b"sentinel.mp4"]
    assert burst.groups == [2, 2, 1]


def test_a_refused_file_and_a_bug_spoil_no_other_of_the_group(burst: World) -> None:
    burst.raises = {NAMES[0]: RuntimeError("a bug"), NAMES[2]: TqError(ErrorCode.NO_MEDIA, "no")}

    async def run() -> None:
        async with watching(burst, settle_s=0):
            await burst.offered(*NAMES)
            await burst.catch_up()
            assert burst.codes == {"0.mp4": "INTERNAL", "2.mp4": "NO_MEDIA"}
            burst.raises.clear()
            burst.intake.rescan_soon()
            await until_true(lambda: burst.names.count(NAMES[0]) == 2)
            assert burst.codes == {"2.mp4": "NO_MEDIA"}

    asyncio.run(run())
    assert sorted(burst.names) == sorted([*NAMES, NAMES[0], b"sentinel.mp4"])


def test_an_error_that_concerns_the_folder_is_shown_for_each_file(burst: World) -> None:
    def fail() -> None:
        raise TqError(ErrorCode.BAD_CONFIG, "there is no such profile")

    during_the_first_offer(burst, fail)

    async def run() -> None:
        async with watching(burst, settle_s=0):
            await burst.offered(*NAMES[2:])
            assert burst.codes == {"0.mp4": "BAD_CONFIG", "1.mp4": "BAD_CONFIG"}

    asyncio.run(run())


def test_a_file_that_is_opened_before_its_turn_waits_until_it_is_closed(burst: World) -> None:
    opened: list[IO[bytes]] = []
    during_the_first_offer(burst, lambda: opened.append((burst.root / "3.mp4").open("r+b")))

    async def run() -> None:
        async with watching(burst, settle_s=0):
            await burst.offered(*NAMES[:3])
            await until_true(lambda: burst.state.settling == 1)
            assert NAMES[3] not in burst.names
            with opened[0] as file:
                file.write(b"another video")
            await burst.offered(*NAMES)

    asyncio.run(run())
    assert sorted(burst.names) == NAMES


def test_a_file_that_is_replaced_before_its_turn_is_offered_once_as_it_is_now(burst: World) -> None:
    other = burst.root.parent / "other.mp4"
    other.write_bytes(b"another video")
    during_the_first_offer(burst, lambda: os.rename(other, burst.root / "3.mp4"))

    async def run() -> None:
        async with watching(burst, settle_s=0):
            await burst.offered(*NAMES)
            await burst.catch_up()

    asyncio.run(run())
    assert burst.names.count(NAMES[3]) == 1


def test_a_file_that_vanishes_before_its_turn_is_not_offered(burst: World) -> None:
    during_the_first_offer(burst, lambda: (burst.root / "3.mp4").unlink())

    async def run() -> None:
        async with watching(burst, settle_s=0):
            await burst.offered(*NAMES[:3])
            await burst.catch_up()
            assert (burst.state.settling, burst.skipped) == (0, {})

    asyncio.run(run())
    assert NAMES[3] not in burst.names


def test_a_file_that_is_asked_for_while_it_is_offered_is_offered_again(burst: World) -> None:
    path = os.path.join(os.fsencode(burst.root), NAMES[1])
    during_the_first_offer(burst, lambda: burst.intake.look_again(path))

    async def run() -> None:
        async with watching(burst, settle_s=0):
            await until_true(lambda: burst.names.count(NAMES[1]) == 2)

    asyncio.run(run())
