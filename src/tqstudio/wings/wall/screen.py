"""The wall: the running jobs as bands, as many as fit, and below them what comes next and what has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.strip import Strip

from tqstudio.errors import TqError, in_one_line
from tqstudio.protocol import calls
from tqstudio.ui.actions.registry import View, bindings_of
from tqstudio.ui.data.context import Context
from tqstudio.ui.drawings.bands import Bands
from tqstudio.ui.look.line import fit, fit_name
from tqstudio.ui.screens.frame.base import StudioScreen
from tqstudio.ui.widgets.line_view import LineView
from tqstudio.words import format as fmt
from tqstudio.words import sentences
from tqstudio.words.symbols import job_state

if TYPE_CHECKING:
    from tqstudio.protocol.answers import WallJob, WallView

REREAD_S = 1.0
_MOST_CURVE_ROWS = 8
_MOST_STRIP_ROWS = 3
_BELOW = 3
"""Least lines of what is shown below the bands, with its heading."""
_TWO_COLUMNS = 120


class Wall(LineView):
    DEFAULT_CSS = """
    Wall { height: 1fr; }
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context, id="wall")
        self.view: WallView | None = None
        self.problem = ""
        self._lines: list[Strip] = []

    def paint(self) -> None:
        self._lines = []
        super().paint()

    def line(self, y: int, width: int) -> Strip:
        if not self._lines or y == 0:
            self._lines = self._build(width, self.size.height)
        return self._lines[y] if y < len(self._lines) else self.start(width).strip()

    def _build(self, width: int, height: int) -> list[Strip]:
        palette, view = self.context.palette, self.view
        if self.problem or view is None:
            unread = self.context.model.unread(read=view is not None)
            return self.paragraph(self.problem or unread or "reading…", width, palette.dim)
        bands = Bands(self.context, self.start, view["workers"], letters=self.app.no_color)
        shown: list[WallJob] = []
        room = height
        for job in view["jobs"]:
            if bands.height(job) > room and shown:
                break
            shown.append(job)
            room -= bands.height(job)
        hidden = len(view["jobs"]) - len(shown)
        strip_rows, curve_rows = self._rows(len(shown), sum(len(job["qualities"]) for job in shown), room)
        lines = [line for job in shown for line in bands.draw(job, width, strip_rows, curve_rows)]
        if not shown:
            lines = self.paragraph("nothing is running", width, palette.dim)
            lines.append(self.start(width).strip())
        if hidden:
            key = "" if self.context.read_only else f": {self.context.sign('view_queue')} shows the list"
            more = f"{fmt.counted(hidden, 'more job')} running{key}"
            lines[-1:] = self.paragraph(more, width, palette.faint)
        return [*lines, *self._below(width, height - len(lines))][:height]

    @staticmethod
    def _rows(jobs: int, qualities: int, room: int) -> tuple[int, int]:
        """Lines of a strip and of a curve, where the bands leave room."""
        strip_rows = curve_rows = 1
        while jobs and room >= jobs and (curve_rows < _MOST_CURVE_ROWS or strip_rows < _MOST_STRIP_ROWS):
            if curve_rows > 2 and strip_rows < _MOST_STRIP_ROWS and room >= qualities:
                strip_rows, room = strip_rows + 1, room - qualities
            elif curve_rows < _MOST_CURVE_ROWS:
                curve_rows, room = curve_rows + 1, room - jobs
            else:
                break
        return strip_rows, curve_rows

    def _below(self, width: int, room: int) -> list[Strip]:
        """What comes next, and what has happened; beside each other where there is room."""
        if room < _BELOW:
            return []
        if width < _TWO_COLUMNS:
            return self._next(width, room) or self._events(width, room)
        half = width // 2
        left, right = self._next(half, room), self._events(width - half, room)
        if not left or not right:
            return self._next(width, room) or self._events(width, room)
        blanks = [self.start(half).strip()] * room, [self.start(width - half).strip()] * room
        pairs = zip([*left, *blanks[0]][:room], [*right, *blanks[1]][:room], strict=True)
        return [Strip.join(pair) for pair in pairs][: max(len(left), len(right))]

    def _heading(self, title: str, width: int) -> Strip:
        palette = self.context.palette
        line = self.start(width).gap().add(title, palette.accent).gap()
        return line.fill(self.context.glyphs.rule, palette.rule, keep=1).strip()

    def _next(self, width: int, room: int) -> list[Strip]:
        palette, glyphs, model = self.context.palette, self.context.glyphs, self.context.model
        lines = [self._heading("Next", width)]
        for row in model.jobs.rows:
            if row["status"] != "pending":
                continue
            state = job_state(row, stale=model.stale)
            line = self.start(width).gap().add(f"{glyphs.states[state]} ", palette.states[state])
            line.add(f"{row['id']} ", palette.dim)
            about = "  ".join(
                filter(
                    None,
                    (
                        fmt.source_size(row["source"]),
                        fmt.clock_duration(row["source"]["duration_s"]),
                        f"takes {fmt.with_range(row['eta'])}" if row["eta"] else "",
                    ),
                )
            )
            name = fit_name(row["name"], max(8, line.room - len(about) - 4), glyphs.ellipsis)
            lines.append(line.add(name).gap(2).add(about, palette.dim).strip())
        return lines[:room] if len(lines) > 1 else []

    def _events(self, width: int, room: int) -> list[Strip]:
        palette, glyphs, model = self.context.palette, self.context.glyphs, self.context.model
        lines = [self._heading("Lately", width)]
        for event in reversed(model.events):
            if len(lines) >= room:
                break
            state = sentences.event_state(event)
            line = self.start(width).gap().cell(fmt.moment(event["at"], model.now()), 11, palette.faint).gap()
            line.add(f"{glyphs.states[state]} {sentences.event_sentence(event)} ", palette.states[state])
            if name := event["video_name"]:
                line.add(fit_name(name, max(8, line.room - 2), glyphs.ellipsis)).gap()
            remark = fmt.plain(sentences.event_remark(event))
            lines.append(line.add(fit(remark, line.room - 1, glyphs.ellipsis), palette.dim).strip())
        return lines if len(lines) > 1 else []


class WallScreen(StudioScreen):
    VIEW: ClassVar[View] = "wall"
    BINDINGS = bindings_of("wall")

    def body(self) -> ComposeResult:
        self.wall = Wall(self.context)
        yield self.wall

    def on_mount(self) -> None:
        self.set_interval(REREAD_S, self._reread_shown)

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        self.shell.start(self.reread())

    async def _reread_shown(self) -> None:
        if self.is_current and self.context.model.up:
            await self.reread()

    async def reread(self) -> None:
        try:
            view: WallView = await self.context.feed.send(calls.wall())
            self.wall.view = view
            self.wall.problem = ""
        except TqError as error:
            if self.context.model.up:
                self.wall.problem = in_one_line(error.code, error.message, error.hint)
        self.paint()

    def tab_text(self) -> tuple[str, str]:
        view = self.wall.view
        if view is None:
            return "", ""
        busy = sum(worker["job"] is not None for worker in self.context.model.workers.values())
        return "", f"{len(view['jobs'])} running, {fmt.counted(busy, 'worker')} busy"

    async def do_close_wall(self, _: str) -> None:
        await self.shell.do_back("")

    async def do_back(self, _: str) -> None:
        await self.shell.do_back("")
