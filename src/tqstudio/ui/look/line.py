"""Builds a screen line as a strip with columns of fixed width."""

from __future__ import annotations

import re

from rich.cells import cell_len, chop_cells, set_cell_size, split_graphemes
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

_BLANKS = re.compile(r"[ \t\n]+")


def width_of(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, width: int, ellipsis: str = "…") -> str:
    """The text in at most `width` cells; a longer one is cut at the end."""
    if width_of(text) <= width:
        return text
    if width <= 1:
        return set_cell_size(text, max(width, 0))
    return set_cell_size(text, width - 1).rstrip() + ellipsis


def fit_name(name: str, width: int, ellipsis: str = "…") -> str:
    """A file name in at most `width` cells; cut in the middle, as the end distinguishes files."""
    if width_of(name) <= width:
        return name
    tail_width = min(10, width // 3)
    if tail_width < 4:
        return fit(name, width, ellipsis)
    start, used = len(name), 0
    while start > 0 and used + width_of(name[start - 1]) <= tail_width:
        start -= 1
        used += width_of(name[start])
    # A combining mark belongs to the letter before it, which was cut off.
    while start < len(name) and width_of(name[start]) == 0:
        start += 1
    return set_cell_size(name, width - 1 - used).rstrip() + ellipsis + name[start:]


class Line:
    """A line under construction, from left to right, never wider than `width`."""

    __slots__ = ("_base", "_segments", "_used", "width")

    def __init__(self, width: int, base: Style) -> None:
        self.width = width
        self._base = base
        self._segments: list[Segment] = []
        self._used = 0

    @property
    def room(self) -> int:
        return self.width - self._used

    def add(self, text: str, style: Style | None = None) -> Line:
        """Append text, cut at the end of the line."""
        if not text or self.room <= 0:
            return self
        cells = width_of(text)
        if cells > self.room:
            text, cells = set_cell_size(text, self.room), self.room
        self._segments.append(Segment(text, self._base if style is None else self._base + style))
        self._used += cells
        return self

    def cell(self, text: str, width: int, style: Style | None = None, *, right: bool = False) -> Line:
        """Append a column of exactly `width` cells."""
        text = fit(text, width)
        gap = " " * (width - width_of(text))
        return self.add(gap + text if right else text + gap, style)

    def gap(self, width: int = 1) -> Line:
        return self.add(" " * width)

    def to(self, x: int) -> Line:
        """Fill with blanks up to column `x`."""
        return self.gap(x - self._used)

    def fill(self, sign: str, style: Style | None = None, *, keep: int = 0) -> Line:
        """Repeat a symbol up to the end, leaving `keep` cells."""
        return self.add(sign * (self.room - keep), style)

    def strip(self) -> Strip:
        self.gap(self.room)
        return Strip(self._segments, self.width)


_JOINED_CELLS = 6
"""Most unchanged cells between two changes that are drawn together."""


def changed_spans(old: Strip, new: Strip) -> list[tuple[int, int]]:
    """Columns in which two strips of equal width differ, as (start, width); near ones are joined.

    The terminal driver writes whole regions, so regions are kept as small as possible.
    """
    # Most lines are unchanged, and comparing segments is faster than comparing cells.
    if old is new or old == new:
        return []
    spans: list[tuple[int, int]] = []
    for x, (a, b) in enumerate(zip(_cells(old), _cells(new), strict=False)):
        if a != b:
            if spans and x - (spans[-1][0] + spans[-1][1]) <= _JOINED_CELLS:
                spans[-1] = (spans[-1][0], x + 1 - spans[-1][0])
            else:
                spans.append((x, 1))
    return spans


def _cells(strip: Strip) -> list[tuple[str, Style | None]]:
    cells: list[tuple[str, Style | None]] = []
    for text, style, _ in strip:
        if text.isascii():
            cells.extend([(char, style) for char in text])
            continue
        # As the strip is measured: a joined emoji is one grapheme, and a mark belongs to its letter.
        for start, end, wide in split_graphemes(text)[0]:
            sign = text[start:end]
            if wide == 0 and cells:
                cells[-1] = (cells[-1][0] + sign, style)
            else:
                # A wide character fills two cells, which change together.
                cells.extend([(sign, style)] * wide)
    return cells


def wrap(text: str, width: int) -> list[str]:
    """Break text into lines of at most `width` cells, at blanks where possible.

    Other spaces, such as the wide one of Japanese names, are kept, so that paths stay correct.
    """
    lines: list[str] = []
    line = ""
    for word in _BLANKS.split(text.strip(" \t\n")):
        if line and width_of(line) + 1 + width_of(word) <= width:
            line += " " + word
            continue
        if line:
            lines.append(line)
        *full, line = chop_cells(word, max(1, width)) or [""]
        lines += full
    return [*lines, line] if line else lines
