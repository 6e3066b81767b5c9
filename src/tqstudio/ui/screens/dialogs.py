"""Questions: whether to lose work, which qualities, what to add, which priority."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.suggester import Suggester
from textual.widgets import Button, Input, Label

from tqstudio.ui.format import plain
from tqstudio.ui.symbols import Glyphs
from tqstudio.ui.widgets.tick import Tick


class Confirm(ModalScreen[bool]):
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


class ChooseQualities(ModalScreen[list[str] | None]):
    """Which qualities to make again; all are chosen at first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "back", id="qualities.back"),
        Binding("enter", "submit", "make them", priority=True, id="qualities.go"),
        Binding("a", "all", "all or none", id="qualities.all"),
        Binding("up,k", "app.focus_previous", "previous", show=False, id="qualities.previous"),
        Binding("down,j", "app.focus_next", "next", show=False, id="qualities.next"),
    ]
    AUTO_FOCUS = "Tick"

    def __init__(self, title: str, names: Sequence[str], glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._title = title
        self._names = names

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(Text(plain(self._title)), classes="title")
            yield Label(
                Text("The present version plays on until the new one is complete."), classes="sentence"
            )
            for name in self._names:
                yield Tick(name, self._glyphs, value=True, name=name)
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
            self.app.notify("choose at least one quality, or esc to go back", markup=False)


class AskPriority(ModalScreen[int | None]):
    """A number; a higher one is worked on first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "back", id="priority.back")]

    def __init__(self, title: str, value: int) -> None:
        super().__init__()
        self._title = title
        self._value = value

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(Text(plain(self._title)), classes="title")
            yield Label(Text("Higher is worked on first; -1000 to 1000."), classes="sentence")
            yield Input(str(self._value), type="integer", compact=True)
            yield Label(Text("enter sets it · esc back"), classes="hint")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            value = int(event.value)
        except ValueError:
            return
        self.dismiss(max(-1000, min(1000, value)))


@dataclass(frozen=True, slots=True)
class PathAnswer:
    path: str
    profile: str | None
    hold: bool = False

    @property
    def is_folder(self) -> bool:
        return os.path.isdir(self.path)


class AskPath(ModalScreen[PathAnswer | None]):
    """A file or folder on this machine, completed from the disk with the right arrow key."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "back", id="path.back")]

    def __init__(self, title: str, sentence: str, glyphs: Glyphs, *, can_hold: bool = False) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._title = title
        self._sentence = sentence
        self._can_hold = can_hold

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide"):
            yield Label(Text(self._title), classes="title")
            yield Label(Text(self._sentence), classes="sentence")
            yield Label(Text("path"), classes="field")
            start = os.path.join(os.getcwd(), "")
            yield Input(start, id="path", compact=True, suggester=_PathSuggester(), select_on_focus=False)
            yield Label(Text("profile"), classes="field")
            yield Input(id="profile", placeholder="the default one", compact=True)
            if self._can_hold:
                yield Label()
                yield Tick("hold it: wait until it is resumed", self._glyphs, value=False, id="hold")
            yield Label(Text("→ completes · tab next field · enter does it · esc back"), classes="hint")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        path = self.query_one("#path", Input).value.strip()
        profile = self.query_one("#profile", Input).value.strip() or None
        hold = self.query_one("#hold", Tick).value if self._can_hold else False
        if path:
            self.dismiss(PathAnswer(os.path.abspath(os.path.expanduser(path)), profile, hold))


class _PathSuggester(Suggester):
    """The first name on disk that begins like what is typed."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        return self._first(value)

    @staticmethod
    def _first(value: str) -> str | None:
        folder, start = os.path.split(os.path.expanduser(value))
        try:
            with os.scandir(folder or ".") as entries:
                found = sorted(
                    (entry.name, entry.is_dir())
                    for entry in entries
                    if entry.name.startswith(start) and (start or not entry.name.startswith("."))
                )
        except OSError:
            return None
        if not found or not start:
            return None
        name, is_folder = found[0]
        return value[: len(value) - len(start)] + name + ("/" if is_folder else "")
