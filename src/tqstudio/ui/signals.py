"""Signal handling: restores the terminal on exit and on stop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from textual.app import App

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)
STOPPING = (signal.SIGTSTP, signal.SIGCONT)
END_S = 3.0
"""Time limit of an orderly exit, which a terminal that accepts no output can block forever."""


class Signals:
    """Installs Python-level handlers, which also run while the event loop is blocked on terminal output.

    Calls `shown_again` when the app has the terminal again and its content is lost.
    """

    def __init__(self, app: App[Any], shown_again: Callable[[], None]) -> None:
        self._app, self._shown_again = app, shown_again
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = False

    def __enter__(self) -> None:
        self._line = termios.tcgetattr(sys.stdin.fileno())
        self._before = {number: signal.getsignal(number) for number in (*ENDING, *STOPPING)}
        for number in ENDING:
            signal.signal(number, self._end)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def catch_stops(self) -> None:
        """Replace Textual's stop handlers; call this after it has installed them.

        They do not repaint, and after SIGSTOP they save the raw terminal mode as the one to restore.
        """
        self._loop = asyncio.get_running_loop()
        signal.signal(signal.SIGTSTP, partial(self._soon, self.suspend))
        signal.signal(signal.SIGCONT, partial(self._soon, partial(self.suspend, stop=False)))

    def suspend(self, *, stop: bool = True) -> None:
        """Release the terminal, stop until the shell continues this process, and take it again."""
        with self._app.suspend():
            if stop:
                _stop()
        self._shown_again()

    def lend(self, use: Callable[[], object]) -> None:
        """Let another program have the terminal; its ctrl+c does not end the app, ctrl+z stops neither."""
        ignored: dict[int, Any] = {
            signal.SIGINT: _nothing,
            signal.SIGQUIT: _nothing,
            signal.SIGTSTP: signal.SIG_IGN,
        }
        before = {number: signal.signal(number, handler) for number, handler in ignored.items()}
        try:
            with self._app.suspend():
                use()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        self._shown_again()

    def _soon(self, do: Callable[[], None], number: int, frame: FrameType | None) -> None:
        del number, frame
        assert self._loop is not None
        self._loop.call_soon_threadsafe(do)

    def _end(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._ending:
            return
        self._ending = True
        end = partial(self._app.exit, return_code=128 + number)
        if self._loop is None:
            # The app has not started its loop yet.
            self._app.call_later(end)
        else:
            self._loop.call_soon_threadsafe(end)
        watchdog = threading.Timer(END_S, self._end_now, [128 + number])
        watchdog.daemon = True
        watchdog.start()

    def _end_now(self, code: int) -> None:
        try:
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, self._line)
        finally:
            os._exit(code)


def _nothing(number: int, frame: FrameType | None) -> None:
    """A handler, as the program that is started would inherit that a signal is ignored."""


def _stop() -> None:
    """Stop the whole process group, as the terminal's ctrl+z does: also the program that started this one.

    The kernel ignores it in an orphaned group, which no shell could continue.
    """
    handlers = {number: signal.signal(number, signal.SIG_DFL) for number in STOPPING}
    try:
        os.kill(0, signal.SIGTSTP)
        # After `bg` the shell owns the terminal.
        while os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp():
            os.kill(0, signal.SIGSTOP)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
