"""Notices under the header: problems that block work, with the next step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.strip import Strip

from tqstudio import units
from tqstudio.errors import in_one_line
from tqstudio.paths import readable
from tqstudio.ui.data.model import Link, Model
from tqstudio.ui.look.line import wrap
from tqstudio.ui.widgets.line_view import LineView
from tqstudio.words import format as fmt
from tqstudio.words.sentences import gate_words

if TYPE_CHECKING:
    from tqstudio.protocol.answers import FolderView, GateView

MAX_LINES = 4
SIGN_CELLS = 3


class Notice(LineView):
    """Hidden without notices; long sentences are wrapped rather than cut."""

    _count = 0

    def line(self, y: int, width: int) -> Strip:
        palette = self.context.vivid
        line = self.start(width, palette.notice)
        lines = self._lines(width)
        if y < len(lines):
            severity, first, text = lines[y]
            style = palette.error if severity == "error" else palette.warning
            sign = self.context.glyphs.states["failed" if severity == "error" else "warning"]
            line.gap().add(sign if first else " ", style).gap()
            line.add(text, palette.strong)
        return line.strip()

    def _lines(self, width: int) -> list[tuple[str, bool, str]]:
        """Severity, whether a sentence starts here, and text of each line."""
        lines = []
        for severity, *wordings in self.sentences():
            # The first of those that take the fewest lines says most.
            parts = min((wrap(fmt.plain(text), max(20, width - SIGN_CELLS)) for text in wordings), key=len)
            lines += [(severity, at == 0, part) for at, part in enumerate(parts)]
        return lines[:MAX_LINES]

    def sentences(self) -> list[tuple[str, ...]]:
        """All notices, most urgent first: severity, then wordings from long to short."""
        model = self.context.model
        found: list[tuple[str, ...]] = []
        if model.connection.link is Link.LOST:
            found.append(("error", *self._lost(model)))
        elif model.status is not None:
            found += [("warning", *self._gate(gate)) for gate in model.status["gates"]]
        if model.folder_news:
            found.append(("warning", *self._folders(model.folder_news)))
        found += [("warning", note) for note in model.notes]
        return found

    def paint(self) -> None:
        count = len(self._lines(self.app.size.width))
        if count != self._count:
            self._count = count
            self.set_class(bool(count), "open")
            self.styles.height = max(1, count)
        super().paint()

    def _lost(self, model: Model) -> list[str]:
        """Why the supervisor is unreachable, and the key that helps."""
        ago = f", last seen {fmt.short_duration(model.since_contact_s)} ago" if model.last_contact else ""
        again, start = self.context.sign("reconnect"), self.context.sign("start")
        if model.connection.reason:
            return [f"{model.connection.reason} – {again} tries again now"]
        if model.connection.unresponsive:
            what = "the supervisor is running but does not answer"
            return [f"{what}{ago} – {again} tries again now", f"{what}; {again} tries again"]
        if model.remote:
            what = f"no studio answers at {model.remote}"
            return [f"{what}{ago}: nothing below is updated – {again} retries now"]
        what, starts = "no supervisor is running", "" if self.context.read_only else f"{start} starts one, "
        return [
            f"{what}{ago}: nothing below is updated – {starts}{again} retries now",
            f"{what}{ago} – {starts}{again} retries",
            f"{what} – {starts}{again} retries",
        ]

    def _gate(self, gate: GateView) -> list[str]:
        """What blocks the queue; for a full disk also shorter wordings with the figures."""
        words = [gate_words(gate, None if self.context.read_only else self.context.sign)]
        if "path" in gate:
            needed = f", {units.size(gate['needed'])} needed" if gate["needed"] else ""
            figures = f"not enough space at {readable(gate['path'])}: {units.size(gate['free'])} free{needed}"
            words.append(in_one_line(gate["code"], figures, gate["hint"]))
        return words

    def _folders(self, folders: Sequence[FolderView]) -> list[str]:
        problem, shows, hides = folders[0]["problem"], *map(self.context.sign, ("view_folders", "back"))
        assert problem is not None
        if len(folders) > 1:
            names = ", ".join(readable(folder["path"]) for folder in folders)
            why = "" if self.context.read_only else f" – {shows} shows why"
            return [f"{len(folders)} drop folders cannot be watched: {names}{why}"]
        what = in_one_line(problem["code"], problem["message"])
        if self.context.read_only:
            return [f"{what} – {problem['hint']}", what]
        hint = f"{problem['hint']} ({shows} shows it, {hides} hides this)"
        return [f"{what} – {hint}", f"{what} – {shows} shows what to do"]
