"""Dialogs: confirmation, priority, a text, failed start; and what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.reactive import reactive
from textual.screen import ModalScreen, ScreenResultType
from textual.widget import Widget
from textual.widgets import Button, Input, Label

from tqstudio.errors import TqError
from tqstudio.ui.data.model import Model
from tqstudio.words.format import plain
from tqstudio.words.symbols import Glyphs

MIN_PRIORITY, MAX_PRIORITY = -1000, 1000
"""Limits enforced by the supervisor."""
CHECK_S = 0.5
"""Interval of checks for a supervisor that was started elsewhere."""


class Dialog(ModalScreen[ScreenResultType]):
    """A centred box: title, sentences, the widgets of `body`, and a hint about the keys.

    Its style sheet is parsed with the first dialog, to draw the first picture sooner.
    """

    CSS_PATH = Path(__file__).with_name("dialogs.tcss")
    BOX = "dialog"
    """Style classes of the box."""
    HINT: ClassVar[str]

    def __init__(self, title: str, *sentences: str) -> None:
        super().__init__()
        self._title, self._sentences = title, sentences

    def compose(self) -> ComposeResult:
        with Vertical(classes=self.BOX):
            yield Label(Text(plain(self._title)), classes="title")
            for sentence in self._sentences:
                yield Label(Text(plain(sentence)), classes="sentence")
            yield from self.body()
            yield Label(Text(self.HINT), classes="hint")

    def body(self) -> ComposeResult:
        raise NotImplementedError


class Confirm(Dialog[bool]):
    """Asks before work is discarded. The safe answer is the default, and what escape chooses."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "dismiss(False)", "keep", id="confirm.keep"),
        Binding("y", "dismiss(True)", "yes", id="confirm.yes"),
        Binding("left,h,up", "app.focus_previous", "previous", show=False, id="confirm.previous"),
        Binding("right,l,down", "app.focus_next", "next", show=False, id="confirm.next"),
    ]
    AUTO_FOCUS = "#keep"
    HINT = "enter takes the highlighted answer   y yes   esc keeps"

    def __init__(self, title: str, sentences: Sequence[str], *, keep: str, go: str) -> None:
        super().__init__(title, *sentences)
        self._keep, self._go = keep, go

    def body(self) -> ComposeResult:
        with Horizontal(classes="buttons"):
            yield Button(Text(self._keep), id="keep", compact=True)
            yield Button(Text(self._go), id="go", variant="error", compact=True)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "go")


def read_priority(typed: str) -> int:
    """The priority that was typed.

    Raises:
        ValueError: with a sentence, if it is none.
    """
    try:
        value = int(typed)
    except ValueError:
        raise ValueError(f"{typed!r} is not a whole number" if typed else "type a whole number") from None
    if MIN_PRIORITY <= value <= MAX_PRIORITY:
        return value
    limit = f"at most {MAX_PRIORITY}" if value > 0 else f"at least {MIN_PRIORITY}"
    raise ValueError(f"{value} is out of range: {limit}")


class AskPriority(Dialog[int | None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "back", id="priority.back")]
    HINT = "enter sets it   esc back"

    def __init__(self, title: str, value: int) -> None:
        super().__init__(title, f"Higher numbers run first; {MIN_PRIORITY} to {MAX_PRIORITY}.")
        self._value = value

    def body(self) -> ComposeResult:
        yield Input(str(self._value), compact=True)
        yield Problem()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            self.dismiss(read_priority(event.value.strip()))
        except ValueError as problem:
            self.query_one(Problem).set_text(str(problem))


class AskText(Dialog[str | None]):
    """Asks for a text.

    Args:
        read: converts what was typed to the result; raises ValueError if it cannot be used.
        wrong: what to type instead.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "back", id="text.back")]
    HINT = "enter sets it   esc back"

    def __init__(self, title: str, sentence: str, value: str, read: Callable[[str], str], wrong: str) -> None:
        super().__init__(title, sentence)
        self._value, self._read, self._wrong = value, read, wrong

    def body(self) -> ComposeResult:
        yield Input(self._value, compact=True)
        yield Problem()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            self.dismiss(self._read(event.value.strip()))
        except (ValueError, OverflowError):
            self.query_one(Problem).set_text(self._wrong)


class StartProblem(Dialog[str | None]):
    """Shows why no supervisor could be started; its result is the action to carry out, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("S", "dismiss('start')", "try again", id="problem.start"),
        Binding("q,ctrl+c", "dismiss('leave')", "quit", id="problem.leave"),
        Binding("escape", "dismiss(None)", "close", id="problem.close"),
    ]
    BOX = "dialog wide"
    HINT = "S tries again   esc closes this   q quits"

    def __init__(self, problem: TqError, model: Model) -> None:
        super().__init__("The supervisor cannot start")
        self._problem, self._model = problem, model

    def body(self) -> ComposeResult:
        yield Label(Text(self._problem.code), classes="problem")
        yield Label(Text(plain(self._problem.message)))
        if self._problem.hint:
            yield Label(Text(plain(self._problem.hint)), classes="step")

    def on_mount(self) -> None:
        self.set_interval(CHECK_S, self._check)

    def _check(self) -> None:
        if self._model.up and self.is_current:
            self.dismiss(None)


class Tick(Widget, can_focus=True):
    """A check box that shows its state by a symbol, not only by colour."""

    DEFAULT_CSS = """
    Tick { height: 1; width: 1fr; }
    Tick:focus { background: $panel; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "toggle('value')", "toggle", show=False, id="tick.toggle"),
    ]
    value = reactive(False)

    class Toggled(Message):
        """A person has set or cleared a tick."""

        def __init__(self, tick: Tick) -> None:
            super().__init__()
            self.tick = tick

    def __init__(
        self, text: str, glyphs: Glyphs, *, value: bool, name: str = "", id: str | None = None
    ) -> None:
        super().__init__(name=name, id=id)
        self._text = plain(text)
        self._glyphs = glyphs
        self.set_reactive(Tick.value, value)

    def render(self) -> Text:
        return Text(f"{self._glyphs.checked if self.value else self._glyphs.unchecked} {self._text}")

    def watch_value(self) -> None:
        self.post_message(self.Toggled(self))

    def show(self, value: bool) -> None:
        """Set or clear it without a message."""
        self.set_reactive(Tick.value, value)
        self.refresh()

    async def on_click(self) -> None:
        await self.action_toggle("value")


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
