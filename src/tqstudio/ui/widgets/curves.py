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


def resampled(values: Sequence[float], width: int) -> list[float]:
    """Return `width` values: means of neighbours of more values, repeated ones of fewer."""
    count = len(values)
    if not count:
        return [0.0] * width
    found = []
    for at in range(width):
        first = at * count // width
        part = values[first : max(first + 1, (at + 1) * count // width)]
        found.append(sum(part) / len(part))
    return found


def curve(
    values: Sequence[float], width: int, rows: int, glyphs: Glyphs, *, top: float | None = None
) -> list[str]:
    """Draw values as lines from the top one; ASCII has one line of digits at the bottom.

    Args:
        top: the value of full height; by default the largest one.
    """
    most = max(values, default=0.0) if top is None else top
    if width <= 0 or rows <= 0:
        return []
    drawn_rows = 1 if glyphs is ASCII else rows
    steps = drawn_rows * _STEPS
    heights = [
        0 if value <= 0 or most <= 0 else max(1, min(steps, round(value / most * steps)))
        for value in resampled(values, width)
    ]
    lines = [
        "".join(glyphs.heights[max(0, min(_STEPS, height - row * _STEPS))] for height in heights)
        for row in reversed(range(drawn_rows))
    ]
    return [" " * width] * (rows - drawn_rows) + lines


def add_course(line: Line, text: str, glyphs: Glyphs, palette: Colours, *, is_top: bool) -> None:
    """Append a line of a curve: the course itself in colour, what is below it dim."""
    for is_full, run in groupby(text, glyphs.heights[-1].__eq__):
        line.add("".join(run), palette.track if is_full and not is_top else palette.accent)
