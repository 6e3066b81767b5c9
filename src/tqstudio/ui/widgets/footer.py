"""The last line: what can be done now, here, to this job. Every hint can be clicked."""

from __future__ import annotations

from collections.abc import Callable

from textual.strip import Strip

from tqstudio.ui.actions import JOBS, LISTS, Action, View, actions_of, enabled, key_sign, label
from tqstudio.ui.line import Line, width_of
from tqstudio.ui.model import Link
from tqstudio.ui.studio import Studio
from tqstudio.ui.target import Target
from tqstudio.ui.widgets.line_view import LineView, link

LAST = ("help", "leave")
"""Always shown, at the right."""
NEED_JOB = ("open", "copy")
WHEN_LOST = ("start", "reconnect", "back")
"""What helps, and all that is offered, while no supervisor answers."""

TYPED = (("enter", "keeps the filter"), ("esc", "shows all again"))
"""The keys that are no text while a filter is typed."""


class Footer(LineView):
    def __init__(
        self,
        studio: Studio,
        view: View,
        *,
        target: Callable[[], Target | None],
        marked: Callable[[], str],
        typing: Callable[[], bool],
    ) -> None:
        super().__init__(studio, id="footer")
        self._view = view
        self._target = target
        self._marked = marked
        self._typing = typing

    def line(self, y: int, width: int) -> Strip:  # noqa: ARG002
        palette = self.studio.vivid
        line = self.start(width, palette.bar).gap()
        if self._typing():
            for key, does in TYPED:
                line.add(key, palette.key).add(f" {does}", palette.dim).gap(2)
            return line.strip()
        target = self._target()
        hints = sorted((a for a in actions_of(self._view) if self._shown_here(a)), key=lambda a: a.footer)
        last = [a for a in hints if a.name in LAST]
        reserved = sum(self._width(a, target) for a in last)
        if marked := self._marked():
            line.add(f"{self.studio.glyphs.marked}{marked}", palette.mark).gap(2)
        for action in hints:
            if action in last or not self._possible(action, target):
                continue
            if self._width(action, target) > line.room - reserved:
                break
            self._add(line, action, target)
        line.gap(line.room - reserved)
        for action in last:
            self._add(line, action, target)
        return line.strip()

    def _shown_here(self, action: Action) -> bool:
        # From a list there is nowhere to go back to but another list.
        return bool(action.footer) and not (action.name == "back" and self._view in LISTS)

    def _possible(self, action: Action, target: Target | None) -> bool:
        if self.studio.model.connection.link is Link.LOST:
            return action.name in WHEN_LOST
        if action.name in ("start", "reconnect"):
            return False
        if target is None and self._view in JOBS and (action.group == "Job" or action.name in NEED_JOB):
            return False
        return enabled(action, target)

    def _width(self, action: Action, target: Target | None) -> int:
        return width_of(_key(action)) + 1 + width_of(label(action, target)) + 2

    def _add(self, line: Line, action: Action, target: Target | None) -> None:
        palette, click = self.studio.vivid, link(action.name)
        line.add(_key(action), palette.key + click).add(f" {label(action, target)}", palette.dim + click).gap(
            2
        )


def _key(action: Action) -> str:
    return "+ -" if action.name == "raise" else key_sign(action.keys[0])
