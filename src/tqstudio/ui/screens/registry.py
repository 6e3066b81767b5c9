"""The views, each loaded when it is first shown or soon after the first picture, which waits for no other."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tqstudio.ui.screens.base import StudioScreen

VIEWS: dict[str, str] = {
    "queue": "queue.screen.QueueScreen",
    "workers": "workers.WorkersScreen",
    "folders": "folders.FoldersScreen",
    "history": "history.HistoryScreen",
}
"""The screen of each view; loaded when it is first shown, as the first picture waits for no other."""


LATER = (
    *(
        "screens.job.screen",
        "screens.job.source_facts",
        "screens.text",
        "screens.start_problem",
        "screens.help",
    ),
    *("screens.dialogs.dialogs", "screens.dialogs.ask_path"),
    *("screens.workers", "screens.folders", "screens.history", "screens.command_palette"),
)
"""What the first picture does without is loaded soon after it: the first use is quick then, and a version
that is installed meanwhile is not mixed with this one."""
LATER_S = 0.5


def view_class(view: str) -> type[StudioScreen]:
    module, _, name = VIEWS[view].rpartition(".")
    found: type[StudioScreen] = getattr(import_module(f"tqstudio.ui.screens.{module}"), name)
    return found


def load(module: str) -> None:
    import_module(f"tqstudio.ui.{module}")
