"""Dialog that asks for a file or folder, a profile and an output folder."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.suggester import Suggester, SuggestFromList
from textual.widget import Widget
from textual.widgets import Input, Label

from tqstudio.errors import TqError, in_one_line
from tqstudio.home import Home
from tqstudio.paths import absolute, readable
from tqstudio.protocol import calls
from tqstudio.ui.data.context import Context
from tqstudio.ui.screens.dialogs.dialogs import Caution, Dialog, Problem, Tick

if TYPE_CHECKING:
    from tqstudio.protocol.answers import ProfileView


@dataclass(frozen=True, slots=True)
class PathAnswer:
    """Absolute paths; None for the default."""

    path: str
    profile: str | None
    output: str | None
    hold: bool = False

    @property
    def is_folder(self) -> bool:
        return os.path.isdir(self.path)


_ESCAPED = re.compile(r"""(?:[^\\'"]|\\\W)+""")
"""As shells complete a path: with a backslash before blanks and signs."""


class AskPath(Dialog[None]):
    """Asks for a file or folder on this machine; tab and the right arrow key complete names.

    What was typed is there again when it was left and is opened again. If `submit`, which carries it out,
    raises `TqError`, that is shown and the dialog stays open.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "back", id="path.back"),
        Binding("enter", "submit", "do it", priority=True, id="path.go"),
        Binding("tab", "complete", "complete", priority=True, id="path.complete"),
    ]
    AUTO_FOCUS = "#path"
    BOX = "dialog wide"
    HINT = "tab completes, or next field   enter submits   esc back"

    def __init__(
        self,
        context: Context,
        title: str,
        sentence: str,
        submit: Callable[[PathAnswer], Awaitable[None]],
        *,
        can_hold: bool = False,
    ) -> None:
        super().__init__(title, sentence)
        self.context = context
        self._submit = submit
        self._can_hold = can_hold
        self._busy = False
        self._default = "the default folder"

    def body(self) -> ComposeResult:
        typed = self.context.drafts.get(self._title, {})
        start = typed.get("path", os.path.join(_working_directory(), ""))
        yield from field("path", Input(start, id="path", compact=True, suggester=PathSuggester()))
        profile = Input(typed.get("profile"), "the default profile", id="profile", compact=True)
        yield from field("profile", profile)
        yield Caution()
        proposing = PathSuggester(self.proposal)
        output = Input(
            typed.get("output"), "the default folder", id="output", compact=True, suggester=proposing
        )
        yield from field("output", output)
        if self._can_hold:
            hold = Tick("queue on hold, until it is resumed", self.context.glyphs, value=False, id="hold")
            yield from field("", hold)
        yield from self.content()
        yield Problem()

    def content(self) -> ComposeResult:
        """What is shown below the fields."""
        yield from ()

    def proposal(self) -> str:
        """The output that tab takes while none is typed."""
        return ""

    async def prepare(self, path: str) -> str:
        """Make the path ready; returns what has to be confirmed first, or nothing."""
        del path
        return ""

    def on_mount(self) -> None:
        self.run_worker(self._name_profiles())
        self.run_worker(self._name_output())

    @on(Input.Changed)
    def _typed_more(self) -> None:
        self.typed_more()

    def typed_more(self) -> None:
        """Take the error away, and remember what is typed."""
        self.query_one(Problem).set_text("")
        self.context.drafts[self._title] = {each.id or "": each.value for each in self.query(Input)}

    async def action_complete(self) -> None:
        await complete(self)

    async def _name_output(self) -> None:
        """Show the default output; with wrong settings it is unknown."""
        with suppress(TqError):
            output = await asyncio.to_thread(_default_output, self.context.home)
            self._default = readable(output)
            self.name_output()

    def name_output(self) -> None:
        """Say what an empty output means."""
        self.query_one("#output", Input).placeholder = self._default

    async def _name_profiles(self) -> None:
        """Offer the names of the profiles; without an answer the field still accepts any name."""
        try:
            found = (await self.context.feed.send(calls.profiles()))["profiles"]
        except TqError:
            return
        valid = [each["name"] for each in found if not each["error"]]
        typed = self.query_one("#profile", Input)
        default = next((each["name"] for each in found if each["default"]), "the default")
        others = ", ".join(name for name in valid if name != default)
        typed.placeholder = f"{default}; others: {others}" if others else default
        typed.suggester = SuggestFromList(valid)
        self.query_one(Caution).set_text(_left_out(found))

    def action_submit(self) -> None:
        if not self._busy:
            self.run_worker(self._carry_out())

    async def _carry_out(self) -> None:
        problem = self.query_one(Problem)
        path = pasted(self._typed("#path"))
        if not path:
            problem.set_text("type the path of a video or a folder")
            return
        output = pasted(self._typed("#output"))
        self._busy = True
        problem.set_text("")
        try:
            answer = PathAnswer(
                path=absolute(path),
                profile=self._typed("#profile") or None,
                output=absolute(output) if output else None,
                hold=self._can_hold and self.query_one("#hold", Tick).value,
            )
            if question := await self.prepare(answer.path):
                problem.set_text(question)
                return
            await self._submit(answer)
        except TqError as error:
            problem.set_text(in_one_line(error.code, error.message, error.hint))
        else:
            self.context.drafts.pop(self._title, None)
            self.dismiss()
        finally:
            self._busy = False

    def _typed(self, id: str) -> str:
        return self.query_one(id, Input).value.strip()


def pasted(text: str) -> str:
    """The path in a text that may be quoted for a shell, or a URL of a file as from a file manager."""
    if os.path.lexists(os.path.expanduser(text)):
        return text
    if text.lower().startswith("file:///"):
        return unquote(text[len("file://") :], errors="surrogateescape")
    with suppress(ValueError):
        words = shlex.split(text)
        # The name of a new folder may have quotes and backslashes in it.
        is_quoted = text[:1] == text[-1:] in ("'", '"') or _ESCAPED.fullmatch(text)
        if len(words) == 1 and (is_quoted or os.path.lexists(words[0])):
            return words[0]
    return text


def _default_output(home: Home) -> str:
    from tqstudio.config import load_settings

    return load_settings(home).output or str(home.output)


async def complete(screen: Screen[Any]) -> None:
    """Take what is suggested for the text before the cursor; without a suggestion, go to the next field."""
    typing = screen.focused
    if isinstance(typing, Input) and (suggester := typing.suggester) and typing.cursor_at_end:
        # Lists suggest their first name for no text, which is not shown.
        proposes = typing.value or isinstance(suggester, PathSuggester)
        found = await suggester.get_suggestion(typing.value) if proposes else None
        if found and found != typing.value:
            typing.value = found
            typing.cursor_position = len(found)
            return
    screen.focus_next()


def field(name: str, widget: Widget) -> ComposeResult:
    """A line of a dialog with the name of its field."""
    with Horizontal(classes="field"):
        yield Label(Text(name))
        yield widget


def _left_out(profiles: Sequence[ProfileView]) -> str:
    """Which profiles cannot be used, and the first error."""
    errors = [each["error"] for each in profiles if each["error"]]
    if not errors:
        return ""
    many = f"{len(errors)} invalid profiles; first: " if len(errors) > 1 else "invalid profile: "
    return many + in_one_line(errors[0]["code"], errors[0]["message"])


def _working_directory() -> str:
    """Initial folder: the current one, or the user's home if that was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.path.expanduser("~")


class PathSuggester(Suggester):
    """Suggests the first name on disk that begins with the typed text.

    Args:
        proposal: what is suggested for no text.
    """

    def __init__(self, proposal: Callable[[], str] = str) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._proposal = proposal

    async def get_suggestion(self, value: str) -> str | None:
        return self._first(value) if value else self._proposal()

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
