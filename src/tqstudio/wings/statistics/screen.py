"""The statistics view: what was done, as curves by hour and day, and in tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import dropwhile
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.strip import Strip

from tqstudio import units
from tqstudio.errors import TqError, in_one_line
from tqstudio.paths import readable
from tqstudio.protocol import calls
from tqstudio.ui.actions.registry import View, bindings_of
from tqstudio.ui.drawings.bars import add_bar
from tqstudio.ui.drawings.plots import axis, curve
from tqstudio.ui.look.line import fit_name, width_of
from tqstudio.ui.screens.frame.base import StudioScreen
from tqstudio.ui.widgets.document import Document, Section
from tqstudio.wings.statistics import figures as figures
from tqstudio.words import format as fmt

if TYPE_CHECKING:
    from tqstudio.protocol.answers import StatisticsRow, StatisticsView

REREAD_S = 300.0
TWO_COLUMNS = 150
GROUPS = ("hour", "day", "worker", "batch")
CURVES: dict[str, tuple[tuple[str, str, float, Callable[[float], str]], ...]] = {
    "hour": (("jobs done", "done", 1, "{:g}".format), ("in queue", "queue", 1, "{:g}".format)),
    "day": (
        ("video", "media_s", 3600, "{:.3g}h".format),
        ("written", "bytes_out", 1, units.short_size),
        ("in queue", "queue", 1, "{:g}".format),
        ("ETA error", "eta_error", 0.01, "{:.3g}%".format),
    ),
}
"""The curves of hours and days: name, figure, its unit, and how its scale is written."""
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
        """Hours, disks, workers and batches left, days right; below each other in a narrow terminal."""
        if not self.views or self._problem:
            return [[self._waiting]]
        days, workers, batches = (partial(self._table, by) for by in ("day", "worker", "batch"))
        hourly, daily = (partial(self._curves, by) for by in CURVES)
        if two:
            return [[hourly, self._disks, workers, batches], [daily, days]]
        return [[hourly, daily, self._disks, days, workers, batches]]

    def _waiting(self, width: int) -> list[Strip]:
        return self.document.paragraph(self._problem or "reading…", width, self.context.palette.dim)

    def _curves(self, by: str, width: int) -> list[Strip]:
        """The course of the most important figures; a sentence while it would be a single tower."""
        doc, view = self.document, self.views[by]
        rows = view["rows"]
        lines = [doc.heading(f"Last {len(rows)} {by}s", width, f"by {by}")]
        if sum(row["attempts"] > 0 for row in rows) < 2:
            lines += doc.paragraph(_beginning(by, view["total"]), width, self.context.palette.dim)
            return [*lines, doc.blank(width)]
        for label, key, unit, write in CURVES[by]:
            values = [None if row[key] is None else row[key] / unit for row in rows]  # type: ignore[literal-required]
            total = view["total"].get(key)
            whole = values[-1] if total is None else total / unit  # type: ignore[operator]
            labels = (label, "" if whole is None else write(whole))
            lines += curve(doc, values, labels, width, max(3, doc.size.height // 14), write)
        marks = (rows[at]["key"][5:] for at in (0, len(rows) // 2, -1))
        return [*lines, axis(doc, width, *marks), doc.blank(width)]

    def _disks(self, width: int) -> list[Strip]:
        """What is free, and until when; of several disks it is not known which one fills."""
        doc, status = self.document, self.context.model.status
        disks = status["disk"] if status else []
        lines = [doc.heading("Disks", width, "used")] if disks else []
        for disk in disks:
            line = doc.start(width).gap().cell(f"{units.short_size(disk['free'])} free", 17).gap(2)
            used = 100 - 100 * disk["free"] / max(1, disk["total"])
            add_bar(line, used, max(0, line.room - 6), "running", self.context.glyphs, self.context.palette)
            lines.append(line.gap().add(f"{used:.0f}%", self.context.palette.dim).strip())
            lines += doc.paragraph(readable(disk["path"]), width, self.context.palette.faint, indent=1)
        written = [row["bytes_out"] for row in self.views["day"]["rows"][:-1]]
        week = list(dropwhile(lambda each: not each, written[-7:]))
        if len(disks) == 1 and week:
            a_day = sum(week) / len(week)
            left = fmt.short_duration(max(0, disks[0]["free"] - disks[0]["reserve"]) / a_day * 86_400)
            text = f"full in {left} if {units.size(a_day)} a day are written, as in the last {len(week)} days"
            lines += doc.paragraph(text, width, self.context.palette.text, indent=1)
        return [*lines, doc.blank(width)]

    def _table(self, by: str, width: int) -> list[Strip]:
        """One line per day, worker or batch, latest first."""
        palette = self.context.palette
        rows = self.views[by]["rows"]
        if by == "day":
            total: StatisticsRow = {**self.views[by]["total"], "key": "all days"}
            rows = [row for row in (total, *reversed(rows)) if row["attempts"]]
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


def _beginning(by: str, total: StatisticsRow) -> str:
    """What is said while there is less than two hours or days to draw."""
    if not total["attempts"]:
        return "nothing has ended yet; what workers do is drawn here"
    sums = f"{fmt.counted(total['done'], 'job')} done, {fmt.clock_duration(total['media_s'])} of video"
    return f"{sums}, all in one {by}; curves begin with the next"
