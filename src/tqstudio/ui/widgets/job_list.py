"""The job list: one line per job, drawn from the window at constant cost for any number of jobs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from rich.style import Style
from textual.message import Message
from textual.strip import Strip

from tqstudio.lifecycle import TERMINAL
from tqstudio.paths import readable
from tqstudio.ui.data.context import Context
from tqstudio.ui.data.job_pages import Edge
from tqstudio.ui.data.job_window import AHEAD
from tqstudio.ui.drawings.bars import add_bar, add_blocks
from tqstudio.ui.look.line import Line, fit, fit_name, width_of
from tqstudio.ui.widgets.line_view import link
from tqstudio.ui.widgets.row_list import RowList
from tqstudio.words import format as fmt
from tqstudio.words.sentences import changed_names, viewable_words
from tqstudio.words.symbols import job_state, job_word

if TYPE_CHECKING:
    from tqstudio.protocol.answers import JobRow
    from tqstudio.ui.data.marks import Marks
    from tqstudio.ui.look.theme import Colours

CACHED = 512
"""Maximal number of cached drawn rows."""


BAR_CELLS = 10


@dataclass(frozen=True, slots=True)
class Column:
    """A column, its width, and the minimal width of the list at which it is shown."""

    name: str
    title: str
    width: int
    from_width: int
    right: bool = False
    wide: bool | None = None
    """Shown only on wide screens, or only on others; None on both."""


COLUMNS = (
    Column("id", "#", 5, 60, right=True),
    Column("state", "state", 12, 0),
    Column("name", "video", 0, 0),
    Column("profile", "profile", 8, 124),
    Column("priority", "prio", 4, 116, right=True),
    Column("length", "length", 6, 108, right=True),
    Column("source", "source", 8, 0),
    Column("quality", "quality", 7, 0, wide=False),
    Column("bar", "", BAR_CELLS, 0, wide=True),
    Column("done", "done", 5, 0, right=True),
    Column("speed", "speed", 6, 96, right=True, wide=False),
    Column("speed", "speed", 6, 112, right=True, wide=True),
    Column("eta", "ETA", 7, 50, right=True, wide=False),
    Column("eta", "ends", 9, 50, right=True, wide=True),
    Column("worker", "worker", 8, 104),
)
WORDY = 40
"""From this width of the name column the word after the sign of a warning is shown."""
FIRST_STEPS = """the queue is empty
{add}\tadds a video, or all videos of a folder
{drop}
{help}\texplains the signs and lists the keys
{leave}\tleaves; the supervisor continues with the queue"""
_DROP = """{view_folders} then {folder_add}\twatches a folder: every video put there is added
 \tboth ask where the ladders go, and show the default"""
_WATCHED = "{view_folders}\tshows the watched folders: every video put there is added"
_FIRST = ("add", "view_folders", "folder_add", "help", "leave")
LEAST_IMPORTANT_FIRST = ("speed", "worker", "length", "priority", "profile", "source", "quality")
"""The order in which columns are dropped to make room for the names."""
SORTED_BY = {
    "id": "number",
    "state": "state",
    "name": "name",
    "priority": "priority",
    "length": "length",
    "eta": "ended",
}
"""What a click on the head of a column sorts by."""
NAME_CELLS, NAME_CELLS_BESIDE, NAME_CELLS_WIDE = 26, 29, 40
"""Minimal width of the names, also beside the pane, which shows more of the selected job."""
TAIL = ("quality", "bar", "done", "speed", "eta", "worker")
"""The columns that the error code of a failed job replaces."""


def sort_arrow(sort: str) -> str:
    return "↓" if sort.startswith("-") else "↑"


class RowLook(NamedTuple):
    """What the drawing of a row depends on besides its job."""

    width: int
    id_width: int
    name_cells: int
    wide: bool
    selected: bool
    focused: bool
    marked: bool
    word: str
    """Word for the job's state, with the countdown to a retry."""
    eta: str
    thumb: bool
    palette: Colours


