"""What happened, line by line; it follows the newest line until the reader moves."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, ClassVar

from textual.strip import Strip

from tqstudio.ui import format as fmt
from tqstudio.ui.actions import View, bindings_of
from tqstudio.ui.screens.job import JobScreen
from tqstudio.ui.screens.list_screen import Facts, ListScreen
from tqstudio.ui.symbols import EVENT_STATES, state_of
from tqstudio.ui.widgets.row_list import RowList

if TYPE_CHECKING:
    from tqstudio.schemas import EventView


class EventList(RowList):
    EMPTY = "nothing has happened yet"

    def __init__(self, screen: HistoryScreen) -> None:
        super().__init__(screen.studio, id="events")
        self._owner = screen
        self._for: tuple[object, ...] = ()
        self._events: list[EventView] = []
        self.follow = True

    @property
    def events(self) -> list[EventView]:
        """Those that the filter shows; sought anew only when there are new ones."""
        model = self.studio.model
        key = (model.last_seq, len(model.events), self._owner.filter_text)
        if key != self._for:
            self._for = key
            self._events = [event for event in model.events if self._owner.shows(event)]
        return self._events

    def count(self) -> int:
        return len(self.events)

    def key(self, at: int) -> Hashable:
        return self.events[at]["seq"]

    def followed(self) -> int:
        return self.count() - 1

    def head(self, width: int) -> Strip:
        line, faint = self.start(width).gap(2), self.studio.palette.faint
        line.cell("when", 13, faint).cell("job", 6, faint, right=True).gap(2)
        line.cell("what", 18, faint)
        if width >= 76:
            line.cell("now", 14, faint)
        return line.cell("worker", 8, faint).gap().add("remark", faint).strip()

    def row(self, at: int, width: int, *, selected: bool) -> Strip:
        palette, glyphs = self.studio.palette, self.studio.glyphs
        event = self.events[at]
        line = self.start(width, palette.cursor if selected else palette.base)
        line.add(glyphs.cursor if selected else " ", palette.accent).gap()
        line.cell(fmt.moment(event["at"], self.studio.model.now()), 13, palette.dim)
        job = str(event["job"]) if event["job"] is not None else ""
        line.cell(job, 6, palette.dim, right=True).gap(2)
        key = EVENT_STATES.get(event["trigger"], "pending")
        line.cell(f"{glyphs.states[key]} {event['trigger'].replace('_', ' ')}", 18, palette.states[key])
        if width >= 76:
            target = event["target"]
            state = state_of(target or "")
            word = "running" if target == "in_progress" else target or ""
            line.cell(f"{glyphs.arrow} {word}" if target else "", 14, palette.states[state])
        line.cell(event["worker"] or "", 8, palette.dim).gap()
        remark = " ".join(filter(None, (event["code"], fmt.plain(event["detail"] or ""))))
        return line.add(remark, palette.text).strip()


class HistoryScreen(ListScreen):
    VIEW: ClassVar[View] = "history"
    BINDINGS = bindings_of("history")

    def make_list(self) -> EventList:
        self.events = EventList(self)
        return self.events

    def shows(self, event: EventView) -> bool:
        job = str(event["job"]) if event["job"] is not None else ""
        return self.matches(
            job, event["trigger"], event["target"], event["worker"], event["code"], event["detail"]
        )

    def says(self) -> tuple[str, str]:
        following = "following · " if self.events.follow else ""
        return self.filter_text, f"{following}{fmt.number(self.events.count())} events"

    def selected(self) -> EventView | None:
        self.events.settle()
        events = self.events.events
        return events[self.events.cursor] if self.events.cursor < len(events) else None

    def tell(self) -> tuple[str, Facts]:
        event = self.selected()
        if event is None:
            return "", []
        row = self.studio.model.job(event["job"])
        moved = (
            f"{event['source'] or 'new'} {self.studio.glyphs.arrow} {event['target']}"
            if event["target"]
            else ""
        )
        return f"event {event['seq']}", [
            ("at", event["at"]),
            ("job", f"{event['job']} {row['name'] if row else ''}" if event["job"] is not None else ""),
            ("status", moved),
            ("by", event["actor"]),
            ("code", event["code"] or ""),
            ("remark", event["detail"] or ""),
        ]

    async def do_open(self, _: str) -> None:
        event = self.selected()
        if event is None or event["job"] is None:
            self.toast("this event belongs to no job")
            return
        self.app.push_screen(JobScreen(self.studio, event["job"]))

    async def do_follow(self, _: str) -> None:
        self.events.follow = not self.events.follow
        self.paint()
