"""Questions: whether to lose work, which qualities, which priority."""

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

from tqstudio.ui.text.format import counted, plain
from tqstudio.ui.text.symbols import Glyphs
from tqstudio.ui.widgets.tick import Tick

MIN_PRIORITY, MAX_PRIORITY = -1000, 1000
"""What the supervisor accepts."""


class Dialog(ModalScreen[ScreenResultType]):
    """A box in the middle. Its style is read with the first one: the first picture needs it not."""

    CSS_PATH = Path(__file__).with_name("dialogs.tcss")


class Confirm(Dialog[bool]):
    """Asks before work is lost. The harmless answer is the default, and what escape means."""

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
            yield Label(Text("enter takes the marked answer · y yes · esc keeps"), classes="hint")

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "go")


class ChooseQualities(Dialog[list[str] | None]):
    """Which qualities to make again; at first those are chosen that were made.

    Args:
        qualities: name → why it was not made; "" where it was.
        unknown: jobs of which nobody here knows what they can have; of these all is made.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "back", id="qualities.back"),
        Binding("enter", "submit", "make them", priority=True, id="qualities.go"),
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
            yield Label(Text("The present version plays on until the new one is done."), classes="sentence")
            if self._unknown:
                jobs = counted(self._unknown, "job")
                sentence = f"Which qualities {jobs} can have is not known here: all of theirs are made."
                yield Label(Text(sentence), classes="sentence")
            with Vertical(classes="ticks"):
                for name, left_out in self._qualities.items():
                    text = f"{name} – {left_out}" if left_out else name
                    yield Tick(text, self._glyphs, value=not left_out, name=name)
            yield Problem()
            yield Label(Text("space chooses · a all or none · enter starts · esc back"), classes="hint")

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
            self.query_one(Problem).say("choose at least one quality, or esc to go back")


class AskPriority(Dialog[int | None]):
    """A number; a higher one is worked on first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "back", id="priority.back")]

    def __init__(self, title: str, value: int) -> None:
        super().__init__()
        self._title = title
        self._value = value

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(Text(plain(self._title)), classes="title")
            sentence = f"Higher is worked on first; {MIN_PRIORITY} to {MAX_PRIORITY}."
            yield Label(Text(sentence), classes="sentence")
            yield Input(str(self._value), compact=True)
            yield Problem()
            yield Label(Text("enter sets it · esc back"), classes="hint")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        said = event.value.strip()
        try:
            value = int(said)
        except ValueError:
            self.query_one(Problem).say(f"{said!r} is no whole number" if said else "type a whole number")
            return
        if MIN_PRIORITY <= value <= MAX_PRIORITY:
            self.dismiss(value)
        else:
            way = f"at most {MAX_PRIORITY}" if value > 0 else f"at least {MIN_PRIORITY}"
            self.query_one(Problem).say(f"{value} is not possible: {way}")


class Remark(Label):
    """Takes no room while it says nothing."""

    def say(self, text: str) -> None:
        self.update(Text(plain(text)))
        self.display = bool(text)


class Problem(Remark):
    """What is wrong with what was typed."""

    DEFAULT_CSS = """
    Problem { display: none; color: $error; margin-top: 1; }
    """


class Caution(Remark):
    """What to know about the field above it."""

    DEFAULT_CSS = """
    Caution { display: none; color: $warning; padding-left: 9; }
    """
