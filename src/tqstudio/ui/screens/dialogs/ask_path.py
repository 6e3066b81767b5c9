"""Asks for files or a folder, with a profile and a place for the result."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.suggester import Suggester, SuggestFromList
from textual.widgets import Input, Label

from tqstudio.errors import TqError, in_one_line
from tqstudio.paths import absolute
from tqstudio.protocol import calls
from tqstudio.ui.context import Context
from tqstudio.ui.screens.dialogs.dialogs import Caution, Dialog, Problem
from tqstudio.ui.widgets.tick import Tick

if TYPE_CHECKING:
    from tqstudio.protocol.answers import ProfileView


@dataclass(frozen=True, slots=True)
class PathAnswer:
    """Absolute paths; None where the default is meant."""

    path: str
    profile: str | None
    output: str | None
    hold: bool = False

    @property
    def is_folder(self) -> bool:
        return os.path.isdir(self.path)


class AskPath(Dialog[None]):
    """A file or folder on this machine, completed from the disk with the right arrow key.

    Args:
        submit: does what was asked for. Its `TqError` is shown and the dialog stays, with all that was typed.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "back", id="path.back"),
        Binding("enter", "submit", "do it", priority=True, id="path.go"),
    ]
    AUTO_FOCUS = "#path"

    def __init__(
        self,
        studio: Context,
        title: str,
        sentence: str,
        submit: Callable[[PathAnswer], Awaitable[None]],
        *,
        can_hold: bool = False,
    ) -> None:
        super().__init__()
        self._studio = studio
        self._title = title
        self._sentence = sentence
        self._submit = submit
        self._can_hold = can_hold
        self._busy = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide"):
            yield Label(Text(self._title), classes="title")
            yield Label(Text(self._sentence), classes="sentence")
            start = os.path.join(_working_directory(), "")
            yield from _field("path", Input(start, id="path", compact=True, suggester=_PathSuggester()))
            yield from _field("profile", Input(id="profile", placeholder="the default one", compact=True))
            yield Caution()
            output = Input(id="output", placeholder="the default one", compact=True)
            output.suggester = _PathSuggester()
            yield from _field("output", output)
            if self._can_hold:
                hold = Tick("hold it: wait until it is resumed", self._studio.glyphs, value=False, id="hold")
                yield from _field("", hold)
            yield Problem()
            keys = "→ keeps and completes · tab next field · enter does it · esc back"
            yield Label(Text(keys), classes="hint")

    def on_mount(self) -> None:
        self.run_worker(self._name_profiles())

    async def _name_profiles(self) -> None:
        """Say which profiles there are; without an answer the field can be filled all the same."""
        try:
            found = (await self._studio.feed.send(calls.profiles()))["profiles"]
        except TqError:
            return
        sound = [each["name"] for each in found if not each["error"]]
        field = self.query_one("#profile", Input)
        field.placeholder = f"the default one, of {', '.join(sound)}"
        field.suggester = SuggestFromList(sound)
        self.query_one(Caution).say(_left_out(found))

    def action_submit(self) -> None:
        if not self._busy:
            self.run_worker(self._carry_out())

    async def _carry_out(self) -> None:
        problem = self.query_one(Problem)
        path = self._typed("#path")
        if not path:
            problem.say("type the path of a video or a folder")
            return
        output = self._typed("#output")
        self._busy = True
        problem.say("")
        try:
            answer = PathAnswer(
                path=absolute(path),
                profile=self._typed("#profile") or None,
                output=absolute(output) if output else None,
                hold=self._can_hold and self.query_one("#hold", Tick).value,
            )
            await self._submit(answer)
        except TqError as error:
            problem.say(in_one_line(error.code, error.message, error.hint))
        else:
            self.dismiss()
        finally:
            self._busy = False

    def _typed(self, id: str) -> str:
        return self.query_one(id, Input).value.strip()


def _field(name: str, widget: Input | Tick) -> ComposeResult:
    with Horizontal(classes="field"):
        yield Label(Text(name))
        yield widget


def _left_out(profiles: Sequence[ProfileView]) -> str:
    """Which profiles cannot be chosen, and why the first one cannot."""
    errors = [each["error"] for each in profiles if each["error"]]
    if not errors:
        return ""
    many = f"{len(errors)} broken profiles are left out; first: " if len(errors) > 1 else "left out: "
    return many + in_one_line(errors[0]["code"], errors[0]["message"])


def _working_directory() -> str:
    """Where the path begins; the home of the user where it was removed meanwhile."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.path.expanduser("~")


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
