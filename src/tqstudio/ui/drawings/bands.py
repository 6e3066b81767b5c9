"""Draws a running job as a band: its title, a strip of segments per quality, and the course of its speed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.style import Style
from textual.strip import Strip

from tqstudio.ui.drawings.curves import add_course, curve
from tqstudio.ui.look.line import Line, fit_name, width_of
from tqstudio.words import format as fmt
from tqstudio.words.symbols import ASCII

if TYPE_CHECKING:
    from tqstudio.protocol.answers import WallJob, WallQuality
    from tqstudio.ui.data.context import Context

_ROLES = ("running", "done", "held", "paused", "changing", "retry")
"""The states whose colours distinguish machines; a seventh machine has the first one again."""
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SPEED_CELLS = 8
_PERCENT_CELLS = 6
_MOST_NAME_CELLS = 16


class Bands:
    """Draws the bands of one width.

    Args:
        start: begins a line of a width.
        workers: the names of the machines, by number.
        letters: whether segments are drawn as the letter of their machine, as without colours.
    """

    def __init__(
        self,
        context: Context,
        start: Callable[[int], Line],
        workers: Sequence[str],
        *,
        letters: bool,
    ) -> None:
        self._context, self._start, self._workers = context, start, workers
        self._letters = letters or context.glyphs is ASCII

    @staticmethod
    def height(job: WallJob, strip_rows: int = 1, curve_rows: int = 1) -> int:
        """Lines of a band, with the empty one below it."""
        return 1 + max(1, len(job["qualities"])) * strip_rows + curve_rows + 1

    def draw(self, job: WallJob, width: int, strip_rows: int, curve_rows: int) -> list[Strip]:
        lines = [self._title(job, width), *self.qualities(job, width, strip_rows, curve_rows)]
        return [*lines, self._start(width).strip()]

    def qualities(self, job: WallJob, width: int, strip_rows: int, curve_rows: int) -> list[Strip]:
        """Draw the strips and the course of the speed, without a title."""
        lines = []
        cells = min(_MOST_NAME_CELLS, max([6, *(width_of(each["name"]) for each in job["qualities"])]))
        for quality in job["qualities"]:
            lines += self._quality(quality, width, cells, strip_rows)
        if not job["qualities"]:
            step = (job["step"] or "starting").replace("_", " ")
            lines.append(self._start(width).gap(2).add(step, self._context.palette.dim).strip())
        return [*lines, *self._speed(job, width, cells, curve_rows)]

    def machines(self, job: WallJob, width: int) -> list[Strip]:
        """Draw the letters and colours of the job's machines, if there is more than one."""
        legend = self._legend(job)
        if len(legend) <= 2:
            return []
        line = self._start(width).gap(2)
        for text, style in legend:
            line.add(text, style)
        return [line.strip()]

    def machine(self, number: int) -> tuple[str, Style]:
        """The letter and the colour of a machine; -1 for an unknown one."""
        palette = self._context.palette
        if number < 0:
            return "?", palette.faint
        return _LETTERS[number % len(_LETTERS)], palette.states[_ROLES[number % len(_ROLES)]]

    def _title(self, job: WallJob, width: int) -> Strip:
        palette, glyphs, now = self._context.palette, self._context.glyphs, self._context.model.now()
        line = self._start(width).gap()
        line.add(f"{glyphs.states['running']} ", palette.states["running"]).add(f"{job['id']} ", palette.dim)
        legend = self._legend(job)
        reserved = sum(width_of(text) for text, _ in legend)
        facts = [fmt.source_size(job["source"]), job["profile"], fmt.percent(job["progress"]).strip()]
        if job["eta"] is not None:
            facts.append(f"left {fmt.with_range(job['eta'])}")
            facts.append(f"done about {fmt.time_of_day(job['eta']['eta_s'], now)}")
        bullet = f" {glyphs.bullet} "
        while (
            facts and line.room - reserved - width_of(bullet.join(facts)) < min(24, width_of(job["name"])) + 4
        ):
            # The machines and the name stay; what is left out is beside the bars, or in the list.
            facts.pop(0)
        about = bullet.join(filter(None, facts))
        room = line.room - reserved - width_of(about) - 4
        line.add(fit_name(job["name"], max(8, room), glyphs.ellipsis), palette.strong).gap(2)
        line.add(about, palette.dim).gap(line.room - reserved)
        for text, style in legend:
            line.add(text, style)
        return line.strip()

    def _legend(self, job: WallJob) -> list[tuple[str, Style]]:
        """The machines that made something of the job, each with its letter in its colour."""
        palette = self._context.palette
        numbers = {maker for each in job["qualities"] for maker, _ in each["made"] if maker is not None}
        numbers |= {maker for each in job["qualities"] for _, maker in each["front"]}
        parts: list[tuple[str, Style]] = []
        for number in sorted(numbers, key=lambda each: (each < 0, each)):
            letter, style = self.machine(number)
            sign = letter if self._letters else f"{self._context.glyphs.checked}{letter}"
            parts.append((f"{sign} ", style))
            parts.append((f"{self._workers[number] if number >= 0 else 'earlier'}  ", palette.dim))
        return parts

    def _quality(self, quality: WallQuality, width: int, cells: int, rows: int) -> list[Strip]:
        palette, context = self._context.palette, self._context
        line = self._start(width).gap().cell(quality["name"], cells, palette.strong, right=True).gap()
        is_running = quality["status"] == "in_progress"
        speed = (
            "copied" if quality["encoder"] == "copy" else fmt.speed(quality["speed"]) if is_running else ""
        )
        line.cell(speed, _SPEED_CELLS, palette.dim, right=True).gap()
        strip, full = list(self._cells(quality, max(4, line.room - _PERCENT_CELLS - 1))), context.glyphs.full
        lines = []
        for row in range(rows):
            if row:
                line = self._start(width).gap(cells + _SPEED_CELLS + 3)
            for (sign, style), run in groupby(strip):
                # The last of several lines leaves a gap before the next quality.
                drawn = sign if row + 1 < rows or not row else "▀" if sign == full else " "
                line.add(drawn * len(list(run)), style)
            if not row:
                line.gap(line.room - _PERCENT_CELLS - 1)
                done = quality["status"] == "completed"
                line.cell(
                    context.glyphs.states["done"] if done else fmt.percent(quality["progress"]),
                    _PERCENT_CELLS,
                    palette.states["done"] if done else palette.text,
                    right=True,
                )
            lines.append(line.strip())
        return lines

    def _cells(self, quality: WallQuality, width: int) -> Iterator[tuple[str, Style]]:
        """Yield sign and style of each cell; it covers several segments, or a segment several cells."""
        palette, glyphs = self._context.palette, self._context.glyphs
        total = quality["segments_total"] or 0
        makers = [maker for maker, count in quality["made"] for _ in range(count)][:total]
        makers += [None] * (total - len(makers))
        front = dict(quality["front"])
        for cell in range(width):
            first = cell * total // width
            covered = makers[first : max(first + 1, (cell + 1) * total // width)]
            if None not in covered:
                letter, style = self.machine(covered[len(covered) // 2] or 0)
                yield (letter if self._letters else glyphs.full), style
            elif at := [front[each] for each in range(first, first + len(covered)) if each in front]:
                yield glyphs.states["running"], self.machine(at[0])[1]
            else:
                yield glyphs.states["pending"], palette.faint

    def _speed(self, job: WallJob, width: int, cells: int, rows: int) -> list[Strip]:
        """The course of the speed over the whole job, with its greatest value as the scale."""
        palette = self._context.palette
        room = width - cells - _SPEED_CELLS - _PERCENT_CELLS - 4
        values, lines = job["speeds"], list[Strip]()
        if not values:
            return lines
        for at, text in enumerate(curve(values, room, rows, self._context.glyphs)):
            line = self._start(width).gap()
            line.cell("speed" if at == rows - 1 else "", cells, palette.faint, right=True).gap()
            figure = fmt.speed(job["speed"]) if at == rows - 1 else fmt.speed(max(values)) if not at else ""
            line.cell(figure, _SPEED_CELLS, palette.dim, right=True).gap()
            add_course(line, text, self._context.glyphs.heights[-1], palette, is_top=not at)
            lines.append(line.strip())
        return lines
