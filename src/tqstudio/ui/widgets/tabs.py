"""The second line: the views, and at the right the size of the list."""

from __future__ import annotations

from collections.abc import Callable

from textual.strip import Strip

from tqstudio.ui.actions.registry import View
from tqstudio.ui.data.context import Context
from tqstudio.ui.look.line import fit, width_of
from tqstudio.ui.widgets.line_view import LineView, link

TABS: dict[View, str] = {
    "queue": "Queue",
    "workers": "Workers",
    "folders": "Folders",
    "history": "History",
    "statistics": "Stats",
    "wall": "Wall",
}
"""The name of each view."""


class Tabs(LineView):
    """Args: `tab_text` returns the active filter and the remark at the right."""

    def __init__(self, context: Context, view: str, tab_text: Callable[[], tuple[str, str]]) -> None:
        super().__init__(context, id="tabs")
        self._view = view
        self._tab_text = tab_text

    def line(self, y: int, width: int) -> Strip:  # noqa: ARG002
        palette, glyphs = self.context.vivid, self.context.glyphs
        line = self.start(width).gap()
        problems = len(self.context.model.folder_problems)
        filter_line, remark = self._tab_text()
        # A read-only screen stays where it is.
        alone = self.context.read_only
        tabs = {view: name for view, name in TABS.items() if view == self._view or not alone}
        keys = {view: "" if alone else self.context.sign(f"view_{view}") for view in tabs}
        names = width_of("".join(keys.values())) + sum(len(name) + 3 for name in tabs.values())
        names += len(f" x{problems}") if problems else 0
        # The names of the other views give way to the filter and the remark.
        short = names + width_of(remark) + (width_of(filter_line) + 2 if filter_line else 0) + 4 > width
        for view, name in tabs.items():
            here = view == self._view
            click = link(f"view_{view}")
            line.add(keys[view], (palette.key if here else palette.faint) + click)
            if not short or here:
                line.add(f" {name}", (palette.strong if here else palette.dim) + click)
            if view == "folders" and problems:
                line.add(f" {glyphs.states['failed']}{problems}", palette.error + click)
            line.gap(2)
        remark = fit(remark, max(0, line.room - 1), glyphs.ellipsis)
        room = line.room - width_of(remark) - 4
        if filter_line and room > 6:
            line.add(fit(f"/{filter_line}", room, glyphs.ellipsis), palette.mark + link("filter")).gap()
        line.fill(glyphs.rule, palette.rule, keep=width_of(remark) + 2)
        line.gap().add(remark, palette.dim)
        return line.strip()
