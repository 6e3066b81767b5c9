"""Dialog with the rules of a drop folder, and what it holds by those that are typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Input, Select

from tqstudio import hours, paths
from tqstudio.errors import TqError, in_one_line
from tqstudio.protocol import calls
from tqstudio.ui.data.context import Context
from tqstudio.ui.screens.dialogs.ask_path import PathSuggester, complete, field, pasted
from tqstudio.ui.screens.dialogs.dialogs import Dialog, Problem, Tick
from tqstudio.ui.screens.dialogs.folder_preview import FolderContent

if TYPE_CHECKING:
    from tqstudio.protocol.answers import FolderView


def _globs(typed: str) -> list[str]:
    """The patterns in a line, apart by blanks or commas; in quotes they may contain these."""
    words = shlex.shlex(typed, posix=True, punctuation_chars=False)
    words.whitespace, words.whitespace_split, words.commenters, words.escape = " ,\t", True, "", ""
    try:
        return list(words)
    except ValueError:
        raise ValueError("a quote is not closed") from None


def _typed_globs(patterns: Sequence[str]) -> str:
    def quoted(pattern: str) -> str:
        mark = "'" if '"' in pattern else '"'
        return f"{mark}{pattern}{mark}" if re.search("[\\s,'\"]", pattern) else pattern

    return " ".join(map(quoted, patterns))


def _whole(typed: str) -> int:
    try:
        return int(typed)
    except ValueError:
        raise ValueError(f"{typed!r} is not a whole number" if typed else "type a whole number") from None


def _seconds(typed: str) -> float:
    try:
        return float(typed)
    except ValueError:
        raise ValueError(f"{typed!r} is no number of seconds") from None


def _place(typed: str) -> str:
    if not typed:
        raise ValueError("type the path of a folder")
    return paths.encode(paths.absolute(pasted(typed)))


class _Rule(NamedTuple):
    """A field of the dialog."""

    key: str
    """Of the request."""
    name: str
    """As on the command line."""
    shown: Callable[[FolderView], Any]
    read: Callable[[str], Any] = str
    """Converts what was typed; raises ValueError if it cannot be used."""
    empty: str = ""
    """What is shown while nothing is typed."""
    choices: tuple[str, ...] = ()


_RULES = (
    _Rule("profile", "profile", lambda f: f["profile"], choices=("",)),
    _Rule("recursive", "sub-folders", lambda f: f["recursive"]),
    _Rule(
        "patterns", "pattern", lambda f: _typed_globs(f["patterns"]), _globs, "every video, or *.mkv cam1/"
    ),
    _Rule("exclude", "exclude", lambda f: _typed_globs(f["exclude"]), _globs, "nothing, or old/ *-raw.mov"),
    _Rule("hours", "hours", lambda f: f["hours"], empty=f"always, or {hours.EXAMPLE}"),
    _Rule("priority", "priority", lambda f: str(f["priority"]), _whole),
    _Rule("output_b64", "output", lambda f: paths.readable(f["output_root"]), _place),
    _Rule("template", "template", lambda f: f["template"]),
    _Rule("after_done", "after-done", lambda f: f["after_done"], choices=("keep", "move", "delete")),
    _Rule(
        "done_dir_b64",
        "done-dir",
        lambda f: paths.readable(f["done_dir"] or ""),
        _place,
        "only with after-done move",
    ),
    _Rule("duplicates", "duplicates", lambda f: f["duplicates"], choices=("encode", "skip", "link")),
    _Rule("audio", "audio", lambda f: f["audio"], choices=("skip", "encode")),
    _Rule("settle_s", "settle (s)", lambda f: f"{f['settle_s']:g}", _seconds),
    _Rule("autorestart", "autorestart", lambda f: str(f["autorestart"]), _whole),
)
_PREVIEWED = {"output_b64": "output_root_b64", "done_dir_b64": "done_dir_b64"} | dict.fromkeys(
    ("recursive", "patterns", "exclude", "audio"), ""
)
"""Rules that decide what the folder holds, and where the folder has the value of one that was not changed."""


class EditFolder(Dialog[None]):
    """Edits the rules of a drop folder.

    `submit` gets those that were changed; if it raises `TqError`, that is shown and the dialog stays open.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "back", id="rules.back"),
        Binding("enter", "submit", "save", priority=True, id="rules.go"),
        Binding("tab", "complete", "complete", priority=True, id="rules.complete"),
    ]
    BOX = "dialog wide rules"
    HINT = "tab next field   space changes a choice   enter saves   esc back"
    AUTO_FOCUS = "#patterns"

    def __init__(
        self, context: Context, folder: FolderView, submit: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        super().__init__(f"Rules of {paths.readable(folder['path'])}")
        self.context = context
        self._folder = folder
        self._submit = submit
        self._busy = False

    def body(self) -> ComposeResult:
        with VerticalScroll(classes="fields", can_focus=False):
            for rule in _RULES:
                yield from field(rule.name, self._widget(rule, rule.shown(self._folder)))
        yield FolderContent(self.context)
        yield Problem()

    def _widget(self, rule: _Rule, value: Any) -> Widget:
        if isinstance(value, bool):
            return Tick("included", self.context.glyphs, value=value, id=rule.key)
        if rule.choices:
            names = rule.choices if value in rule.choices else (value,)
            choices = [(Text(name), name) for name in names]
            return Select(choices, value=value, allow_blank=False, id=rule.key, compact=True)
        suggester = PathSuggester() if rule.read is _place else None
        return Input(value, rule.empty, id=rule.key, compact=True, suggester=suggester)

    def on_mount(self) -> None:
        self.watch(self.query_one(Tick), "value", self._preview, init=False)
        self.run_worker(self._name_profiles())
        self._preview()

    async def _name_profiles(self) -> None:
        """Offer the names of the profiles; without an answer that of the folder stays."""
        try:
            found = (await self.context.feed.send(calls.profiles()))["profiles"]
        except TqError:
            return
        mine = self._folder["profile"]
        names = [each["name"] for each in found if not each["error"] or each["name"] == mine]
        names += [] if mine in names else [mine]
        select: Select[str] = self.query_one("#profile", Select)
        select.set_options([(Text(name), name) for name in names])
        select.value = mine

    def _value(self, rule: _Rule) -> Any:
        """What is typed or chosen, before it is read."""
        widget = self.query_one(f"#{rule.key}")
        assert isinstance(widget, Input | Select | Tick)
        return widget.value.strip() if isinstance(widget, Input) else widget.value

    def _read(self, rule: _Rule) -> Any:
        """The value for the request; raises TqError or ValueError."""
        try:
            value = self._value(rule)
            return rule.read(value) if isinstance(value, str) else value
        except ValueError as error:
            raise ValueError(f"{rule.name}: {error}") from None

    @on(Input.Changed)
    @on(Select.Changed)
    def _changed(self) -> None:
        self.query_one(Problem).set_text("")
        self._preview()

    def _preview(self) -> None:
        try:
            rules = {rule.key: self._previewed(rule) for rule in _RULES if rule.key in _PREVIEWED}
        except (TqError, ValueError):
            return
        path = self._folder["path_b64"]
        self.query_one(FolderContent).ask(paths.decode(path), calls.preview_folder(path, **rules))

    def _previewed(self, rule: _Rule) -> Any:
        kept: Any = self._folder
        is_kept = _PREVIEWED[rule.key] and not self._is_changed(rule)
        return kept[_PREVIEWED[rule.key]] if is_kept else self._read(rule)

    def _is_changed(self, rule: _Rule) -> bool:
        return bool(self._value(rule) != rule.shown(self._folder))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave enter and tab to the list of a choice while it is open."""
        is_open = self.is_mounted and any(select.expanded for select in self.query(Select))
        return not (is_open and action in ("submit", "complete")) and super().check_action(action, parameters)

    async def action_complete(self) -> None:
        await complete(self)

    def action_submit(self) -> None:
        if not self._busy:
            self.run_worker(self._carry_out())

    async def _carry_out(self) -> None:
        problem = self.query_one(Problem)
        self._busy = True
        try:
            changed = [rule for rule in _RULES if self._is_changed(rule)]
            await self._submit({rule.key: self._read(rule) for rule in changed})
        except ValueError as error:
            problem.set_text(str(error))
        except TqError as error:
            problem.set_text(in_one_line(error.code, error.message, error.hint))
        else:
            self.dismiss()
        finally:
            self._busy = False
