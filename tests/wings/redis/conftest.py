"""A server of Redis, and supervisors that use it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import LiveSupervisor, MakeSupervisor
from tqstudio.engine.media.ffmpeg.binary import locate
from tqstudio.protocol import calls

from .server import Server, binary

MakeLive = Callable[..., LiveSupervisor]


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    if binary() is None:
        pytest.skip("there is no wheel with a server of Redis for this Python")
    server = Server()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of Redis."""
    with serving() as server:
        yield server


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    """The folder that entries may name files in."""
    folder = tmp_path / "roots"
    folder.mkdir()
    return folder


def settings(server: Server, roots: Path, **more: str) -> dict[str, str]:
    chosen = {"REDIS_URL": server.url, "REDIS_ROOTS": str(roots)} | more
    return {f"TQSTUDIO_{key}": value for key, value in chosen.items()}


def started(live: LiveSupervisor) -> LiveSupervisor:
    """Start a supervisor whose worker takes no job."""
    live.start()
    live.send(calls.worker_action("cpu-0", "disable"))
    return live


@pytest.fixture
def make_live(make_supervisor: MakeSupervisor, server: Server, roots: Path) -> MakeLive:
    """Starts supervisors that use the server, in one home."""

    def make(**more: str) -> LiveSupervisor:
        return started(make_supervisor(**settings(server, roots, **more)))

    return make


class Desk:
    """A supervisor that uses a server of its own, and the folder that entries may name files in."""

    def __init__(self, server: Server, live: LiveSupervisor, roots: Path) -> None:
        self.server, self.live, self.roots = server, live, roots
        self.outside = roots.parent


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """One for all tests of a file, which only add jobs."""
    folder = tmp_path_factory.mktemp("desk")
    (roots := folder / "roots").mkdir()
    with serving() as server:
        live = LiveSupervisor(folder / "home", **settings(server, roots))
        try:
            yield Desk(server, started(live), roots)
        finally:
            live.clear_away()


@pytest.fixture(scope="session")
def ffmpeg() -> str:
    return locate(os.environ.get("TQSTUDIO_FFMPEG")).path
