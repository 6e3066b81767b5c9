"""Base class of full screens: header, notices, tabs, footer, keymap and painting."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Hashable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events, on
from textual.app import ComposeResult
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from tqstudio import hours
from tqstudio.errors import TqError
from tqstudio.protocol import calls
from tqstudio.ui.actions.registry import View
from tqstudio.ui.data.context import Context, Shell
from tqstudio.ui.data.target import Target
from tqstudio.ui.widgets.footer import Footer
from tqstudio.ui.widgets.header import Header
from tqstudio.ui.widgets.line_view import LineView
from tqstudio.ui.widgets.notice import Notice
from tqstudio.ui.widgets.tabs import Tabs
from tqstudio.ui.widgets.tip_line import TipLine
from tqstudio.words import format as fmt
from tqstudio.words import undo as undone

if TYPE_CHECKING:
    from tqstudio.protocol.answers import UndoAnswer

MIN_WIDTH, MIN_HEIGHT = 60, 15


def too_small(size: Size) -> bool:
    """Whether a terminal of this size shows only the message that it is too small."""
    return size.width < MIN_WIDTH or size.height < MIN_HEIGHT


class StudioScreen(Screen[None]):
    """Subclasses compose their part in `body`; `paint` draws everything from the model."""

    AUTO_FOCUS = ""
    """None: the first focusable widget may be a hidden filter, so screens set the focus themselves."""
    VIEW: ClassVar[View]
    TAB: ClassVar[str] = ""
    """The highlighted tab; the view's own when empty."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._focus_before: Widget | None = None

    @property
    def shell(self) -> Shell:
        return cast("Shell", self.app)

    def compose(self) -> ComposeResult:
        yield Header(self.context, id="header")
        yield Notice(self.context, id="notice")
        yield Tabs(self.context, self.TAB or self.VIEW, self.tab_text)
        yield from self.body()
        yield TipLine(self.context, self.VIEW)
        yield Footer(
            self.context, self.VIEW, targets=self.footer_targets, marked=self.marked, typing=self.typing
        )
        yield Static(
            f"This terminal is too small: tqstudio needs {MIN_WIDTH} columns and {MIN_HEIGHT} lines;"
            f" {self.context.sign('leave')} quits.",
            id="too-small",
        )

    def body(self) -> ComposeResult:
        """The widgets between tabs and footer."""
        raise NotImplementedError

    def tab_text(self) -> tuple[str, str]:
        """The active filter and a remark, for the tabs line."""
        return "", ""

    def footer_targets(self) -> Collection[Target]:
        """The jobs that the footer's actions apply to."""
        return ()

    def marked(self) -> str:
        """The number of marked jobs as text; empty for none."""
        return ""

    def typing(self) -> bool:
        """Whether keys currently go into a text field."""
        return False

    def select(self, key: Hashable) -> None:
        """Move the cursor of the view's list to a row, which no filter hides any more."""

    def paint(self) -> None:
        """Repaint changed lines from the model."""
        for view in self.query(LineView):
            view.paint()

    def redraw(self) -> None:
        """Draw everything again, after a change of theme."""
        for view in self.query(LineView):
            view.redraw()

    def on_screen_resume(self) -> None:
        self.paint()

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _focus_moved(self) -> None:
        self.query_one("#footer", Footer).paint()

    def on_unmount(self) -> None:
        """Free the drawn background, as `LineView` frees its lines."""
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        small = too_small(event.size)
        if small != self.has_class("too-small"):
            self._hide_or_show(small)
        self.place(event.size.width, event.size.height)

    def _hide_or_show(self, small: bool) -> None:
        # A hidden widget loses the focus, and what is typed into a filter would become commands.
        if small:
            self._focus_before = self.focused
            self.set_focus(None)
        self.set_class(small, "too-small")
        if not small:
            self.set_focus(self._focus_before)

    def place(self, width: int, height: int) -> None:
        """Lay the parts out for this size."""

    async def action_perform(self, name: str, argument: str = "") -> None:
        # Not in the app's own queue: a slow answer must not delay its exit.
        self.shell.start(self.shell.perform(name, argument), keys_wait=True)

    @on(LineView.Clicked)
    async def _clicked(self, message: LineView.Clicked) -> None:
        message.stop()
        self.shell.start(self.shell.perform(message.action, message.argument), keys_wait=True)

    def toast(self, text: str, *, problem: bool = False) -> None:
        self.shell.toast(text, problem=problem)

    def show_error(self, error: TqError) -> None:
        self.shell.show_error(error)

    async def do_back(self, _: str) -> None:
        if self.context.model.dismiss_notices():
            self.paint()
        else:
            self.dismiss()

    # Actions of every view.

    async def do_undo(self, _: str) -> None:
        """Undo the user's newest action, with a count where it changed many jobs."""
        answer: UndoAnswer | None = None
        while answer is None or answer["remaining"]:
            call = calls.undo(uuid.uuid4().hex, answer and answer["undo"])
            answer = undone.added(answer, await self.context.feed.send_again(call, self.toast))
            if answer["remaining"]:
                self.toast(f"undoing: {fmt.counted(answer['remaining'], 'job')} left")
        self.context.feed.refresh_soon()
        self.context.feed.read_folders_soon()
        self.toast(undone.sentence(answer), problem=bool(answer["not_restored"]))

    async def do_pause_all(self, _: str) -> None:
        if self.context.model.paused:
            await self.context.feed.send(calls.resume_queue())
            self.toast("queue resumed")
        else:
            await self.context.feed.send(calls.pause_queue())
            self.toast("queue paused: running jobs finish, no other starts")

    async def do_pause_until(self, _: str) -> None:
        from tqstudio.ui.screens.dialogs.dialogs import AskText

        def read(typed: str) -> str:
            return hours.moment(typed, datetime.now(UTC)).isoformat(timespec="seconds")

        def answered(until: str | None) -> None:
            if until is not None:
                self.shell.start(self._pause_until(until))

        resumes = f"{self.context.sign('pause_all')} resumes it earlier"
        sentence = f"Running jobs finish, no other starts; {resumes}. Type 2h, 07:00 or a date."
        wrong = "type a time such as 30m, 2h, 3d, 07:00 or 2026-12-24T18:00"
        self.app.push_screen(AskText("Pause the queue until", sentence, "", read, wrong), answered)

    async def _pause_until(self, until: str) -> None:
        gate = await self.context.feed.send(calls.pause_queue(until=until))
        self.toast(f"queue paused{fmt.end(gate['until'])}: running jobs finish, no other starts")

    async def do_reports(self, _: str) -> None:
        on = self.shell.switch_reports()
        self.toast(f"failures and an empty queue are {'reported' if on else 'not reported any more'}")

    async def do_reported(self, _: str) -> None:
        """Show the job that failed last in the queue."""
        if (job := self.shell.reported_job) is None:
            self.toast("no job has failed since this was opened")
        else:
            await self.shell.show_job(job)
