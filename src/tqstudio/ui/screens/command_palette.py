"""The command palette: every action of the current view, and every theme."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

from textual.app import App
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider

from tqstudio.ui.actions.registry import actions_of, key_sign
from tqstudio.ui.data.context import Shell
from tqstudio.ui.screens.frame.base import StudioScreen


class Actions(Provider):
    def _commands(self) -> list[tuple[str, str, Callable[[], object]]]:
        """Text, help and callback of each command."""
        app = cast("Shell", self.app)
        screen = self.screen
        found: list[tuple[str, str, Callable[[], object]]] = []
        if isinstance(screen, StudioScreen):
            for action in actions_of(screen.VIEW):
                if action.palette:
                    keys = " ".join(key_sign(key) for key in action.keys)
                    found.append(
                        (
                            f"{action.text.rstrip('…')}  ({keys})",
                            action.help,
                            partial(app.perform, action.name),
                        )
                    )
        for name in app.theme_names:
            found.append((f"theme {name}", "switch to this theme", partial(app.use_theme, name)))
        return found

    async def discover(self) -> Hits:
        for text, help, do in self._commands():
            yield DiscoveryHit(text, do, help=help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for text, help, do in self._commands():
            score = max(matcher.match(text), matcher.match(help) * 0.8)
            if score > 0:
                yield Hit(score, matcher.highlight(text), do, help=help)


def open_in(app: App[None]) -> None:
    """Show the palette, unless it is shown."""
    if not isinstance(app.screen, CommandPalette):
        app.push_screen(CommandPalette([Actions], placeholder="search for an action"))
