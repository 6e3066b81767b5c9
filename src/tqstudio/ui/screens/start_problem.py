"""Dialog that shows why no supervisor could be started."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Label

from tqstudio.errors import TqError
from tqstudio.ui.data.model import Model
from tqstudio.ui.screens.dialogs.dialogs import Dialog
from tqstudio.words.format import plain

CHECK_S = 0.5
"""Interval of checks for a supervisor that was started elsewhere."""


class StartProblem(Dialog[str | None]):
    """Shows the error; its result is the action to carry out, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("S", "dismiss('start')", "try again", id="problem.start"),
        Binding("q,ctrl+c", "dismiss('leave')", "quit", id="problem.leave"),
        Binding("escape", "dismiss(None)", "close", id="problem.close"),
    ]

    def __init__(self, problem: TqError, model: Model) -> None:
        super().__init__()
        self._problem, self._model = problem, model

    def compose(self) -> ComposeResult:
        problem = self._problem
        with Vertical(classes="dialog wide"):
            yield Label(Text("The supervisor cannot start"), classes="title")
            yield Label(Text(problem.code), classes="problem")
            yield Label(Text(plain(problem.message)))
            if problem.hint:
                yield Label(Text(plain(problem.hint)), classes="step")
            yield Label(Text("S tries again · esc closes this · q quits"), classes="hint")

    def on_mount(self) -> None:
        self.set_interval(CHECK_S, self._check)

    def _check(self) -> None:
        if self._model.up and self.is_current:
            self.dismiss(None)
