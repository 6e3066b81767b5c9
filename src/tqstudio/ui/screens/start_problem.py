"""Why no supervisor could be started, and what to do about it."""

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
from tqstudio.ui.text.format import plain

LOOK_S = 0.5
"""A supervisor that was started elsewhere meanwhile is noticed after so long."""


class StartProblem(Dialog[str | None]):
    """Answers the action to carry out; None for none."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("S", "dismiss('start')", "try again", id="problem.start"),
        Binding("q,ctrl+c", "dismiss('leave')", "leave", id="problem.leave"),
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
            yield Label(Text("S tries again · esc closes this · q leaves"), classes="hint")

    def on_mount(self) -> None:
        self.set_interval(LOOK_S, self._look)

    def _look(self) -> None:
        if self._model.up and self.is_current:
            self.dismiss(None)
