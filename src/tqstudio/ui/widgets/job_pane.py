"""The selected job: a bar for every quality, and what is known about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from textual.strip import Strip

from tqstudio.ui import format as fmt
from tqstudio.ui.line import Line, fit, fit_name, width_of, wrap
from tqstudio.ui.studio import Studio
from tqstudio.ui.symbols import job_state, job_word, state_of
from tqstudio.ui.widgets.bars import add_bar
from tqstudio.ui.widgets.line_view import LineView

if TYPE_CHECKING:
    from tqstudio.schemas import JobRow, RenditionView

Page = Literal["qualities", "facts", "hidden"]
PAGES: tuple[Page, ...] = ("qualities", "facts", "hidden")
ROOMY = 72
"""From this width there is room for wide columns."""

QUALITY_WORDS = {"in_progress": "running", "completed": "done"}


def quality_word(rendition: RenditionView) -> str:
    return QUALITY_WORDS.get(rendition["status"], rendition["status"])


class JobPane(LineView):
    """Args: `job` answers the job to show."""

    DEFAULT_CSS = """
    JobPane { height: 8; }
    """

    def __init__(self, studio: Studio, job: Callable[[], JobRow | None]) -> None:
        super().__init__(studio, id="pane")
        self._job = job
        self.page: Page = "qualities"
        self.beside = False
        self._lines: list[Strip] = []

    def paint(self) -> None:
        self._lines = []
        super().paint()

    def line(self, y: int, width: int) -> Strip:
        if not self._lines or y == 0:
            self._lines = self._build(width)
        return self._lines[y] if y < len(self._lines) else self._start(width).strip()

    def _start(self, width: int) -> Line:
        line = self.start(width)
        if self.beside:
            line.add("│" if self.studio.glyphs.rule == "─" else "|", self.studio.palette.rule)
        return line.gap()

    def _build(self, width: int) -> list[Strip]:
        row = self._job()
        if row is None:
            return [self._title(None, width)]
        lines = [self._title(row, width)]
        if self.beside:
            return [*lines, *self._state(row, width), *self._full(row, width)]
        height = self.size.height - 1
        body = self._facts(row, width) if self.page == "facts" else self._short(row, width)
        if len(body) > height > 0:
            more = self._start(width).gap(1)
            more.add(f"{len(body) - height + 1} more – enter shows all", self.studio.palette.faint)
            body = [*body[: height - 1], more.strip()]
        return [*lines, *body]

    def _title(self, row: JobRow | None, width: int) -> Strip:
        palette, glyphs = self.studio.palette, self.studio.glyphs
        line = self._start(width) if self.beside else self.start(width).add(glyphs.rule, palette.rule).gap()
        if row is None:
            return line.fill(" " if self.beside else glyphs.rule, palette.rule).strip()
        if self.beside:
            line.add(f"{row['id']} ", palette.dim)
            line.add(fit_name(row["name"], line.room - 1, glyphs.ellipsis), palette.strong)
            return line.strip()
        summary = self._summary(row)
        room = max(12, line.room - width_of(summary) - len(str(row["id"])) - 6)
        line.add(f"{row['id']} ", palette.dim)
        line.add(fit_name(row["name"], room, glyphs.ellipsis), palette.strong).gap()
        line.add(f"{glyphs.rule} ", palette.rule).add(fit(summary, line.room - 2), palette.dim).gap()
        return line.fill(glyphs.rule, palette.rule).strip()

    def _summary(self, row: JobRow) -> str:
        """Where the job stands, in a few words."""
        if row["status"] == "in_progress":
            parts = [(row["step"] or "starting").replace("_", " "), f"attempt {max(1, row['attempts'] + 1)}"]
            parts += [row["worker"] or "", fmt.speed(row["speed"])]
        else:
            parts = [row["kind"], f"profile {row['profile']}"]
            if row["attempts"]:
                parts.append(f"{row['attempts']} of {row['max_attempts']} attempts used")
            if row["crashes"]:
                parts.append(f"{row['crashes']} crashes")
        return ", ".join(part for part in parts if part)

    def _state(self, row: JobRow, width: int) -> list[Strip]:
        palette, glyphs = self.studio.palette, self.studio.glyphs
        state = job_state(row)
        line = self._start(width).add(f"{glyphs.states[state]} {job_word(row)}", palette.states[state])
        about = [self._start(width).add(part, palette.dim) for part in wrap(self._summary(row), width - 3)]
        return [each.strip() for each in (line, *about, self._start(width))]

    def _short(self, row: JobRow, width: int) -> list[Strip]:
        """The pane below the list: the error, if any, before the bars."""
        return [*self._error(row, width, most=2), *self._qualities(row, width)]

    def _full(self, row: JobRow, width: int) -> list[Strip]:
        """The pane beside the list."""
        blank = self._start(width).strip()
        lines = self._error(row, width, most=6)
        if lines:
            lines.append(blank)
        qualities = self._qualities(row, width)
        return [*lines, *qualities, *([blank] if qualities else []), *self._facts(row, width)]

    def _error(self, row: JobRow, width: int, *, most: int) -> list[Strip]:
        error = row["error"]
        if not error or row["status"] not in ("failed", "pending"):
            return []
        palette = self.studio.palette
        text = wrap(fmt.plain(f"{error['code']}: {error['message']}"), width - 5)
        hint = wrap(fmt.plain(f"{self.studio.glyphs.arrow} {error['hint']}"), width - 5)
        lines = [self._start(width).gap().add(part, palette.error) for part in text[: most - 1]]
        lines += [self._start(width).gap().add(part, palette.text) for part in hint[: most - len(lines)]]
        return [line.strip() for line in lines]

    def _qualities(self, row: JobRow, width: int) -> list[Strip]:
        lines: list[Strip] = []
        # What is not made says so last.
        for rendition in sorted(row["renditions"], key=lambda each: each["status"] == "skipped"):
            lines += self.quality(rendition, width)
        if not lines and row["status"] in ("pending", "in_progress"):
            text = "qualities are known once the source has been read"
            lines.append(self._start(width).gap().add(text, self.studio.palette.faint).strip())
        return lines

    def quality(self, rendition: RenditionView, width: int) -> list[Strip]:
        """Name, state, bar, segments, speed, time left; beside the list the bar has its own line."""
        palette, glyphs = self.studio.palette, self.studio.glyphs
        state = state_of(rendition["status"])
        roomy = width >= ROOMY and not self.beside
        line = self._start(width).cell(rendition["name"], 7 if roomy else 6, palette.strong, right=True)
        line.gap(2 if roomy else 1)
        word = f"{glyphs.states[state]} {quality_word(rendition)}"
        remark = rendition["error"] or rendition["reason"]
        if state == "skipped" or (remark and state == "failed"):
            line.add(f"{word}: {fmt.plain(remark or '')}".rstrip(": "), palette.states[state])
            return [line.strip()]
        line.cell(word, 10, palette.states[state])
        numbers = _numbers(rendition, roomy=roomy)
        if not self.beside:
            size = max(8, line.room - sum(cells for _, cells in numbers) - 2)
            add_bar(line, rendition, size, glyphs, palette)
        for text, cells in numbers:
            line.cell(text, cells, palette.dim if cells != 5 else None, right=True)
        if not self.beside:
            return [line.strip()]
        below = self._start(width).gap(7)
        add_bar(below, rendition, max(4, below.room - 1), glyphs, palette)
        return [line.strip(), below.strip()]

    def _facts(self, row: JobRow, width: int) -> list[Strip]:
        palette, now = self.studio.palette, self.studio.model.now()
        source = row["source"]
        about = [fmt.source_size(source), fmt.clock_duration(source["duration_s"]), fmt.size(source["size"])]
        crashes = f", {row['crashes']} of {row['max_crashes']} crashes" if row["crashes"] else ""
        facts = [
            ("source", ", ".join(part for part in about if part)),
            ("profile", f"{row['profile']}, {row['kind']}, priority {row['priority']}"),
            ("attempts", f"{row['attempts']} of {row['max_attempts']}{crashes}"),
            ("added", fmt.moment(row["created_at"], now)),
            ("started", fmt.moment(row["started_at"], now)),
            ("ended", fmt.moment(row["completed_at"], now)),
            ("worker", row["worker"] or ""),
            ("path", row["path"]),
        ]
        lines: list[Strip] = []
        for name, value in facts:
            for at, part in enumerate(wrap(value, width - 14)):
                line = self._start(width).gap().cell(name if not at else "", 9, palette.faint).gap()
                lines.append(line.add(part, palette.text).strip())
        return lines


def _numbers(rendition: RenditionView, *, roomy: bool) -> list[tuple[str, int]]:
    """Percent, segments, speed and time left, each with its width."""
    total = rendition["segments_total"]
    running = rendition["status"] == "in_progress"
    segments = f"{rendition['segments_done']}/{total}" if total else ""
    return [
        (fmt.percent(rendition["progress"]) if rendition["progress"] or running else "", 5),
        (f"{segments} seg" if roomy and segments else segments, 13 if roomy else 9),
        (fmt.speed(rendition["speed"]) if running else "", 7 if roomy else 6),
        (fmt.clock_duration(rendition["eta_s"]) if running else "", 7 if roomy else 6),
    ]
