"""The help screen: signs, the syntax of the filter, and the keys of a view from the registry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Label

from tqstudio.ui.actions.registry import Action, View, actions_of, key_sign
from tqstudio.ui.data.context import Context
from tqstudio.ui.look.line import wrap
from tqstudio.ui.screens.dialogs.dialogs import Dialog

KEYS_WIDTH = 13
TEXT_WIDTH = 50
"""Maximal width of a help text."""
TWO_COLUMNS = 118
BOX_WIDTH = 134
SIGNS = {
    "pending": "pending",
    "running": "running",
    "paused": "paused",
    "held": "held",
    "retry": "retry",
    "changing": "requested",
    "done": "done",
    "failed": "failed",
    "cancelled": "cancelled",
    "skipped": "skipped",
    "warning": "warning",
    "viewable": "plays already",
    "stale": "not known",
}
"""The word of each state."""
SIGN_WIDTH = 15
FILTER = (
    ("word", "part of the name; several words must all match"),
    ("517", "the job of that number, if no name has it"),
    ("state:failed", "by state; also several: state:failed,paused"),
    ("!state:done", "none of these; ! turns any word round"),
    ("folder:films", "of a drop folder, by name or number"),
    ("code:any", "with an error; warning:any with a warning"),
    ("older:2d", "added longer ago; sources larger:2G, longer:1h"),
    ("profile:web", "also quality:, owner:, kind: and batch:"),
    ('"a: b"', "quotes make spaces and word: literal"),
)
_SHARED = {"Move": 1, "Everywhere": 2}
"""Groups that come after those of the view."""
FRAME = 9
"""Cells taken by border, padding and scroll bar of the box."""


class HelpScreen(Dialog[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "dismiss(None)", "close", id="help.close"),
        Binding("j", "scroll_by(1)", show=False, id="help.down"),
        Binding("k", "scroll_by(-1)", show=False, id="help.up"),
        Binding("g", "scroll_to_end(0)", show=False, id="help.top"),
        Binding("G", "scroll_to_end(1)", show=False, id="help.end"),
    ]
    AUTO_FOCUS = "VerticalScroll"

    def __init__(self, context: Context, view: View) -> None:
        super().__init__(f"Keys of the view: {view}")
        self.context = context
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
        two = width >= TWO_COLUMNS
        room = (min(BOX_WIDTH, width * 94 // 100) - FRAME) // (2 if two else 1)
        blocks = [_signs(self.context, room), *_blocks(self._view, room)]
        left, right = _halves(blocks) if two else (Text("\n\n").join(blocks), Text())
        self.query_one("#left", Label).update(left)
        self.query_one("#right", Label).update(right)
        self.query_one("#right").display = bool(right)

    def action_scroll_by(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_scroll_to_end(self, end: int) -> None:
        box = self.query_one(VerticalScroll)
        box.scroll_to(y=box.max_scroll_y * end, animate=False)


def _signs(context: Context, width: int) -> Text:
    """The signs of states with their words, as many in a line as fit."""
    text = Text("Signs", style="bold")
    in_line = max(1, (min(TEXT_WIDTH + KEYS_WIDTH, width) - 2) // SIGN_WIDTH)
    for at, (state, word) in enumerate(SIGNS.items()):
        text.append("  " if at % in_line else "\n  ", "not bold")
        text.append(context.glyphs.states[state], context.vivid.states[state] + Style(bold=False))
        text.append(f" {word:<{SIGN_WIDTH - 4}}", "not bold")
    return text


def _blocks(view: View, width: int) -> list[Text]:
    """What the filter of the view understands, then its keys by group."""
    groups: dict[str, list[Action]] = {}
    for action in sorted(actions_of(view), key=lambda action: _SHARED.get(action.group, 0)):
        groups.setdefault(action.group, []).append(action)
    found = [_block("Filter", FILTER, width)] if view == "queue" else []
    for group, actions in groups.items():
        keys = [(" ".join(map(key_sign, action.keys)), action.help) for action in actions]
        found.append(_block(group, keys, width))
    return found


def _block(title: str, lines: Iterable[tuple[str, str]], width: int) -> Text:
    found = [Text(title, style="bold")]
    for name, meaning in lines:
        for at, part in enumerate(wrap(meaning, min(TEXT_WIDTH, width - KEYS_WIDTH - 3))):
            found.append(Text(f"  {'' if at else name:<{KEYS_WIDTH}}{part}"))
    return Text("\n").join(found)


def _halves(blocks: list[Text]) -> tuple[Text, Text]:
    """Distribute the blocks over two columns of about equal height."""
    heights = [block.plain.count("\n") + 2 for block in blocks]
    left = min(range(len(blocks)), key=lambda at: max(sum(heights[:at]), sum(heights[at:])))
    return Text("\n\n").join(blocks[:left]), Text("\n\n").join(blocks[left:])
