"""The menu of the orders of the job list."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from tqstudio.protocol.filters import SORTS
from tqstudio.ui.data.query import SORT_NAMES
from tqstudio.ui.screens.dialogs.dialogs import Dialog
from tqstudio.ui.widgets.job_list import sort_arrow


class ChooseSort(Dialog[str | None]):
    """Asks for one of `SORTS`; that of the list is highlighted, and has its arrow."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "back", id="sort.back"),
        Binding("j", "app.simulate_key('down')", "down", show=False, id="sort.down"),
        Binding("k", "app.simulate_key('up')", "up", show=False, id="sort.up"),
    ]
    HINT = "enter sorts; the present order is turned round   esc back"

    def __init__(self, sort: str) -> None:
        super().__init__("Sort by")
        self._sort = sort

    def body(self) -> ComposeResult:
        by = self._sort.removeprefix("-")
        options = [
            Option(Text(f"{SORT_NAMES.get(each, each)} {sort_arrow(self._sort) if each == by else ''}"), each)
            for each in SORTS
        ]
        yield OptionList(*options, compact=True)

    def on_mount(self) -> None:
        self.query_one(OptionList).highlighted = SORTS.index(self._sort.removeprefix("-"))

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)
