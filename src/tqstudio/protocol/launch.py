"""Starts a supervisor in the background and waits until it answers.

It is an ordinary `tqstudio up` in a session of its own, so neither Ctrl-C nor a closed terminal reaches it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home

if TYPE_CHECKING:
    from pathlib import Path

    from tqstudio.protocol.answers import SupervisorView

START_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 10.0
"""As long as the terminal UI waits; one that is busy answers in a second."""
_POLL_S = 0.03
# Settings that name files; the supervisor does not run in the directory they are relative to.
_PATH_VARIABLES = ("TQSTUDIO_FFMPEG", "TQSTUDIO_OUTPUT")


def running(home: Home, timeout_s: float = ANSWER_TIMEOUT_S) -> SupervisorView | None:
    """The supervisor that answers in this home; None when nobody listens there.

    Raises:
        TqError: SUPERVISOR_SILENT when one listens and does not answer, PERMISSION.
    """
    from tqstudio.protocol import calls
    from tqstudio.protocol.client import Client

    try:
        return Client(home.socket).send(calls.status(), timeout_s=timeout_s)["supervisor"]
    except TqError as error:
        if error.code is ErrorCode.NO_SUPERVISOR:
            return None
        raise


def settled(home: Home, timeout_s: float = START_TIMEOUT_S) -> SupervisorView | None:
    """The same, once a supervisor that starts or ends just now has done so.

    Raises:
        TqError: SUPERVISOR_SILENT also when one holds the home for `timeout_s` without listening.
    """
    from tqstudio.protocol.client import silent

    deadline = time.monotonic() + timeout_s
    while (view := running(home)) is None and (pid := holder(home)) is not None:
        if time.monotonic() > deadline:
            raise silent(pid)
        time.sleep(_POLL_S)
    return view


def holder(home: Home) -> int | None:
    """The process that is the home's supervisor, whether it listens or not; 0 when its pid is not known.

    The kernel answers, so neither a dead supervisor nor another process with its pid misleads.
    """
    if not (_is_locked(home.root) or _is_locked(home.lock)):
        return None
    try:
        pid = home.lock.read_text(errors="replace").strip()
    except OSError:
        return 0  # somebody removed it; the supervisor makes it anew in a moment
    return int(pid) if pid.isdigit() else 0


def _is_locked(path: Path) -> bool:
    """Whether a process holds the lock on a file or folder."""
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system that locks no folders
    finally:
        os.close(descriptor)
    return False


def listening(home: Home) -> bool:
    """Whether a supervisor accepts connections; answers at once, even when it is busy."""
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.2)
        try:
            probe.connect(str(home.socket))
        except BlockingIOError:
            # As many wait already as may.
            return True
        except OSError:
            return False
        return True


def start(home: Home, flags: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start a supervisor without waiting for it.

    Where one runs already the new one ends by itself, so starting is never wrong.

    Args:
        flags: options of `tqstudio up`.
    """
    try:
        home.create()
        # -P: a file named json.py in the home must not become the supervisor's json.
        with start_log(home).open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "tqstudio", "up", *flags],
                cwd=home.root,
                env=_environment(home),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    except OSError as error:
        raise TqError(
            ErrorCode.PERMISSION,
            f"the home {home.root} cannot be used: {error.strerror}",
            "make it writable, or choose another with --home or TQSTUDIO_HOME",
        ) from None


def wait_until_up(
    home: Home, process: subprocess.Popen[bytes], timeout_s: float = START_TIMEOUT_S
) -> SupervisorView:
    """Wait for a started supervisor to answer; the answer may come from another that was faster.

    Raises:
        TqError: what the supervisor said before it ended; after `timeout_s` SUPERVISOR_SILENT when another
            one holds the home, else NO_SUPERVISOR.
    """
    from tqstudio.protocol.client import silent

    deadline = time.monotonic() + timeout_s
    while True:
        ended = process.poll() is not None
        if view := running(home, timeout_s):
            return view
        if ended:
            error = why_it_ended(home, process.returncode)
            if error.code is not ErrorCode.ALREADY_RUNNING:
                raise error
        if time.monotonic() > deadline:
            if ended and (pid := holder(home)) is not None:
                raise silent(pid)
            raise TqError(
                ErrorCode.NO_SUPERVISOR,
                f"the supervisor was started but does not answer after {timeout_s:.0f} s",
                f"look at {start_log(home)} and {home.supervisor_log}",
            )
        time.sleep(_POLL_S)


def start_log(home: Home) -> Path:
    """What the last supervisor that was started in the background printed."""
    return home.logs / "start.log"


def in_background(home: Home) -> bool:
    """Whether `start` started this process: nobody reads what it says, unless it fails."""
    try:
        return os.path.samestat(os.fstat(2), start_log(home).stat())
    except OSError:
        return False


def _environment(home: Home) -> dict[str, str]:
    environment = dict(os.environ) | {"TQSTUDIO_HOME": str(home.root)}
    for name in _PATH_VARIABLES:
        value = environment.get(name, "")
        if os.sep in value:
            environment[name] = os.path.abspath(os.path.expanduser(value))
    return environment


def why_it_ended(home: Home, returncode: int) -> TqError:
    """What a supervisor that was started here said before it ended."""
    said = start_log(home).read_text(errors="replace")
    # An error as commands print it: `error: CODE: sentence`, and the next step below.
    if match := re.search(r"^error: ([A-Z_]+): (.*)(?:\n  \S+ (.*))?$", said, re.MULTILINE):
        return TqError(match[1], match[2], match[3] or "")
    how = f"by signal {-returncode}" if returncode < 0 else f"with code {returncode}"
    return TqError(
        ErrorCode.NO_SUPERVISOR,
        f"the supervisor ended {how} before it answered",
        f"look at {start_log(home)} and {home.supervisor_log}",
    )
