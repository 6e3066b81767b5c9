"""The terminal UI. It knows the client and the shared vocabulary, never the engine."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subprocess import Popen

    from tqstudio.home import Home
    from tqstudio.protocol.calls import ApiClient

NO_TERMINAL = (
    "The terminal UI needs a terminal; use `tqstudio status`, or any command with --json, without one."
)
_GC_THRESHOLDS = 2_000, 5, 5
"""A closed page is a cycle of widgets: the commands' threshold of 10 000 objects keeps 150 MB of them."""
FAREWELL = "the engine goes on; tqstudio down stops it"


def run(
    door_factory: Callable[[], ApiClient],
    *,
    home: Home,
    notice: str = "",
    view: str = "queue",
    started: Popen[bytes] | None = None,
    farewell: str = FAREWELL,
) -> int:
    """Show the UI until the person leaves; answers the exit code.

    Args:
        door_factory: makes the way to the supervisor; called again after a lost connection.
        notice: a sentence that is shown at first, such as that a supervisor has just been started.
        started: the supervisor that has just been started.
        view: queue, workers, folders or history.
        farewell: what is printed when the person leaves; nothing when the caller stops the engine.

    Raises:
        TqError: why no supervisor could be started, where the person left because of that.
    """
    # Textual reads stdin and draws on stderr; stdout is asked for because a pipe there wants plain text.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        print(NO_TERMINAL, file=sys.stderr)
        return 2
    if os.environ.get("SSH_CONNECTION"):
        # Animations cost bandwidth and show nothing that a still picture does not.
        os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    # Until the first picture many objects are made and no garbage; not looking for it brings that sooner.
    gc.disable()
    # Textual is loaded only here: a missing terminal is told at once.
    from tqstudio.ui.app import StudioApp

    app = StudioApp(
        door_factory, home=home, notice=notice, view=view, started=started, painted=_collect_garbage
    )
    with app.signals:
        app.run()
    runs = app.studio.model.up or (started is not None and started.poll() is None)
    if app.problem is not None and not app.studio.model.up:
        raise app.problem
    if app.return_code == 0 and farewell and runs:
        print(farewell)
    return app.return_code or 0


def _collect_garbage() -> None:
    """From now on; what the start has made stays."""
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()
