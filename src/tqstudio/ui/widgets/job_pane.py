"""The pane of the selected job: a bar for every quality, and facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, cast

from rich.cells import chop_cells
from rich.style import Style
from textual.strip import Strip

from tqstudio import shell_quoting, units
from tqstudio.errors import in_one_line
from tqstudio.lifecycle import Step
from tqstudio.paths import is_bucket, readable
from tqstudio.protocol import calls
from tqstudio.ui.data.context import Context, Shell
from tqstudio.ui.drawings.bands import Bands
from tqstudio.ui.drawings.bars import add_bar
from tqstudio.ui.drawings.plots import pictures, shows_pictures
from tqstudio.ui.look.line import Line, fit, fit_name, width_of
from tqstudio.ui.widgets.line_view import LineView
from tqstudio.words import format as fmt
from tqstudio.words import sentences
from tqstudio.words.symbols import job_state, job_word, quality_look

if TYPE_CHECKING:
    from tqstudio.protocol.answers import JobRow, RenditionView, WallView

Page = Literal["qualities", "facts", "hidden"]
PAGES: tuple[Page, ...] = ("qualities", "facts", "hidden")
COPIES = " copies the path"
_BESIDE_NAME = 40
"""Columns of a quality in a narrow pane, besides its name."""
_CURVE_LINES = 3
_PICTURE_LINES = 34
"""Lines of a pane that has room for a picture, of a third of its height."""
_TWO_COLUMNS = 96
ROOMY = 72
"""From this width wide columns are used."""


class JobPane(LineView):
    """Args: `job` returns the job to show."""

    DEFAULT_CSS = """
    JobPane { height: 8; }
    """

    def __init__(self, context: Context, job: Callable[[], JobRow | None]) -> None:
        super().__init__(context, id="pane")
        self._job = job
        self.page: Page = "qualities"
        self.beside = False
        self.wall: WallView | None = None
        """The running job with who made what of it, if there is room for it."""
        self.log_tail: tuple[int, list[str]] | None = None
        """The number of a job and the last lines of its log."""
        self._lines: list[Strip] = []

    def paint(self) -> None:
        self._lines = []
        super().paint()

    def line(self, y: int, width: int) -> Strip:
        if not self._lines or y == 0:
            self._lines = self._build(width)
        return self._lines[y] if y < len(self._lines) else self.start(width).gap().strip()

    def start(self, width: int, base: Style | None = None) -> Line:
        line = super().start(width, base)
        if self.beside:
            line.add("│" if self.context.glyphs.rule == "─" else "|", self.context.palette.rule)
        return line

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
            more = self.start(width).gap(2)
            shows = f"{self.context.sign('open')} shows all"
            more.add(f"{len(body) - height + 1} more – {shows}", self.context.palette.faint)
            body = [*body[: height - 1], more.strip()]
        return [*lines, *body]

    def _title(self, row: JobRow | None, width: int) -> Strip:
        palette, glyphs = self.context.palette, self.context.glyphs
        if row is None:
            return self.start(width).fill(" " if self.beside else glyphs.rule, palette.rule).strip()
        line = self.start(width)
        if self.beside:
            line.gap().add(f"{row['id']} ", palette.dim)
            line.add(fit_name(row["name"], line.room - 1, glyphs.ellipsis), palette.strong)
            return line.strip()
        line.add(glyphs.rule, palette.rule).gap()
        summary = self._summary(row)
        room = max(12, line.room - width_of(summary) - len(str(row["id"])) - 6)
        line.add(f"{row['id']} ", palette.dim)
        line.add(fit_name(row["name"], room, glyphs.ellipsis), palette.strong).gap()
        line.add(f"{glyphs.rule} ", palette.rule).add(fit(summary, line.room - 2), palette.dim).gap()
        return line.fill(glyphs.rule, palette.rule).strip()

    def _summary(self, row: JobRow) -> str:
        """Step or kind, profile and attempts, as one line."""
        stale = self.context.model.stale
        if row["status"] == "in_progress":
            step = (row["step"] or "starting").replace("_", " ")
            speed = "" if stale else fmt.speed(row["speed"])
            parts = [
                f"was in {step}" if stale else step,
                sentences.attempt_words(row),
                sentences.worker_words(row) if self.beside else row["worker"] or "",
                speed,
            ]
        else:
            parts = [sentences.kind_words(row), f"profile {row['profile']}"]
            if row["attempts"] or row["crashes"]:
                parts.append(sentences.attempt_words(row))
        return ", ".join(part for part in parts if part)

    def _state(self, row: JobRow, width: int) -> list[Strip]:
        palette, glyphs, stale = self.context.palette, self.context.glyphs, self.context.model.stale
        state = job_state(row, stale=stale)
        line = self.start(width).gap().add(f"{glyphs.states[state]} ", palette.states[state])
        line.add(job_word(row, self.context.model.rows_age_s, stale=stale), palette.states[state])
        if row["status"] == "in_progress":
            line.gap(2).add(fmt.percent(row["progress"]).strip(), palette.strong)
            if row["eta"] is not None and not stale:
                line.gap(2).add(f"{fmt.with_range(row['eta'])} left", palette.text)
        about = self.paragraph(self._summary(row), width, palette.dim, indent=1)
        return [line.strip(), *about, self.start(width).strip()]

    def _short(self, row: JobRow, width: int) -> list[Strip]:
        """The pane below the list: errors and hints, then the bars, or the facts if there are none."""
        parts = (self._error, self._warnings, self._play, self._status_text)
        notices = [line for part in parts for line in part(row, width)]
        return [*notices, *(self._qualities(row, width) or self._facts(row, width))]

    def _full(self, row: JobRow, width: int) -> list[Strip]:
        """The pane beside the list; what is left of its height has the log, in a column of its own if it
        is wide."""
        cells = width if width < _TWO_COLUMNS else width * 55 // 100
        blank = self.start(cells).strip()
        lines: list[Strip] = []
        work = self._live or self._qualities
        notices = self._error, self._warnings, self._picture, self._play, self._status_text
        for part in (*notices, work, self._steps):
            found = part(row, cells)
            lines += [*found, blank] if found else []
        lines += self._facts(row, cells)
        height = self.size.height - 4
        if cells == width:
            lines += [blank, *self._events(row, width)]
            return [*lines, blank, *self._log(width, height - len(lines))]
        right = self._events(row, width - cells)
        right += [self.start(width - cells).strip(), *self._log(width - cells, height - len(right))]
        lines += [blank] * (len(right) - len(lines))
        right += [self.start(width - cells).strip()] * (len(lines) - len(right))
        return [Strip.join(pair) for pair in zip(lines, right, strict=True)]

    def _picture(self, row: JobRow, width: int) -> list[Strip]:
        """The poster of what is published, or of what is encoded, where there is room for it."""
        generation, model = self.context.model.generations.get(row["video"]), self.context.model
        is_there = sentences.has_poster(row) if generation is None else sentences.is_playable(row)
        height = min(45, self.size.height // 3 * 2)
        if not is_there or self.size.height < _PICTURE_LINES or not shows_pictures(self):
            return []
        start = cast("Shell", self.app).start if model.up else None
        call = calls.job_picture(row["id"], "poster", max(1, min(80, width - 4)), height)
        found = self.context.feed.ladder_answers.get(call, generation["number"] if generation else 0, start)
        edge = self.start(1).strip()
        return [Strip.join([edge, line]) for line in pictures(self, found, width - 1)] if found else []

    def _steps(self, row: JobRow, width: int) -> list[Strip]:
        """The steps of a running job."""
        if row["status"] != "in_progress" or row["step"] is None:
            return []
        palette, glyphs, line = self.context.palette, self.context.glyphs, self.start(width).gap()
        lines, steps = list[Strip](), list(Step)
        current = steps.index(Step(row["step"]))
        for at, step in enumerate(steps):
            key = "done" if at < current else "running" if at == current else "pending"
            text = f"{glyphs.states[key]} {step.value.replace('_', ' ')}"
            if line.room < len(text) + 2:
                lines.append(line.strip())
                line = self.start(width).gap()
            line.gap().add(text, palette.states[key])
        return [*lines, line.strip()]

    @property
    def _live(self) -> Callable[[JobRow, int], list[Strip]] | None:
        """Draws the strips and the speed of the running job, once they are known."""
        wall, row = self.wall, self._job()
        if wall is None or row is None or not wall["jobs"] or wall["jobs"][0]["id"] != row["id"]:
            return None
        job, now = wall["jobs"][0], {each["name"]: each["progress"] for each in row["renditions"]}
        # The row is newer: the figures are the same everywhere on the screen.
        for each in job["qualities"]:
            each["progress"] = now.get(each["name"], each["progress"])
        bands = Bands(self.context, self.start, wall["workers"], letters=self.app.no_color)
        return lambda _, width: [
            *bands.machines(job, width),
            *bands.qualities(job, width, 1, _CURVE_LINES),
        ]

    def _log(self, width: int, room: int) -> list[Strip]:
        palette, glyphs = self.context.palette, self.context.glyphs
        row = self._job()
        if room < 2 or self.log_tail is None or row is None or self.log_tail[0] != row["id"]:
            return []
        line = self.start(width).gap(2).add(self.context.sign("log"), palette.key).add(" log ", palette.dim)
        lines = [line.fill(glyphs.rule, palette.rule, keep=1).strip()]
        for text in self.log_tail[1][-room + 1 :]:
            line = self.start(width).gap(2)
            lines.append(
                line.add(fit(fmt.plain(text), line.room - 1, glyphs.ellipsis), palette.faint).strip()
            )
        return lines

    def _events(self, row: JobRow, width: int) -> list[Strip]:
        """What happened to the job, newest first, as far as it was received."""
        model, palette, glyphs = self.context.model, self.context.palette, self.context.glyphs
        lines = []
        for event in reversed(model.events):
            if event["job"] != row["id"]:
                continue
            state = sentences.event_state(event)
            line = self.start(width).gap(2).cell(fmt.moment(event["at"], model.now()), 11, palette.faint)
            line.gap().add(
                f"{glyphs.states[state]} {sentences.event_sentence(event)} ", palette.states[state]
            )
            remark = fmt.plain(sentences.event_remark(event))
            lines.append(line.add(fit(remark, line.room - 1, glyphs.ellipsis), palette.dim).strip())
        return lines[: self.size.height]

    def _error(self, row: JobRow, width: int) -> list[Strip]:
        """Error, hint, and the path of the log."""
        error = sentences.error_now(row)
        if error is None:
            return []
        palette, glyphs = self.context.palette, self.context.glyphs
        lines = self.paragraph(f"{error['code']}: {error['message']}", width, palette.error)
        lines += self.paragraph(f"{glyphs.arrow} {error['hint']}", width, palette.text)
        if error["log"]:
            line = self.start(width).gap(2).add(self.context.sign("log"), palette.key)
            line.add(" log  ", palette.dim)
            lines.append(
                line.add(fit_name(error["log"], line.room - 1, glyphs.ellipsis), palette.dim).strip()
            )
        return lines

    def _warnings(self, row: JobRow, width: int) -> list[Strip]:
        """The codes of the warnings; the job's screen has their texts."""
        if not row["warnings"]:
            return []
        codes = ", ".join(each["code"] for each in row["warnings"])
        count = fmt.counted(len(row["warnings"]), "warning")
        text = f"{self.context.glyphs.states['warning']} {count}: {codes}"
        return self.paragraph(text, width, self.context.palette.warning)

    def _status_text(self, row: JobRow, width: int) -> list[Strip]:
        model = self.context.model
        if row["status"] == "done" and not row["deleted_at"]:
            return self.named("took", sentences.took_words(row), width, cells=9)
        text = "" if model.stale else sentences.status_text(row, model.gates, self.context.sign)
        return self.paragraph(text, width, self.context.palette.text)

    def _play(self, row: JobRow, width: int) -> list[Strip]:
        """The command that plays the published ladder."""
        generation = self.context.model.generations.get(row["video"]) if sentences.is_playable(row) else None
        if generation is None:
            return []
        palette, key = self.context.palette, self.context.sign("copy")
        lines = []
        # A path that needs two lines anyway starts right after the command.
        place = fmt.copied(generation["master_b64"])
        name, text = ("at", place) if is_bucket(place) else ("play", shell_quoting.line(["mpv", place]))
        parts = chop_cells(text, max(8, width - 14))
        for at, part in enumerate(parts):
            line = self.start(width).gap(2).cell("" if at else name, 9, palette.faint).gap()
            line.add(part, palette.text)
            if at == len(parts) - 1 and line.room > width_of(key + COPIES) + 1:
                line.gap(2).add(key, palette.key).add(COPIES, palette.dim)
            lines.append(line.strip())
        return lines

    def _qualities(self, row: JobRow, width: int) -> list[Strip]:
        lines: list[Strip] = []
        made = [each for each in row["renditions"] if each["status"] != "skipped"]
        widest = max((len(each["name"]) for each in made), default=0)
        for rendition in made:
            lines += self.quality(rendition, row["status"], width, widest)
        palette, sign = self.context.palette, self.context.glyphs.states["skipped"]
        for text in sentences.skipped_words(row["renditions"]):
            lines += self.paragraph(f"{sign} {text}", width, palette.states["skipped"])
        if not lines and row["status"] == "in_progress":
            return self.paragraph("qualities are known in a moment", width, palette.faint)
        return lines

    def quality(self, rendition: RenditionView, job: str, width: int, widest: int = 0) -> list[Strip]:
        """Name, state, bar, segments, speed, ETA; beside the list the bar has its own line."""
        palette, glyphs, stale = self.context.palette, self.context.glyphs, self.context.model.stale
        state, word = quality_look(rendition, job, stale=stale)
        roomy = width >= ROOMY and not self.beside
        column = max(7, widest) if roomy else max(6, min(widest, width - _BESIDE_NAME))
        name = fit(rendition["name"], column, glyphs.ellipsis)
        line = self.start(width).gap().cell(name, column, palette.strong, right=True).gap(2 if roomy else 1)
        word = f"{glyphs.states[state]} {word}"
        remark = rendition["error"] or rendition["reason"]
        if remark and state == "failed":
            line.add(f"{word}: {fmt.plain(remark)}", palette.states[state])
            return [line.strip()]
        line.cell(word, 12, palette.states[state])
        numbers = _numbers(rendition, roomy=roomy, moving=not stale)
        if not self.beside:
            size = max(8, line.room - sum(cells for _, cells in numbers) - 2)
            add_bar(line, rendition["progress"], size, state, glyphs, palette)
        else:
            line.gap(line.room - sum(cells for _, cells in numbers) - 1)
        for text, cells in numbers:
            line.cell(text, cells, palette.dim if cells != 5 else None, right=True)
        if not self.beside:
            return [line.strip()]
        below = self.start(width).gap().gap(column + 1)
        add_bar(below, rendition["progress"], max(4, below.room - 1), state, glyphs, palette)
        return [line.strip(), below.strip()]

    def _facts(self, row: JobRow, width: int) -> list[Strip]:
        now = self.context.model.now()
        source = row["source"]
        about = [
            fmt.source_size(source),
            fmt.clock_duration(source["duration_s"]),
            units.size(source["size"]),
        ]
        facts = [
            ("source", ", ".join(part for part in about if part)),
            ("problem", in_one_line(**source["problem"]) if source["problem"] else ""),
            ("profile", f"{row['profile']}, {sentences.kind_words(row)}, priority {row['priority']}"),
            ("changed", ", ".join(sentences.changes(row))),
            ("attempts", sentences.failure_words(row)),
            ("added", sentences.added_words(row, now)),
            ("started", fmt.moment(row["started_at"], now)),
            ("ended", fmt.moment(row["completed_at"], now)),
            ("worker", sentences.worker_words(row)),
            ("path", readable(row["path"])),
        ]
        return [line for name, value in facts for line in self.named(name, value, width, cells=9)]


def _numbers(rendition: RenditionView, *, roomy: bool, moving: bool) -> list[tuple[str, int]]:
    """Percent, segments, speed and ETA, each with its width."""
    total = rendition["segments_total"]
    running = rendition["status"] == "in_progress"
    progress = rendition["progress"]
    segments = f"{rendition['segments_done']}/{total}" if total else ""
    return [
        (fmt.percent(progress) if progress or running else "", 5),
        (f"{segments} seg" if roomy and segments else segments, 13 if roomy else 9),
        (fmt.speed(rendition["speed"]) if running and moving else "", 7 if roomy else 6),
        (fmt.clock_duration(rendition["eta_s"]) if running and moving else "", 7 if roomy else 6),
    ]
