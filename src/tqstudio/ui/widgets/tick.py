"""A check box that shows its state by a symbol, not only by colour."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.reactive import reactive
from textual.widget import Widget

from tqstudio.words.format import plain
from tqstudio.words.symbols import Glyphs


class Tick(Widget, can_focus=True):
    DEFAULT_CSS = """
    Tick { height: 1; width: 1fr; }
    Tick:focus { background: $panel; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "choose", "toggle", show=False, id="tick.toggle"),
    ]
    value = reactive(False)

    def __init__(
        self, text: str, glyphs: Glyphs, *, value: bool, name: str = "", id: str | None = None
    ) -> None:
        super().__init__(name=name, id=id)
        self._text = plain(text)
        self._glyphs = glyphs
        self.set_reactive(Tick.value, value)

    def render(self) -> Text:
        return Text(f"{self._glyphs.checked if self.value else self._glyphs.unchecked} {self._text}")

    def action_choose(self) -> None:
        self.value = not self.value

    def on_click(self) -> None:
        self.action_choose()
