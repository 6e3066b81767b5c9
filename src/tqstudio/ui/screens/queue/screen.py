"""The queue view: list of jobs, and the selected job in detail."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from functools import partialmethod
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Container

from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import Control, JobStatus
from tqstudio.paths import readable
from tqstudio.protocol import calls
from tqstudio.protocol.filters import FilterError, Term
from tqstudio.ui.actions.registry import View, bindings_of
from tqstudio.ui.data.job_pages import Edge
from tqstudio.ui.data.query import Query, query_of, turned
from tqstudio.ui.data.target import Target
from tqstudio.ui.look.line import fit_name
from tqstudio.ui.screens.frame.list_screen import pane_height
from tqstudio.ui.screens.queue.actions import QueueActions
from tqstudio.ui.widgets.completion import JobFilter
from tqstudio.ui.widgets.filter_line import FilterLine
from tqstudio.ui.widgets.job_list import (
    NAME_CELLS,
    NAME_CELLS_BESIDE,
    NAME_CELLS_WIDE,
    SORTED_BY,
    JobList,
    sort_arrow,
)
from tqstudio.ui.widgets.job_pane import PAGES, JobPane
from tqstudio.ui.widgets.row_list import RowList
from tqstudio.words import format as fmt
from tqstudio.words import sentences

if TYPE_CHECKING:
    from tqstudio.protocol.answers import JobRow, WallView

BESIDE_WIDTH = 120
"""From this width the pane is beside the list."""
WIDE_WIDTH = 140
"""From this width the list has a bar per row, and the time of day at which a job ends."""
TWO_COLUMNS_WIDTH = 200
"""From this width the pane has two columns."""
LONG_NAMES_WIDTH = 160
"""From this width names have more room, before further columns do."""
IGNORE_KEYS_S = 0.7
"""Keys are ignored for this long after another job moved under the cursor: they meant the previous one."""
FOLDER_CELLS = 16
JOB_DIGITS = 19
"""Digits from which a number may be too large for the database."""
LIVE_S, LIVE_HEIGHT, LIVE_LOG = 3.0, 35, 50
"""Interval of reading what the pane shows of a running job, from this height, and lines of its log."""
REST_S = 0.15
"""Delay before more details of the job under the cursor are requested."""


NOT_SORTED = {
    "profile": "by profile there is no order: filter by one, as in {filter}profile:web",
    "source": "by picture there is no order: {sort} sorts by the size or length of the source",
}
"""Why the head of a column sorts nothing; the others change while a job runs."""


def _sort_words(sort: str) -> str:
    return sort if sort == "order" else f"{sort.removeprefix('-')} {sort_arrow(sort)}"


class QueueScreen(QueueActions):
    VIEW: ClassVar[View] = "queue"
    BINDINGS = bindings_of("queue")
    pane: JobPane
    filter_line: JobFilter

    def body(self) -> ComposeResult:
        self.list = JobList(self.context)
        self.pane = JobPane(self.context, self.current)
        self.pane.page = next(
            (page for page in PAGES if page == self.context.remembered.get("pane")), PAGES[0]
        )
        self.filter_line = JobFilter(self.context)
        self.frozen = False
        self._looked_up: int | None = None
        yield self.filter_line
        yield self.filter_line.hints
        with Container(id="panes"):
            yield self.list
            yield self.pane

    def current(self) -> JobRow | None:
        return self.list.job

    def targets(self) -> list[Target]:
        window, matching = self.context.model.jobs, self.list.marks.matching
        if matching is not None:
            # Some of them: the supervisor decides about each.
            some = [
                Target.of(row) for row in window.rows if self.list.marks.has(row["id"], window.query.line())
            ]
            deleted = query_of(matching.line).filter.deleted
            return some or [Target(0, "", JobStatus.PENDING, Control.NONE, 0, deleted=deleted)]
        if self.list.marks:
            for job in self.list.marks:
                if row := window.row(job):
                    self.list.marks[job] = Target.of(row)
            return list(self.list.marks.values())
        row = self.current()
        replaced = monotonic() - self.list.replaced_at < IGNORE_KEYS_S
        if row is not None and (replaced or row["id"] != self.list.shown_key):
            # Another job has moved under the cursor since the last painting: it must not be affected.
            self.toast("the list has just changed; check it and press again")
            self.paint()
            return []
        return [Target.of(row)] if row else []

    def footer_targets(self) -> Collection[Target]:
        if self.list.marks:
            # One job of each kind, so that thousands of marks do not slow the footer down.
            marked = self.targets() if self.list.marks.matching else self.list.marks.values()
            return {(each.status, each.control): each for each in marked}.values()
        row = self.current()
        return [Target.of(row)] if row else ()

    def marked(self) -> str:
        if not self.list.marks:
            return ""
        if self.list.marks.matching is not None:
            return f"{self.list.marks.matching} marked"
        hidden = len(self.hidden())
        of_them = f", {fmt.number(hidden)} hidden" if hidden else ""
        return f"{fmt.number(len(self.list.marks))} marked{of_them}"

    def hidden(self) -> Collection[int]:
        return self.list.marks.hidden(self.context.model.jobs)

    def tab_text(self) -> tuple[str, str]:
        window, status = self.context.model.jobs, self.context.model.status
        query = window.query
        if not window.loaded:
            return query.line(), ""
        count = fmt.counted(len(window) if window.total is None else window.total, "job")
        if query.narrowed and status and not query.filter.deleted:
            shown = f"{fmt.number(len(window))}+" if window.total is None else fmt.number(window.total)
            count = f"{shown} of {fmt.number(sum(status['jobs'].values()))}"
        states = (("frozen", self.frozen), ("following", self.list.follow))
        flags = [word for word, on in states if on]
        remark = f" {self.context.glyphs.bullet} ".join(
            [*flags, *self._folder(), count, f"sort {_sort_words(query.sort)}"]
        )
        return query.line(), remark

    def _folder(self) -> list[str]:
        """The name of the drop folder that the list is restricted to."""
        terms = self.context.model.jobs.query.filter.of("folder")
        wanted = {value for term in terms for value in term.values if not term.negated}
        folders = self.context.model.folders or ()
        paths = [readable(each["path"]) for each in folders if str(each["id"]) in wanted]
        names = [path.rpartition("/")[2] or path for path in paths]
        return [f"in {fit_name(name, FOLDER_CELLS, self.context.glyphs.ellipsis)}" for name in names]

    def paint(self) -> None:
        super().paint()
        self._look_up()

    def _look_up(self) -> None:
        """Request the published generation of a job, once the cursor rests on it."""
        row = self.current()
        video = row["video"] if row and sentences.is_playable(row) else None
        if video == self._looked_up or video in self.context.model.generations:
            return
        self._looked_up = video
        if video is not None:
            self.set_timer(REST_S, lambda: self.shell.start(self._read_generation(video)))

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(LIVE_S, self._read_live)

    async def _read_live(self) -> None:
        """Read who makes what of the running job under the cursor, and the end of its log, where they fit."""
        row, model = self.current(), self.context.model
        fits = self.pane.beside and self.pane.display and self.size.height >= LIVE_HEIGHT
        if not fits or row is None or row["status"] != "in_progress":
            self.pane.wall = self.pane.log_tail = None
        elif self.is_current and model.up:
            from tqstudio.ui.screens.job.log_lines import tail

            with suppress(TqError):  # the header says that the supervisor does not answer
                wall: WallView = await self.context.feed.send(calls.wall(row["id"]))
                log = await self.context.feed.send(calls.job_log(row["id"], lines=LIVE_LOG))
                self.pane.wall = wall
                self.pane.log_tail = row["id"], tail(log["text"], self.context.glyphs.ellipsis)
        self.pane.paint()

    async def _read_generation(self, video: int) -> None:
        if self._looked_up != video or not self.context.model.up:
            return
        self._looked_up = None
        found = await self.context.feed.send(calls.video(video))
        self.context.model.generations[video] = found["generation"]
        self.pane.paint()

    def place(self, width: int, height: int) -> None:
        panes = self.query_one("#panes")
        self.pane.beside = width >= BESIDE_WIDTH
        self.list.wide = width >= WIDE_WIDTH
        self.pane.display = self.pane.page != "hidden"
        panes.styles.layout = "horizontal" if self.pane.beside else "vertical"
        beside = self.pane.beside and self.pane.display
        self.list.name_cells = NAME_CELLS_BESIDE if beside else NAME_CELLS
        if width >= LONG_NAMES_WIDTH:
            self.list.name_cells = NAME_CELLS_WIDE
        if self.pane.beside:
            share = 36 if width < TWO_COLUMNS_WIDTH else 48
            self.pane.styles.width = max(47, width * share // 100)
            self.pane.styles.height = "1fr"
        else:
            self.pane.styles.width = "1fr"
            self.pane.styles.height = pane_height(height)

    @on(RowList.Moved)
    def _look_up_current(self) -> None:
        self._look_up()

    @on(JobList.NeedMore)
    async def _need_more(self, message: JobList.NeedMore) -> None:
        self.shell.start(self._read_more(message))

    async def _read_more(self, message: JobList.NeedMore) -> None:
        row = self.current()
        await self.context.feed.job_pages.more(message.edge, row["id"] if row else None)
        self.paint()

    # The filter.

    async def do_filter(self, _: str) -> None:
        self.filter_line.open(self.context.model.jobs.query.line())

    async def do_show_state(self, state: str) -> None:
        """Filter by the clicked status count of the header, or remove that filter."""
        query = self.context.model.jobs.query
        asked = Term("state", (state,))
        terms = () if query.filter.of("state") == (asked,) else (asked,)
        await self.ask(replace(query, filter=query.filter.with_terms("state", *terms)))

    @on(FilterLine.Typed)
    async def _typed(self, message: FilterLine.Typed) -> None:
        try:
            query = query_of(message.value, self.context.model.jobs.query.sort)
        except FilterError as error:
            if message.final or not error.unfinished:
                self._complain(error)
            return
        self._complain(None)
        if message.final:
            self.close_filter()
            if query.narrowed:
                self.context.remembered.keep_filter(query.line())
        self.shell.start(self._find(query) if message.final else self.ask(query), keys_wait=message.final)

    def _complain(self, error: TqError | None) -> None:
        """Say below the filter line what is wrong with it."""
        self.filter_line.show_error(error.message if error else "")
        self.filter_line.hints.complain(error)

    async def _find(self, query: Query) -> None:
        """Apply a filter; for a number alone that is in no name, show the job that has it."""
        await self.ask(query)
        number = query.text.removeprefix("#")
        if self.context.model.jobs.rows or not (number.isdecimal() and len(number) < JOB_DIGITS):
            return
        job = int(number)
        await self.ask(Query(sort=query.sort), keep=job)
        at = self.list.find(job)
        if at is None:
            await self.ask(query)
        else:
            self.list.move_to(at)

    async def ask(self, query: Query, *, keep: int | None = None) -> None:
        """Show another query, around job `keep` or the one under the cursor."""
        row = self.current()
        try:
            await self.context.feed.job_pages.ask(query, keep=keep or (row["id"] if row else None))
        except TqError as error:
            if self.typing() and error.code is ErrorCode.BAD_REQUEST:
                self._complain(error)
            else:
                self.show_error(error)
        self.paint()
        # The user requested the change and keys waited for it, so they mean the job now under the cursor.
        self.list.replaced_at = 0.0

    async def do_acted_on(self, _: str) -> None:
        """Move the cursor to the job that was acted on last."""
        if (job := self.context.model.acted_on_last) is None:
            self.toast("no job was acted on yet")
        else:
            await self.go_to(job)

    async def go_to(self, job: int, *, anywhere: bool = False) -> None:
        """Move the cursor to a job, if the filter shows it; `anywhere` removes one that does not."""
        query = self.context.model.jobs.query
        await self.ask(query, keep=job)
        if anywhere and query.narrowed and self.list.find(job) is None:
            await self.ask(Query(sort=query.sort), keep=job)
        at = self.list.find(job)
        if at is None:
            self.toast(f"job {job} is not in this list: {self.context.sign('back')} clears the filter")
        else:
            self.list.move_to(at)

    async def do_sort(self, _: str) -> None:
        """Open the menu of orders."""
        from tqstudio.ui.screens.dialogs.choose import ChooseSort

        def chosen(by: str | None) -> None:
            if by is not None:
                self.shell.start(self._sort_by(by), keys_wait=True)

        self.app.push_screen(ChooseSort(self.context.model.jobs.query.sort), chosen)

    async def do_sort_by(self, column: str) -> None:
        """Sort by the column whose head was clicked, or say why not."""
        if (by := SORTED_BY.get(column)) is not None:
            await self._sort_by(by)
        else:
            why = NOT_SORTED.get(column, "what changes while a job runs is no order: rows would jump")
            sign = self.context.sign
            self.toast(why.format(filter=sign("filter"), sort=sign("sort")))

    async def _sort_by(self, by: str) -> None:
        query = self.context.model.jobs.query
        sort = turned(query.sort, by)
        await self.ask(replace(query, sort=sort))
        self.context.remembered.set("sort", sort)

    # The list and its pane.

    async def do_open(self, _: str) -> None:
        row = self.current()
        if row is None:
            self.toast("no job is selected")
            return
        from tqstudio.ui.screens.job.screen import JobScreen

        self.app.push_screen(JobScreen(self.context, row["id"]))

    async def do_pane(self, _: str) -> None:
        pages = [page for page in PAGES if page != "facts" or not self.pane.beside]
        page = self.pane.page if self.pane.page in pages else "qualities"
        self.pane.page = pages[(pages.index(page) + 1) % len(pages)]
        self.context.remembered.set("pane", self.pane.page)
        self.place(self.size.width, self.size.height)
        self.paint()

    async def do_freeze(self, _: str) -> None:
        """Freeze the order of the rows; progress is still updated."""
        self.frozen = not self.frozen
        self.context.feed.refresh_soon()
        self.paint()

    async def do_follow(self, _: str) -> None:
        self.list.follow = not self.list.follow
        if self.list.follow:
            await self.do_top("")
            self.list.follow = True
        self.paint()

    async def _go(self, edge: Edge, _: str) -> None:
        window = self.context.model.jobs
        self.list.follow = False
        if (window.before if edge == "top" else window.after) is not None:
            await self.context.feed.job_pages.go(edge)
        self.list.move_to(0 if edge == "top" else len(window) - 1)
        self.paint()

    do_top = partialmethod(_go, "top")
    do_end = partialmethod(_go, "end")

    async def do_back(self, _: str) -> None:
        """Escape: clears the filter first, then marks, following, notices and tips."""
        query = self.context.model.jobs.query
        if query.narrowed:
            await self.ask(Query(sort=query.sort))
        elif self.list.marks:
            await self.do_unmark("")
        elif self.list.follow:
            await self.do_follow("")
        else:
            self.context.model.dismiss_notices()
            self.context.model.tips.close()
            self.paint()
