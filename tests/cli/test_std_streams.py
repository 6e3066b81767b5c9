"""Standard streams that are closed or cannot be written to."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from functools import partial
from pathlib import Path

import pytest

from harness import COMMAND_TIMEOUT_S, QUICK, Answer, Program, answer_of, new_home
from tqstudio.errors import TqError
from tqstudio.protocol import calls
from tqstudio.protocol.client import Client
from waiting import until

CLOSED = "<&- >&- 2>&-"
FULL = Path("/dev/full")
full = pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")


def _shell(tqstudio: Program, arguments: str, redirected: str, **environment: str) -> Answer:
    """Run a command as a shell does that closes or redirects some of its streams."""
    command = ["sh", "-c", f'exec "$@" {redirected}', "sh", *tqstudio.command(*arguments.split())]
    return answer_of(command, tqstudio.environment | environment)


@pytest.mark.parametrize(
    ("arguments", "redirected", "expected"),
    [
        ("status", ">&-", "error: NO_SUPERVISOR: "),
        ("status --json", ">&-", "error: NO_SUPERVISOR: "),
        ("", ">&-", "error: BAD_REQUEST: the terminal UI needs a terminal"),
        ("", "<&-", "error: BAD_REQUEST: the terminal UI needs a terminal"),
    ],
)
def test_without_an_output_errors_are_still_reported(
    arguments: str, redirected: str, expected: str, tqstudio: Program
) -> None:
    answer = _shell(tqstudio, arguments, redirected)
    assert answer.code in (2, 3)
    assert answer.out == ""
    assert answer.err.startswith(expected)
    assert len(answer.err.splitlines()) == 2


def test_an_answer_that_no_one_reads_is_no_error(tqstudio: Program) -> None:
    for redirected in (">&-", CLOSED):
        answer = _shell(tqstudio, "profile list", redirected)
        assert (answer.code, answer.out, answer.err) == (0, "", "")


def test_remarks_that_no_one_reads_do_not_get_into_the_answer(tqstudio: Program) -> None:
    answer = _shell(tqstudio, "status --json", "2>&-")
    assert answer.code == 3
    assert json.loads(answer.out)["error"]["code"] == "NO_SUPERVISOR"


@full
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("arguments", ["profile list --json", "--help", "--version"])
def test_an_answer_that_cannot_be_written(arguments: str, unbuffered: str, tqstudio: Program) -> None:
    answer = _shell(tqstudio, arguments, f">{FULL}", PYTHONUNBUFFERED=unbuffered)
    assert answer.code == 4
    first, hint = answer.err.splitlines()
    assert first == f"error: DISK_LOW: the output cannot be written: {os.strerror(errno.ENOSPC)}"
    assert hint.lstrip()


@full
def test_the_first_error_is_the_one_that_is_reported(tqstudio: Program) -> None:
    answer = _shell(tqstudio, "status --json", f">{FULL}")
    assert answer.code == 3
    assert answer.err.startswith("error: NO_SUPERVISOR: ")
    assert len(answer.err.splitlines()) == 2


@full
def test_remarks_that_cannot_be_written_do_not_end_a_command(tqstudio: Program) -> None:
    answer = _shell(tqstudio, "status --json", f"2>{FULL}")
    assert answer.code == 3
    assert json.loads(answer.out)["error"]["code"] == "NO_SUPERVISOR"


def test_a_descriptor_that_is_only_read_from(tqstudio: Program) -> None:
    answer = _shell(tqstudio, "profile list", "1</dev/null")
    assert answer.code == 2
    assert answer.err.startswith("error: PERMISSION: the output cannot be written: ")


@pytest.mark.more
@pytest.mark.parametrize("arguments", ["up", "up --detach"])
def test_a_supervisor_without_streams(arguments: str, tmp_path: Path) -> None:
    """As a daemon is started: it works, and its streams and those of its workers lead somewhere."""
    tqstudio = Program(new_home(tmp_path / "home").root, **QUICK)
    command = ["sh", "-c", f'exec "$@" {CLOSED}', "sh", *tqstudio.command(*arguments.split())]
    with subprocess.Popen(command, env=tqstudio.environment) as process:
        try:
            if "--detach" in arguments:
                assert process.wait(COMMAND_TIMEOUT_S) == 0
            for pid in until(partial(_pids, tqstudio, process), "the supervisor has a worker", 60):
                for number in range(3):
                    where = os.readlink(f"/proc/{pid}/fd/{number}")
                    assert where == os.devnull or where.endswith(".log"), (pid, number, where)
        finally:
            assert tqstudio("down").code == 0


def _pids(tqstudio: Program, process: subprocess.Popen[bytes]) -> list[int]:
    """Of the supervisor and its workers, once there are some."""
    assert process.poll() in (None, 0)
    try:
        view = Client(tqstudio.home.socket).send(calls.status())
    except TqError:
        return []
    workers = [worker["pid"] for worker in view["workers"] if worker["pid"]]
    return [view["supervisor"]["pid"], *workers] if workers else []
