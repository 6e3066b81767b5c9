"""The application: manages the views, repaints on changes and dispatches actions by name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial, partialmethod
from subprocess import Popen
from time import monotonic
from typing import Any, ClassVar

from textual import events
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Input

from tqstudio.errors import ErrorCode, TqError, in_one_line
from tqstudio.home import Home
from tqstudio.protocol import launch, running
from tqstudio.protocol.calls import ApiClient
from tqstudio.protocol.filters import sort_of
from tqstudio.ui.actions.keys_file import keymap, read_keys
from tqstudio.ui.actions.registry import ACTIONS, READ_ONLY
from tqstudio.ui.data.context import Context
from tqstudio.ui.data.feed import BACKOFF_S, START_TIMEOUT_S, Feed
from tqstudio.ui.data.model import Model
from tqstudio.ui.data.query import Query, query_of
from tqstudio.ui.data.remembered import Remembered
from tqstudio.ui.data.tips import Tip, Tips
from tqstudio.ui.event_reports import EventReports
from tqstudio.ui.look.terminal_diff import TerminalDiff
from tqstudio.ui.painter import Painter
from tqstudio.ui.screens.frame.base import StudioScreen, too_small
from tqstudio.ui.screens.queue.screen import QueueScreen
from tqstudio.ui.screens.views import LATER, LATER_S, VIEWS, load, view_class
from tqstudio.ui.signals import Signals
from tqstudio.ui.starting import start_problem
from tqstudio.ui.toasts import Toasts
from tqstudio.ui.typeahead import KeyQueue
from tqstudio.ui.widgets.row_list import RowList
from tqstudio.words.symbols import ASCII, Glyphs, choose_glyphs

TYPING_S = 0.6
"""Rows keep their order for this long after a key press."""
IS_READ_ONLY = "this screen is read-only"
CLOCK_S = 1.0
"""Interval at which ages and countdowns are updated."""


class StudioApp(App[None]):
    CSS_PATH = "look/style.tcss"
    TITLE = "tqstudio"
    ALLOW_SELECT = False
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [
        # Also in dialogs and fields.
        Binding("ctrl+z", "suspend_process", show=False, priority=True, id="app.suspend")
    ]

    def __init__(
        self,
        client_factory: Callable[[], ApiClient],
        *,
        home: Home,
        notice: str = "",
        tips: Sequence[Tip] = (),
        view: str | None = None,
        read_only: bool = False,
        started: Popen[bytes] | None = None,
        remote: Callable[[], str] = lambda: "",
        now: Callable[[], datetime] = lambda: datetime.now(UTC).astimezone(),
        glyphs: Glyphs | None = None,
        theme: str | None = None,
        backoff_s: tuple[float, ...] = BACKOFF_S,
        start_timeout_s: float = START_TIMEOUT_S,
        painted: Callable[[], None] = lambda: None,
    ) -> None:
        """Args: `started` is a supervisor that was just started, `remote` returns the name of one on another
        machine; `read_only` is for a screen on a wall; `painted` is called after first painting."""
        super().__init__()
        remembered = Remembered(home)
        self.painter = Painter(self, home, theme, remembered)
        self.use_theme, self.preview_theme = self.painter.use_theme, self.painter.preview
        self.theme_names = self.painter.names
        model = Model(now)
        with suppress(TqError):
            model.jobs.query = Query(sort=sort_of(remembered.get("sort") or "order"))
        keys = read_keys(home.keys)
        model.tips = Tips(tips)
        model.notes = [*self.painter.problems, *keys.problems]
        self.set_keymap(keymap(keys))
        for key in keys.commands:
            self.bind(key, f"screen.perform('own_command', '{key}')", show=False)
        self._notice = notice
        self._started = started
        self.problem: TqError | None = None
        """Why the last attempt to start a supervisor failed."""
        self._painted = painted

        def connect() -> ApiClient:
            model.remote = remote()  # another one than before, when another supervisor leads
            return client_factory()

        feed = Feed(
            model,
            connect,
            changed=self.painter.soon,
            anchor=self._anchor,
            listening=self._listening,
            backoff_s=backoff_s,
            start_timeout_s=start_timeout_s,
        )
        vivid = self.painter.colours()
        signs = glyphs or choose_glyphs()
        self.context = Context(model, feed, signs, vivid, vivid, home, remembered, keys, read_only)
        self.painter.context = self.context
        self.set_class(self.context.glyphs is ASCII, "ascii")
        wanted = view or ("queue" if tips else remembered.get("view"))
        self._view = wanted if wanted in VIEWS else "queue"
        self._views: dict[str, StudioScreen] = {}
        self._key_at = 0.0
        self._toasts = Toasts(self)
        self.event_reports = EventReports(self, self.context, self._toasts)
        feed.listeners.append(self.event_reports.take)
        self._terminal_diff = TerminalDiff(colours=not self.no_color)
        self.signals = Signals(self, self._terminal_diff.forget)
        self.lend_terminal = self.signals.lend
        self._keys = KeyQueue(self, super().on_event)
        self._background: set[asyncio.Task[None]] = set()
        self._colours = self.get_css_variables()
        self.stylesheet.set_variables(self._colours)

    # Start and end.

    def on_mount(self) -> None:
        if not self.is_headless:
            self.signals.catch_stops()
        self._show(self._view)
        self.set_interval(CLOCK_S, self.painter.soon)
        if self._notice:
            self.toast(self._notice)
        # The first picture is drawn before the supervisor is contacted.
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self._painted()
        self.set_timer(LATER_S, partial(self._load_later, list(LATER)))
        self.start(self.context.feed.run())
        if self._started is not None:
            self.start(self._watch_start(self._started))

    def _load_later(self, modules: list[str]) -> None:
        """Load the first module and schedule the rest, so that no key waits for all of them."""
        if modules:
            load(modules.pop(0))
            self.set_timer(LATER_S, partial(self._load_later, modules))

    def start(self, coroutine: Coroutine[Any, Any, Any], *, keys_wait: bool = False) -> None:
        """Run a coroutine in the background; errors become toasts. With `keys_wait` keys wait for its end."""

        async def carry_out() -> None:
            try:
                await coroutine
            except TqError as error:
                self.show_error(error)
            except Exception as error:
                self._handle_exception(error)

        task = asyncio.create_task(carry_out())
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        if keys_wait:
            self._keys.wait_for(task)

    async def on_unmount(self) -> None:
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        """Textual's output method, with minimal updates."""
        if isinstance(renderable, ChopsUpdate | LayoutUpdate):
            renderable = self._terminal_diff.minimal(renderable, self.size)
        super()._display(screen, renderable)

    def _anchor(self) -> tuple[int | None, bool]:
        """The job under the queue's cursor, and whether rows must keep their order."""
        queue = self._views.get("queue")
        # Keys that wait for the answer to another one act on the rows as they were typed.
        typing = monotonic() - self._key_at < TYPING_S or not self._keys.idle
        if not isinstance(queue, QueueScreen) or not queue.is_mounted:
            return None, typing
        row = queue.current()
        return (row["id"] if row else None), typing or queue.frozen

    # Actions.

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            await self._keys.take(event)
        else:
            await super().on_event(event)

    async def perform(self, name: str, argument: str = "") -> None:
        """Carry out an action: by the screen's method, else by the app's.

        In a terminal that is too small only quitting and suspending are possible, as nothing else is visible.
        """
        if too_small(self.size) and name not in ("leave", "suspend"):
            return
        if self.context.read_only and name not in READ_ONLY:
            self.toast(IS_READ_ONLY)
            return
        self._key_at = monotonic()
        if self.context.model.tips.tried(name):
            self.painter.soon()
        if name == "back" and (bulk := self.context.model.bulk) is not None:
            bulk.set()
            return
        for owner in (*self.painter.full_screens(), self):
            method = getattr(owner, f"do_{name}", None)
            if method is not None:
                try:
                    await method(argument)
                except TqError as error:
                    self.show_error(error)
                return
        text = next((action.text for action in ACTIONS if action.name == name), name)
        self.toast(f"{text} is not possible here")

    def toast(self, text: str, *, problem: bool = False) -> None:
        self._toasts.show(text, problem=problem)

    def show_error(self, error: TqError) -> None:
        """Show an error and its hint as a toast."""
        here = not (self.context.model.remote or self.context.read_only)
        starts = error.code is ErrorCode.NO_SUPERVISOR and here
        hint = f"{self.context.sign('start')} starts it" if starts else error.hint
        self.toast(in_one_line(error.code, error.message, hint), problem=True)

    async def do_leave(self, _: str) -> None:
        self.exit()

    def action_suspend_process(self) -> None:
        if self.is_headless:
            self.toast("there is no shell to return to")
        else:
            self.signals.suspend()

    async def do_suspend(self, _: str) -> None:
        self.action_suspend_process()

    async def do_help(self, _: str) -> None:
        from tqstudio.ui.screens.help import HelpScreen

        self.push_screen(HelpScreen(self.painter.full_screens()[0]), self._after_menu)

    def _after_menu(self, chosen: tuple[str, str] | None) -> None:
        if chosen is not None:
            self.start(self.perform(*chosen), keys_wait=True)

    async def do_palette(self, _: str) -> None:
        self.action_command_palette()

    def action_command_palette(self) -> None:
        """Textual binds a key of its own to this, which bypasses `perform`."""
        if self.context.read_only:
            self.toast(IS_READ_ONLY)
        elif not too_small(self.size):
            load("command_palette").open_in(self)

    async def do_back(self, _: str) -> None:
        if self.context.model.dismiss_notices():
            self.painter.now()
        elif self._view != "queue":
            self._show("queue")

    async def do_reconnect(self, _: str) -> None:
        self.context.feed.try_now()
        self.context.feed.refresh_soon()

    def _listening(self) -> bool:
        return not self.context.model.remote and running.listening(self.context.home)

    async def do_start(self, _: str) -> None:
        """Start a supervisor; if another one is already running, the UI connects to that."""
        if self.context.model.up:
            self.toast("the supervisor is already running")
            return
        if self.context.model.remote:
            self.toast("start the supervisor on its own machine: tqstudio up --detach", problem=True)
            return
        process = launch.start(self.context.home)
        self.context.feed.start_expected()
        self.toast("starting the supervisor")
        self.start(self._watch_start(process))

    async def _watch_start(self, process: Popen[bytes]) -> None:
        """Show why a supervisor could not start."""
        self.problem = None
        problem = await start_problem(self.context.home, self.context.model, process, self._listening)
        if problem is None:
            return
        self.problem = problem
        self.context.feed.start_failed()
        if not isinstance(self.screen, StudioScreen) or isinstance(self.focused, Input):
            # Text that is being typed must not answer the dialog.
            raise problem
        from tqstudio.ui.screens.dialogs.dialogs import StartProblem

        self.push_screen(StartProblem(problem, self.context.model), self._after_problem)

    async def _after_problem(self, action: str | None) -> None:
        if action is not None:
            await self.perform(action)

    @property
    def reported_job(self) -> int | None:
        return self.event_reports.job

    def switch_reports(self) -> bool:
        return self.event_reports.switch()

    async def show_job(self, job: int, *, anywhere: bool = False) -> None:
        await self._show_queue().go_to(job, anywhere=anywhere)

    async def show_jobs(self, line: str) -> None:
        await self._show_queue().ask(query_of(line, self.context.model.jobs.query.sort))

    def _show_queue(self) -> QueueScreen:
        self._show("queue")
        queue = self._views["queue"]
        assert isinstance(queue, QueueScreen)
        return queue

    async def show_worker(self, name: str) -> None:
        self._show("workers")
        self._views["workers"].select(name)

    def _show(self, view: str) -> None:
        """Show a view and close the screens above the previous one."""
        if view not in self._views:
            self._views[view] = view_class(view)(self.context)
            self.install_screen(self._views[view], view)
        while isinstance(self.screen, StudioScreen) and self.screen not in self._views.values():
            self.pop_screen()
        self._view = view
        if not self.context.read_only:
            self.context.remembered.set("view", view)
        if not isinstance(self.screen, StudioScreen):
            self.push_screen(view)
        elif self.screen is not self._views[view]:
            self.switch_screen(view)

    async def _do_view(self, view: str, _: str) -> None:
        self._show(view)

    do_view_queue = partialmethod(_do_view, "queue")
    do_view_workers = partialmethod(_do_view, "workers")
    do_view_folders = partialmethod(_do_view, "folders")
    do_view_history = partialmethod(_do_view, "history")
    do_view_statistics = partialmethod(_do_view, "statistics")
    do_view_wall = partialmethod(_do_view, "wall")

    async def _do_move(self, move: str, distance: int, _: str) -> None:
        for screen in self.painter.full_screens():
            for rows in screen.query(RowList):
                getattr(rows, move)(distance)

    do_down = partialmethod(_do_move, "move_by", 1)
    do_up = partialmethod(_do_move, "move_by", -1)
    do_half_down = partialmethod(_do_move, "move_pages", 1)
    do_half_up = partialmethod(_do_move, "move_pages", -1)
    do_top = partialmethod(_do_move, "move_end", 0)
    do_end = partialmethod(_do_move, "move_end", 1)

    # Themes.

    async def do_theme(self, _: str) -> None:
        self.toast(f"theme {self.painter.next_theme()}")

    def refresh_css(self, animate: bool = True) -> None:
        """Parse the style again only if colours changed; Textual also calls this after the first parse."""
        colours = self.get_css_variables()
        if colours != self._colours:
            self._colours = colours
            super().refresh_css(animate=animate)
            # Textual leaves out an open dialog, as the palette is while a theme is previewed.
            self.stylesheet.update(self.screen, animate=animate)
