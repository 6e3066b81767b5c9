"""Dialogs: confirmation, choice of qualities, priority."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import Button, Input, Label

from tqstudio.ui.widgets.tick import Tick
from tqstudio.words.format import counted, plain
from tqstudio.words.symbols import Glyphs

MIN_PRIORITY, MAX_PRIORITY = -1000, 1000
"""Limits enforced by the supervisor."""


class Dialog(ModalScreen[ScreenResultType]):
    """A centred box. Its style sheet is parsed with the first dialog, to draw the first picture sooner."""

    CSS_PATH = Path(__file__).with_name("dialogs.tcss")


class Confirm(Dialog[bool]):
    """Asks before work is discarded. The safe answer is the default, and what escape chooses."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "answer(False)", "keep", id="confirm.keep"),
        Binding("y", "answer(True)", "yes", id="confirm.yes"),
        Binding("left,h,up", "app.focus_previous", "previous", show=False, id="confirm.previous"),
        Binding("right,l,down", "app.focus_next", "next", show=False, id="confirm.next"),
    ]
    AUTO_FOCUS = "#keep"

    def __init__(self, title: str, sentences: Sequence[str], *, keep: str, go: str) -> None:
        super().__init__()
        self._title = title
        self._sentences = sentences
        self._keep = keep
        self._go = go

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(Text(plain(self._title)), classes="title")
            for sentence in self._sentences:
                yield Label(Text(plain(sentence)), classes="sentence")
            with Horizontal(classes="buttons"):
                yield Button(Text(f"{self._keep}"), id="keep", compact=True)
                yield Button(Text(f"{self._go}"), id="go", variant="error", compact=True)
            yield Label(Text("enter takes the highlighted answer · y yes · esc keeps"), classes="hint")

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "go")


class ChooseQualities(Dialog[list[str] | None]):
    """Asks which qualities to encode again; those encoded before are preselected.

    Args:
        qualities: name → why it was not encoded; "" where it was.
        unknown: number of jobs whose possible qualities are unknown; all of theirs are encoded.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "back", id="qualities.back"),
        Binding("enter", "submit", "encode", priority=True, id="qualities.go"),
        Binding("a", "all", "all or none", id="qualities.all"),
        Binding("up,k", "app.focus_previous", "previous", show=False, id="qualities.previous"),
        Binding("down,j", "app.focus_next", "next", show=False, id="qualities.next"),
    ]
    AUTO_FOCUS = "Tick"

    def __init__(self, title: str, qualities: Mapping[str, str], glyphs: Glyphs, unknown: int = 0) -> None:
        super().__init__()
        self._unknown = unknown
        self._glyphs = glyphs
        self._title = title
        self._qualities = qualities

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(Text(plain(self._title)), classes="title")
            yield Label(Text("The current version stays playable meanwhile."), classes="sentence")
            if self._unknown:
                jobs = counted(self._unknown, "job")
                sentence = f"The qualities of {jobs} are unknown: all of them are encoded."
                yield Label(Text(sentence), classes="sentence")
            with Vertical(classes="ticks"):
                for name, left_out in self._qualities.items():
                    text = f"{name} – {left_out}" if left_out else name
                    yield Tick(text, self._glyphs, value=not left_out, name=name)
            yield Problem()
            yield Label(Text("space selects · a all or none · enter starts · esc back"), classes="hint")

    def action_all(self) -> None:
        boxes = list(self.query(Tick))
        value = not all(box.value for box in boxes)
        for box in boxes:
            box.value = value

    def action_submit(self) -> None:
        chosen = [box.name or "" for box in self.query(Tick) if box.value]
        if chosen:
            self.dismiss(chosen)
        else:
            self.query_one(Problem).set_text("select at least one quality, or esc to go back")


class AskPriority(Dialog[int | None]):
    """Asks for a priority."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "back", id="priority.back")]

    def __init__(self, title: str, value: int) -> None:
        super().__init__()
        self._title = title
        self._value = value

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(Text(plain(self._title)), classes="title")
            sentence = f"Higher numbers run first; {MIN_PRIORITY} to {MAX_PRIORITY}."
            yield Label(Text(sentence), classes="sentence")
            yield Input(str(self._value), compact=True)
            yield Problem()
            yield Label(Text("enter sets it · esc back"), classes="hint")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        typed = event.value.strip()
        try:
            value = int(typed)
        except ValueError:
            self.query_one(Problem).set_text(
                f"{typed!r} is not a whole number" if typed else "type a whole number"
            )
            return
        if MIN_PRIORITY <= value <= MAX_PRIORITY:
            self.dismiss(value)
        else:
            limit = f"at most {MAX_PRIORITY}" if value > 0 else f"at least {MIN_PRIORITY}"
            self.query_one(Problem).set_text(f"{value} is out of range: {limit}")


class Remark(Label):
    """A label that is hidden while it is empty."""

    def set_text(self, text: str) -> None:
        self.update(Text(plain(text)))
        self.display = bool(text)


class Problem(Remark):
    """An error about the typed text."""

    DEFAULT_CSS = """
    Problem { display: none; color: $error; margin-top: 1; }
    """


class Caution(Remark):
    """A warning about the field above it."""

    DEFAULT_CSS = """
    Caution { display: none; color: $warning; padding-left: 9; }
    """
