"""Dialog that adds a worker: one more of this machine, or one of another by a command that is run there."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Button, Label

from tqstudio.errors import TqError
from tqstudio.home import Home
from tqstudio.protocol import remote
from tqstudio.ui.screens.dialogs.dialogs import Dialog

_TOKEN = "tqstudio token create fleet --role join > fleet.token"


class AddWorker(Dialog[str | None]):
    """Answers `here`, or the command to copy; None to do nothing.

    Args:
        kept: how the number of workers here is kept.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "back", id="worker.back"),
        Binding("left,up", "app.focus_previous", "previous", show=False, id="worker.previous"),
        Binding("right,down", "app.focus_next", "next", show=False, id="worker.next"),
    ]
    AUTO_FOCUS = "#here"
    BOX = "dialog wide"
    HINT = "enter takes the highlighted answer   esc back"

    def __init__(self, home: Home, kept: str) -> None:
        super().__init__("Add a worker", f"Here: one more CPU worker, until the supervisor ends; {kept}.")
        self._home = home
        self._command = ""

    def body(self) -> ComposeResult:
        yield Label("On another machine:", id="elsewhere", classes="step")
        yield Label("", id="command")
        with Horizontal(classes="buttons"):
            yield Button("Start one here", id="here", compact=True)
            yield Button("Copy the command", id="copy", compact=True, disabled=True)

    async def on_mount(self) -> None:
        try:
            self._command = await asyncio.to_thread(_command, self._home)
            about = "On another machine: run the first command here, copy its file there, run the second."
            lines = f"\n{_TOKEN}\n{self._command}"
        except TqError as error:
            about, lines = f"On another machine: {error.message}.", f"\n{error.hint}"
        self.query_one("#elsewhere", Label).update(Text(about))
        self.query_one("#command", Label).update(Text(lines))
        self.query_one("#copy", Button).disabled = not self._command

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss("here" if event.button.id == "here" else self._command)


def _command(home: Home) -> str:
    """The command for another machine; raises TqError if this one cannot be reached from there."""
    if named := remote.named():
        return f"tqstudio --connect {named} --token-file fleet.token worker run"
    from tqstudio.config import load_settings
    from tqstudio.errors import ErrorCode

    settings = load_settings(home)
    if not settings.listen:
        what = "workers there need the setting listen, so that they reach this one"
        raise TqError(ErrorCode.BAD_CONFIG, what, "docs/fleet.md has the steps")
    host = settings.hosts.split(",")[0].strip() or socket.gethostname()
    port = settings.listen.rpartition(":")[2]
    scheme, ca = (
        ("https", f" --ca {os.path.basename(settings.tls_cert)}") if settings.tls_cert else ("http", "")
    )
    return f"tqstudio --connect {scheme}://{host}:{port} --token-file fleet.token{ca} worker run"
