"""Dialog that asks for a file or folder, a profile and an output folder."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import unquote

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.suggester import Suggester, SuggestFromList
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
    """Asks for a file or folder on this machine; the right arrow key completes names.

    If `submit`, which carries it out, raises `TqError`, that is shown and the dialog stays open.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "back", id="path.back"),
        Binding("enter", "submit", "do it", priority=True, id="path.go"),
    ]
    AUTO_FOCUS = "#path"
    BOX = "dialog wide"
    HINT = "right completes   tab next field   enter submits   esc back"

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

    def body(self) -> ComposeResult:
        start = os.path.join(_working_directory(), "")
        yield from _field("path", Input(start, id="path", compact=True, suggester=_PathSuggester()))
        yield from _field("profile", Input(id="profile", placeholder="the default profile", compact=True))
        yield Caution()
        output = Input(
            id="output", placeholder="the default folder", compact=True, suggester=_PathSuggester()
        )
        yield from _field("output", output)
        if self._can_hold:
            hold = Tick("queue on hold, until it is resumed", self.context.glyphs, value=False, id="hold")
            yield from _field("", hold)
        yield Problem()

    def on_mount(self) -> None:
        self.run_worker(self._name_profiles())
        self.run_worker(self._name_output())

    @on(Input.Changed)
    def _forget_problem(self) -> None:
        self.query_one(Problem).set_text("")

    async def _name_output(self) -> None:
        """Show the default output; with wrong settings it is unknown."""
        with suppress(TqError):
            output = await asyncio.to_thread(_default_output, self.context.home)
            self.query_one("#output", Input).placeholder = readable(output)

    async def _name_profiles(self) -> None:
        """Offer the names of the profiles; without an answer the field still accepts any name."""
        try:
            found = (await self.context.feed.send(calls.profiles()))["profiles"]
        except TqError:
            return
        valid = [each["name"] for each in found if not each["error"]]
        field = self.query_one("#profile", Input)
        default = next((each["name"] for each in found if each["default"]), "the default")
        others = ", ".join(name for name in valid if name != default)
        field.placeholder = f"{default}; others: {others}" if others else default
        field.suggester = SuggestFromList(valid)
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
            await self._submit(answer)
        except TqError as error:
            problem.set_text(in_one_line(error.code, error.message, error.hint))
        else:
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


def _field(name: str, widget: Input | Tick) -> ComposeResult:
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


class _PathSuggester(Suggester):
    """Suggests the first name on disk that begins with the typed text."""

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
