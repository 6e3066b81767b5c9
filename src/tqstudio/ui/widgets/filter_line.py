"""The input line of the filter; the list is updated during typing."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input

SETTLE_S = 0.15
"""Seconds without typing before the list is requested."""


class FilterLine(Input):
    """An input that is visible while it has the class `open`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", show=False, id="filter.leave"),
    ]

    class Typed(Message):
        """The text changed; `final` after enter."""

        def __init__(self, value: str, *, final: bool) -> None:
            super().__init__()
            self.value = value
            self.final = final

    class Left(Message):
        """Escape was pressed: the filter is discarded."""

    def __init__(self) -> None:
        super().__init__(
            id="filter",
            compact=True,
            placeholder="words in the name, or state:failed,paused",
            select_on_focus=False,
        )
        self._timer: Timer | None = None
        self._before = ""

    def open(self, value: str) -> None:
        self._before = value
        self.value = value
        self.cursor_position = len(value)
        self.add_class("open")
        self.focus()

    def close(self) -> None:
        self._forget()
        self.remove_class("open")

    def show_error(self, text: str) -> None:
        self.set_class(bool(text), "wrong")

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if not self.has_class("open") or event.value == self._before:
            return
        self._before = event.value
        self._forget()
        value = event.value
        self._timer = self.set_timer(
            SETTLE_S, lambda: self.post_message(self.Typed(value, final=False)) and None
        )

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._forget()
        self.post_message(self.Typed(event.value, final=True))

    def action_leave(self) -> None:
        self._forget()
        self.post_message(self.Typed("", final=True))
        self.post_message(self.Left())

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
