"""The first line: supervisor status, job counts, speed, ETA and free disk space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.style import Style
from textual.strip import Strip

from tqstudio import units
from tqstudio.ui.data.model import Link
from tqstudio.ui.drawings.bars import bar_text
from tqstudio.ui.drawings.curves import curve
from tqstudio.ui.look.line import width_of
from tqstudio.ui.widgets.line_view import LineView, link
from tqstudio.words import format as fmt

if TYPE_CHECKING:
    from tqstudio.protocol.answers import StatusView

Part = tuple[str, Style]
COUNTS = (
    ("in_progress", "running"),
    ("pending", "pending"),
    ("paused", "paused"),
    ("failed", "failed"),
    ("done", "done"),
    ("cancelled", "cancelled"),
)


_CURVES_WIDTH = 100
_RECENT = 60
"""Samples of the load that are shown: the last ten minutes."""
_WIDE = 140
_CURVES_CELLS = 54
"""Of both curves with their names."""
_CURVE_CELLS = (8, 20)
"""Least and most cells of a curve, which has only the room that nothing else needs."""
_GAUGE_CELLS = 8


class Header(LineView):
    """`tqstudio ● up 3d  ▸2 running ·14 pending …  3.2× real time  ETA 41m  disk 812 GB`.

    The name of a studio on another machine follows the first word. Counts are clickable filters. A narrow
    terminal drops the words and the least important parts first. Without a supervisor it shows for how long,
    and no live figures.
    """

    def line(self, y: int, width: int) -> Strip:  # noqa: ARG002
        context = self.context
        palette = context.palette
        line = self.start(width, palette.bar)
        line.add(" tqstudio ", palette.strong)
        if context.model.remote:
            line.add(f"at {context.model.remote} ", palette.dim)
        sign, word, style = self._engine()
        line.add(f"{sign} {word}", style).gap(3 if width >= 80 else 2)
        status = context.model.status
        if status is None:
            return line.strip()
        counts = [
            (key, state, count)
            for key, state in COUNTS
            if (count := status["jobs"].get(key, 0)) or key != "cancelled"
        ]
        signs = sum(len(fmt.number(count)) + 2 for _, _, count in counts)
        right = self._right(status, line.room - signs)
        reserved = sum(width_of(text) for text, _ in right)
        # A wide header shows curves rather than words.
        kept = reserved + (_CURVES_CELLS if width >= _WIDE and any(context.model.load["speed"]) else 0)
        words = line.room - kept - 2 >= signs + sum(len(state) + 2 for _, state, _ in counts)
        for key, state, count in counts:
            unsure = context.model.stale and state == "running"
            sign = context.glyphs.states["stale" if unsure else state]
            word = f" {state}{'?' if unsure else ''}" if words else ""
            label = f"{sign}{fmt.number(count)}{word}"
            shown = palette.states[state] if count else palette.faint
            line.add(label, shown + link("show_state", key)).gap(2 if words else 1)
        if width >= _CURVES_WIDTH:
            right = self._with_curves(right, status, line.room - reserved - 2)
        line.gap(line.room - sum(width_of(text) for text, _ in right))
        for text, style in right:
            line.add(text, style)
        return line.strip()

    def _with_curves(self, right: list[Part], status: StatusView, room: int) -> list[Part]:
        """Add the course of speed and processor use, and how full the disk is, where there is room."""
        model, palette, load = self.context.model, self.context.palette, self.context.model.load
        if model.stale or not any(load["speed"]):
            return right
        parts = list(right)
        speed = self._curve("", load["speed"], room)
        # After the figure of the speed, if that is there.
        at = 1 if status["speed"] and right else 0
        parts[at:at] = speed
        room -= sum(width_of(text) for text, _ in speed)
        cpu = self._curve(f"cpu {model.cpu_percent:.0f}% ", load["cpu_percent"], room) if speed else []
        parts[at + len(speed) : at + len(speed)] = cpu
        room -= sum(width_of(text) for text, _ in cpu)
        if cpu and status["disk"] and room > _GAUGE_CELLS:
            disk = min(status["disk"], key=lambda disk: disk["free"] - disk["reserve"])
            full, rest = bar_text(100 - 100 * disk["free"] / disk["total"], _GAUGE_CELLS, self.context.glyphs)
            parts += [(full, palette.accent), (f"{rest} ", palette.track)]
        return parts

    def _curve(self, name: str, values: list[float], room: int) -> list[Part]:
        """A curve with its name; nothing if there is no room."""
        least, most = _CURVE_CELLS
        cells = min(most, room - len(name) - 2)
        if cells < least:
            return []
        recent = [0.0] * (_RECENT - len(values)) + values[-_RECENT:]
        (text,) = curve(recent, cells, 1, self.context.glyphs)
        return [(name, self.context.palette.dim), (f"{text}  ", self.context.palette.accent)]

    def _engine(self) -> tuple[str, str, Style]:
        model, glyphs, palette = self.context.model, self.context.glyphs, self.context.vivid
        match model.connection.link:
            case Link.CONNECTING:
                return glyphs.states["changing"], "connecting…", palette.states["changing"]
            case Link.LOST:
                ago = (
                    f", last seen {fmt.short_duration(model.since_contact_s)} ago"
                    if model.last_contact
                    else ""
                )
                return glyphs.lost, f"no answer{ago}", palette.error
        status = model.status
        if status is None:
            return glyphs.up, "up", palette.good
        if status["supervisor"]["draining"]:
            return glyphs.states["changing"], "draining", palette.warning
        for_s = fmt.age(status["supervisor"]["started_at"], model.now())
        return glyphs.up, f"up {fmt.short_duration(for_s)}" if for_s is not None else "up", palette.good

    def _right(self, status: StatusView, room: int) -> list[Part]:
        """Speed, ETA and disk; the least important ones are left out as a whole where they do not fit."""
        palette = self.context.palette
        if self.context.model.stale:
            return []
        speed, eta, disk = status["speed"], status["eta"], self._disk(status)
        short, full, left = list[Part](), list[Part](), list[Part]()
        if speed:
            short, full = ([(f"{fmt.speed(speed)}{word}  ", palette.text)] for word in ("", " real time"))
        # While the queue is paused, nothing comes nearer to its end.
        if eta is not None and not self.context.model.paused:
            left = [(f"ETA {fmt.with_range(eta)}  ", palette.text)]
        choices = [[*full, *left, *disk], [*short, *left, *disk], [*left, *disk], left or disk]
        return next((parts for parts in choices if sum(width_of(text) for text, _ in parts) <= room), [])

    def _disk(self, status: StatusView) -> list[Part]:
        """The free space of the fullest disk."""
        if not status["disk"]:
            return []
        palette = self.context.palette
        disk = min(status["disk"], key=lambda disk: disk["free"] - disk["reserve"])
        low = disk["free"] < 2 * disk["reserve"]
        word = "disk low" if low else "disk"
        return [(f"{word} {units.size(disk['free'])} ", palette.warning if low else palette.dim)]
