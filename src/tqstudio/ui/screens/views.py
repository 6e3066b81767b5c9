"""Lazy import of the views, so that the first picture does not wait for the others."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from tqstudio.ui.screens.frame.base import StudioScreen

VIEWS: dict[str, str] = {
    "queue": "queue.screen.QueueScreen",
    "workers": "workers.WorkersScreen",
    "folders": "folders.FoldersScreen",
    "history": "history.HistoryScreen",
    "statistics": "wings.statistics.screen.StatisticsScreen",
    "wall": "wings.wall.screen.WallScreen",
}
"""Module and class of each view's screen, below `screens` or in a wing."""

LATER = (
    *("job.screen", "job.source_facts", "job.log", "frame.text", "help", "dialogs.dialogs"),
    *("dialogs.ask_path", "workers", "folders", "history", "wings.statistics.screen", "wings.wall.screen"),
    "command_palette",
)
"""Modules imported soon after the first picture: their first use is fast then, and an upgrade installed
meanwhile is not mixed with the running version."""
LATER_S = 0.5


def view_class(view: str) -> type[StudioScreen]:
    module, _, name = VIEWS[view].rpartition(".")
    found: type[StudioScreen] = getattr(load(module), name)
    return found


def load(module: str) -> ModuleType:
    below = "tqstudio" if module.startswith("wings.") else "tqstudio.ui.screens"
    return import_module(f"{below}.{module}")
