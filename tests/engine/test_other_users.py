"""Another user of the machine: what they put in the way is not trusted, and what they ask is not answered."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import LiveSupervisor, MakeSupervisor
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.protocol import calls
from tqstudio.protocol.client import AsyncClient, Client

from .users import OTHER_UID, as_other_user, needs_root, receive

pytestmark = needs_root

Heard = Callable[[], bytes]


@pytest.fixture
def planted() -> Iterator[Callable[[Path], Heard]]:
    """Has another user listen on a path; the answer waits for what a connection sent to them."""
    with contextlib.ExitStack() as running:

        def listen(path: Path) -> Heard:
            def act(heard: Connection) -> None:
                listener = socket.socket(socket.AF_UNIX)
                listener.bind(str(path))
                listener.listen()
                heard.send(b"listening")
                while True:
                    line, _ = listener.accept()
                    heard.send(line.recv(65536))
                    with contextlib.suppress(OSError):
                        line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                    line.close()

            line = running.enter_context(as_other_user(act))
            assert receive(line) == b"listening"
            return lambda: receive(line)  # type: ignore[return-value]

        yield listen


def refusal(call: Callable[[], object]) -> TqError:
    with pytest.raises(TqError) as caught:
        call()
    assert caught.value.code is ErrorCode.PERMISSION
    return caught.value


def test_a_worker_sends_no_token_to_another_user(public: Path, planted: Callable[[Path], Heard]) -> None:
    path = public / "supervisor.sock"
    heard = planted(path)
    error = refusal(lambda: Client(path, token="secret", keep_alive=True).send(calls.status()))
    assert f"uid {OTHER_UID}" in error.message
    assert heard() == b""


def test_no_command_and_no_screen_asks_another_user(public: Path, planted: Callable[[Path], Heard]) -> None:
    path = public / "supervisor.sock"
    heard = planted(path)
    refusal(lambda: next(Client(path).stream()))
    assert heard() == b""

    async def ask() -> None:
        client = AsyncClient(path)
        try:
            await client.send(calls.status())
        finally:
            await client.close()

    async def follow() -> None:
        client = AsyncClient(path)
        try:
            async for _ in client.stream():
                return
        finally:
            await client.close()

    refusal(lambda: asyncio.run(ask()))
    assert heard() == b""
    refusal(lambda: asyncio.run(follow()))
    assert heard() == b""


def test_root_reaches_the_supervisor_of_the_owner_of_a_home(
    public: Path, planted: Callable[[Path], Heard]
) -> None:
    home = public / "home"
    home.mkdir()
    os.chown(home, OTHER_UID, OTHER_UID)
    planted(home / "supervisor.sock")
    assert Client(home / "supervisor.sock").send(calls.status()) == {}


@pytest.fixture
def far_home(tmp_path: Path, public: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home with so long a path that its socket is in the runtime directory below the temporary one."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tqstudio.home.tempfile", SimpleNamespace(gettempdir=lambda: str(public)))
    return Home(tmp_path / ("studio" * 20))


def test_a_runtime_directory_of_another_user_is_refused(
    far_home: Home, public: Path, make_supervisor: MakeSupervisor
) -> None:
    folder = public / f"tqstudio-{os.getuid()}"
    live = make_supervisor(far_home.root, TMPDIR=str(public))
    assert far_home.socket.parent == folder
    os.chown(folder, OTHER_UID, OTHER_UID)

    for command in ("up", "status"):
        ended = live(command)
        assert "PERMISSION" in ended.err, ended
        assert str(folder) in ended.err
    assert not any(folder.iterdir())


def test_a_runtime_directory_that_is_a_link_or_open_to_others_is_refused(
    far_home: Home, public: Path, tmp_path: Path
) -> None:
    folder = public / f"tqstudio-{os.getuid()}"
    mine = tmp_path / "mine"
    mine.mkdir(0o700)
    folder.symlink_to(mine)
    assert "is not a directory" in refusal(lambda: far_home.socket).message
    refusal(far_home.create)
    folder.unlink()
    folder.mkdir()
    folder.chmod(0o750)
    assert "0750" in refusal(lambda: far_home.socket).message
    folder.chmod(0o700)
    far_home.create()
    assert far_home.socket.parent == folder


@pytest.mark.slow
def test_a_supervisor_reads_nothing_from_another_user(public: Path, make_supervisor: MakeSupervisor) -> None:
    """Though someone opened its socket to everyone."""
    live: LiveSupervisor = make_supervisor(public / "home").start()
    live.home.root.chmod(0o755)
    live.home.socket.chmod(0o777)

    def ask(answer: Connection) -> None:
        line = socket.socket(socket.AF_UNIX)
        line.connect(str(live.home.socket))
        try:
            line.sendall(b"GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n")
            answer.send(line.recv(65536))
        except OSError:
            answer.send(b"")

    with as_other_user(ask) as asking:
        assert receive(asking) == b""
    assert live.send(calls.status())["supervisor"]["pid"] == live.process.pid


def test_a_home_of_another_user_is_refused(public: Path) -> None:
    """Unless root made it for whoever may write to it; root itself may use any."""
    home = Home(public / "home")
    home.root.mkdir()

    def look(answer: Connection) -> None:
        try:
            home.require_owner()
        except TqError as error:
            answer.send(error.code)
        else:
            answer.send(None)

    for owner, code in ((OTHER_UID - 1, ErrorCode.PERMISSION), (OTHER_UID, None), (0, None)):
        os.chown(home.root, owner, owner)
        with as_other_user(look) as line:
            assert receive(line) == code
        home.require_owner()


def test_a_worker_is_not_sent_over_the_socket_which_ffmpeg_to_run(standing: LiveSupervisor) -> None:
    worker = standing.worker("remote-0")
    answer = worker.send("register", pid=os.getpid(), pid_started=1.0, encoder="libx264")
    assert "ffmpeg" not in answer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "owner", "mode"),
    [
        pytest.param(".", OTHER_UID, 0, marks=pytest.mark.slow),
        pytest.param(".", 0, stat.S_IWOTH, marks=pytest.mark.slow),
        (".", 0, stat.S_IWGRP),
        ("config.toml", OTHER_UID, 0),
        pytest.param("profiles", 0, stat.S_IWOTH, marks=pytest.mark.slow),
        pytest.param("tqstudio.db", 0, stat.S_IWGRP, marks=pytest.mark.slow),
    ],
)
def test_a_supervisor_does_not_start_where_another_user_may_change_its_home(
    make_supervisor: MakeSupervisor, name: str, owner: int, mode: int
) -> None:
    live = make_supervisor()
    path = live.home.root / name
    if not path.exists():
        path.touch()
    path.chmod(path.stat().st_mode | mode)
    os.chown(path, owner, OTHER_UID)
    live.launch()
    assert live.process.wait(60) == 2
    output = live.output.read_text()
    assert "error: PERMISSION: " in output
    assert f"{live.home.root / name} belongs to" in output or f"chmod go-w {live.home.root / name}" in output
    assert not live.home.supervisor_log.exists(), "nothing was begun"


def test_a_home_that_root_made_for_everybody_is_no_place_for_a_supervisor(public: Path) -> None:
    home = Home(public / "home")
    home.root.mkdir()

    def look(answer: Connection) -> None:
        try:
            home.require_private()
        except TqError as error:
            answer.send(error.code)
        else:
            answer.send(None)

    for mode, code in ((0o755, None), (0o777, ErrorCode.PERMISSION), (0o775, None)):
        home.root.chmod(mode)
        with as_other_user(look) as line:
            assert receive(line) == code
