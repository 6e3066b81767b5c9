"""Bases of the views with a list: a filter line and the list above, a pane about the selected row below."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import ClassVar, Generic, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.strip import Strip

from tqstudio.ui.data.context import Context
from tqstudio.ui.look.line import Line
from tqstudio.ui.screens.frame.base import StudioScreen
from tqstudio.ui.widgets.filter_line import FilterLine
from tqstudio.ui.widgets.footer import Footer
from tqstudio.ui.widgets.line_view import LineView
from tqstudio.ui.widgets.row_list import RowList

Facts = list[tuple[str, str]]
Item = TypeVar("Item")


class FactPane(LineView):
    """Names and values of the selected row. Args: `details` returns a title and the facts."""

    DEFAULT_CSS = """
    FactPane { height: 9; }
    """

    def __init__(self, context: Context, details: Callable[[], tuple[str, Facts]]) -> None:
        super().__init__(context, id="facts")
        self._details = details
        self._lines: list[Strip] = []

    def line(self, y: int, width: int) -> Strip:
        if y == 0:
            self._lines = self._build(width)
        return self._lines[y] if y < len(self._lines) else self.start(width).strip()

    def _build(self, width: int) -> list[Strip]:
        palette, glyphs = self.context.palette, self.context.glyphs
        title, facts = self._details()
        line = self.start(width)
        if title:
            line.add(glyphs.rule, palette.rule).gap().add(title, palette.strong).gap()
        lines = [line.fill(glyphs.rule, palette.rule).strip()]
        for name, value in facts:
            lines += self.named(name, value, width, cells=11)
        return lines


class RowsScreen(StudioScreen):
    """Subclasses compose filter line, list and pane."""

    list: RowList
    pane: LineView
    filter_line: FilterLine

    def on_mount(self) -> None:
        self.list.focus()

    def typing(self) -> bool:
        return self.filter_line.has_focus

    def paint(self) -> None:
        self.list.sync()
        super().paint()

    @on(RowList.Moved)
    def _moved(self) -> None:
        self.pane.paint()
        self.query_one("#footer", Footer).paint()

    @on(RowList.Opened)
    async def _opened(self) -> None:
        await self.shell.perform("open")

    @on(FilterLine.Left)
    def close_filter(self) -> None:
        self.filter_line.close()
        self.list.focus()


def pane_height(height: int, most: int = 10) -> int:
    """Lines of a pane below the list, in a terminal of this height; at most `most`."""
    return max(4, min(most, (height - 3) * 2 // 5))


class ItemList(RowList, Generic[Item]):
    """Subclasses provide the items that match the filter; each has a row."""

    def __init__(self, screen: ListScreen[Item]) -> None:
        super().__init__(screen.context, id=screen.VIEW)
        self._owner = screen

    @property
    def shown(self) -> Sequence[Item]:
        raise NotImplementedError

    def count(self) -> int:
        return len(self.shown)

    def start_row(self, width: int, *, selected: bool) -> Line:
        palette = self.context.palette
        line = self.start(width, palette.cursor if selected else palette.base)
        return line.add(self.context.glyphs.cursor if selected else " ", palette.accent).gap()


class ListScreen(RowsScreen, Generic[Item]):
    """Subclasses provide the list and the facts; the filter matches words in a row's text."""

    LIST: type[ItemList[Item]]
    PANE_LINES: ClassVar[int] = 10
    list: ItemList[Item]
    filter_text = ""

    def select(self, key: Hashable) -> None:
        self.filter_text = ""
        if not self.is_mounted:
            self.call_after_refresh(self.select, key)
        elif (at := self.list.find(key)) is not None:
            self.list.move_to(at)

    def selected(self) -> Item | None:
        self.list.settle()
        shown = self.list.shown
        return shown[self.list.cursor] if self.list.cursor < len(shown) else None

    def details(self) -> tuple[str, Facts]:
        """Title and facts of the selected row."""
        raise NotImplementedError

    def body(self) -> ComposeResult:
        self.list = self.LIST(self)
        self.pane = FactPane(self.context, self.details)
        self.filter_line = FilterLine()
        self.filter_line.placeholder = "words to search for"
        yield self.filter_line
        yield self.list
        yield self.pane

    def place(self, width: int, height: int) -> None:  # noqa: ARG002
        self.pane.styles.height = pane_height(height, self.PANE_LINES)

    async def do_filter(self, _: str) -> None:
        self.filter_line.open(self.filter_text)

    @on(FilterLine.Typed)
    def _typed(self, message: FilterLine.Typed) -> None:
        self.filter_text = message.value.strip()
        if message.final:
            self.close_filter()
        self.paint()

    async def do_back(self, _: str) -> None:
        if self.filter_text:
            self.filter_text = ""
            self.paint()
        else:
            await self.shell.do_back("")

    def nothing(self, kind: str, otherwise: str, *, read: bool) -> str:
        """The text of the empty list."""
        if unread := self.context.model.unread(read=read):
            return unread
        shows = f"{self.context.sign('back')} shows all"
        return f"no {kind} matches the filter – {shows}" if self.filter_text else otherwise

    def matches(self, *texts: str | None) -> bool:
        """Whether every word of the filter is in one of the texts."""
        whole = " ".join(filter(None, texts)).lower()
        return all(word in whole for word in self.filter_text.lower().split())
