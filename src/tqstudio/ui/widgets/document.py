"""Scrollable document of sections, in one column or two."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.strip import Strip

from tqstudio.ui.data.context import Context
from tqstudio.ui.look.line import width_of
from tqstudio.ui.widgets.line_view import LineView
from tqstudio.ui.widgets.row_list import ScrolledLines

Section = Callable[[int], list[Strip]]
"""Draws the lines of a section for a width."""


class Document(ScrolledLines):
    """Args: `columns` returns the sections for one column, or for two if there is room."""

    def __init__(
        self, context: Context, columns: Callable[[bool], list[list[Section]]], *, two_from: int
    ) -> None:
        super().__init__(context, id="document")
        self._columns = columns
        self._two_from = two_from
        self._lines: list[Strip] = []

    def on_unmount(self) -> None:
        self._lines.clear()

    def build(self) -> None:
        """Draw all sections again."""
        width = self.size.width
        if not width:
            return
        columns = self._columns(width >= self._two_from)
        each = width // len(columns)
        drawn = [[strip for section in column for strip in section(each)] for column in columns]
        if len(drawn) == 1:
            self._lines = drawn[0]
        else:
            blank = self.start(each).strip()
            rows = max(map(len, drawn))
            filled = [column + [blank] * (rows - len(column)) for column in drawn]
            self._lines = [Strip.join(parts) for parts in zip(*filled, strict=True)]
        self.top = max(0, min(self.top, len(self._lines) - self.page))

    def paint(self) -> None:
        self.build()
        super().paint()

    def redraw(self) -> None:
        self.build()
        super().redraw()

    def count(self) -> int:
        return len(self._lines)

    def on_click(self, event: events.Click) -> None:
        """Handle links only: rows cannot be selected."""
        LineView.on_click(self, event)

    def row(self, at: int, width: int, *, selected: bool) -> Strip:  # noqa: ARG002
        return self._lines[at].adjust_cell_length(width, self.context.palette.base)

    # Building blocks of sections.

    def heading(self, title: str, width: int, remark: str = "") -> Strip:
        palette, glyphs = self.context.palette, self.context.glyphs
        line = self.start(width).gap().add(title, palette.accent).gap()
        line.fill(glyphs.rule, palette.rule, keep=width_of(remark) + (3 if remark else 1))
        return (line.gap().add(remark, palette.dim) if remark else line).strip()

    def blank(self, width: int) -> Strip:
        return self.start(width).strip()

    def fact(self, name: str, value: str, width: int) -> list[Strip]:
        return self.named(name, value, width, cells=14, indent=1, margin=1)
