"""The help screen: the keys of a view, from the registry."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Label

from tqstudio.ui.actions.registry import Action, View, actions_of, key_sign
from tqstudio.ui.look.line import wrap
from tqstudio.ui.screens.dialogs.dialogs import Dialog

KEYS_WIDTH = 13
TEXT_WIDTH = 50
"""Maximal width of a help text."""
TWO_COLUMNS = 118
BOX_WIDTH = 134
_SHARED = {"Move": 1, "Everywhere": 2}
"""Groups that come after those of the view."""
FRAME = 9
"""Cells taken by border, padding and scroll bar of the box."""


class HelpScreen(Dialog[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "dismiss(None)", "close", id="help.close"),
        Binding("j", "scroll_by(1)", show=False, id="help.down"),
        Binding("k", "scroll_by(-1)", show=False, id="help.up"),
    ]
    AUTO_FOCUS = "VerticalScroll"

    def __init__(self, view: View) -> None:
        super().__init__(f"Keys of the view: {view}")
        self._view = view

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog help"):
            # Above the keys, because there may be more of them than lines.
            how = ("   esc closes   j k scroll", "not bold dim")
            yield Label(Text.assemble(self._title, how), classes="title")
            with Horizontal():
                yield Label(id="left")
                yield Label(id="right")

    def on_mount(self) -> None:
        self._lay_out(self.app.size.width)

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out(event.size.width)

    def _lay_out(self, width: int) -> None:
        left, right = _columns(actions_of(self._view), width)
        self.query_one("#left", Label).update(left)
        self.query_one("#right", Label).update(right)
        self.query_one("#right").display = bool(right)

    def action_scroll_by(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)


def _columns(actions: list[Action], width: int) -> tuple[Text, Text]:
    """The help in one or two columns; the second one is empty in a narrow terminal."""
    two = width >= TWO_COLUMNS
    room = (min(BOX_WIDTH, width * 94 // 100) - FRAME) // (2 if two else 1)
    groups: dict[str, list[Action]] = {}
    for action in sorted(actions, key=lambda action: _SHARED.get(action.group, 0)):
        groups.setdefault(action.group, []).append(action)
    blocks = [_block(group, of_group, room) for group, of_group in groups.items()]
    if not two:
        return Text("\n\n").join(blocks), Text()
    return _halves(blocks, max(1, sum(len(of_group) + 2 for of_group in groups.values()) // 2))


def _block(group: str, actions: list[Action], width: int) -> Text:
    lines = [Text(group, style="bold")]
    for action in actions:
        keys = " ".join(key_sign(key) for key in action.keys)
        for at, part in enumerate(wrap(action.help, min(TEXT_WIDTH, width - KEYS_WIDTH - 2))):
            lines.append(Text(f"  {'' if at else keys:<{KEYS_WIDTH}}{part}"))
    return Text("\n").join(lines)


def _halves(blocks: list[Text], half: int) -> tuple[Text, Text]:
    """Distribute the blocks over two columns of about equal height."""
    left: list[Text] = []
    height = 0
    while blocks and height < half:
        left.append(blocks.pop(0))
        height += left[-1].plain.count("\n") + 2
    return Text("\n\n").join(left), Text("\n\n").join(blocks)
