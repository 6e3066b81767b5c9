"""Folders that go away, limits of the system, lost hints, starting and stopping."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from watchdog.observers.inotify import InotifyObserver

from tqstudio.engine.intake import Intake, folder_watcher, hints, problems
from tqstudio.engine.intake.hints import Hints
from tqstudio.engine.intake.scan import Scanner
from waiting import until_true

from .conftest import World, make_row, put, scanner_of, watching


def _code(world: World) -> str | None:
    problem = world.state.problem
    return problem and problem[0]


@pytest.mark.fault("A drop folder goes away", "It is reported as a problem until it is back", area="disks")
def test_a_folder_that_goes_away_is_a_problem_until_it_is_back(world: World) -> None:
    async def run() -> None:
        async with watching(world, rescan_s=0.3):
            await world.catch_up()
            shutil.rmtree(world.root)
            await until_true(lambda: _code(world) == "SOURCE_MISSING")
            assert "is missing" in world.state.problem[1]  # type: ignore[index]
            world.root.mkdir()
            await until_true(lambda: world.state.problem is None)
            # The new folder is watched: the file is renamed into place, and settles by no other way so soon.
            await world.catch_up("after.mp4")

    asyncio.run(run())


def test_a_folder_that_is_renamed_away_is_missed_at_once(world: World, tmp_path: Path) -> None:
    async def run() -> None:
        async with watching(world):
            os.rename(world.root, tmp_path / "renamed")
            await until_true(lambda: _code(world) == "SOURCE_MISSING")

    asyncio.run(run())


def test_what_hints_cannot_report_is_looked_for_more_often(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_watcher, "POLL_S", 0.1)

    async def run() -> None:
        async with watching(world, watch="polling"):
            (world.root / "a.mp4").write_bytes(b"video")
            await world.offered(b"a.mp4")
            shutil.rmtree(world.root)
            await until_true(lambda: _code(world) == "SOURCE_MISSING")

    asyncio.run(run())


def test_a_folder_that_is_there_only_later(world: World) -> None:
    world.root.rmdir()

    async def run() -> None:
        async with watching(world, rescan_s=0.2):
            await until_true(lambda: _code(world) == "SOURCE_MISSING")
            world.root.write_bytes(b"a file")
            await until_true(lambda: "no longer a folder" in str(world.state.problem))
            world.root.unlink()
            world.root.mkdir()
            (world.root / "a.mp4").write_bytes(b"video")
            await world.offered(b"a.mp4")
            assert world.state.problem is None

    asyncio.run(run())


def _mount(*command: str) -> None:
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")


@pytest.mark.fault(
    "The mount of a drop folder goes away and returns",
    "It is watched again; new files are queued",
    area="disks",
)
def test_a_mount_that_comes_and_goes(world: World) -> None:
    mount = ("mount", "-t", "tmpfs", "-o", "size=1m", "none", str(world.root))
    _mount(*mount)

    async def run() -> None:
        async with watching(world, rescan_s=0.3):
            await world.catch_up()
            await asyncio.to_thread(subprocess.run, ("umount", str(world.root)), check=True)
            await asyncio.to_thread(subprocess.run, mount, check=True)
            (world.root / "new.mp4").write_bytes(b"video")
            await world.offered(b"new.mp4")
            await world.catch_up("watched-again.mp4")

    try:
        asyncio.run(run())
    finally:
        subprocess.run(("umount", str(world.root)), check=False)


_OPEN = """
import asyncio, sys
from tqstudio.engine.intake.hints import Hints

async def run():
    hints = Hints(sys.argv[1].encode(), recursive=True, matters=lambda *_: True, wake=lambda: None)
    for watches in (2, 100):
        with open("/proc/sys/user/max_inotify_watches", "w") as limit:
            limit.write(str(watches))
        print(hints.open())
    hints.close()

