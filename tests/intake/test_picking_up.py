"""Which files are offered, and that each is offered once."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from tqstudio.engine.intake.rules import Rules
from tqstudio.errors import ErrorCode, TqError
from waiting import until_true

from .conftest import World, make_row, put, scanner_of, stamp, watching


def test_files_that_were_there_before_are_offered_in_name_order(world: World) -> None:
    for name in ("b.mp4", "a.mkv", "deep/er/c.mov"):
        (world.root / name).parent.mkdir(parents=True, exist_ok=True)
        (world.root / name).write_bytes(b"video")

    async def run() -> None:
        async with watching(world):
            await world.offered(b"a.mkv", b"b.mp4", b"deep/er/c.mov")
            await world.catch_up()

    asyncio.run(run())
    assert world.names == [b"a.mkv", b"b.mp4", b"deep/er/c.mov", b"sentinel.mp4"]


@pytest.mark.parametrize("watch", ["inotify", "polling", "auto"])
def test_a_dropped_file_is_offered_once(world: World, watch: str) -> None:
    async def run() -> None:
        async with watching(world, watch=watch, rescan_s=0.2):
            (world.root / "a.mp4").write_bytes(b"video")
            await world.offered(b"a.mp4")
            (world.root / "b.mp4").write_bytes(b"video")
            await world.offered(b"b.mp4")
            assert world.state.watch == ("polling" if watch == "polling" else "inotify")

    asyncio.run(run())
    assert sorted(world.names) == [b"a.mp4", b"b.mp4"]


def test_no_settle_time_means_the_first_look(world: World) -> None:
    async def run() -> None:
        async with watching(world, settle_s=60.0):
            await world.intake.set_folders([replace(world.row, settle_s=0)])
            (world.root / "a.mp4").write_bytes(b"video")
            await world.offered(b"a.mp4")

    asyncio.run(run())


@pytest.mark.parametrize("watch", ["inotify", "polling"])
def test_files_in_new_sub_folders(world: World, watch: str, tmp_path: Path) -> None:
    filled = tmp_path / "filled" / "inner"
    filled.mkdir(parents=True)
    (filled / "moved.mp4").write_bytes(b"video")

    async def run() -> None:
        async with watching(world, watch=watch, rescan_s=0.2 if watch == "polling" else 600):
            (world.root / "x/y").mkdir(parents=True)
            (world.root / "x/y/first.mp4").write_bytes(b"video")
            os.rename(tmp_path / "filled", world.root / "filled")
            await world.offered(b"x/y/first.mp4", b"filled/inner/moved.mp4")
            os.rename(world.root / "x", world.root / "z")
            await world.offered(b"z/y/first.mp4")
            # So that the next file is found by its hint, not by the look that the rename asks for.
            await until_true(lambda: world.looks >= 2)
            (world.root / "z/y/second.mp4").write_bytes(b"video")
            await world.offered(b"z/y/second.mp4")

    asyncio.run(run())


def test_sub_folders_are_left_alone_when_the_rules_say_so(world: World) -> None:
    (world.root / "sub").mkdir()
    (world.root / "sub/a.mp4").write_bytes(b"video")

    async def run() -> None:
        async with watching(world, settle_s=0, recursive=False):
            (world.root / "new").mkdir()
            (world.root / "new/b.mp4").write_bytes(b"video")
            await world.catch_up()
            world.intake.rescan_soon(world.row.id)
            await world.catch_up("second.mp4")

    asyncio.run(run())
    assert world.names == [b"sentinel.mp4", b"second.mp4"]


def test_names_are_bytes(world: World) -> None:
    root = os.fsencode(world.root)
    names = [b"caf\xe9.mp4", b"a\nb.mp4", b"-y.mp4", b"[red]x.mp4", b"%03d.mp4", b"a b'c\"d.mp4"]

    async def run() -> None:
        async with watching(world):
            for name in names[:3]:
                put(world.root, name)
            await world.offered(*names[:3])
            world.raises = {name: TqError(ErrorCode.NO_MEDIA, "no") for name in names}
            for name in names[3:]:
                put(world.root, name)
            os.rename(os.path.join(root, names[0]), os.path.join(root, b"\xff.mp4"))
            world.raises[b"\xff.mp4"] = TqError(ErrorCode.NO_MEDIA, "no")
            await until_true(lambda: len(world.skipped) == 4)
            assert "\\xff.mp4" in world.skipped

    asyncio.run(run())


def test_what_the_database_knows_is_not_offered_until_it_changes(world: World) -> None:
    same, changed = world.root / "same.mp4", world.root / "changed.mp4"
    for path in (same, changed):
        path.write_bytes(b"video")
        world.known[os.fsencode(path)] = stamp(path)
    changed.write_bytes(b"another video")

    async def run() -> None:
        async with watching(world):
            await world.offered(b"changed.mp4")
            world.intake.rescan_soon()
            await world.catch_up()
            assert world.names == [b"changed.mp4", b"sentinel.mp4"]
            same.write_bytes(b"a third video")
            await world.offered(b"same.mp4")

    asyncio.run(run())


def test_the_database_is_not_asked_when_nothing_is_new(world: World) -> None:
    (world.root / "a.mp4").write_bytes(b"video")
    (world.root / "empty.mp4").touch()

    async def run() -> None:
        async with watching(world):
            await world.offered(b"a.mp4")
            await until_true(lambda: "empty.mp4" in world.skipped)
            assert world.codes["empty.mp4"] == "SOURCE_EMPTY"
            for turn in (2, 3, 4):
                world.intake.rescan_soon()
                await until_true(lambda turn=turn: world.looks == turn)  # type: ignore[misc]
            assert world.asked == 1

    asyncio.run(run())


@pytest.mark.parametrize("watch", ["inotify", "polling"])
def test_a_file_that_changes_after_it_was_queued_is_offered_again(world: World, watch: str) -> None:
    async def run() -> None:
        async with watching(world, watch=watch, rescan_s=0.2):
            (world.root / "a.mp4").write_bytes(b"video")
            await world.offered(b"a.mp4")
            (world.root / "a.mp4").write_bytes(b"another video")
            await until_true(lambda: world.names.count(b"a.mp4") == 2)

    asyncio.run(run())


def test_what_is_no_file_is_left_out_with_the_reason(world: World) -> None:
    (world.root / "real.mp4").write_bytes(b"video")

    def put_oddities(suffix: str) -> None:
        os.symlink(world.root / "real.mp4", world.root / f"link{suffix}.mp4")
        os.symlink("/", world.root / f"everything{suffix}")
        os.mkfifo(world.root / f"pipe{suffix}.mp4")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.relpath(world.root / f"socket{suffix}.mp4"))
        (world.root / f"film{suffix}.iso").write_bytes(b"disc")
        (world.root / f"film{suffix}.srt").write_bytes(b"subtitles")
        (world.root / f"film{suffix}.mp4.part").write_bytes(b"video")

    put_oddities("")

    async def run() -> None:
        async with watching(world):
            await world.offered(b"real.mp4")
            put_oddities("2")
            await world.catch_up()
            await until_true(lambda: len(world.skipped) == 10)
            for suffix in ("", "2"):
                assert "symbolic link" in world.skipped[f"link{suffix}.mp4"]
                assert "symbolic link" in world.skipped[f"everything{suffix}"]
                assert "FIFO" in world.skipped[f"pipe{suffix}.mp4"]
                assert "socket" in world.skipped[f"socket{suffix}.mp4"]
                assert "not a video by its name" in world.skipped[f"film{suffix}.iso"]
                assert world.codes[f"pipe{suffix}.mp4"] == "UNSUPPORTED"
                assert world.codes[f"film{suffix}.iso"] == "NO_MEDIA"
            os.unlink(world.root / "link.mp4")
            (world.root / "link.mp4").write_bytes(b"video")
            await world.offered(b"link.mp4")
            assert "link.mp4" not in world.skipped

    asyncio.run(run())
    assert sorted(world.names) == [b"link.mp4", b"real.mp4", b"sentinel.mp4"]


def test_outputs_other_drop_folders_and_hidden_folders_are_not_part_of_the_tree(
    world: World, tmp_path: Path
) -> None:
    output, inner, elsewhere = world.root / "ladders", world.root / "inner", tmp_path / "elsewhere"
    elsewhere.mkdir()
    for directory in (output / "a/v1", inner, world.root / ".hidden", world.root / "apart"):
        directory.mkdir(parents=True)
        (directory / "before.mp4").write_bytes(b"video")
    # The output is named by another path than the one the walk meets.
    os.symlink(output, tmp_path / "alias")
    off = replace(make_row(inner, output=elsewhere), id=2, enabled=False)
    foreign = replace(make_row(elsewhere, output=world.root / "apart"), id=3)

    async def run() -> None:
        async with watching(
            world, settle_s=0, beside=[off, foreign], output_root=os.fsencode(tmp_path / "alias")
        ):
            for directory in (output / "b", inner / "deep", world.root / ".hidden/deep"):
                directory.mkdir()
                (directory / "after.mp4").write_bytes(b"video")
            await world.catch_up()
            world.intake.rescan_soon()
            await world.catch_up("second.mp4")
            assert world.names == [b"sentinel.mp4", b"second.mp4"]
            await world.intake.set_folders([world.row, foreign])
            await world.offered(b"inner/before.mp4", b"inner/deep/after.mp4")

    asyncio.run(run())
    assert not [name for name in world.names if name.startswith((b"ladders", b".hidden", b"apart"))]


def test_an_output_around_the_drop_folder_excludes_nothing(world: World) -> None:
    (world.root / "a.mp4").write_bytes(b"video")

    async def run() -> None:
        async with watching(world, output_root=os.fsencode(world.root.parent)):
            await world.offered(b"a.mp4")

    asyncio.run(run())


def test_changed_rules_are_applied_at_once(world: World) -> None:
    for name in ("a.mkv", "b.mp4"):
        (world.root / name).write_bytes(b"video")

    async def run() -> None:
        async with watching(world, patterns=("*.mkv",)):
            await world.offered(b"a.mkv")
            world.known[os.fsencode(world.root / "a.mkv")] = stamp(world.root / "a.mkv")
            assert world.skipped == {}
            await world.intake.set_folders([replace(world.row, patterns=("*.mp4",))])
            await world.offered(b"b.mp4")
            await world.intake.set_folders([replace(world.row, enabled=False)])
            assert world.state.settling == 0
            await world.intake.set_folders([])
            assert world.intake.states() == {}

    asyncio.run(run())
    assert world.names == [b"a.mkv", b"b.mp4"]


def test_a_refused_file_is_left_out_until_it_changes(world: World) -> None:
    world.raises[b"bad.mp4"] = TqError(ErrorCode.UNSUPPORTED, "bad.mp4 is an album")
    (world.root / "bad.mp4").write_bytes(b"music")

    async def run() -> None:
        async with watching(world):
            await until_true(lambda: world.skipped == {"bad.mp4": "bad.mp4 is an album"})
            assert world.codes == {"bad.mp4": "UNSUPPORTED"}
            world.intake.rescan_soon()
            await world.catch_up()
            assert world.names.count(b"bad.mp4") == 1
            assert world.state.settling == 0
            world.raises.clear()
            (world.root / "bad.mp4").write_bytes(b"a video")
            await until_true(lambda: world.names.count(b"bad.mp4") == 2)
            await until_true(lambda: world.skipped == {})

    asyncio.run(run())


@pytest.mark.fault(
    "A file settles while the database cannot be written", "It is queued at a later scan", area="database"
)
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("a bug"), "could not be queued"),
        (TqError(ErrorCode.DISK_LOW, "the disk of the database is full"), "the disk of the database is full"),
    ],
)
def test_a_file_that_could_not_be_queued_is_tried_again_at_the_next_look(
    world: World, error: Exception, reason: str
) -> None:
    world.raises[b"a.mp4"] = error

    async def run() -> None:
        async with watching(world):
            (world.root / "a.mp4").write_bytes(b"video")
            await until_true(lambda: reason in world.skipped.get("a.mp4", ""))
            world.raises.clear()
            world.intake.rescan_soon(world.row.id)
            await until_true(lambda: world.names == [b"a.mp4", b"a.mp4"])
            await until_true(lambda: world.skipped == {})

    asyncio.run(run())


def test_a_gif_has_a_line_that_says_how_to_take_it(tmp_path: Path) -> None:
    put(tmp_path, b"a.gif")
    put(tmp_path, b"a.jpg")
    ((path, why),) = scanner_of(tmp_path).everything().odd.items()
    assert (path, why.code) == (os.fsencode(tmp_path / "a.gif"), "NO_MEDIA")
    assert "tqstudio add FILE" in why.hint
    taken = scanner_of(tmp_path, Rules(("*.gif",))).everything()
    assert (list(taken.files), taken.odd) == ([path], {})
