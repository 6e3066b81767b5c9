"""The event history; it follows the newest line until the cursor moves."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, ClassVar

from textual.strip import Strip

from tqstudio.ui.actions.registry import View, bindings_of
from tqstudio.ui.look.line import fit, fit_name
from tqstudio.ui.screens.frame.list_screen import Facts, ItemList, ListScreen
from tqstudio.ui.screens.job.screen import JobScreen
from tqstudio.words import format as fmt
from tqstudio.words.sentences import actor_words, event_remark, event_sentence, event_state, status_word

if TYPE_CHECKING:
    from tqstudio.protocol.answers import EventView


WIDE = 100
"""From this width the remarks have a column of their own."""
WHAT_CELLS, NAME_CELLS = 29, 26


class EventList(ItemList["EventView"]):
    def __init__(self, screen: HistoryScreen) -> None:
        super().__init__(screen)
        self._for: tuple[object, ...] = ()
        self._events: list[EventView] = []
        self.follow = True

    @property
    def shown(self) -> list[EventView]:
        """The events that match the filter, cached until there are new ones."""
        model = self.context.model
        key = (model.last_seq, len(model.events), self._owner.filter_text)
        if key != self._for:
            self._for = key
            self._events = [event for event in model.events if self._shows(event)]
        return self._events

    def _shows(self, event: EventView) -> bool:
        job = str(event["job"]) if event["job"] is not None else ""
        texts = event_sentence(event), event_remark(event)
        return self._owner.matches(
            job,
            event["video_name"],
            event["trigger"],
            status_word(event["target"] or ""),
            event["worker"],
            *texts,
        )

    def empty(self) -> str:
        return self._owner.nothing(
            "event", "nothing has happened yet", read=self.context.model.last_seq is not None
        )

    def key(self, at: int) -> Hashable:
        return self.shown[at]["seq"]

    def followed(self) -> int:
        return self.count() - 1

    def head(self, width: int) -> Strip:
        line, faint = self.start(width).gap(2), self.context.palette.faint
        line.cell("when", 12, faint).cell("job", 5, faint, right=True).gap(2)
        return line.cell("what", WHAT_CELLS, faint).gap().add("video", faint).strip()

    def row(self, at: int, width: int, *, selected: bool) -> Strip:
        palette, glyphs = self.context.palette, self.context.glyphs
        event = self.shown[at]
        line = self.start_row(width, selected=selected)
        line.cell(fmt.moment(event["at"], self.context.model.now()), 12, palette.dim)
        job = str(event["job"]) if event["job"] is not None else ""
        line.cell(job, 5, palette.dim, right=True).gap(2)
        state = event_state(event)
        what = f"{glyphs.states[state]} {event_sentence(event)}"
        line.cell(what, WHAT_CELLS, palette.states[state]).gap()
        name = fit_name(event["video_name"] or "", min(NAME_CELLS, line.room - 1), glyphs.ellipsis)
        if width >= WIDE:
            line.cell(name, NAME_CELLS, palette.text).gap(2)
        elif name:
            line.add(name, palette.text).gap(2)
        remark = fmt.plain(event_remark(event))
        return line.add(fit(remark, line.room - 1, glyphs.ellipsis), palette.dim).strip()


class HistoryScreen(ListScreen["EventView"]):
    VIEW: ClassVar[View] = "history"
    BINDINGS = bindings_of("history")
    LIST = EventList

    def tab_text(self) -> tuple[str, str]:
        following = "following · " if self.list.follow else ""
        return self.filter_text, f"{following}{fmt.counted(self.list.count(), 'event')}"

    def details(self) -> tuple[str, Facts]:
        event = self.selected()
        if event is None:
            return "", []
        arrow = self.context.glyphs.arrow
        before = status_word(event["source"]) if event["source"] else "new"
        moved = f"{before} {arrow} {status_word(event['target'])}" if event["target"] else ""
        return event_sentence(event), [
            ("at", fmt.full_moment(event["at"], self.context.model.now())),
            ("job", f"{event['job']} {event['video_name'] or ''}" if event["job"] is not None else ""),
            ("status", moved),
            ("by", actor_words(event)),
            ("code", "" if event["code"] == event["actor"] else event["code"] or ""),
            ("remark", event["detail"] or ""),
        ]

    async def do_open(self, _: str) -> None:
        event = self.selected()
        if event is None or event["job"] is None:
            self.toast("this event has no job")
            return
        self.app.push_screen(JobScreen(self.context, event["job"]))

    async def do_follow(self, _: str) -> None:
        self.list.follow = not self.list.follow
        self.paint()
