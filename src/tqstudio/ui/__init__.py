"""The terminal UI. It imports the client and the protocol, never the engine."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subprocess import Popen

    from tqstudio.home import Home
    from tqstudio.protocol.calls import ApiClient
    from tqstudio.ui.data.tips import Tip

NO_TERMINAL = (
    "The terminal UI needs a terminal; without one use `tqstudio status`, or any command with --json."
)
_GC_THRESHOLDS = 2_000, 5, 5
"""A closed page is a cycle of widgets: the commands' threshold of 10 000 objects keeps 150 MB of them."""


def run(
    client_factory: Callable[[], ApiClient],
    *,
    home: Home,
    notice: str = "",
    tips: Sequence[Tip] = (),
    started: Popen[bytes] | None = None,
    remote: Callable[[], str] = lambda: "",
    exit_message: str = "",
    read_only_view: str | None = None,
) -> int:
    """Run the UI until the user quits; returns the exit code.

    Args:
        client_factory: creates the connection to the supervisor; called again after a lost connection.
        notice: a sentence shown first, such as that a supervisor is being started.
        tips: actions to try, shown until each was tried.
        started: the supervisor that was just started.
        remote: returns the name of the studio on another machine; empty for that of the home.
        read_only_view: the view of a read-only screen.
        exit_message: printed at exit; empty when the caller stops the supervisor.

    Raises:
        TqError: no supervisor could be started, and the user quit because of it.
    """
    # Textual reads stdin and draws on stderr; a stdout that is a pipe asks for plain text.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        print(NO_TERMINAL, file=sys.stderr)
        return 2
    if os.environ.get("SSH_CONNECTION"):
        # Animations cost bandwidth over SSH.
        os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    # Drawing the first picture allocates much and frees little, so collection is off until then.
    gc.disable()
    # Imported here, so that a missing terminal is reported without loading Textual.
    from tqstudio.ui.app import StudioApp

    app = StudioApp(
        client_factory,
        home=home,
        notice=notice,
        tips=tips,
        view=read_only_view,
        read_only=read_only_view is not None,
        started=started,
        remote=remote,
        painted=_collect_garbage,
    )
    with app.signals:
        app.run()
    runs = app.context.model.up or (started is not None and started.poll() is None)
    if app.problem is not None and not app.context.model.up:
        raise app.problem
    if app.return_code == 0 and exit_message and runs:
        print(exit_message)
    return app.return_code or 0


def _collect_garbage() -> None:
    """Enable garbage collection; objects created so far are exempt."""
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()
