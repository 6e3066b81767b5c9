"""Shared state of the views: model, connection, colours, and the interface of the app."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

from tqstudio.errors import TqError
from tqstudio.home import Home
from tqstudio.ui.data.feed import Feed
from tqstudio.ui.data.keys import Keys
from tqstudio.ui.data.model import Model
from tqstudio.ui.data.remembered import Remembered
from tqstudio.ui.look.theme import Colours
from tqstudio.words.symbols import Glyphs


@dataclass(slots=True)
class Context:
    model: Model
    feed: Feed
    glyphs: Glyphs
    palette: Colours
    vivid: Colours
    """`palette` without the fading while the supervisor does not answer; for what remains valid then."""
    home: Home
    remembered: Remembered
    keys: Keys
    read_only: bool = False
    """Whether the screen is read-only."""
    drafts: dict[str, dict[str, str]] = field(default_factory=dict)
    """What was typed into a dialog that was left, by its title and field."""

    def sign(self, action: str) -> str:
        """The key of an action, for a sentence."""
        return self.keys.sign(action)


class Shell(Protocol):
    """The methods of the app that screens and the command palette call."""

    @property
    def reported_job(self) -> int | None:
        """The job that failed last."""

    def switch_reports(self) -> bool:
        """Turn the reports of events on or off; returns whether they are on."""

    @property
    def theme_names(self) -> list[str]:
        """Names of the available themes."""

    def start(self, coroutine: Coroutine[Any, Any, Any], *, keys_wait: bool = False) -> None:
        """Run a coroutine in the background; an error becomes a toast, `keys_wait` delays keys meanwhile."""

    async def perform(self, name: str, argument: str = "") -> None:
        """Carry out an action: by the screen's method, else by the app's."""

    def toast(self, text: str, *, problem: bool = False) -> None:
        """Show a sentence for a few seconds."""

    def show_error(self, error: TqError) -> None:
        """Show an error and the next step as a toast."""

    async def do_back(self, _: str) -> None:
        """Return to the queue."""

    async def show_job(self, job: int, *, anywhere: bool = False) -> None:
        """Move the cursor of the queue to a job; `anywhere` removes a filter that hides it."""

    async def show_jobs(self, line: str) -> None:
        """Show the jobs that match a filter line."""

    async def show_worker(self, name: str) -> None:
        """Move the cursor of the workers to one."""

    def use_theme(self, name: str) -> None:
        """Switch to a theme and remember it for the next start."""

    def preview_theme(self, name: str | None) -> None:
        """Show a theme for now; None: the chosen one again."""

    def lend_terminal(self, use: Callable[[], object]) -> None:
        """Let another program have the terminal; raises TqError if there is none."""
