"""`events --follow` as a process: it prints every event once, whatever becomes of its stream."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import LiveSupervisor, MakeSupervisor, Program
from tqstudio import paths
from tqstudio.cli.follow.follower import Follower, Video, last_seq
from tqstudio.home import Home
from tqstudio.protocol import calls
from tqstudio.protocol.client import Client
from waiting import until

MANY = 2_500
"""More events by one action than anything holds for a watcher."""
WAIT_S = 60


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSupervisor]:
    """One for all tests that leave it running; its worker takes no jobs."""
    live = LiveSupervisor(tmp_path_factory.mktemp("live") / "home")
    try:
        live.start()
        live.send(calls.worker_action("cpu-0", "disable"))
        yield live
    finally:
        live.clear_away()


@pytest.fixture
def own(make_supervisor: MakeSupervisor) -> LiveSupervisor:
    live = make_supervisor().start()
    live.send(calls.worker_action("cpu-0", "disable"))
    return live


def job(live: LiveSupervisor, folder: Path) -> int:
    path = folder / "clip.mp4"
    path.write_bytes(b"some video")
    return int(live.send(calls.add([paths.encode(path)]))["results"][0]["job"] or 0)


def change(live: LiveSupervisor, job: int, count: int) -> int:
    """So many changes in one action; answers the number of the last event."""
    live.send(calls.act("priority", [job] * count, delta=1))
    return live.send(calls.events(limit=1))["last_seq"]


def printed(stdout: Any, last: int) -> Iterator[dict[str, Any]]:
    """The lines up to that event."""
    seq = 0
    while seq < last:
        line = stdout.readline()
        assert line, f"it has ended after event {seq} of {last}"
        event = json.loads(line)
        yield event
        seq = event["seq"]


@pytest.mark.slow
def test_one_action_on_thousands_is_followed_whole(own: LiveSupervisor, tmp_path: Path) -> None:
    shell, number = Program(own.home.root), job(own, tmp_path)
    with shell.spawn("events", "--follow", "--limit", "1", "--json") as process:
        (first,) = printed(process.stdout, 1)
        last = change(own, number, MANY)
        assert [event["seq"] for event in printed(process.stdout, last)] == list(
            range(first["seq"] + 1, last + 1)
        )
        # It ends with its supervisor, and not before.
        assert process.poll() is None
        own.stop()
        assert process.wait(WAIT_S) == 0
        assert process.stderr is not None
        assert b"the supervisor has stopped" in process.stderr.read()


class Cutting:
    """Stands in front of a supervisor and cuts event streams after so many bytes, the first ones only."""

    def __init__(self, front: Home, behind: Home, *cuts: int) -> None:
        self._cuts = list(cuts)
        self._behind = behind.socket
        front.create()
        # In a home of its own: a supervisor takes its socket's place back from whoever stands there.
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(front.socket))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def all_cut(self) -> bool:
        return not self._cuts

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                front, _ = self._listener.accept()
                threading.Thread(target=self._pass_on, args=(front,), daemon=True).start()

    def _pass_on(self, front: socket.socket) -> None:
        with front, socket.socket(socket.AF_UNIX) as behind, contextlib.suppress(OSError):
            behind.connect(str(self._behind))
            asked = front.recv(65536)
            behind.sendall(asked)
            left = self._cuts.pop(0) if b"/events/stream" in asked and self._cuts else None
            while (left is None or left > 0) and (data := behind.recv(65536 if left is None else left)):
                front.sendall(data)
                left = None if left is None else left - len(data)

    def close(self) -> None:
        # A thread that waits in `accept` is woken by this only.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.mark.slow
def test_a_stream_that_is_cut_is_taken_up(live: LiveSupervisor, tmp_path: Path) -> None:
    """In the middle of a message too; what happens meanwhile is not missed."""
    front, number = Home(tmp_path / "front"), job(live, tmp_path)
    shell = Program(front.root)
    cutting = Cutting(front, live.home, 300, 1_000, 20_011)
    try:
        with shell.spawn("events", "--follow", "--limit", "1", "--json") as process:
            (first,) = printed(process.stdout, 1)
            last = change(live, number, MANY)
            every = [event["seq"] for event in printed(process.stdout, last)]
            assert every == list(range(first["seq"] + 1, last + 1))
            until(lambda: cutting.all_cut, "every cut was made")
            assert process.poll() is None
            process.terminate()
    finally:
        cutting.close()


def test_following_one_job_does_not_read_what_others_did(live: LiveSupervisor, tmp_path: Path) -> None:
    """Its last event may lie far back: the stream is entered where the history ends."""
    shell, number = Program(live.home.root), job(live, tmp_path)
    change(live, number, 10)
    live.send(calls.worker_action("cpu-0", "drain"))
    with shell.spawn("events", "--follow", "--job", str(number), "--limit", "3", "--json") as process:
        assert process.stdout is not None
        stored = [json.loads(process.stdout.readline())["detail"] for _ in range(3)]
        assert stored == [f"priority {value}" for value in (8, 9, 10)]
        live.send(calls.worker_action("cpu-0", "disable"))
        change(live, number, 2)
        assert [json.loads(process.stdout.readline())["detail"] for _ in range(2)] == [
            "priority 11",
            "priority 12",
        ]
        process.terminate()


class RecordingDisplay:
    """What a follower shows."""

    def __init__(self) -> None:
        self.over: list[int | None] = []

    def began(self, video: Video, row: Any) -> None: ...

    def moving(self, videos: list[Video], running: Any) -> None: ...

    def ended(self, video: Video) -> None:
        self.over.append(video.job)

    def note(self, text: str) -> None: ...

    def close(self) -> None: ...


def test_a_forgotten_history_does_not_hide_an_end(live: LiveSupervisor, tmp_path: Path) -> None:
    """`queue clear --history` while a command waits for a job that has just ended."""
    number, at, display = job(live, tmp_path), Client(live.home.socket), RecordingDisplay()
    video = Video("clip.mp4", "/clip.mp4", "", "pending", number)
    follower = Follower(at, [video], display, after=last_seq(at))
    follower.poll()
    live.send(calls.act("cancel", [number]))
    live.send(calls.clear_queue(history=True))
    follower.poll()
    assert not video.waited_for
    assert display.over == [number]
