"""Ladders that were published below a drop folder, by whatever rules: none of it is a source."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from waiting import until_true

from .conftest import World, scanner_of, stamp, watching


def _publish(folder: Path) -> Path:
    """A ladder as it lies on disk; the folder of its one quality."""
    quality = folder / "v1" / "240p"
    quality.mkdir(parents=True)
    for path in (folder / ".owner", folder / "master.m3u8", folder / "v1/poster.jpg"):
        path.write_bytes(b"x")
    for name in ("index.m3u8", "init.mp4", "seg_00000.m4s"):
        (quality / name).write_bytes(b"x")
    return quality


@pytest.mark.parametrize("watch", ["inotify", "polling"])
def test_ladders_of_an_output_that_was_given_up_stay_ladders(
    world: World, watch: str, tmp_path: Path
) -> None:
    film, ladders = world.root / "film.mp4", world.root / "ladders"
    film.write_bytes(b"video")
    world.known[os.fsencode(film)] = stamp(film)
    _publish(ladders / "film")
    (ladders / ".tqstudio/u/scratch/1-1").mkdir(parents=True)
    (ladders / ".tqstudio/u/scratch/1-1/init.mp4").write_bytes(b"x")

    async def run() -> None:
        async with watching(world, settle_s=0, rescan_s=0.1, watch=watch, output_root=os.fsencode(ladders)):
            await world.intake.set_folders([replace(world.row, output_root=os.fsencode(tmp_path / "out"))])
            looks = world.looks
            (world.root / "own").mkdir()
            (world.root / "own/init.mp4").write_bytes(b"video")
            await world.offered(b"own/init.mp4")
            world.intake.rescan_soon()
            await until_true(lambda: world.looks >= looks + 2)
            await world.catch_up()
            assert world.skipped == {}

    asyncio.run(run())
    assert world.names == [b"own/init.mp4", b"sentinel.mp4"]


def test_a_ladder_that_is_moved_or_copied_in_is_passed_over(world: World, tmp_path: Path) -> None:
    _publish(tmp_path / "film")

    async def run() -> None:
        async with watching(world):
            os.rename(tmp_path / "film", world.root / "moved")
            # Watched since before it became a ladder.
            (world.root / "copied").mkdir()
            await world.catch_up()
            _publish(world.root / "copied")
            (world.root / "copied/late.mp4").write_bytes(b"x")
            (world.root / "settles.mp4").write_bytes(b"video")
            await world.offered(b"settles.mp4")
            await until_true(lambda: world.state.settling == 0)
            assert world.skipped == {}

    asyncio.run(run())
    assert world.names == [b"sentinel.mp4", b"settles.mp4"]


def test_of_a_ladder_no_more_is_read_than_the_names_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quality = _publish(tmp_path / "film")
    (tmp_path / "film/v1/240p/damaged.mp4").write_bytes(b"x")
    (tmp_path / "a.mp4").write_bytes(b"video")
    listed = []
    scandir = os.scandir

    def scan(path: bytes) -> Any:
        listed.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)
    scanner = scanner_of(tmp_path)
    assert set(scanner.everything().files) == {os.fsencode(tmp_path / "a.mp4")}
    assert listed == [os.fsencode(tmp_path), os.fsencode(tmp_path / "film")]
    # What a hint names, without a look at the whole.
    assert not scanner.part(os.fsencode(path) for path in quality.iterdir()).files


def test_one_file_is_judged_by_what_lies_beside_it(tmp_path: Path) -> None:
    init = tmp_path / "240p" / "init.mp4"
    init.parent.mkdir()
    init.write_bytes(b"x")
    scanner, path = scanner_of(tmp_path), os.fsencode(init)
    assert set(scanner.part([path]).files) == {path}
    (tmp_path / "240p/seg_00000.m4s").write_bytes(b"x")
    assert not scanner.part([path]).files


def test_a_ladder_put_into_a_drop_folder_itself_does_not_end_the_folder(world: World) -> None:
    _publish(world.root)
    (world.root / "a.mp4").write_bytes(b"video")

    async def run() -> None:
        async with watching(world):
            await world.offered(b"a.mp4")
            await world.catch_up()
            assert world.skipped == {}

    asyncio.run(run())
    assert sorted(world.names) == [b"a.mp4", b"sentinel.mp4"]
