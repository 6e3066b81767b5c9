"""Connects to, starts and stops the supervisor for commands."""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING

from tqstudio.cli.terminal import printing
from tqstudio.errors import UNANSWERED, ErrorCode, TqError
from tqstudio.home import current_home
from tqstudio.protocol import calls, remote
from tqstudio.protocol.client import Client

if TYPE_CHECKING:
    from tqstudio.engine.store.db.connection import Connection
    from tqstudio.protocol.answers import JobRow, KeepAliveReason

PAGE = 200
_NEEDS: Mapping[KeepAliveReason, str] = {
    "stay": "the terminal UI or `tqstudio up` asked for it",
    "commands": "another command uses it",
    "jobs": "other jobs are open",
    "uploads": "ladders are being copied to their buckets",
}
STOP_TIMEOUT_S = 20.0


@dataclass(slots=True)
class SupervisorSession:
    """A supervisor that answers.

    As a context manager it turns SIGTERM into Ctrl-C. At the end the supervisor, if it was started for a run,
    shuts down unless it is needed by another command, or for an open job that is not this command's.
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
        """Whether this command started it, and therefore waits for it to shut down."""
        return self.process is not None

    def __enter__(self) -> SupervisorSession:
        signal.signal(signal.SIGTERM, _as_interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        needed_by: KeepAliveReason | None = None
        try:
            own = self.own_home or all(map(self._is_own, every_job(self.client, "state:running,pending")))
            needed_by = self.client.send(calls.leave(os.getpid(), ignores_jobs=own))["needed_by"]
        except TqError as error:
            if error.code not in UNANSWERED:
                raise
            if error.code is ErrorCode.SUPERVISOR_NOT_RESPONDING:
                # The result of the command is not affected; it was already printed.
                printing.err(printing.error_lines(error.code, error.message, error.hint))
                return
        if self.process is None:
            return
        if needed_by is not None:
            printing.err(
                f"the supervisor (pid {self.process.pid}) keeps running: {_NEEDS[needed_by]};"
                f" stop it with: {home_command('down')}"
            )
            return
        self.process.wait()
        self.stopped = True

    def _is_own(self, row: JobRow) -> bool:
        return row["id"] in self.jobs or (self.batch != "" and row["batch"] == self.batch)


def _as_interrupt(signum: int, frame: FrameType | None) -> None:
    del signum, frame
    raise KeyboardInterrupt


def home_command(verb: str) -> str:
    """The command line that runs a command on this home, from any shell."""
    home = ["--home", str(current_home().root)] if os.environ.get("TQSTUDIO_HOME") else []
    return shlex.join(["tqstudio", *home, verb])


def every_job(at: Client, line: str, sort: str = "order") -> Iterator[JobRow]:
    """Iterate over all jobs that match a filter line, page by page."""
    after = None
    while True:
        page = at.send(calls.jobs(line, sort=sort, limit=PAGE, after=after))
        yield from page["jobs"]
        after = page["after"]
        if after is None:
            return


def client() -> Client:
    """A client of the supervisor that `--connect` names, else of that in the home, running or not."""
    return Client(remote.chosen() or current_home().socket)


def listening() -> bool:
    """Whether a supervisor runs in the current home, or one of another machine is used."""
    from tqstudio.protocol import running

    return remote.is_chosen() or running.listening(current_home())


def session(
    flags: Sequence[str] = (), *, for_this_run: bool = False, quiet: bool = False, stay: bool = False
) -> SupervisorSession:
    """Connect to the supervisor; starts and reports one in the background if none is running.

    That of another machine is only connected to. Until this command ends it does not shut down when idle.

    Args:
        flags: options of `tqstudio up`, if one is started.
        for_this_run: the caller uses the session as a context manager; a supervisor that is started for it
            shuts down when idle.
        quiet: the caller reports the start itself.
        stay: a running supervisor, too, does not shut down when idle any more.
    """
    from tqstudio.protocol import launch

    if remote.is_chosen():
        return SupervisorSession(client())
    home = current_home()
    process = None
    while (running := launch.join(home, stay=stay)) is None:
        process = launch.start(home, [*flags, "--until-idle"] if for_this_run else flags)
        launch.wait_until_up(home, process)
    pid = running["pid"]
    if running["draining"]:
        printing.err(
            f"the supervisor (pid {pid}) is draining: it exits after its running jobs,"
            f" and pending jobs continue after the next start: {home_command('up')}"
        )
    if process is None or pid != process.pid:
        # Another command was faster: this is its supervisor.
        return SupervisorSession(client())
    if for_this_run:
        printing.err(f"no supervisor was running: started one for this run (pid {pid})")
    elif not quiet:
        printing.err(
            f"no supervisor was running: started one in the background (pid {pid});"
            f" stop it with: {home_command('down')}"
        )
    return SupervisorSession(client(), process)


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
    from contextlib import closing

    from sqlalchemy.exc import DBAPIError

    from tqstudio.config import load_settings
    from tqstudio.engine.store.db.connection import address_of, connect, is_there
    from tqstudio.protocol import running

    home = current_home()
    if remote.is_chosen() or running.holder(home) is not None:
        return True
    address = address_of(home, load_settings(home))
    if not is_there(address):
        return False
    try:
        with closing(connect(address, read_only=True)) as db:
            return known(db)
    except DBAPIError:
        return True  # an earlier schema, or damage: the start reports which


def stop(at: Client, *, drain: bool = False, timeout_s: float | None = STOP_TIMEOUT_S) -> int:
    """Shut the supervisor down and wait until its process is gone; returns its pid.

    Args:
        drain: finish running jobs first.
        timeout_s: None waits without limit.

    Raises:
        TqError: NO_SUPERVISOR if none is running, SUPERVISOR_NOT_RESPONDING if it does not answer,
            TIMEOUT if its process does not exit.
    """
    from tqstudio.protocol import launch
    from tqstudio.protocol.client import no_supervisor

    home = current_home()
    running = launch.join(home)
    if running is None:
        raise no_supervisor(home.socket)
    # Its own number is that of another process here if it runs in a container.
    pid = launch.listener(home)
    with contextlib.ExitStack() as opened:
        gone = None
        # Opened while it runs, so that a reused pid cannot mislead.
        with contextlib.suppress(OSError):
            gone = opened.enter_context(open(os.pidfd_open(pid), "rb", buffering=0)) if pid else None
        at.send(calls.shutdown(drain=drain))
        if gone is None:
            ended = launch.wait_until_released(home, timeout_s)
        else:
            ended = bool(select.select([gone], [], [], timeout_s)[0])
    if ended:
        return pid or running["pid"]
    where = f"pid {pid}" if pid else f"pid {running['pid']} in its container"
    raise TqError(
        ErrorCode.TIMEOUT,
        f"the supervisor ({where}) was asked to stop but is still running after {timeout_s:.0f} s",
        f"see {home.supervisor_log}" + (f"; as a last resort: kill -9 {pid}" if pid else ""),
    )
