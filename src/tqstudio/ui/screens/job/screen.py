"""The job screen: all details of one job."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.strip import Strip

from tqstudio import shell_quoting
from tqstudio.errors import TqError, in_one_line
from tqstudio.protocol import calls
from tqstudio.ui.actions.registry import View, bindings_of
from tqstudio.ui.data.context import Context
from tqstudio.ui.data.target import Target
from tqstudio.ui.look.line import fit_name
from tqstudio.ui.screens.job import sections
from tqstudio.ui.screens.job.actions import JobActions
from tqstudio.ui.widgets.document import Document, Section
from tqstudio.words.format import copied
from tqstudio.words.sentences import is_playable

if TYPE_CHECKING:
    from tqstudio.protocol.answers import EventView, JobDetail, JobRow

Part = Callable[[Document, "JobDetail", int], list[Strip]]

REREAD_S = 2.0
"""Interval of rereading a running job; its progress comes with the event stream."""
TWO_COLUMNS = 110


class JobScreen(JobActions):
    VIEW: ClassVar[View] = "job"
    TAB = "queue"
    BINDINGS = bindings_of("job")

    def __init__(self, context: Context, job: int) -> None:
        super().__init__(context)
        self.job = job
        self._chosen: int | None = None
        self._problem = ""

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
        except TqError as error:
            self._problem = in_one_line(error.code, error.message, error.hint)
        self.paint()

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
        left: tuple[Part, ...] = (sections.state, sections.qualities, sections.steps, attempts)
        right = (sections.facts, sections.generation, sections.events)

        def bound(*of: Part) -> list[Section]:
            return [partial(part, self.document, detail) for part in of]

        if two:
            return [bound(*left, sections.command), bound(*right)]
        return [bound(*left, *right, sections.command)]

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