class JobList(RowList):
    class NeedMore(Message):
        """The cursor comes near an end of the loaded rows."""

        def __init__(self, edge: Edge) -> None:
            super().__init__()
            self.edge = edge

    def __init__(self, context: Context) -> None:
        super().__init__(context, id="jobs")
        self._drawn: OrderedDict[int, tuple[JobRow, RowLook, Strip]] = OrderedDict()
        self._columns: tuple[object, tuple[Column, ...], int] = (None, (), 0)
        self._version = -1
        self._below: list[int] = []
        """The unfinished jobs below the cursor at the last painting."""
        self.replaced_at = 0.0
        """`time.monotonic()` of the last time another job moved under the cursor by itself."""
        self.id_width = 4
        self.name_cells = NAME_CELLS
        self.wide = False
        """The terminal has room for a bar per row, and the time of day at which a job ends."""

    @property
    def marks(self) -> Marks:
        return self.context.model.marks

    def count(self) -> int:
        return len(self.context.model.jobs.rows)

    def key(self, at: int) -> Hashable:
        return self.context.model.jobs.rows[at]["id"]

    def find(self, key: Hashable) -> int | None:
        return self.context.model.jobs.index_of(key if isinstance(key, int) else None)

    def _place(self) -> int | None:
        """The row of the cursor's job; if that has ended and moved away, of the next unfinished one below it,
        else of the one in its place.

        The cursor stays with running jobs instead of following a finished one, or one that the user moved.
        """
        at = super()._place()
        rows = self.context.model.jobs.rows
        if self.shown_key == self.cursor_key and self._was_moved:
            return self._next(at)
        if at is None or self.shown_key != self.cursor_key or rows[at]["status"] not in TERMINAL:
            return at
        below = [place for job in self._below if (place := self.find(job)) is not None]
        if self._below and self.context.model.jobs.query.sort == "order":
            # All jobs below it may have ended too.
            below += range(min(self.cursor, at), -1, -1)
        return next((place for place in below if place < at and rows[place]["status"] not in TERMINAL), at)

    @property
    def _was_moved(self) -> bool:
        """Whether the user has just changed the job under the cursor."""
        job = self.cursor_key
        return isinstance(job, int) and self.context.model.jobs.is_acted_on(job)

    def _next(self, at: int | None) -> int | None:
        """The row that was below the cursor, if the cursor's own has moved away from it to `at`."""
        below = next((place for job in self._below if (place := self.find(job)) is not None), None)
        if below is not None:
            return at if at is not None and below == at + 1 else below
        return at if at == self.count() - 1 else None

    def settle(self) -> bool:
        before, by_user = self.cursor_key, self._was_moved
        moved = super().settle()
        if moved and before is not None and not by_user and before not in self.context.model.just_deleted:
            self.replaced_at = monotonic()
        return moved

    def paint(self) -> None:
        super().paint()
        self._below = self.context.model.jobs.below(
            self.shown_key if isinstance(self.shown_key, int) else None
        )

    @property
    def job(self) -> JobRow | None:
        """The job under the cursor."""
        rows = self.context.model.jobs.rows
        self.settle()
        return rows[self.cursor] if self.cursor < len(rows) else None

    def sync(self) -> None:
        """Adopt changes of the window."""
        window = self.context.model.jobs
        if window.version == self._version:
            return
        self._version = window.version
        self._filter_line = window.query.line()
        digits = max((len(str(row["id"])) for row in window.rows[:: max(1, len(window) // 20)]), default=3)
        self.id_width = max(4, digits + 1)
        super().sync()
        self._look_ahead()

    def move_to(self, at: int, *, notify: bool = True) -> None:
        super().move_to(at, notify=notify)
        self._look_ahead()

    @property
    def lacks(self) -> Edge | None:
        """The end at which rows are needed and more exist."""
        window = self.context.model.jobs
        if window.after is not None and self.cursor + AHEAD > len(window):
            return "end"
        if window.before is not None and self.cursor < AHEAD:
            return "top"
        return None

    def _look_ahead(self) -> None:
        if edge := self.lacks:
            self.post_message(self.NeedMore(edge))

    def empty(self) -> str:
        model, sign = self.context.model, self.context.sign
        if unread := model.unread(read=model.jobs.loaded):
            return unread
        if model.jobs.query.narrowed:
            return f"no job matches the filter – {sign('back')} shows all"
        if model.remote:
            return f"the queue is empty – {sign('add')} says how to upload files"
        signs = {action: sign(action) for action in _FIRST}
        watched = [f" \t{readable(each['path'])}" for each in model.folders or () if each["enabled"]]
        drop = (_WATCHED if watched else _DROP).format_map(signs)
        drop = "\n".join([drop, *watched[:3]])
        return FIRST_STEPS.format(drop=drop, **signs)

    def head(self, width: int) -> Strip:
        line = self.start(width).gap(2)
        columns, name_width = self._layout(width)
        sort, palette = self.context.model.jobs.query.sort, self.context.palette
        for column in columns:
            room, title = column.width or name_width, column.title
            sorts = SORTED_BY.get(column.name) == sort.removeprefix("-")
            if sorts:
                title = fit(title, room - 1) + sort_arrow(sort)
            style = (palette.key if sorts else palette.faint) + link("sort_by", column.name)
            line.cell(title, room, style, right=column.right).gap()
        return line.strip()

    def row(self, at: int, width: int, *, selected: bool) -> Strip:
        row, model = self.context.model.jobs.rows[at], self.context.model
        job = row["id"]
        look = RowLook(
            *(width, self.id_width, self.name_cells, self.wide),
            selected=selected,
            focused=selected and (self.has_focus or not self.screen.is_current),
            marked=self.marks.has(job, self._filter_line),
            word=job_word(row, model.rows_age_s, stale=model.stale),
            eta=self._eta(row),
            thumb=self._thumb(at),
            palette=self.context.palette,
        )
        cached = self._drawn.get(job)
        if cached is not None and cached[0] is row and cached[1] == look:
            self._drawn.move_to_end(job)
            return cached[2]
        strip = self._draw(row, look)
        self._drawn[job] = (row, look, strip)
        if len(self._drawn) > CACHED:
            self._drawn.popitem(last=False)
        return strip

    def _thumb(self, at: int) -> bool:
        """Whether the scroll bar's thumb covers this row."""
        window = self.context.model.jobs
        total, page = window.total, self.page
        if window.offset is None or total is None or total <= page:
            return False
        height = max(1, page * page // total)
        start = (window.offset + self.top) * (page - height) // max(1, total - page)
        return start <= at - self.top < start + height

    def _layout(self, width: int) -> tuple[tuple[Column, ...], int]:
        """The columns that fit, and the remaining width for the name."""
        key = width, self.id_width, self.name_cells, self.wide
        if self._columns[0] != key:
            shown = {
                column.name: replace(column, width=self.id_width) if column.name == "id" else column
                for column in COLUMNS
                if width >= column.from_width and column.wide in (None, self.wide)
            }

            def room() -> int:
                return width - sum(column.width + 1 for column in shown.values()) - 3

            for name in LEAST_IMPORTANT_FIRST:
                if room() < self.name_cells:
                    shown.pop(name, None)
            self._columns = (key, tuple(shown.values()), max(8, room()))
        return self._columns[1], self._columns[2]

    def _draw(self, row: JobRow, look: RowLook) -> Strip:
        palette, glyphs = self.context.palette, self.context.glyphs
        base = palette.base
        if look.selected:
            base = palette.cursor if look.focused else palette.cursor_blur
        line = Line(look.width, base)
        line.add(glyphs.cursor if look.selected else " ", palette.accent)
        line.add(glyphs.marked if look.marked else " ", palette.mark)
        columns, name_width = self._layout(look.width)
        state = job_state(row, stale=self.context.model.stale)
        texts = self._texts(row, state, look)
        for column in columns:
            if column.name in TAIL and state in ("failed", "retry") and row["error"]:
                line.cell(row["error"]["code"], max(0, line.room - 2), palette.states[state]).gap()
                break
            text, style = texts[column.name]
            if column.name == "name":
                remark, colour = self._viewable(row, name_width), palette.states["viewable"]
                if not remark:
                    remark, colour = self._warning(row, state, name_width), palette.warning
                if not remark and row["word"] == "changed" and name_width >= WORDY:
                    remark, colour = fit(changed_names(row), name_width // 3, glyphs.ellipsis), palette.dim
                room = name_width - (width_of(remark) + 1 if remark else 0)
                line.cell(fit_name(text, room, glyphs.ellipsis), room, style)
                if remark:
                    line.gap().add(remark, colour)
            elif column.name == "quality":
                add_blocks(line, row["renditions"], column.width, glyphs, palette)
            elif column.name == "bar":
                begun = row["progress"] > 0 and row["status"] not in ("done", "cancelled")
                if begun or state == "running":
                    add_bar(line, row["progress"], column.width, state, glyphs, palette)
                else:
                    line.gap(column.width)
            else:
                line.cell(text, column.width, style, right=column.right)
            line.gap()
        line.to(look.width - 1).add(glyphs.thumb if look.thumb else " ", palette.rule)
        return line.strip()

    def _texts(self, row: JobRow, state: str, look: RowLook) -> dict[str, tuple[str, Style | None]]:
        """Text and style of each column; of the qualities, which are drawn as blocks, none."""
        palette, source, progress = self.context.palette, row["source"], row["progress"]
        main = palette.dim if row["status"] in ("done", "cancelled") else None
        started = progress > 0 or row["status"] in ("in_progress", "done")
        return {
            "id": (str(row["id"]), palette.dim),
            "state": (f"{self.context.glyphs.states[state]} {look.word}", palette.states[state]),
            "name": (row["name"], main),
            "profile": (row["profile"], palette.dim),
            "priority": (f"{row['priority']:+d}" if row["priority"] else "", palette.key),
            "length": (fmt.clock_duration(source["duration_s"]), palette.dim),
            "source": (fmt.source_size(source), palette.dim),
            "quality": ("", None),
            "bar": ("", None),
            "done": (fmt.percent(progress) if started else "", main),
            "speed": ("" if state == "stale" else fmt.speed(row["speed"]), palette.dim),
            "eta": (look.eta, main),
            "worker": (row["worker"] or "", palette.dim),
        }

    def _viewable(self, row: JobRow, room: int) -> str:
        """The quality that plays before the job is done."""
        words = viewable_words(row) if room >= WORDY else row["viewable"]
        return f"{self.context.glyphs.states['viewable']} {words}" if viewable_words(row) else ""

    def _warning(self, row: JobRow, state: str, room: int) -> str:
        """Why a waiting job will fail, else the warning count; a failed one shows only its error."""
        count, sign = len(row["warnings"]), self.context.glyphs.states["warning"]
        if problem := row["source"]["problem"]:
            return f"{sign} {problem['code']}"
        if not count or state in ("failed", "retry"):
            return ""
        return f"{sign} {fmt.counted(count, 'warning')}" if room >= WORDY else f"{sign} {count}"

    def _eta(self, row: JobRow) -> str:
        if row["status"] in ("done", "cancelled"):
            ago = fmt.age(row["completed_at"], self.context.model.now())
            return f"{fmt.short_duration(ago)} ago" if ago is not None else ""
        if self.context.model.stale:
            return ""
        if self.wide and row["status"] == "in_progress" and row["eta_s"] is not None:
            return fmt.time_of_day(row["eta_s"], self.context.model.now())
        text = fmt.clock_duration(row["eta_s"])
        return f"~{text}" if text and row["status"] != "in_progress" else text
