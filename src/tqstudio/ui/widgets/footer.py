"""The last line: the actions that are possible now, as clickable hints."""

from __future__ import annotations

from collections.abc import Callable, Collection

from textual.strip import Strip

from tqstudio.lifecycle import JobStatus
from tqstudio.ui.actions.registry import JOBS, LISTS, Action, View, actions_of, enabled, label
from tqstudio.ui.data.context import Context
from tqstudio.ui.data.keys import key_sign
from tqstudio.ui.data.model import Link
from tqstudio.ui.data.target import Target
from tqstudio.ui.look.line import Line, width_of
from tqstudio.ui.widgets.line_view import LineView, link

LAST = ("help", "leave")
"""Always shown, right-aligned."""
NEED_JOB = ("open", "copy")
OF_DONE = {"copy": 9, "open_result": 10}
"""Ranks where the job is done; opening its result is offered only there."""
MARKS = "unmark"
"""Offered only if jobs are marked."""
WHEN_LOST = ("start", "reconnect", "back")
"""The only actions offered while the supervisor is unreachable."""

TYPED = (("enter", "applies the filter"), ("esc", "clears the filter"))
"""The keys with a function while a filter is typed."""


class Footer(LineView):
    def __init__(
        self,
        context: Context,
        view: View,
        *,
        targets: Callable[[], Collection[Target]],
        marked: Callable[[], str],
        typing: Callable[[], bool],
    ) -> None:
        super().__init__(context, id="footer")
        self._view = view
        self._targets = targets
        self._marked = marked
        self._typing = typing

    def line(self, y: int, width: int) -> Strip:  # noqa: ARG002
        palette = self.context.vivid
        line = self.start(width, palette.bar).gap()
        if self._typing():
            for key, does in TYPED:
                line.add(key, palette.key).add(f" {does}", palette.dim).gap(2)
            return line.strip()
        targets, marked = self._targets(), self._marked()
        # A list has no previous screen, only other lists.
        left_out = "back" if self._view in LISTS else ""
        there = actions_of(self._view, read_only=self.context.read_only)
        hints = [a for a in there if a.footer and a.name != left_out]
        # What a done job is for is its ladder.
        done = any(target.status is JobStatus.DONE for target in targets)
        hints = [a for a in hints if self._key(a) and (done or a.name != "open_result")]
        hints.sort(key=lambda action: OF_DONE.get(action.name, action.footer) if done else action.footer)
        last = [a for a in hints if a.name in LAST]
        reserved = sum(self._width(a, targets) for a in last)
        if marked:
            line.add(f"{self.context.glyphs.marked}{marked}", palette.mark).gap(2)
        for action in hints:
            if action in last or not self._possible(action, targets, marked=bool(marked)):
                continue
            if self._width(action, targets) > line.room - reserved:
                break
            self._add(line, action, targets)
        line.gap(line.room - reserved)
        for action in last:
            self._add(line, action, targets)
        return line.strip()

    def _possible(self, action: Action, targets: Collection[Target], *, marked: bool) -> bool:
        if self.context.model.connection.link is Link.LOST:
            # A supervisor that says why it cannot answer runs, and one that accepts connections too.
            connection = self.context.model.connection
            runs = self.context.model.remote or connection.reason or connection.unresponsive
            return action.name in WHEN_LOST and not (action.name == "start" and runs)
        if action.name in ("start", "reconnect") or (action.group == "Folder" and self.context.model.remote):
            return False
        single = action.name in NEED_JOB or (action.group == "Job" and action.operation is None)
        if self._view in JOBS and single and (marked or not targets):
            # These act on the job under the cursor, which is confusing while others are marked.
            return False
        return enabled(action, targets) and (marked or action.name != MARKS)

    def _label(self, action: Action, targets: Collection[Target]) -> str:
        return label(action, targets, paused=self.context.model.paused)

    def _width(self, action: Action, targets: Collection[Target]) -> int:
        return width_of(self._key(action)) + 1 + width_of(self._label(action, targets)) + 2

    def _add(self, line: Line, action: Action, targets: Collection[Target]) -> None:
        palette, click = self.context.vivid, link(action.name)
        line.add(self._key(action), palette.key + click)
        line.add(f" {self._label(action, targets)}", palette.dim + click).gap(2)

    def _key(self, action: Action) -> str:
        names = ("raise", "lower") if action.name == "raise" else (action.name,)
        keys = [self.context.keys.of(self._view, name)[:1] for name in names]
        return " ".join(key_sign(key) for found in keys for key in found)
