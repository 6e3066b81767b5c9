"""Draws the course of a figure in blocks, one line or several lines high."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from tqstudio.words.symbols import ASCII, Glyphs

if TYPE_CHECKING:
    from tqstudio.ui.look.line import Line
    from tqstudio.ui.look.theme import Colours

_STEPS = 8
"""Heights of a cell, without the empty one."""


def resampled(values: Sequence[float | None], width: int) -> list[float | None]:
    """Return a value for each of `width` cells: the mean of several, or one of them in several cells."""
    found: list[float | None] = []
    for cell in range(max(0, width) if values else 0):
        first, end = cell * len(values) // width, (cell + 1) * len(values) // width
        part = [each for each in values[first : max(first + 1, end)] if each is not None]
        found.append(sum(part) / len(part) if part else None)
    return found


def curve(values: Sequence[float], width: int, rows: int, glyphs: Glyphs) -> list[str]:
    """Draw values as lines from the top one; ASCII has one line of digits at the bottom."""
    most = max(values, default=0.0)
    if width <= 0 or rows <= 0:
        return []
    drawn_rows = 1 if glyphs is ASCII else rows
    steps = drawn_rows * _STEPS
    heights = [
        0 if not value or most <= 0 else max(1, min(steps, round(value / most * steps)))
        for value in resampled(values, width)
    ]
    lines = [
        "".join(glyphs.heights[max(0, min(_STEPS, height - row * _STEPS))] for height in heights)
        for row in reversed(range(drawn_rows))
    ]
    return [" " * width] * (rows - drawn_rows) + lines


def add_course(line: Line, text: str, full: str, palette: Colours, *, is_top: bool) -> None:
    """Append a line of a curve: the course itself in colour, the area below it dim.

    Args:
        full: the sign of a cell that is full.
    """
    for is_full, run in groupby(text, full.__eq__):
        line.add("".join(run), palette.area if is_full and not is_top else palette.accent)
