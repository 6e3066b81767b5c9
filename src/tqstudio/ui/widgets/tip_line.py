"""The line above the footer: actions that are worth a try, until each was tried."""

from __future__ import annotations

from textual.strip import Strip

from tqstudio.ui.actions.registry import View, actions_of
from tqstudio.ui.data.context import Context
from tqstudio.ui.data.tips import Tip
from tqstudio.ui.look.line import width_of
from tqstudio.ui.widgets.line_view import LineView, link


class TipLine(LineView):
    """Hidden without tips for this view; those that do not fit follow when one before them was tried."""

    def __init__(self, context: Context, view: View) -> None:
        super().__init__(context, id="tips")
        self._actions = {action.name for action in actions_of(view)}
        self._hides = ("back", "hides this") if view == "queue" else None

    def _tips(self) -> list[Tip]:
        status = self.context.model.status
        counts = status["jobs"] if status else {}
        return self.context.model.tips.shown(self._actions, [each for each in counts if counts[each]])

    def line(self, y: int, width: int) -> Strip:  # noqa: ARG002
        palette, sign = self.context.vivid, self.context.sign
        line = self.start(width, palette.notice).gap().add("try", palette.accent).gap(2)
        hints = [(tip.action, tip.does) for tip in self._tips()]
        for action, does in [*hints, *([self._hides] if self._hides else [])]:
            if width_of(sign(action)) + 1 + width_of(does) > line.room:
                continue
            click = link(action)
            line.add(sign(action), palette.key + click).add(f" {does}", palette.text + click).gap(2)
        return line.strip()

    def paint(self) -> None:
        self.set_class(bool(self._tips()), "open")
        super().paint()
