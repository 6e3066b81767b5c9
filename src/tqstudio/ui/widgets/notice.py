"""The lines under the header that are there only when something stands in the way, and say what to do."""

from __future__ import annotations

from textual.strip import Strip

from tqstudio.ui import format as fmt
from tqstudio.ui.line import fit
from tqstudio.ui.model import Link
from tqstudio.ui.widgets.line_view import LineView

MAX_LINES = 3


class Notice(LineView):
    """Hidden when all is well: height follows the number of sentences."""

    _count = 0

    def line(self, y: int, width: int) -> Strip:
        palette = self.studio.palette
        line = self.start(width, palette.notice)
        sentences = self.sentences()
        if y < len(sentences):
            severity, text = sentences[y]
            style = palette.error if severity == "error" else palette.warning
            sign = self.studio.glyphs.states["failed" if severity == "error" else "held"]
            line.gap().add(sign, style).gap().add(fit(fmt.plain(text), width - 3), palette.strong)
        return line.strip()

    def sentences(self) -> list[tuple[str, str]]:
        """What there is to say, most urgent first, each with its severity."""
        model = self.studio.model
        found: list[tuple[str, str]] = []
        connection = model.connection
        if connection.link is Link.LOST:
            left = (connection.retry_at - model.now()).total_seconds() if connection.retry_at else 0
            who = "supervisor does not answer" if self.app.size.width >= 80 else "no answer"
            retry = f"retrying in {max(0, round(left))} s"
            what = connection.reason or f"{who} – tqstudio up --detach starts it"
            found.append(("error", f"{what}; {retry}"))
        elif model.status is not None:
            for gate in model.status["gates"]:
                if gate["kind"] == "user":
                    why = f" ({gate['reason']})" if gate["reason"] else ""
                    found.append(("warning", f"the queue is paused{why} – P lets it go on"))
                else:
                    found.append(("warning", f"{gate['reason']} – {gate['hint']}"))
        found += [("warning", note) for note in model.notes]
        return found[:MAX_LINES]

    def paint(self) -> None:
        count = len(self.sentences())
        if count != self._count:
            self._count = count
            self.display = bool(count)
            self.styles.height = max(1, count)
        super().paint()
