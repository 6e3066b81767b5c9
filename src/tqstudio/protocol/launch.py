"""Starts a supervisor in the background and waits until it answers.

It runs `tqstudio up` in a new session, so neither Ctrl-C nor closing the terminal stops it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tqstudio import path_checks
from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home
from tqstudio.paths import absolute
from tqstudio.protocol import running

if TYPE_CHECKING:
    from pathlib import Path

    from tqstudio.protocol.answers import JoinAnswer, StandbyAnswer, SupervisorView

START_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 10.0
"""A busy supervisor answers within a second."""
_POLL_S = 0.03
# Settings that name files. They are made absolute, because the supervisor runs in another directory.
_PATH_VARIABLES = ("TQSTUDIO_FFMPEG", "TQSTUDIO_OUTPUT", "TQSTUDIO_TLS_CERT", "TQSTUDIO_TLS_KEY")


def supervisor_of(home: Home, timeout_s: float = ANSWER_TIMEOUT_S) -> SupervisorView | StandbyAnswer | None:
    """Return the supervisor that answers in this home; None when no process listens there.

    Raises:
        TqError: SUPERVISOR_NOT_RESPONDING when one listens and does not answer; PERMISSION.
    """
    from tqstudio.protocol import calls
    from tqstudio.protocol.client import Client

    try:
        return Client(home.socket).send(calls.status(), timeout_s=timeout_s)["supervisor"]
    except TqError as error:
        if error.code is ErrorCode.NO_SUPERVISOR:
            return None
        if error.code is ErrorCode.REFUSED:
            return {"pid": running.holder(home) or 0, "standby": error.message}
        raise


def join(home: Home, *, stay: bool = False, timeout_s: float = START_TIMEOUT_S) -> JoinAnswer | None:
    """Use the running supervisor until this process exits; None when none is running.

    Waits for a supervisor that is starting up or shutting down. One that was started for a single run does
    not shut down meanwhile.

    Args:
        stay: nor does it afterwards.

    Raises:
        TqError: SUPERVISOR_NOT_RESPONDING when one locks the home for `timeout_s` without answering.
    """
    from tqstudio.protocol import calls
    from tqstudio.protocol.client import Client, not_responding

    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return Client(home.socket).send(
                calls.join(os.getpid(), stay=stay), timeout_s=min(timeout_s, ANSWER_TIMEOUT_S)
            )
        except TqError as error:
            if error.code is not ErrorCode.NO_SUPERVISOR:
                raise
        if (pid := running.holder(home)) is None:
            return None
        if time.monotonic() > deadline:
            raise not_responding(pid)
        time.sleep(_POLL_S)


def listener(home: Home) -> int:
    """Return the pid of the supervisor that listens, as this process sees it.

    Returns:
        0 if it is in another namespace of processes, such as a container, or if none listens.
    """
    import socket

    from tqstudio.protocol.client import peer_of

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(ANSWER_TIMEOUT_S)
        try:
            probe.connect(str(home.socket))
        except OSError:
            return 0
        peer = peer_of(probe)
    return peer[0] if peer else 0


def wait_until_released(home: Home, timeout_s: float | None) -> bool:
    """Wait until no supervisor locks the home; False if one still does."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while running.holder(home) is not None:
        if deadline is not None and time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def start(home: Home, flags: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start a supervisor without waiting for it. If one runs already, the new one exits.

    Args:
        flags: options of `tqstudio up`.

    Raises:
        TqError: PERMISSION, DISK_LOW, IO_ERROR or SYSTEM_LIMIT, as the home cannot be used.
    """
    try:
        home.create()
        # -P: a file named json.py in the home must not be imported by the supervisor.
        with start_log(home).open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "tqstudio", "up", "--json", *flags],
                cwd=home.root,
                env=_environment(home),
                stdin=subprocess.DEVNULL,
                # For `exit_error`: on a full disk the log stays empty.
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
    except OSError as error:
        raise path_checks.refused(error.filename or home.root, error, "used") from None


def wait_until_up(home: Home, process: subprocess.Popen[bytes]) -> None:
    """Wait for a started supervisor to answer; another one that started first may answer instead.

    Raises:
        TqError: the error that the supervisor printed before it exited; after 30 s SUPERVISOR_NOT_RESPONDING
            when another one locks the home, else NO_SUPERVISOR.
    """
    from tqstudio.protocol.client import not_responding

    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        ended = process.poll() is not None
        if supervisor_of(home, START_TIMEOUT_S):
            return
        if ended:
            error = exit_error(home, process)
            # Without a holder it is another home's supervisor, which has the database of PostgreSQL.
            if error.code is not ErrorCode.ALREADY_RUNNING or running.holder(home) is None:
                raise error
        if time.monotonic() > deadline:
            if ended and (pid := running.holder(home)) is not None:
                raise not_responding(pid)
            raise TqError(
                ErrorCode.NO_SUPERVISOR,
                f"the supervisor was started but did not answer within {START_TIMEOUT_S:.0f} s",
                f"see {start_log(home)} and {home.supervisor_log}",
            )
        time.sleep(_POLL_S)


def start_log(home: Home) -> Path:
    """The file with the output of the last supervisor that was started in the background."""
    return home.logs / "start.log"


def in_background(home: Home) -> bool:
    """Whether this process was started by `start`, so its output goes to `start_log`."""
    try:
        return os.path.samestat(os.fstat(2), start_log(home).stat())
    except OSError:
        return False


def leave_output(home: Home) -> None:
    """Send the output of this process to the log if `start` made it, which has read what it needs."""
    if in_background(home):
        os.dup2(2, 1)


def _environment(home: Home) -> dict[str, str]:
    environment = dict(os.environ) | {"TQSTUDIO_HOME": str(home.root)}
    for name in _PATH_VARIABLES:
        value = environment.get(name, "")
        if os.sep in value:
            environment[name] = absolute(value)
    return environment


def exit_error(home: Home, process: subprocess.Popen[bytes]) -> TqError:
    """Return why a supervisor of `start` exited; call it once."""
    assert process.stdout is not None
    # A child that is left may hold the other end.
    os.set_blocking(process.stdout.fileno(), False)
    for line in (process.stdout.read() or b"").splitlines():
        if line.startswith(b'{"error": '):
            return TqError(**json.loads(line)["error"])
    returncode = process.returncode
    how = f"by signal {-returncode}" if returncode < 0 else f"with code {returncode}"
    return TqError(
        ErrorCode.NO_SUPERVISOR,
        f"the supervisor exited {how} before it answered",
        f"see {start_log(home)} and {home.supervisor_log}",
    )
