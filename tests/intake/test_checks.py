"""Files that are read whole before it is decided on them, beside everything else."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator

import pytest

from tqstudio.engine.media.source import fingerprint
from tqstudio.engine.media.source.fingerprint import NotHashed
from waiting import until_true

from .conftest import World, watching


class Gate:
    """Holds up the full hash of every file until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.begun = 0
        self._hash = fingerprint.full_hash

    def __call__(self, path: bytes, stop: object = None) -> str:
        self.begun += 1
        while not self.opened.wait(0.01):
            if stop():  # type: ignore[operator]
                raise fingerprint.HashingStopped
        return self._hash(path, stop)  # type: ignore[arg-type]


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setattr(fingerprint, "full_hash", gate)
    yield gate
    gate.opened.set()


def test_a_file_in_doubt_is_read_whole_and_offered_with_its_digest(world: World, gate: Gate) -> None:
    world.raises = {b"old.mp4": NotHashed()}

    async def run() -> None:
        async with watching(world, rescan_s=0.2):
            (world.root / "old.mp4").write_bytes(b"video")
            await until_true(lambda: world.state.checking)
            # Looks through the folder come and go meanwhile, and new files are not held up.
            looks = world.looks
            await world.catch_up()
            await until_true(lambda: world.looks >= looks + 2)
            assert world.names.count(b"old.mp4") == 1
            assert (world.state.checking, world.state.settling) == (1, 0)
            del world.raises[b"old.mp4"]
            gate.opened.set()
            await until_true(lambda: world.names.count(b"old.mp4") == 2)
            await until_true(lambda: not world.state.checking)

    asyncio.run(run())
    found = fingerprint.digest(os.fsencode(world.root / "old.mp4"))
    assert world.digests == [None, None, found]
    assert gate.begun == 2, "once for the folder, once above"


def test_a_file_that_changes_while_it_is_read_is_read_again(world: World, gate: Gate) -> None:
    world.raises = {b"old.mp4": NotHashed()}
    path = world.root / "old.mp4"

    async def run() -> None:
        async with watching(world):
            path.write_bytes(b"video")
            await until_true(lambda: gate.begun)
            path.write_bytes(b"another video")
            await until_true(lambda: world.names.count(b"old.mp4") == 2)
            assert world.state.checking == 1
            gate.opened.set()
            await until_true(lambda: world.digests[-1] == fingerprint.digest(os.fsencode(path)))
            await until_true(lambda: not world.state.checking)

    asyncio.run(run())


def test_a_file_that_goes_while_it_is_read_is_dropped(world: World, gate: Gate) -> None:
    world.raises = {b"old.mp4": NotHashed()}
    path = world.root / "old.mp4"

    async def run() -> None:
        async with watching(world, rescan_s=0.2):
            path.write_bytes(b"video")
            await until_true(lambda: gate.begun)
            path.unlink()
            gate.opened.set()
            await until_true(lambda: not world.state.checking)
            await until_true(lambda: not world.skipped)
            await world.catch_up()
            path.write_bytes(b"another video")
            await until_true(lambda: world.names.count(b"old.mp4") == 2)

    asyncio.run(run())
    assert world.names[:2] == [b"old.mp4", b"sentinel.mp4"]


def test_the_end_waits_for_no_file_that_is_read(world: World, gate: Gate) -> None:
    world.raises = {b"old.mp4": NotHashed()}

    async def run() -> None:
        async with watching(world):
            (world.root / "old.mp4").write_bytes(b"video")
            await until_true(lambda: gate.begun)

    asyncio.run(run())
    assert not gate.opened.is_set()
