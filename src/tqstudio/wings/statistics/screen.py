"""The statistics view: what was done in the last 30 days, as sums, by day, worker and batch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.strip import Strip

from tqstudio.errors import TqError, in_one_line
from tqstudio.protocol import calls
from tqstudio.ui.actions.registry import View, bindings_of
from tqstudio.ui.look.line import fit_name, width_of
from tqstudio.ui.screens.frame.base import StudioScreen
from tqstudio.ui.widgets.document import Document, Section
from tqstudio.wings.statistics import figures as figures
from tqstudio.words import format as fmt

if TYPE_CHECKING:
    from tqstudio.protocol.answers import StatisticsRow, StatisticsView

REREAD_S = 300.0
TWO_COLUMNS = 150
GROUPS = ("day", "worker", "batch")
_KEY_CELLS, _MOST_KEY_CELLS = 11, 32
"""Least and most cells of days, workers and batches."""
_CELLS = 7
_LISTED = 30
"""Workers and batches that are shown."""


class StatisticsScreen(StudioScreen):
    VIEW: ClassVar[View] = "statistics"
    BINDINGS = bindings_of("statistics")

    def body(self) -> ComposeResult:
        self.views: dict[str, StatisticsView] = {}
        self._problem = ""
        self.document = Document(self.context, self._columns, two_from=TWO_COLUMNS)
        yield self.document

    def on_mount(self) -> None:
        self.shell.start(self.reread())
        self.set_interval(REREAD_S, self._reread_shown)

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        self.document.focus()
        if self.views or self._problem:
            self.shell.start(self.reread())

    async def _reread_shown(self) -> None:
        if self.is_current:
            await self.reread()

    async def reread(self) -> None:
        try:
            self.views = {by: await self.context.feed.send(calls.statistics(by)) for by in GROUPS}
            self._problem = ""
        except TqError as error:
            self._problem = in_one_line(error.code, error.message, error.hint)
        self.paint()

    def tab_text(self) -> tuple[str, str]:
        return "", ""

    async def do_back(self, _: str) -> None:
        await self.shell.do_back("")

    def _columns(self, two: bool) -> list[list[Section]]:
        """Sums, workers and batches left, days right; below each other in a narrow terminal."""
        if not self.views or self._problem:
            return [[self._waiting]]
        days, workers, batches = (partial(self._table, by) for by in GROUPS)
        if two:
            return [[self._sums, workers, batches], [days]]
        return [[self._sums, days, workers, batches]]

    def _waiting(self, width: int) -> list[Strip]:
        return self.document.paragraph(self._problem or "reading…", width, self.context.palette.dim)

    def _sums(self, width: int) -> list[Strip]:
        """One line per figure: its sum, and its course over the days."""
        palette, heights = self.context.palette, self.context.glyphs.heights
        view = self.views["day"]
        lines = [self.document.heading(f"Last {len(view['rows'])} days", width, "a block is a day")]
        for (title, key, _), value in zip(figures.FIGURES, figures.values(view["total"]), strict=True):
            line = self.document.start(width).gap(2).cell(figures.NAMES[title], 18, palette.faint)
            line.cell(value or self.context.glyphs.states["skipped"], _CELLS, palette.strong, right=True)
            days = view["rows"][-max(0, line.room - 4) :]
            course = fmt.sparkline(figures.series(days, key), heights)
            lines.append(line.gap(3).add(course, palette.accent).strip())
        return [*lines, self.document.blank(width)]

    def _table(self, by: str, width: int) -> list[Strip]:
        """One line per day, worker or batch, latest first."""
        palette = self.context.palette
        rows = self.views[by]["rows"]
        if by == "day":
            rows = [row for row in reversed(rows) if row["attempts"]]
        remark = f"the latest {_LISTED}" if len(rows) > _LISTED else ""
        lines = [self.document.heading(f"By {by}", width, remark)]
        listed = rows[:_LISTED]
        names = [figures.name_of(row, self.context.model.now()) for row in listed]
        widest = max((width_of(name + more) for name, more in names), default=0)
        cells = max(_KEY_CELLS, min(widest, _MOST_KEY_CELLS))
        head = self.document.start(width).gap(2).cell("", cells)
        legend = []
        for title, _, _ in figures.FIGURES:
            if head.room > _CELLS:
                head.cell(title, _CELLS, palette.faint, right=True)
                legend += [figures.LEGENDS[title]] if title in figures.LEGENDS else []
        lines.append(head.strip())
        lines += [self._row(*row, width, cells) for row in zip(listed, names, strict=True)]
        if not rows:
            lines += self.document.paragraph("nothing yet", width, palette.faint)
        elif by == "day":
            lines += self.document.paragraph("; ".join(legend), width, palette.faint)
        return [*lines, self.document.blank(width)]

    def _row(self, row: StatisticsRow, name: tuple[str, str], width: int, cells: int) -> Strip:
        palette = self.context.palette
        key = fit_name(name[0], cells - width_of(name[1]), self.context.glyphs.ellipsis) + name[1]
        line = self.document.start(width).gap(2).cell(key, cells, palette.text)
        for (title, _, _), value in zip(figures.FIGURES, figures.values(row), strict=True):
            if line.room > _CELLS:
                style = palette.error if title == "failed" and row["failed"] else palette.dim
                line.cell(value, _CELLS, style, right=True)
        return line.strip()
