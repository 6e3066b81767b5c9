"""Whose processes are ended at a start, and whose are not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tqstudio.engine.host import orphan_processes
from tqstudio.engine.host.orphan_processes import MARK, Root
from waiting import until

STORE = "11111111-2222-3333-4444-555555555555"
HOME = Path("/a home: with a colon")


@pytest.fixture
def dead() -> Root:
    """A supervisor that has ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        started = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
        process.kill()
    return Root(STORE, process.pid, started)


class Sleepers:
    """Processes that sleep, with an environment of their own."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, mark: object = None, **environment: str) -> subprocess.Popen[bytes]:
        if mark is not None:
            environment[MARK] = str(mark)
        process = subprocess.Popen(["sleep", "600"], env={**os.environ, **environment})
        self.started.append(process)
        # Between fork and exec it still has our own environment.
        until(lambda: orphan_processes.mark_of(process.pid) == environment.get(MARK), "it runs")
        return process


@pytest.fixture
def sleepers() -> Iterator[Sleepers]:
    sleepers = Sleepers()
    yield sleepers
    for process in sleepers.started:
        process.kill()
        process.wait()


@pytest.mark.fault("ffmpegs outlive a killed supervisor", "The next one ends them", area="supervisor")
def test_orphans_are_ended_and_no_other_process(sleepers: Sleepers, dead: Root) -> None:
    orphan, stopped = sleepers.start(f"{dead}:{HOME}"), sleepers.start(f"{dead}:{HOME}")
    assert (orphan_processes.root_of(orphan.pid), orphan_processes.home_of(orphan.pid)) == (dead, str(HOME))
    os.kill(stopped.pid, signal.SIGSTOP)
    others = [
        sleepers.start(),
        sleepers.start(TQSTUDIO_HOME="/somewhere"),
        sleepers.start(orphan_processes.mark(STORE, HOME)),  # its supervisor, this process, lives
        sleepers.start(Root("another", dead.pid, dead.started)),
        sleepers.start(f"{STORE}:1:x"),
        sleepers.start(f"{STORE}"),
    ]
    assert sorted(orphan_processes.end_orphans(STORE)) == sorted([orphan.pid, stopped.pid])
    assert (orphan.wait(), stopped.wait()) == (-signal.SIGKILL, -signal.SIGKILL)
    assert [process.poll() for process in others] == [None] * len(others)
    assert orphan_processes.end_orphans(STORE) == []


def test_a_supervisor_that_a_script_of_a_dead_one_starts_does_not_end_itself(dead: Root) -> None:
    program = f"from {orphan_processes.__name__} import end_orphans; print(end_orphans({STORE!r}))"
    environment = {**os.environ, MARK: f"{dead}:{HOME}"}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    assert ended.stdout == b"[]\n"


def test_a_reused_pid_is_another_process(sleepers: Sleepers) -> None:
    mine = orphan_processes.root(STORE)
    assert mine.lives
    earlier = Root(STORE, mine.pid, mine.started - 1)
    assert not earlier.lives
    orphan = sleepers.start(earlier)
    assert orphan_processes.end_orphans(STORE) == [orphan.pid]


_REAPS = """
import os, subprocess, sys, time
from pathlib import Path
from tqstudio.engine.host import children
children.mark("store", Path("/"))
own = subprocess.Popen(["/bin/sh", "-c", "exit 3"])
os.waitid(os.P_PID, own.pid, os.WEXITED | os.WNOWAIT)
children.reap_orphans()
assert own.wait() == 3, "it was reaped before its status was read"
children._OWN_WAIT_S = 0.0
orphan = subprocess.Popen(["/bin/true"])
os.waitid(os.P_PID, orphan.pid, os.WEXITED | os.WNOWAIT)
children.reap_orphans()
time.sleep(0.01)
children.reap_orphans()
assert not os.path.exists(f"/proc/{orphan.pid}"), "it stays for ever"
"""


def test_zombies_are_reaped_unless_a_thread_is_about_to() -> None:
    subprocess.run([sys.executable, "-P", "-c", _REAPS], check=True)
