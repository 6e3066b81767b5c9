"""A supervisor that lives and does not answer is distinguished from none, and no second one is started."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from harness import COMMAND_TIMEOUT_S, LiveSupervisor, MakeSupervisor, Program, UnixHTTP
from tqstudio.engine.host import home_lock
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.protocol import calls, client, launch, running
from tqstudio.protocol.client import AsyncClient, Client
from waiting import until


@pytest.fixture
def stopped(make_supervisor: MakeSupervisor) -> Iterator[LiveSupervisor]:
    live = make_supervisor().start()
    live.process.send_signal(signal.SIGSTOP)
    yield live
    live.process.send_signal(signal.SIGCONT)


@pytest.mark.more
@pytest.mark.fault(
    "The supervisor lives and does not answer",
    "`SUPERVISOR_NOT_RESPONDING` with its pid; no second one is started",
    area="supervisor",
)
def test_every_command_says_that_it_does_not_answer(stopped: LiveSupervisor, tmp_path: Path) -> None:
    pid = stopped.process.pid
    with pytest.raises(TqError) as caught:
        stopped.send(calls.status(), timeout_s=0.1)
    assert caught.value.code is ErrorCode.SUPERVISOR_NOT_RESPONDING
    assert caught.value.message == f"the supervisor (pid {pid}) runs but does not answer"
    assert f"kill -9 {pid}" in caught.value.hint

    (tmp_path / "film.mp4").write_bytes(b"no film")
    shell = Program(stopped.home.root)
    verbs = [("down",), ("up", "--detach"), ("up",), ("backup",), ("process", "-i", f"{tmp_path}/film.mp4")]
    # They wait for an answer all at once.
    started = [shell.spawn(*verb, "--json") for verb in (*verbs, ("doctor",))]
    answers = [process.communicate(timeout=COMMAND_TIMEOUT_S) for process in started]
    for process, (out, _) in zip(started[:-1], answers[:-1], strict=True):
        assert process.returncode == 3, process.args
        assert json.loads(out)["error"]["message"] == caught.value.message, process.args
    assert started[-1].returncode == 1
    checks = {check["name"]: check for check in json.loads(answers[-1][0])["checks"]}
    assert checks["supervisor"]["level"] == "fail"
    assert checks["supervisor"]["detail"] == f"SUPERVISOR_NOT_RESPONDING: {caught.value.message}"
    assert not launch.start_log(stopped.home).exists(), "no other one was started"


@pytest.mark.fault(
    "The supervisor accepts no more connections",
    "`SUPERVISOR_NOT_RESPONDING` with its pid",
    area="supervisor",
)
def test_one_that_takes_no_more_connections_is_there(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with ExitStack() as opened:
        listener = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listener.bind(str(home.socket))
        listener.listen(0)
        with suppress(BlockingIOError):
            while True:
                waiting = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                waiting.setblocking(False)
                waiting.connect(str(home.socket))
        with pytest.raises(TqError) as caught:
            Client(home.socket).send(calls.status())
        assert caught.value.code is ErrorCode.SUPERVISOR_NOT_RESPONDING
        assert running.listening(home)


@pytest.mark.slow
@pytest.mark.fault(
    "The supervisor has no file descriptor left",
    "`SUPERVISOR_NOT_RESPONDING` with its pid",
    area="supervisor",
)
def test_one_that_has_no_descriptor_left_is_there(
    make_supervisor: MakeSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Idle connections are closed after 30 s, which would leave one for the second call: many have to wait.
    monkeypatch.setattr(client, "DEFAULT_TIMEOUT_S", 1.0)
    live = make_supervisor().start()
    _allow(live, 20)
    with ExitStack() as opened:
        for _ in range(90):
            idle = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            idle.connect(str(live.home.socket))
        with pytest.raises(TqError) as caught:
            live.send(calls.status(), timeout_s=1)
        assert caught.value.code is ErrorCode.SUPERVISOR_NOT_RESPONDING
        assert f"(pid {live.process.pid})" in caught.value.message
        with pytest.raises(TqError) as caught:
            asyncio.run(AsyncClient(live.home.socket).send(calls.status()))
        assert caught.value.code is ErrorCode.SUPERVISOR_NOT_RESPONDING
    until(lambda: _answers(live), "it answers again")


@pytest.mark.slow
@pytest.mark.fault(
    "Many clients open event streams", "They get at most half of the descriptors", area="supervisor"
)
def test_event_streams_leave_descriptors_to_commands(make_supervisor: MakeSupervisor) -> None:
    live = make_supervisor().start()
    most = _allow(live, 80) // 2
    with ExitStack() as opened:
        for _ in range(most):
            watcher = opened.enter_context(closing(UnixHTTP(live.home.socket)))
            watcher.request("GET", "/v1/events/stream")
            assert watcher.getresponse().status == 200
        assert _answers(live)
        for follow in (_follow, _follow_async):
            with pytest.raises(TqError, match=f"all {most} event streams are in use") as caught:
                follow(live)
            assert caught.value.code is ErrorCode.REFUSED
    until(lambda: _is_followed(live), "another stream is opened")


def _allow(live: LiveSupervisor, more: int) -> int:
    """Let a supervisor have so many descriptors more than it has; answers how many that are."""
    most = len(os.listdir(f"/proc/{live.process.pid}/fd")) + more
    resource.prlimit(live.process.pid, resource.RLIMIT_NOFILE, (most, most))
    return most


def _follow(live: LiveSupervisor) -> None:
    next(Client(live.home.socket).stream(after=0))


def _follow_async(live: LiveSupervisor) -> None:
    async def first() -> None:
        async for _ in AsyncClient(live.home.socket).stream(after=0):
            return

    asyncio.run(first())


def _answers(live: LiveSupervisor) -> bool:
    with suppress(TqError):
        return live.send(calls.status())["supervisor"]["pid"] == live.process.pid
    return False


def _is_followed(live: LiveSupervisor) -> bool:
    with suppress(TqError):
        _follow(live)
        return True
    return False


def test_one_that_holds_the_home_without_a_socket_is_there(tmp_path: Path) -> None:
    home = Home(tmp_path)
    held = home_lock.HomeLock(home)
    assert launch.join(home) is None
    held.acquire()
    assert running.holder(home) == os.getpid()
    with pytest.raises(TqError) as caught:
        launch.join(home, timeout_s=0)
    assert caught.value.code is ErrorCode.SUPERVISOR_NOT_RESPONDING
    assert f"(pid {os.getpid()})" in caught.value.message
    held.release()
    assert running.holder(home) is None
    assert launch.join(home) is None, "its pid is still written there"


def test_looking_who_holds_a_home_does_not_stop_one_that_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    look = os.open(home.lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(look, fcntl.LOCK_SH)
    monkeypatch.setattr(home_lock.time, "sleep", lambda _seconds: os.close(look))
    held = home_lock.HomeLock(home)
    held.acquire()
    assert running.holder(home) == os.getpid()
    held.release()
