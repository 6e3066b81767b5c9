"""`tqstudio` alone: the terminal UI."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tqstudio.errors import ErrorCode, TqError
from tqstudio.home import Home, current_home

if TYPE_CHECKING:
    from subprocess import Popen

    from tqstudio.protocol.client import AsyncClient


def has_terminal() -> bool:
    """Whether there is a terminal to draw on and to read keys from."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def open_screen() -> int:
    """Show the UI; a supervisor is started beside it when none runs.

    Raises:
        TqError: BAD_REQUEST without a terminal; nothing has been started then. Why no supervisor could be
            started, where the person left because of that.
    """
    if not has_terminal():
        raise TqError(
            ErrorCode.BAD_REQUEST,
            "the terminal UI needs a terminal, and this is none",
            "use the commands instead, such as tqstudio status; see: tqstudio --help",
        )
    from tqstudio.cli import session_lock
    from tqstudio.protocol import launch

    home = current_home()
    session_lock.enter(home)
    started = None if launch.listening(home) else launch.start(home)
    return show(home, "no supervisor was running: one is being started" if started else "", started=started)


def show(home: Home, notice: str = "", *, started: Popen[bytes] | None = None, stops: bool = False) -> int:
    """Run the UI until it is left. It connects by itself, so it need not be waited for.

    Args:
        started: the supervisor that has just been started; why it could not is shown.
        stops: the caller stops the supervisor afterwards.
    """
    from tqstudio import ui

    def door() -> AsyncClient:
        from tqstudio.protocol.client import AsyncClient

        return AsyncClient(home.socket)

    return ui.run(
        door, home=home, notice=notice, started=started, exit_message="" if stops else ui.EXIT_MESSAGE
    )