asyncio.run(run())
"""


def test_a_limit_of_watches_that_sub_folders_reach_is_noticed(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / "drop" / str(number)).mkdir(parents=True)
    # A user namespace has a limit of its own.
    command = ["unshare", "--user", "--map-root-user", sys.executable, "-c", _OPEN, tmp_path / "drop"]
    if subprocess.run([*command[:3], "true"], capture_output=True).returncode:
        pytest.skip("user namespaces are not allowed here")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(errno.ENOSPC), "None"]


def test_when_the_limit_of_watches_is_reached_the_folder_is_polled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hints, "open", lambda _: errno.ENOSPC)

    async def run() -> None:
        async with watching(world, rescan_s=0.2):
            await until_true(lambda: world.state.problem is not None)
            assert world.state.watch == "polling"
            assert "fs.inotify.max_user_watches" in world.state.problem[2]  # type: ignore[index]
            (world.root / "a.mp4").write_bytes(b"video")
            await world.offered(b"a.mp4")
            monkeypatch.undo()
            await until_true(lambda: world.state.problem is None)
            await until_true(lambda: world.state.watch == "inotify")

    asyncio.run(run())


@pytest.mark.fault("Hints about a drop folder are lost", "Its next scan finds the files", area="disks")
def test_without_any_hint_the_next_scan_finds_the_files(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hints, "on_any_event", lambda *_: None)

    async def run() -> None:
        async with watching(world, rescan_s=0.3):
            (world.root / "sub").mkdir()
            (world.root / "sub/a.mp4").write_bytes(b"video")
            await world.offered(b"sub/a.mp4")

    asyncio.run(run())


def test_more_hints_than_are_worth_keeping_request_a_scan(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "_FLOOD", 1)

    async def run() -> None:
        async with watching(world):
            for number in range(300):
                (world.root / f"{number}.mp4").write_bytes(b"video")
            await until_true(lambda: len(world.offers) == 300)
            assert world.looks > 1

    asyncio.run(run())


def test_when_there_is_no_inotify_descriptor_the_folder_is_polled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object, **_options: object) -> int:
        raise OSError(errno.EMFILE, "inotify instance limit reached")

    monkeypatch.setattr(InotifyObserver, "__init__", none_left)

    async def run() -> None:
        async with watching(world, rescan_s=0.2):
            await until_true(lambda: "fs.inotify.max_user_instances" in str(world.state.problem))
            (world.root / "a.mp4").write_bytes(b"video")
            await world.offered(b"a.mp4")
            monkeypatch.undo()
            await until_true(lambda: world.state.problem is None)
            await world.catch_up()

    asyncio.run(run())


def test_a_burst_of_hints_loses_no_file(world: World) -> None:
    async def run() -> None:
        async with watching(world):
            for number in range(300):
                (world.root / f"d{number % 7}").mkdir(exist_ok=True)
                (world.root / f"d{number % 7}" / f"{number}.mp4").write_bytes(b"video")
            await until_true(lambda: len(world.offers) >= 300)
            await world.catch_up()

    asyncio.run(run())
    assert len(world.offers) == len(set(world.offers)) == 301


def test_a_sub_folder_that_may_not_be_read_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (world.root / "closed").mkdir()
    (world.root / "open.mp4").write_bytes(b"video")
    scandir = os.scandir

    def refuse(path: bytes) -> Any:
        if path.endswith(b"closed"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)

    async def run() -> None:
        async with watching(world):
            await world.offered(b"open.mp4")
            assert "may not read this sub-folder" in world.skipped["closed"]
            assert world.codes["closed"] == "PERMISSION"

    asyncio.run(run())


@pytest.mark.fault("The mount of a drop folder hangs", "It is reported; other folders continue", area="disks")
def test_a_folder_that_does_not_answer_holds_up_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer = threading.Event()
    everything = Scanner.everything
    dead = make_row(tmp_path / "dead", output=tmp_path / "out", id=2)

    def hang(self: Scanner) -> Any:
        if self._root == dead.path:
            answer.wait()
        return everything(self)

    monkeypatch.setattr(Scanner, "everything", hang)
    monkeypatch.setattr(problems, "SLOW_S", 0.1)

    async def run() -> None:
        async with watching(world):
            await world.intake.set_folders([dead, world.row])
            await world.catch_up()
            await until_true(lambda: "takes more than" in str(world.intake.states()[2].problem))

    try:
        asyncio.run(run())
    finally:
        answer.set()


def test_a_look_that_fails_is_followed_by_another(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (world.root / "a.mp4").write_bytes(b"video")
    everything = Scanner.everything
    calls = 0

    def fail_once(self: Scanner) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RuntimeError("a bug")
        return everything(self)

    monkeypatch.setattr(Scanner, "everything", fail_once)

    async def run() -> None:
        async with watching(world, rescan_s=0.1):
            await world.offered(b"a.mp4")

    asyncio.run(run())


def test_start_and_stop_may_come_in_any_order_and_leave_no_thread(world: World) -> None:
    before = set(threading.enumerate())

    async def run() -> None:
        intake = Intake(default_settle_s=0, rescan_s=1, offer=world.offer, known=world.known_files)
        await intake.stop()
        intake.rescan_soon()
        await intake.set_folders([world.row])
        assert intake.states()[1].watch == "inotify"
        await intake.start()
        await intake.start()
        (world.root / "a.mp4").write_bytes(b"video")
        await world.offered(b"a.mp4")
        await intake.stop()
        await intake.stop()

    asyncio.run(run())
    deadline = time.monotonic() + 10
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not set(threading.enumerate()) - before


def test_a_folder_that_came_to_show_the_state_of_the_system_is_a_problem() -> None:
    findings = scanner_of(Path("/proc/sys")).everything()
    assert findings.problem is not None
    assert findings.problem[0] == "UNSUPPORTED"
    assert not findings.files


def test_what_shows_the_state_of_the_system_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanner = scanner_of(Path("/"))
    entered = []

    def enter(directory: bytes, *rest: object) -> list[object]:
        entered.append(directory)
        # Only what lies at the root.
        return entries(directory, *rest) if directory == b"/" else []

    entries = scanner._list
    monkeypatch.setattr(scanner, "_list", enter)
    scanner.everything()
    assert os.path.join(b"/", os.fsencode(tmp_path).split(b"/")[1]) in entered
    assert not {b"/proc", b"/sys", b"/dev"} & set(entered)


def test_the_watch_is_opened_again_when_a_scan_finds_what_no_hint_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Hints] = []
    opens = Hints.open

    def count(self: Hints) -> int | None:
        opened.append(self)
        return opens(self)

    monkeypatch.setattr(Hints, "open", count)

    async def run() -> None:
        put(world.root, b"there.mp4")
        async with watching(world, rescan_s=0.1):
            await until_true(lambda: world.looks > 3)
            assert len(opened) == 1, "what was there before it was watched is no lost hint"
            await asyncio.to_thread(opened[0].close)
            put(world.root, b"a.mp4")
            await world.offered(b"a.mp4")
            await until_true(lambda: len(opened) == 2)
            await world.catch_up()

    asyncio.run(run())
