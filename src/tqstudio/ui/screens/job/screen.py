"""The job screen: all details of one job."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual.app import ComposeResult
from textual.strip import Strip

from tqstudio import shell_quoting
from tqstudio.errors import TqError, in_one_line
from tqstudio.protocol import calls
from tqstudio.ui.actions.registry import View, bindings_of
from tqstudio.ui.data.context import Context
from tqstudio.ui.data.target import Target
from tqstudio.ui.drawings.plots import shows_pictures
from tqstudio.ui.look.line import fit_name
from tqstudio.ui.screens.job import graphics, sections
from tqstudio.ui.screens.job.actions import JobActions
from tqstudio.ui.screens.job.log_lines import tail
from tqstudio.ui.widgets.document import Document, Section
from tqstudio.words.format import copied
from tqstudio.words.sentences import has_poster, is_playable

if TYPE_CHECKING:
    from tqstudio.protocol.answers import EventView, JobDetail, JobRow, PictureView, WallView
    from tqstudio.protocol.calls import Call

Part = Callable[[Document, "JobDetail", int], list[Strip]]

REREAD_S = 2.0
"""Interval of rereading a running job; its progress comes with the event stream."""
TWO_COLUMNS = 110
PICTURE_LINES = 30
"""Lines of a document that has room for pictures."""
STRIP_PIXELS = 10
T = TypeVar("T")


class JobScreen(JobActions):
    VIEW: ClassVar[View] = "job"
    TAB = "queue"
    BINDINGS = bindings_of("job")

    def __init__(self, context: Context, job: int) -> None:
        super().__init__(context)
        self.job = job
        self._chosen: int | None = None
        self._problem = ""
        self._wall: WallView | None = None
        self._log_tail: list[str] = []

    def body(self) -> ComposeResult:
        self.document = Document(self.context, self._columns, two_from=TWO_COLUMNS)
        yield self.document

    def on_mount(self) -> None:
        self.context.model.take_detail(None)
        self.context.feed.listeners.append(self._on_event)
        self.shell.start(self.reread())
        self.set_interval(REREAD_S, self._reread_running)

    def on_unmount(self) -> None:
        self.context.feed.listeners.remove(self._on_event)

    @property
    def detail(self) -> JobDetail | None:
        detail = self.context.model.detail
        return detail if detail is not None and detail["id"] == self.job else None

    def current(self) -> JobRow | None:
        return self.context.model.job(self.job)

    def targets(self) -> list[Target]:
        row = self.detail or self.current()
        return [Target.of(row)] if row else []

    def footer_targets(self) -> Collection[Target]:
        return self.targets()

    def tab_text(self) -> tuple[str, str]:
        row = self.current()
        name = fit_name(row["name"], 60, self.context.glyphs.ellipsis) if row else ""
        return "", f"job {self.job}  {name}"

    async def reread(self) -> None:
        try:
            detail = await self.context.feed.send(calls.job(self.job))
            self.context.model.take_detail(detail)
            self._problem = ""
            await self._reread_rest(detail)
        except TqError as error:
            self._problem = in_one_line(error.code, error.message, error.hint)
        self.paint()

    async def _reread_rest(self, detail: JobDetail) -> None:
        """Read the course of the speed, and where there is room the end of the log."""
        wall: WallView | None = None
        if detail["status"] == "in_progress":
            answer: WallView = await self.context.feed.send(calls.wall(self.job))
            wall = answer
        has_log, lines_of_log = any(attempt["log"] for attempt in detail["attempts_log"]), []
        if has_log and self._has_room:
            lines = self.document.size.height // 2
            log = await self.context.feed.send(calls.job_log(self.job, lines=lines))
            lines_of_log = tail(log["text"], self.context.glyphs.ellipsis)
        # Only now, so that nothing disappears while the answers are awaited.
        self._wall, self._log_tail = wall, lines_of_log

    async def _reread_running(self) -> None:
        if self.is_current and (self.detail is None or self.detail["status"] == "in_progress"):
            await self.reread()

    def _on_event(self, event: EventView) -> None:
        if event["job"] == self.job:
            self.shell.start(self.reread())

    def _columns(self, two: bool) -> list[list[Section]]:
        """Status left, facts right; below each other in a narrow terminal."""
        detail = self.detail
        if detail is None:
            return [[self._waiting]]
        attempts = partial(sections.attempts, chosen=self.selected_attempt())
        film = partial(graphics.film, found=self._film(detail))
        speed = partial(graphics.speed, found=self._wall)
        log = partial(graphics.log, lines=self._log_tail)
        bits = partial(graphics.bits, found=self._of_ladder(detail, calls.job_bits(self.job)))
        left: tuple[Part, ...] = (
            *(sections.state, film, sections.qualities, speed, sections.steps),
            attempts,
        )
        right = (sections.facts, sections.generation, bits, sections.events)

        def bound(*of: Part) -> list[Section]:
            return [partial(part, self.document, detail) for part in of]

        if two:
            return [bound(*left, sections.command), bound(*right, log)]
        return [bound(*left, *right, sections.command)]

    def _film(self, detail: JobDetail) -> list[PictureView | None]:
        """The poster and the film strip, where they are wanted and there is room for them."""
        if not (shows_pictures(self.document) and self._has_room):
            return []
        width, height = self.document.size.width // 2 - 4, self.document.size.height
        heights = {"poster": min(45, height // 3 * 2), "storyboard": STRIP_PIXELS}
        wanted = [calls.job_picture(self.job, kind, min(80, width), most) for kind, most in heights.items()]
        return [self._of_ladder(detail, each) for each in wanted]

    def _of_ladder(self, detail: JobDetail, call: Call[T]) -> T | None:
        generation = detail["video_view"]["generation"]
        if generation is None and (call.params.get("kind") != "poster" or not has_poster(detail)):
            return None
        start = self.shell.start if self.context.model.up else None
        return self.context.feed.ladder_answers.get(call, generation["number"] if generation else 0, start)

    @property
    def _has_room(self) -> bool:
        return self.document.size.width >= TWO_COLUMNS and self.document.size.height >= PICTURE_LINES

    async def do_pictures(self, _: str) -> None:
        self.context.remembered.set("pictures", "off" if shows_pictures(self.document) else "on")
        if not shows_pictures(self.document) and self.context.remembered.get("pictures") == "on":
            self.toast("this terminal has too few colours for pictures")
        elif shows_pictures(self.document) and not self._has_room:
            self.toast("there is no room for pictures: make the window larger")
        self.paint()

    def _waiting(self, width: int) -> list[Strip]:
        text = self._problem or "reading…"
        return [self.document.start(width).gap(2).add(text, self.context.palette.dim).strip()]

    def selected_attempt(self) -> int | None:
        """The attempt selected with tab, else the newest; None before the first."""
        numbers = self._numbers()
        return self._chosen if self._chosen in numbers else max(numbers, default=None)

    def _numbers(self) -> list[int]:
        return [attempt["number"] for attempt in self.detail["attempts_log"]] if self.detail else []

    async def do_next_attempt(self, _: str) -> None:
        """Select the previous attempt; after the first one, the newest."""
        numbers, chosen = self._numbers(), self.selected_attempt()
        if len(numbers) < 2 or chosen is None:
            self.toast("there is only one attempt" if numbers else "there is no attempt yet")
            return
        self._chosen = max((number for number in numbers if number < chosen), default=max(numbers))
        self.paint()

    async def do_copy(self, _: str) -> None:
        generation = self.detail["video_view"]["generation"] if self.detail else None
        if self.detail and is_playable(self.detail) and generation is not None:
            self.copy(copied(generation["master_b64"]), "path of the playlist")
            return
        attempt = sections.newest_attempt(self.detail) if self.detail else None
        if attempt is None or not attempt["argv"]:
            self.toast("no command has run yet")
            return
        self.copy("\n".join(shell_quoting.script(attempt["argv"])), "command")
