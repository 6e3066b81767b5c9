"""The command palette: finds actions, jobs, folders, workers, profiles, settings and themes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

from textual import on
from textual.app import App
from textual.command import Command, CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.css.styles import RenderStyles
from textual.fuzzy import Matcher
from textual.markup import escape
from textual.widgets import OptionList

from tqstudio.errors import TqError
from tqstudio.paths import readable
from tqstudio.protocol import calls
from tqstudio.protocol.answers import JobRow, SettingView
from tqstudio.protocol.filters import Term
from tqstudio.ui.actions.registry import BY_NAME, JOBS, actions_of
from tqstudio.ui.data.context import Context, Shell
from tqstudio.ui.data.keys import key_sign
from tqstudio.ui.screens.frame.base import StudioScreen

Found = tuple[str, str, Callable[[], object]]
"""Text, help and what choosing it does."""
TYPING_S = 0.15
"""Jobs are asked for once nothing was typed for this long."""
MAX_JOBS = 20
_CELLS = 10
"""Width of the names in the text about a setting."""
MAX_TEXT = 200
"""Characters of a search that the supervisor takes."""


class Known(Provider):
    """What the UI knows: listed before anything is typed, and of it what matches afterwards."""

    def _commands(self) -> Iterator[Found]:
        if not isinstance(self.screen, StudioScreen):
            return
        shell, view, context = cast("Shell", self.app), self.screen.VIEW, self.screen.context
        for action in actions_of(view):
            if action.palette:
                signs = " ".join(map(key_sign, context.keys.of(view, action.name)))
                text = action.text.rstrip("…") + (f"  ({signs})" if signs else "")
                yield text, action.help, partial(shell.perform, action.name)
        for key, command in context.keys.commands.items() if view in JOBS else ():
            do = partial(shell.perform, "own_command", key)
            yield f"{command.run}  ({key_sign(key)})", "a command of your own", do
        for folder in context.model.folders or ():
            do = partial(shell.show_jobs, f"folder:{folder['id']}")
            yield f"folder {readable(folder['path'])}", "show its jobs", do
        for name, worker in context.model.workers.items():
            yield f"worker {name}", worker["status"], partial(shell.show_worker, name)
        for name in shell.theme_names:
            yield f"theme {name}", "switch to this theme", partial(shell.use_theme, name)

    async def discover(self) -> Hits:
        for text, help, do in self._commands():
            yield DiscoveryHit(Content(text), do, text, help=escape(help))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for text, help, do in self._commands():
            score = max(matcher.match(text), matcher.match(help) * 0.8)
            if score > 0:
                yield Hit(score, _found_in(matcher, text), do, text, help=escape(help))


class FromSupervisor(Provider):
    """Jobs by number or name, profiles and settings; nothing while the supervisor does not answer."""

    async def search(self, query: str) -> Hits:
        if not isinstance(self.screen, StudioScreen) or not query.strip() or len(query) > MAX_TEXT:
            return
        shell, context = cast("Shell", self.app), self.screen.context
        await asyncio.sleep(TYPING_S)
        try:
            for row in await _jobs(context, query.strip()):
                # Every word is in the name, though perhaps not in the order that the palette expects.
                yield Hit(
                    self.matcher(query).match(row["name"]) or 0.5,
                    Content(text := f"job {row['id']}  {row['name']}"),
                    partial(shell.show_job, row["id"], anywhere=True),
                    text,
                    help=row["word"],
                )
            matcher = self.matcher(query)
            for profile in (await context.feed.send(calls.profiles()))["profiles"]:
                if score := matcher.match(text := f"profile {readable(profile['name'])}"):
                    show = partial(shell.show_jobs, Term("profile", (profile["name"],)).line())
                    about = (profile["codec"], " ".join(profile["rungs"]), profile["description"])
                    help = escape("; ".join(filter(None, about)))
                    yield Hit(score, _found_in(matcher, text), show, text, help=help)
            # Only a caller on the same machine may read them.
            if context.model.remote:
                return
            known = await context.feed.send(calls.settings())
            for setting in known["settings"]:
                text = f"setting {setting['name']} = {setting['value']}"
                if score := max(matcher.match(text), matcher.match(setting["meaning"]) * 0.8):
                    explain = partial(_explain, self.app, context, setting, known["file"])
                    yield Hit(score, _found_in(matcher, text), explain, text, help=escape(setting["meaning"]))
        except TqError:
            return


def _explain(app: App[Any], context: Context, setting: SettingView, file: str) -> None:
    """Open a text about a setting: what it is, and the line that changes it, which `y` copies."""
    from tqstudio.ui.screens.frame.text import TextScreen

    name, value = setting["name"], setting["value"]
    line = f"{name} = {setting['default'] if value == 'not shown' else value}"
    start = "The supervisor reads this line when it starts."
    first = f"TQSTUDIO_{name.upper()} in its environment, or a flag, overrides it."
    rows = ("now", value), ("default", setting["default"]), ("allowed", setting["allowed"].replace("`", ""))
    text = [name, f"{'':{_CELLS}}{setting['meaning']}", *(f" {key:{_CELLS - 1}}{what}" for key, what in rows)]
    text += ["", file, *(f"{'':{_CELLS}}{each}" for each in (line, start, first))]

    async def read() -> tuple[str, str]:
        return "\n".join(text), line

    app.push_screen(TextScreen(context, f"setting {name}", read, wrapped=True, name_cells=_CELLS))


def _found_in(matcher: Matcher, text: str) -> Content:
    """The text with what matches marked; one with brackets plain, as the matcher takes them for markup."""
    return Content(text) if "[" in text else matcher.highlight(text)


async def _jobs(context: Context, query: str) -> list[JobRow]:
    """The job of that number first, then those whose names have the words."""
    line = " ".join(Term("text", (word,)).line() for word in query.split())
    found = (await context.feed.send(calls.jobs(line, limit=MAX_JOBS)))["jobs"]
    number = query.removeprefix("job").strip().removeprefix("#")
    if number.isdecimal() and len(number) < 19:
        near = await context.feed.send(calls.jobs(around=int(number), limit=1))
        found = [*(row for row in near["jobs"] if row["id"] == int(number)), *found]
    return list({row["id"]: row for row in found}.values())


class Palette(CommandPalette):
    """The palette, with a preview of the theme under the cursor."""

    @on(OptionList.OptionHighlighted)
    def _preview(self, event: OptionList.OptionHighlighted) -> None:
        shell, option = cast("Shell", self.app), event.option
        do = option.hit.command if isinstance(option, Command) else None
        shell.preview_theme(do.args[0] if isinstance(do, partial) and do.func == shell.use_theme else None)

    def on_unmount(self) -> None:
        cast("Shell", self.app).preview_theme(None)

    def get_component_styles(self, *names: str) -> RenderStyles:
        """Return the styles of parts; none once closed, when a search that is being cancelled may still ask.

        Before Python 3.12 `wait_for` drops a cancellation that comes together with a result.
        """
        return super().get_component_styles(*(names if self.is_attached else ()))


def open_in(app: App[None]) -> None:
    """Show the palette, unless it is shown."""
    if not isinstance(app.screen, CommandPalette):
        what = BY_NAME["palette"].help
        app.push_screen(Palette([Known, FromSupervisor], placeholder=what))
