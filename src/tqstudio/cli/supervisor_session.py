"""Connects to, starts and stops the supervisor for commands."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING

from tqstudio import path_checks
from tqstudio.cli import printing, session_lock
from tqstudio.errors import UNANSWERED, ErrorCode, TqError
from tqstudio.home import current_home
from tqstudio.protocol import calls
from tqstudio.protocol.client import Client

if TYPE_CHECKING:
    from tqstudio.engine.store.db.connection import Connection
    from tqstudio.protocol.answers import JobRow

PAGE = 200
STOP_TIMEOUT_S = 20.0
_POLL_S = 0.05


@dataclass(slots=True)
class SupervisorSession:
    """A supervisor that answers.

    As a context manager it turns SIGTERM into Ctrl-C, and at the end stops a supervisor that the command
    started, unless it is needed: by another command, or by an open job that is not this command's.
    """

    client: Client
    process: subprocess.Popen[bytes] | None = None
    """Set if this command started it."""
    jobs: set[int] = field(default_factory=set)
    """Jobs of this command; they do not keep the supervisor running."""
    batch: str = ""
    """All jobs of this batch count as this command's."""
    own_home: bool = False
    """All jobs count as this command's: the home was created for it."""
    stopped: bool = False

    @property
    def started(self) -> bool:
        """Whether this command started it, and therefore stops it unless it is needed."""
        return self.process is not None

    def __enter__(self) -> SupervisorSession:
        signal.signal(signal.SIGTERM, _as_interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self.process is not None:
                self._stop_unless_needed(self.process)
        finally:
            session_lock.leave()

    def _stop_unless_needed(self, process: subprocess.Popen[bytes]) -> None:
        try:
            if reason := self._why_needed():
                printing.err(
                    f"the supervisor (pid {process.pid}) keeps running: {reason};"
                    f" stop it with: {home_command('down')}"
                )
                return
            stop(self.client)
        except TqError as error:
            if error.code not in UNANSWERED:
                raise
            if error.code is ErrorCode.SUPERVISOR_SILENT:
                # The result of the command is not affected; it was already printed.
                printing.err(printing.error_lines(error.code, error.message, error.hint))
                return
        process.wait()
        self.stopped = True

    def _why_needed(self) -> str:
        """Why it must keep running; empty if it is not needed."""
        if not session_lock.alone():
            return "another command uses it"
        if self.own_home or all(map(self._is_own, every_job(self.client, ("in_progress", "pending")))):
            return ""
        return "other jobs are open"

    def _is_own(self, row: JobRow) -> bool:
        return row["id"] in self.jobs or (self.batch != "" and row["batch"] == self.batch)


def _as_interrupt(signum: int, frame: FrameType | None) -> None:
    del signum, frame
    raise KeyboardInterrupt


def home_command(verb: str) -> str:
    """The command line that runs a command on this home, from any shell."""
    home = ["--home", str(current_home().root)] if os.environ.get("TQSTUDIO_HOME") else []
    return shlex.join(["tqstudio", *home, verb])


def every_job(at: Client, statuses: Sequence[str]) -> Iterator[JobRow]:
    """Iterate over all jobs with these statuses, page by page."""
    after = None
    while True:
        page = at.send(calls.jobs(statuses=statuses, limit=PAGE, after=after))
        yield from page["jobs"]
        after = page["after"]
        if after is None:
            return


def client() -> Client:
    """A client of the current home's supervisor, whether or not one is running."""
    return Client(current_home().socket)


def listening() -> bool:
    """Whether a supervisor runs in the current home."""
    from tqstudio.protocol import launch

    return launch.listening(current_home())


def session(
    flags: Sequence[str] = (), *, for_this_run: bool = False, quiet: bool = False
) -> SupervisorSession:
    """Connect to the supervisor; starts and reports one in the background if none is running.

    Until this command ends, other commands do not stop it, except `tqstudio down`.

    Args:
        flags: options of `tqstudio up`, if one is started.
        for_this_run: the caller uses the session as a context manager, which stops the supervisor.
        quiet: the caller reports the start itself.
    """
    from tqstudio.protocol import launch

    at, home = client(), current_home()
    session_lock.enter(home)
    if (running := launch.settled(home)) is not None:
        if running["draining"]:
            printing.err(
                f"the supervisor (pid {running['pid']}) is draining: it exits after its running jobs,"
                f" and pending jobs continue after the next start: {home_command('up')}"
            )
        return SupervisorSession(at)
    process = launch.start(home, flags)
    view = launch.wait_until_up(home, process)
    if view["pid"] != process.pid:
        # Another command was faster; its supervisor must not be stopped here.
        return SupervisorSession(at)
    if for_this_run:
        printing.err(f"no supervisor was running: started one for this run (pid {view['pid']})")
    elif not quiet:
        printing.err(
            f"no supervisor was running: started one in the background (pid {view['pid']});"
            " stop it with: tqstudio down"
        )
    return SupervisorSession(at, process)


def session_for(known: Callable[[Connection], bool], error: TqError) -> SupervisorSession:
    """Connect to the supervisor for an existing object; none is started just to report it missing.

    Args:
        known: searches the database, if no supervisor is running.
        error: raised if the object does not exist.
    """
    if not runs_or_has(known):
        raise error
    return session()


def runs_or_has(known: Callable[[Connection], bool]) -> bool:
    """Whether a supervisor is running, or else the database contains the object."""
    import sqlite3
    from contextlib import closing

    from tqstudio.engine.store.db.connection import connect
    from tqstudio.protocol import launch

    home = current_home()
    if launch.holder(home) is not None:
        return True
    if not path_checks.is_there(home.database):
        return False
    try:
        with closing(connect(home.database, read_only=True)) as db:
            return known(db)
    except sqlite3.Error:
        return True  # an earlier schema, or damage: the start reports which


def only_at_start(options: Sequence[str]) -> TqError:
    """The error for start options if a supervisor is already running.

    Args:
        options: the given options, such as `--workers`.
    """
    them = options[0] if len(options) == 1 else "them"
    return TqError(
        ErrorCode.REFUSED,
        f"{', '.join(options)} cannot be set: a supervisor is already running",
        f"leave {them} out, or stop it first with: tqstudio down",
    )


def stop(at: Client, *, drain: bool = False, timeout_s: float | None = STOP_TIMEOUT_S) -> int:
    """Shut the supervisor down and wait until its process is gone; returns its pid.

    Args:
        drain: finish running jobs first.
        timeout_s: None waits without limit.

    Raises:
        TqError: NO_SUPERVISOR if none is running, SUPERVISOR_SILENT if it does not answer, TIMEOUT if its
            process does not exit.
    """
    from tqstudio.protocol import launch
    from tqstudio.protocol.client import no_supervisor

    home = current_home()
    view = launch.settled(home)
    if view is None:
        raise no_supervisor(home.socket)
    pid = view["pid"]
    gone = _Ending(pid)
    try:
        at.send(calls.shutdown(drain=drain))
        if not gone.wait(timeout_s):
            raise TqError(
                ErrorCode.TIMEOUT,
                f"the supervisor (pid {pid}) was asked to stop but is still running after {timeout_s:.0f} s",
                f"see {current_home().supervisor_log}; as a last resort: kill -9 {pid}",
            )
    finally:
        gone.close()
    return pid


class _Ending:
    """Waits for a process to exit; created while it lives, so that a reused pid cannot mislead."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._fd: int | None = None
        try:
            # The process of a supervisor in another pid namespace (a container) is not visible here.
            self._fd = os.pidfd_open(pid)
        except (OSError, AttributeError):
            self._fd = None

    def wait(self, timeout_s: float | None) -> bool:
        if self._fd is not None:
            return bool(select.select([self._fd], [], [], timeout_s)[0])
        return self._poll(timeout_s)

    def _poll(self, timeout_s: float | None) -> bool:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while _exists(self._pid):
            if deadline is not None and time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
