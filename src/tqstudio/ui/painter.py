"""Applies themes, and repaints the visible screens after changes of the model."""

from __future__ import annotations

from time import monotonic
from typing import Any

from textual.app import App

from tqstudio.home import Home
from tqstudio.ui.data.context import Context
from tqstudio.ui.data.remembered import Remembered
from tqstudio.ui.look.theme import (
    TEXTUAL,
    Colours,
    in_sixteen_colours,
    load_themes,
    shipped_folder,
    theme_of_textual,
)
from tqstudio.ui.screens.frame.base import StudioScreen

PAINT_S = 0.25
"""Changes within this time are painted together."""


class Painter:
    """Loads the themes and gives the app the requested one, else the remembered one, else the first."""

    context: Context
    """Set by the app once it has created it."""

    def __init__(self, app: App[Any], home: Home, theme: str | None, remembered: Remembered) -> None:
        loaded = load_themes([shipped_folder(), home.themes])
        sixteen = app.console.color_system == "standard"
        self.themes = in_sixteen_colours(loaded.by_name) if sixteen else loaded.by_name
        self.problems = loaded.problems
        """Errors of the theme files."""
        self.own = list(self.themes)
        """Names of the themes that `t` cycles; the palette has Textual's too."""
        self.names = self.own if sixteen else list(dict.fromkeys([*self.own, *TEXTUAL]))
        for each in self.themes.values():
            app.register_theme(each)
        self._app = app
        wanted = theme or remembered.get("theme")
        self._chosen = wanted if wanted in self.names else self.own[0]
        self._set(self._chosen)
        self._painted_at = 0.0
        self._due = False

    def colours(self, *, faded: bool = False) -> Colours:
        """The styles of the app's theme."""
        return Colours(self.themes[self._app.theme], faded=faded, plain=self._app.no_color)

    def next_theme(self) -> str:
        """Switch to the next of the themes that are cycled; returns its name."""
        at = self.own.index(self._chosen) if self._chosen in self.own else -1
        self.use_theme(self.own[(at + 1) % len(self.own)])
        return self._chosen

    def use_theme(self, name: str) -> None:
        """Switch to a theme, and remember it for the next start."""
        self._chosen = name
        self.preview(name)
        self.context.remembered.set("theme", name)

    def preview(self, name: str | None) -> None:
        """Draw everything in a theme; None: in the one that was chosen."""
        if (name := name or self._chosen) != self._app.theme:
            self._set(name)
            self.context.palette = self.context.vivid = self.colours()
            self._fade()
            self._redraw()

    def _set(self, name: str) -> None:
        if name not in self.themes:
            self.themes[name] = theme_of_textual(name)
            self._app.register_theme(self.themes[name])
        self._app.theme = name

    def soon(self) -> None:
        """Repaint now, or after PAINT_S together with later changes."""
        if self._due or not self._app.is_running:
            return
        wait = self._painted_at + PAINT_S - monotonic()
        if wait <= 0:
            self.now()
        else:
            self._due = True
            self._app.set_timer(wait, self.now)

    def now(self) -> None:
        """Repaint the changed lines of the visible screens."""
        self._due = False
        self._painted_at = monotonic()
        self._fade()
        for screen in self.full_screens():
            if screen.is_mounted:
                screen.paint()

    def full_screens(self) -> list[StudioScreen]:
        """The top screen, or the one that is visible below a dialog."""
        return [each for each in self._app.screen_stack if isinstance(each, StudioScreen)][-1:]

    def _fade(self) -> None:
        """Draw possibly outdated data without colours."""
        context = self.context
        if context.model.stale == (context.palette is not context.vivid):
            return
        context.palette = self.colours(faded=True) if context.model.stale else context.vivid
        self._redraw()

    def _redraw(self) -> None:
        for screen in self._app.screen_stack:
            if isinstance(screen, StudioScreen):
                screen.redraw()
