"""Reaching, starting and stopping the supervisor, as commands need it."""

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

    As a context it lasts as long as the command works, and SIGTERM counts as Ctrl-C. At the end a supervisor
    that the command started is stopped, unless somebody else needs it: another command that uses it, or an
    open job that this command has not asked for.
    """

    door: Client
    process: subprocess.Popen[bytes] | None = None
    """Set when this command started it."""
    jobs: set[int] = field(default_factory=set)
    """What this command works on; no reason to leave the supervisor running."""
    batch: str = ""
    """The same for every job of this batch."""
    own_home: bool = False
    """The same for every job there is: the home was made for this command."""
    stopped: bool = False

    @property
    def started(self) -> bool:
        """Whether this command started it, and so stops it when nobody else needs it."""
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
            if reason := self._who_needs_it():
                printing.say(
                    f"the supervisor (pid {process.pid}) goes on, {reason}; stop it with: {here('down')}"
                )
                return
            stop(self.door)
        except TqError as error:
            if error.code not in UNANSWERED:
                raise
            if error.code is ErrorCode.SUPERVISOR_SILENT:
                # What the command has to answer stands: its own work has been summed up.
                printing.say(printing.error_lines(error.code, error.message, error.hint))
                return
        process.wait()
        self.stopped = True

    def _who_needs_it(self) -> str:
        """Why it has to go on; empty when nobody else needs it."""
        if not session_lock.alone():
            return "another command uses it"
        if self.own_home or all(map(self._is_own, every_job(self.door, ("in_progress", "pending")))):
            return ""
        return "other jobs wait or run"

    def _is_own(self, row: JobRow) -> bool:
        return row["id"] in self.jobs or (self.batch != "" and row["batch"] == self.batch)


def _as_interrupt(signum: int, frame: FrameType | None) -> None:
    del signum, frame
    raise KeyboardInterrupt


def here(verb: str) -> str:
    """A command for the supervisor of this home, for whoever reads it in another shell."""
    home = ["--home", str(current_home().root)] if os.environ.get("TQSTUDIO_HOME") else []
    return shlex.join(["tqstudio", *home, verb])


def every_job(at: Client, statuses: Sequence[str]) -> Iterator[JobRow]:
    """All jobs with these statuses, page by page."""
    after = None
    while True:
        page = at.send(calls.jobs(statuses=statuses, limit=PAGE, after=after))
        yield from page["jobs"]
        after = page["after"]
        if after is None:
            return


def door() -> Client:
    """The door of the current home, whether anybody answers or not."""
    return Client(current_home().socket)


def listening() -> bool:
    """Whether a supervisor runs in the current home."""
    from tqstudio.protocol import launch

    return launch.listening(current_home())


def session(
    flags: Sequence[str] = (), *, for_this_run: bool = False, quiet: bool = False
) -> SupervisorSession:
    """The running supervisor; one is started in the background when none runs, and that is said.

    Until this command ends no other one stops it, unless by `tqstudio down`.

    Args:
        flags: options of `tqstudio up` for one that has to be started.
        for_this_run: the caller uses the session as a context, so it is stopped at the end if it can be.
        quiet: the caller says itself what happened.
    """
    from tqstudio.protocol import launch

    at, home = door(), current_home()
    session_lock.enter(home)
    if (running := launch.settled(home)) is not None:
        if running["draining"]:
            printing.say(
                f"the supervisor (pid {running['pid']}) is draining: it ends with its running jobs,"
                f" and what waits goes on after the next start: {here('up')}"
            )
        return SupervisorSession(at)
    process = launch.start(home, flags)
    view = launch.wait_until_up(home, process)
    if view["pid"] != process.pid:
        # Another command was faster; its supervisor is not ours to stop.
        return SupervisorSession(at)
    if for_this_run:
        printing.say(f"no supervisor was running: started one for this run (pid {view['pid']})")
    elif not quiet:
        printing.say(
            f"no supervisor was running: started one in the background (pid {view['pid']});"
            " stop it with: tqstudio down"
        )
    return SupervisorSession(at, process)


def session_for(known: Callable[[Connection], bool], error: TqError) -> SupervisorSession:
    """The supervisor for a command on what exists; none is started only to answer that it does not.

    Args:
        known: looks for it in the database where no supervisor runs.
        error: the refusal when it is not there.
    """
    if not runs_or_has(known):
        raise error
    return session()


def runs_or_has(known: Callable[[Connection], bool]) -> bool:
    """Whether a supervisor runs, or the database that it would open has what is looked for."""
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
        return True  # an earlier schema, or damage: the start says which


def too_late(options: Sequence[str]) -> TqError:
    """The refusal of options that only a start can follow, where a supervisor runs already.

    Args:
        options: those that were given, such as `--workers`.
    """
    them = options[0] if len(options) == 1 else "them"
    return TqError(
        ErrorCode.REFUSED,
        f"{', '.join(options)} cannot be set: a supervisor runs already",
        f"leave {them} out, or stop it first with: tqstudio down",
    )


def stop(at: Client, *, drain: bool = False, timeout_s: float | None = STOP_TIMEOUT_S) -> int:
    """Ask the supervisor to stop and wait until its process is gone; answers its pid.

    Args:
        drain: running jobs end first.
        timeout_s: None waits for ever.

    Raises:
        TqError: NO_SUPERVISOR when none runs, SUPERVISOR_SILENT when it does not answer, TIMEOUT when its
            process stays.
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
                f"the supervisor (pid {pid}) was asked to stop but still runs after {timeout_s:.0f} s",
                f"look at {current_home().supervisor_log}; as a last resort: kill -9 {pid}",
            )
    finally:
        gone.close()
    return pid


class _Ending:
    """Waits for the end of one process; made while it lives, so a reused pid cannot mislead."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._fd: int | None = None
        try:
            # A supervisor in another pid namespace (a container) has no process here to watch.
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
