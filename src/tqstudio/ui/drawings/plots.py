"""Draws curves as columns of blocks beside a scale, and pictures in half blocks, as lines."""

from __future__ import annotations

import math
import os
from base64 import b64decode
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from rich.color import Color
from rich.style import Style
from textual.strip import Strip

from tqstudio.ui.drawings.curves import add_course, resampled
from tqstudio.ui.look.line import Line
from tqstudio.words import format as fmt
from tqstudio.words.symbols import ASCII

if TYPE_CHECKING:
    from textual.app import App

    from tqstudio.protocol.answers import PictureView
    from tqstudio.ui.data.context import Context

LABEL_CELLS, SCALE_CELLS = 10, 6
_BEFORE = LABEL_CELLS + SCALE_CELLS + 3
"""Cells before the blocks."""


class Canvas(Protocol):
    """The widget that is drawn on."""

    context: Context

    @property
    def app(self) -> App[Any]:
        """The app that it belongs to."""

    def start(self, width: int) -> Line:
        """Begin a line."""


def curve(
    view: Canvas,
    values: Sequence[float | None],
    labels: Sequence[str],
    width: int,
    height: int,
    write: Callable[[float], str] = "{:g}".format,
) -> list[Strip]:
    """The lines of a curve; its first one names the value at its top, its last one 0.

    Args:
        values: None where there is none.
        labels: texts beside the first lines.
        write: how the scale is written, in at most `SCALE_CELLS`.
    """
    palette, fills = view.context.palette, view.context.glyphs.fills
    known = [value for value in values if value is not None]
    top, most = _scale(max(known, default=0.0)), height * (len(fills) - 1)
    levels = [
        0 if not value else max(1, round(value / top * most))
        for value in resampled(values, width - _BEFORE - 1)
    ]
    lines = []
    for row in range(height):
        below = (height - 1 - row) * (len(fills) - 1)
        blocks = "".join(fills[max(0, min(len(fills) - 1, level - below))] for level in levels)
        label = labels[row] if row < len(labels) else ""
        mark = write(top) if row == 0 else "0" if row == height - 1 else ""
        line = view.start(width).gap().cell(label, LABEL_CELLS, palette.dim if row else palette.strong)
        line.gap().cell(mark, SCALE_CELLS, palette.faint, right=True).gap()
        add_course(line, blocks, fills[-1], palette, is_top=not row)
        lines.append(line.strip())
    return lines


def axis(view: Canvas, width: int, *marks: str) -> Strip:
    """The line below curves: marks from their begin to their end."""
    line, room = view.start(width), width - _BEFORE - 1
    for number, mark in enumerate(marks):
        share = number / max(1, len(marks) - 1)
        line.to(_BEFORE + round(share * (room - len(mark)))).add(mark, view.context.palette.faint)
    return line.strip()


def _scale(most: float) -> float:
    """The end of a scale: a round number, so that it seldom changes."""
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in (1, 1.5, 2, 3, 4, 6, 8, 10) if most <= step * power * 1.000001)


def shows_pictures(view: Canvas) -> bool:
    """Whether the terminal has the colours for them, and the user wants them; not over SSH unasked."""
    app, context = view.app, view.context
    colours = not app.no_color and app.console.color_system in ("256", "truecolor")
    default = "off" if os.environ.get("SSH_CONNECTION") else "on"
    wanted = (context.remembered.get("pictures") or default) == "on"
    return colours and wanted and context.glyphs is not ASCII


@lru_cache(maxsize=8192)
def _half_block(upper: bytes, lower: bytes) -> Style:
    # Few colours, so that neighbours are often alike and are sent once.
    colours = (Color.from_rgb(*(value & 0xF8 for value in each)) if each else None for each in (upper, lower))
    return Style(color=next(colours), bgcolor=next(colours))


def pictures(view: Canvas, found: PictureView, width: int) -> list[Strip]:
    """The lines of pictures beside each other, two pixels a cell; below a storyboard, its times."""
    palette, size = view.context.palette, (found["width"], found["height"])
    times = tuple(map(fmt.clock_duration, found["times"]))
    return _pictures(tuple(found["rgb_b64"]), size, times, width, palette.base, palette.faint)


# Screens are drawn again at each change of something else, and pictures have a thousand cells.
@lru_cache(maxsize=8)
def _pictures(
    parts: tuple[str, ...],
    size: tuple[int, int],
    times: tuple[str, ...],
    width: int,
    base: Style,
    faint: Style,
) -> list[Strip]:
    pixels = [b64decode(part) for part in parts]
    step = size[0] * 3
    lines = [Line(width, base).gap() for _ in range(0, size[1], 2)]
    for number, line in enumerate(lines):
        for rgb in pixels:
            line.gap()
            for at in range(number * 2 * step, (number * 2 + 1) * step, 3):
                line.add("▀", _half_block(rgb[at : at + 3], rgb[at + step : at + step + 3]))
    below = Line(width, base).gap()
    for time in times:
        below.gap().cell(time, size[0], faint)
    return [line.strip() for line in (*lines, *([below] if times else []))]
