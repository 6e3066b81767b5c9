"""The `?` menu: what can be done in a view, with its keys; then the signs and the syntax of the filter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from tqstudio.ui.actions.registry import JOBS, Action, actions_of, obstacle
from tqstudio.ui.data.keys import key_sign
from tqstudio.ui.look.line import wrap
from tqstudio.ui.screens.dialogs.dialogs import Dialog, Problem
from tqstudio.ui.screens.frame.base import StudioScreen
from tqstudio.ui.screens.job.actions import JobActions
from tqstudio.ui.screens.job.result import no_result

KEYS_WIDTH = 13
BOX_WIDTH = 84
FRAME = 8
"""Cells taken by border, padding and scroll bar of the box."""
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
MOVES = {"down": "cursor_down", "up": "cursor_up", "pagedown": "page_down", "pageup": "page_up"}
Chosen = tuple[str, str]
"""An action and its argument."""


@dataclass(frozen=True, slots=True)
class _Line:
    """`does` is what choosing the line carries out, None for an explanation; `why_not` is why it cannot."""

    group: str
    name: str
    meaning: str
    does: Chosen | None = None
    why_not: str = ""
    style: Style | None = None

    def has(self, words: list[str]) -> bool:
        text = f"{self.group} {self.name} {self.meaning} {self.does[0] if self.does else ''}".lower()
        return all(word in text for word in words)


class HelpScreen(Dialog[Chosen | None]):
    """Lists what the view below can do; the answer is what was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "close", id="help.close"),
        *(Binding(key, f"move('{how}')", show=False, id=f"help.{how}") for key, how in MOVES.items()),
    ]
    AUTO_FOCUS = "Input"
    HINT = "enter does it, esc closes"

    def __init__(self, below: StudioScreen) -> None:
        super().__init__(f"What can be done here: {below.VIEW}")
        self._lines = list(_lines_of(below))
        self._shown: list[_Line] = []
        self._faint = below.context.vivid.faint

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog help") as box:
            box.border_title, box.border_subtitle = self._title, self.HINT
            yield Input(placeholder="type to find", compact=True)
            options = OptionList(markup=False, compact=True)
            options.can_focus = False
            yield options
            yield Problem()

    def on_resize(self, event: events.Resize) -> None:
        self._fill(event.size.width)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        if "?" in event.value:
            # The key that opened the menu closes it.
            self.dismiss(None)
        else:
            self._fill(self.app.size.width)

    def _fill(self, width: int) -> None:
        """List the lines that have every typed word, under their groups."""
        words = self.query_one(Input).value.lower().split()
        self._shown = [line for line in self._lines if line.has(words)]
        room = min(BOX_WIDTH, width * 94 // 100) - FRAME
        options, group, found = self.query_one(OptionList), "", list[Option]()
        for at, line in enumerate(self._shown):
            if line.group != group:
                group = line.group
                found.append(Option(Text(group, style="bold"), disabled=True))
            found.append(Option(self._text(line, room), id=str(at), disabled=line.does is None))
        options.set_options(found or [Option("nothing here has these words", disabled=True)])
        options.action_first()
        options.scroll_home(animate=False)
        self.query_one(Problem).set_text("")

    def _text(self, line: _Line, room: int) -> Text:
        # In words too, as not every terminal shows what is dim.
        parts = wrap(line.meaning + ("; not now" if line.why_not else ""), room - KEYS_WIDTH - 2)
        text = Text(f"  {line.name:<{KEYS_WIDTH}}", style=self._faint if line.why_not else line.style or "")
        text.append(f"\n{'':<{KEYS_WIDTH + 2}}".join(parts), "" if line.style is None else "default")
        return text

    def action_move(self, how: str) -> None:
        getattr(self.query_one(OptionList), f"action_{how}")()
        self.query_one(Problem).set_text("")

    @on(Input.Submitted)
    def _entered(self) -> None:
        self.query_one(OptionList).action_select()

    @on(OptionList.OptionSelected)
    def _chose(self, event: OptionList.OptionSelected) -> None:
        line = self._shown[int(event.option_id or 0)]
        if line.why_not:
            self.query_one(Problem).set_text(line.why_not)
        else:
            self.dismiss(line.does)


def _lines_of(below: StudioScreen) -> Iterator[_Line]:
    """The actions of the view by group, own commands, signs, and what its filter understands."""
    context, view = below.context, below.VIEW
    for action in sorted(
        actions_of(view, read_only=context.read_only), key=lambda action: _SHARED.get(action.group, 0)
    ):
        keys = " ".join(map(key_sign, context.keys.of(view, action.name)))
        yield _Line(action.group, keys, action.help, (action.name, ""), _why_not(below, action))
    for key, command in context.keys.commands.items() if view in JOBS else ():
        yield _Line("Your own commands", key_sign(key), command.run, ("own_command", key))
    for state, word in SIGNS.items():
        yield _Line("Signs", context.glyphs.states[state], word, style=context.vivid.states[state])
    for name, meaning in FILTER if view == "queue" else ():
        yield _Line("Filter", name, meaning)


def _why_not(below: StudioScreen, action: Action) -> str:
    """Why an action cannot act now, as far as that is known here; empty if it can."""
    model = below.context.model
    if action.name == "start" and model.up:
        return "the supervisor is already running"
    if action.name == "unmark" and not below.marked():
        return "no job is marked"
    if action.name == "open_result" and isinstance(below, JobActions):
        return no_result(below.current())
    if action.group == "Folder" and model.remote:
        return f"drop folders are changed on the machine of {model.remote}"
    return obstacle(action, below.footer_targets()) if below.VIEW in JOBS else ""
