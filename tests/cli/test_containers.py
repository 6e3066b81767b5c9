"""A supervisor in another namespace of processes, as in a container, is found by what listens and locks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness import LiveSupervisor, Program
from tqstudio.protocol import launch, running
from waiting import until

_APART = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


@pytest.fixture(autouse=True)
def _needs_namespaces() -> None:
    if subprocess.run([*_APART, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make namespaces")


@pytest.mark.more
def test_down_waits_for_a_supervisor_whose_pid_is_another_process_here(tmp_path: Path) -> None:
    """Its own number, 1, is that of a process that never ends."""
    shell = Program(tmp_path / "home")
    with subprocess.Popen(
        [*_APART, *shell.command("up")],
        env=shell.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as up:
        try:
            until(lambda: up.poll() is not None or launch.supervisor_of(shell.home), "it answers")
            view = launch.supervisor_of(shell.home)
            assert view is not None
            assert view["pid"] == 1
            down = shell("down", "--json")
            assert (down.code, down.json()["stopped"]) == (0, True)
            assert down.json()["pid"] != 1
            assert running.holder(shell.home) is None
        finally:
            up.kill()


@pytest.mark.slow
def test_down_in_a_container_waits_for_a_supervisor_outside(tmp_path: Path) -> None:
    live = LiveSupervisor(tmp_path)
    try:
        live.start()
        inside = Program(live.home.root, before=_APART)
        down = inside("down", "--json")
        assert (down.code, down.json()["pid"]) == (0, live.process.pid)
        assert running.holder(live.home) is None
    finally:
        live.clear_away()
