"""The keys of a view, straight from the registry."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Label

from tqstudio.ui.actions import Action, View, actions_of, key_sign
from tqstudio.ui.line import wrap
from tqstudio.ui.screens.dialogs import Dialog

KEYS_WIDTH = 13
TEXT_WIDTH = 50
"""The longest line of help; shorter where there is less room."""
TWO_COLUMNS = 118
BOX_WIDTH = 134
FRAME = 9
"""What border, padding, scroll bar and a blank take of the box."""


class HelpScreen(Dialog[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "dismiss(None)", "close", id="help.close"),
        Binding("j", "scroll_by(1)", show=False, id="help.down"),
        Binding("k", "scroll_by(-1)", show=False, id="help.up"),
    ]
    AUTO_FOCUS = "VerticalScroll"

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view: View = view

    def compose(self) -> ComposeResult:
        two = self.app.size.width >= TWO_COLUMNS
        room = (min(BOX_WIDTH, self.app.size.width * 94 // 100) - FRAME) // (2 if two else 1)
        groups: dict[str, list[Action]] = {}
        for action in actions_of(self._view):
            groups.setdefault(action.group, []).append(action)
        blocks = [_block(group, actions, room) for group, actions in groups.items()]
        with VerticalScroll(classes="dialog help"):
            yield Label(Text(f"Keys of the view: {self._view}"), classes="title")
            if two:
                half = max(1, sum(len(actions) + 2 for actions in groups.values()) // 2)
                left, right = _halves(blocks, half)
                with Horizontal():
                    yield Label(left)
                    yield Label(right)
            else:
                yield Label(Text("\n\n").join(blocks))
            yield Label(Text("esc closes · j k scroll"), classes="hint")

    def action_scroll_by(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)


def _block(group: str, actions: list[Action], width: int) -> Text:
    lines = [Text(group, style="bold")]
    for action in actions:
        keys = " ".join(key_sign(key) for key in action.keys)
        for at, part in enumerate(wrap(action.help, min(TEXT_WIDTH, width - KEYS_WIDTH - 2))):
            lines.append(Text(f"  {'' if at else keys:<{KEYS_WIDTH}}{part}"))
    return Text("\n").join(lines)


def _halves(blocks: list[Text], half: int) -> tuple[Text, Text]:
    """The blocks in two columns of about one height."""
    left: list[Text] = []
    height = 0
    while blocks and height < half:
        left.append(blocks.pop(0))
        height += left[-1].plain.count("\n") + 2
    return Text("\n\n").join(left), Text("\n\n").join(blocks)
