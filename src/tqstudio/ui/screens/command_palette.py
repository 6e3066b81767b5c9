"""The command palette: finds actions, jobs, folders, workers, profiles and themes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

from textual import on
from textual.app import App
from textual.command import Command, CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.widgets import OptionList

from tqstudio.errors import TqError
from tqstudio.paths import readable
from tqstudio.protocol import calls
from tqstudio.protocol.answers import JobRow, ProfileView
from tqstudio.ui.actions.registry import JOBS, actions_of, key_sign
from tqstudio.ui.data.context import Context, Shell
from tqstudio.ui.screens.frame.base import StudioScreen
from tqstudio.ui.screens.frame.text import TextScreen

Found = tuple[str, str, Callable[[], object]]
"""Text, help and what choosing it does."""
TYPING_S = 0.15
"""Jobs are asked for once nothing was typed for this long."""
MAX_JOBS = 20
MAX_TEXT = 200
"""Characters of a search that the supervisor takes."""


class _OfStudio(Provider):
    """Subclasses list what there is before anything is typed, and of it what matches afterwards."""

    def found(self, shell: Shell, screen: StudioScreen) -> Iterator[Found]:
        raise NotImplementedError

    def _commands(self) -> Iterator[Found]:
        if isinstance(self.screen, StudioScreen):
            yield from self.found(cast("Shell", self.app), self.screen)

    async def discover(self) -> Hits:
        for text, help, do in self._commands():
            yield DiscoveryHit(text, do, help=help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for text, help, do in self._commands():
            score = max(matcher.match(text), matcher.match(help) * 0.8)
            if score > 0:
                yield Hit(score, matcher.highlight(text), do, help=help)


class Actions(_OfStudio):
    def found(self, shell: Shell, screen: StudioScreen) -> Iterator[Found]:
        keys = screen.context.keys
        for action in actions_of(screen.VIEW):
            if action.palette:
                signs = " ".join(map(key_sign, keys.of(screen.VIEW, action.name)))
                text = action.text.rstrip("…") + (f"  ({signs})" if signs else "")
                yield text, action.help, partial(shell.perform, action.name)
        for key, command in keys.commands.items() if screen.VIEW in JOBS else ():
            do = partial(shell.perform, "own_command", key)
            yield f"{command.run}  ({key_sign(key)})", "a command of your own", do


class Themes(_OfStudio):
    def found(self, shell: Shell, screen: StudioScreen) -> Iterator[Found]:  # noqa: ARG002
        for name in shell.theme_names:
            yield f"theme {name}", "switch to this theme", partial(shell.use_theme, name)


class Places(_OfStudio):
    """Drop folders and workers, as the UI knows them."""

    def found(self, shell: Shell, screen: StudioScreen) -> Iterator[Found]:
        model = screen.context.model
        for folder in model.folders or ():
            what = f"folder {readable(folder['path'])}"
            yield what, "show its jobs", partial(shell.show_folder, folder["id"])
        for name, worker in model.workers.items():
            yield f"worker {name}", worker["status"], partial(shell.show_worker, name)


class FromSupervisor(Provider):
    """Jobs by number or name, and profiles; nothing while the supervisor does not answer."""

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
                    f"job {row['id']}  {row['name']}",
                    partial(shell.show_job, row["id"], anywhere=True),
                    help=row["word"],
                )
            matcher = self.matcher(query)
            for profile in (await context.feed.send(calls.profiles()))["profiles"]:
                if score := matcher.match(text := f"profile {readable(profile['name'])}"):
                    do = partial(_show_profile, self.app, context, profile)
                    yield Hit(score, matcher.highlight(text), do, help=profile["description"])
        except TqError:
            return


async def _jobs(context: Context, query: str) -> list[JobRow]:
    """The job of that number first, then those whose names have the words."""
    found = (await context.feed.send(calls.jobs(text=query, limit=MAX_JOBS)))["jobs"]
    number = query.removeprefix("job").strip().removeprefix("#")
    if number.isdecimal() and len(number) < 19:
        near = await context.feed.send(calls.jobs(around=int(number), limit=1))
        found = [*(row for row in near["jobs"] if row["id"] == int(number)), *found]
    return list({row["id"]: row for row in found}.values())


def _show_profile(app: App[object], context: Context, profile: ProfileView) -> None:
    error = profile["error"]
    rows = {
        "encoder": profile["codec"],
        "qualities": " ".join(profile["rungs"]),
        "from": readable(profile["origin"]),
        "problem": error["message"] if error else "",
    }
    lines = [f"  {name:<12}{value}" for name, value in rows.items() if value]
    text = "\n".join([profile["description"], "", *lines])

    async def read() -> tuple[str, str]:
        return text, profile["name"]

    app.push_screen(TextScreen(context, f"profile {readable(profile['name'])}", read, wrapped=True))


class Palette(CommandPalette):
    """The palette, with a preview of the theme under the cursor."""

    @on(OptionList.OptionHighlighted)
    def _preview(self, event: OptionList.OptionHighlighted) -> None:
        shell, option = cast("Shell", self.app), event.option
        do = option.hit.command if isinstance(option, Command) else None
        shell.preview_theme(do.args[0] if isinstance(do, partial) and do.func == shell.use_theme else None)

    def on_unmount(self) -> None:
        cast("Shell", self.app).preview_theme(None)


def open_in(app: App[None]) -> None:
    """Show the palette, unless it is shown."""
    if not isinstance(app.screen, CommandPalette):
        providers = [Actions, FromSupervisor, Places, Themes]
        app.push_screen(
            Palette(providers, placeholder="find an action, job, folder, worker, profile or theme")
        )
