"""Reports with a toast and the bell what matters in any view: failed jobs, a blocked or empty queue."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from textual.app import App

from tqstudio.events import EventKind
from tqstudio.paths import readable
from tqstudio.ui.data.context import Context
from tqstudio.ui.toasts import Toasts
from tqstudio.words.format import counted

if TYPE_CHECKING:
    from tqstudio.protocol.answers import EventView

_TOGETHER_S = 0.3
"""Failures within this time share a report."""
_EMPTY_S = 3.0
"""After the end of a job, until the counts of the queue have been read again."""
_ENDS = (EventKind.COMPLETE, EventKind.FAIL_FINAL, EventKind.CANCEL)


class EventReports:
    """Reports events as they arrive, unless the user has turned that off."""

    def __init__(self, app: App[Any], context: Context, toasts: Toasts) -> None:
        self._app, self._context, self._toasts = app, context, toasts
        self.job: int | None = None
        """The job that failed last."""
        self._failed: list[EventView] = []
        self._ended_at: float | None = None
        """When the last job ended, until an empty queue was looked for since."""

    @property
    def on(self) -> bool:
        return self._context.remembered.get("reports") != "off"

    def switch(self) -> bool:
        """Turn the reports on or off, also for later starts; returns whether they are on."""
        self._context.remembered.set("reports", "off" if self.on else "on")
        return self.on

    def take(self, event: EventView) -> None:
        """Report an event, soon, if it is one of these kinds."""
        if event["trigger"] == EventKind.FAIL_FINAL:
            self._failed.append(event)
            if len(self._failed) == 1:
                self._app.set_timer(_TOGETHER_S, self._report_failures)
        elif event["trigger"] == EventKind.GATE_CLOSED and event["actor"] != "user":
            self._report(f"the queue is blocked: {readable(event['detail'] or '')}")
        if event["trigger"] in _ENDS:
            if self._ended_at is None:
                self._app.set_timer(_EMPTY_S, self._report_empty)
            self._ended_at = monotonic()

    def _report_failures(self) -> None:
        failed, self._failed = self._failed, []
        newest = failed[-1]
        self.job = newest["job"]
        name = readable(newest["video_name"] or f"job {newest['job']}")
        others = f" and {counted(len(failed) - 1, 'other')}" if failed[1:] else ""
        shows = "" if self._context.read_only else f" – {self._context.sign('reported')} shows it"
        self._report(f"{name}{others} failed: {newest['code']}{shows}")

    def _report_empty(self) -> None:
        left_s = (self._ended_at or 0.0) + _EMPTY_S - monotonic()
        if left_s > 0:
            # More have ended meanwhile.
            self._app.set_timer(left_s, self._report_empty)
            return
        self._ended_at, status = None, self._context.model.status
        if status and not any(map(status["jobs"].get, ("in_progress", "pending"))):
            self._report("the queue is empty: nothing runs or waits", problem=False)

    def _report(self, text: str, *, problem: bool = True) -> None:
        if self.on:
            self._toasts.show(text, problem=problem)
            self._app.bell()
