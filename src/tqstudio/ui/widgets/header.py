"""The first line: supervisor status, job counts, speed, ETA and free disk space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.style import Style
from textual.strip import Strip

from tqstudio import units
from tqstudio.ui.data.model import Link
from tqstudio.ui.look.line import width_of
from tqstudio.ui.widgets.line_view import LineView, link
from tqstudio.words import format as fmt

if TYPE_CHECKING:
    from tqstudio.protocol.answers import StatusView

COUNTS = (
    ("in_progress", "running"),
    ("pending", "pending"),
    ("paused", "paused"),
    ("failed", "failed"),
    ("done", "done"),
    ("cancelled", "cancelled"),
)


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
        right = self._right(status, width)
        reserved = sum(width_of(text) for text, _ in right)
        counts = [
            (key, state, count)
            for key, state in COUNTS
            if (count := status["jobs"].get(key, 0)) or key != "cancelled"
        ]
        words = line.room - reserved - 2 >= sum(
            len(fmt.number(count)) + len(state) + 4 for _, state, count in counts
        )
        for key, state, count in counts:
            unsure = context.model.stale and state == "running"
            sign = context.glyphs.states["stale" if unsure else state]
            word = f" {state}{'?' if unsure else ''}" if words else ""
            label = f"{sign}{fmt.number(count)}{word}"
            shown = palette.states[state] if count else palette.faint
            line.add(label, shown + link("show_state", key)).gap(2 if words else 1)
        line.gap(line.room - reserved)
        for text, style in right:
            line.add(text, style)
        return line.strip()

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

    def _right(self, status: StatusView, width: int) -> list[tuple[str, Style]]:
        """Speed, ETA and disk, as far as they fit beside the counts."""
        palette = self.context.palette
        parts: list[tuple[str, Style]] = []
        if self.context.model.stale:
            return parts
        if status["speed"]:
            text = fmt.speed(status["speed"]) + (" real time" if width >= 80 else "")
            parts.append((f"{text}  ", palette.text))
        if status["eta"] is not None:
            parts.append((f"ETA {fmt.with_range(status['eta'])}  ", palette.text))
        if status["disk"]:
            disk = min(status["disk"], key=lambda disk: disk["free"] - disk["reserve"])
            low = disk["free"] < 2 * disk["reserve"]
            word = "disk low" if low else "disk"
            parts.append((f"{word} {units.size(disk['free'])} ", palette.warning if low else palette.dim))
        return parts[:1] if width < 66 else parts
