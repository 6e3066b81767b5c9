"""What every view shares: model, connection, looks, and what it may ask of the app."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tqstudio.errors import TqError
    from tqstudio.home import Home
    from tqstudio.ui.data.model import Model
    from tqstudio.ui.data.sync import Feed
    from tqstudio.ui.look.theme import Colours
    from tqstudio.ui.text.symbols import Glyphs


@dataclass(slots=True)
class Context:
    model: Model
    feed: Feed
    glyphs: Glyphs
    palette: Colours
    vivid: Colours
    """What `palette` is while the supervisor answers; what is true even then is drawn with it."""
    home: Home


class Shell(Protocol):
    """What screens and the command palette ask of the app that shows them."""

    @property
    def theme_names(self) -> list[str]:
        """The themes there are."""

    def start(self, errand: Coroutine[Any, Any, Any], *, keys_wait: bool = False) -> None:
        """Run something beside the UI; an error becomes a toast, `keys_wait` holds keys back meanwhile."""

    async def perform(self, name: str, argument: str = "") -> None:
        """Carry out an action: the screen's own way first, then the app's."""

    def toast(self, text: str, *, problem: bool = False) -> None:
        """Show a sentence for a few seconds."""

    def complain(self, error: TqError) -> None:
        """Show an error and the next step as a toast."""

    async def do_back(self, _: str) -> None:
        """Return to the queue."""

    async def show_folder(self, folder: int) -> None:
        """Show the jobs of a drop folder."""

    def use_theme(self, name: str) -> None:
        """Draw everything in a theme, from now on and after the next start."""
