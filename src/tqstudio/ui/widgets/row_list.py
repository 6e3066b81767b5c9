"""A list of lines with a cursor that stays on its item when the items move."""

from __future__ import annotations

from collections.abc import Hashable

from textual import events
from textual.message import Message
from textual.strip import Strip

from tqstudio.ui.data.context import Context
from tqstudio.ui.widgets.line_view import LineView

WHEEL_LINES = 3
KEY_CELLS = 10
"""Width in cells of the name of a key in the text of an empty list."""


class RowList(LineView, can_focus=True):
    """A head line and rows; only the visible rows are drawn.

    The cursor is identified by the key of its row. It is always visible: the wheel moves it along.
    """

    DEFAULT_CSS = """
    RowList { height: 1fr; }
    """
    HEAD = 1

    class Moved(Message):
        """The cursor is on another row."""

    class Opened(Message):
        """A row was double-clicked."""

    def __init__(self, context: Context, *, id: str | None = None) -> None:
        super().__init__(context, id=id)
        self.cursor = 0
        self.top = 0
        self.cursor_key: Hashable | None = None
        self.shown_key: Hashable | None = None
        """The row that was last painted under the cursor."""
        self.follow = False
        self.row_lines = 1
        """Lines of each row."""

    # Implemented by subclasses.

    def count(self) -> int:
        raise NotImplementedError

    def key(self, at: int) -> Hashable:
        raise NotImplementedError

    def find(self, key: Hashable) -> int | None:
        """The index of the row with that key; by default a linear search."""
        return next((at for at in range(self.count()) if self.key(at) == key), None)

    def head(self, width: int) -> Strip:
        raise NotImplementedError

    def row(self, at: int, width: int, *, selected: bool) -> Strip:
        raise NotImplementedError

    def row_line(self, at: int, part: int, width: int, *, selected: bool) -> Strip:  # noqa: ARG002
        """A line of a row of several lines; `part` counts from 0."""
        return self.row(at, width, selected=selected)

    def followed(self) -> int:
        """The row on which the cursor stays while following."""
        return 0

    # Moving.

    @property
    def page(self) -> int:
        """Rows that fit on the screen."""
        return max(1, (self.size.height - self.HEAD) // self.row_lines)

    def move_to(self, at: int, *, notify: bool = True) -> None:
        """Put the cursor on a row and scroll to it."""
        last = self.count() - 1
        self.cursor = max(0, min(at, last))
        self.cursor_key = self.key(self.cursor) if last >= 0 else None
        self.top = max(min(self.top, self.cursor), self.cursor - self.page + 1)
        self.top = max(0, min(self.top, last + 1 - self.page))
        self.paint()
        if notify:
            self.post_message(self.Moved())

    def move_by(self, rows: int) -> None:
        self.follow = False
        self.settle()
        self.move_to(self.cursor + rows)

    def move_pages(self, pages: int) -> None:
        self.move_by(pages * max(1, self.page - 1))

    def move_end(self, end: int) -> None:
        """To the top (0) or the end (1)."""
        self.follow = False
        self.move_to(self.count() - 1 if end else 0)

    def scroll_rows(self, rows: int) -> None:
        """Scroll; the cursor moves along where it would leave the screen."""
        self.follow = False
        self.settle()
        self.top = max(0, min(self.top + rows, self.count() - self.page))
        self.move_to(max(self.top, min(self.cursor, self.top + self.page - 1)))

    def settle(self) -> bool:
        """Find the cursor's row again after the rows changed, keeping its line on screen.

        Rows change before they are painted, so everything that acts on the cursor settles it first.
        Returns whether the cursor is now on another row, because its own is gone.
        """
        last = self.count() - 1
        if last < 0:
            self.cursor = self.top = 0
            return False
        line = self.cursor - self.top
        at = self.followed() if self.follow else self._place()
        if at is None:
            # The row is gone; the cursor goes to its neighbour.
            at = min(self.cursor, last)
        if at != self.cursor and not (self.top == 0 and at < self.page):
            self.top = max(0, at - line)
        self.cursor = at
        self.top = max(0, min(self.top, last + 1 - self.page))
        moved = self.key(at) != self.cursor_key
        self.cursor_key = self.key(at)
        return moved

    def _place(self) -> int | None:
        if self.cursor < self.count() and self.key(self.cursor) == self.cursor_key:
            return self.cursor
        return None if self.cursor_key is None else self.find(self.cursor_key)

    def sync(self) -> None:
        """Settle before the next painting; posts `Moved` if the cursor's row changed."""
        if self.settle():
            self.post_message(self.Moved())

    # Drawing.

    def paint(self) -> None:
        self.shown_key = self.cursor_key
        super().paint()

    def line(self, y: int, width: int) -> Strip:
        if y < self.HEAD:
            return self.head(width)
        row, part = divmod(y - self.HEAD, self.row_lines)
        at = self.top + row
        if at < self.count():
            return self.row_line(at, part, width, selected=at == self.cursor)
        blank = self.start(width)
        texts = [] if self.count() else self.empty().splitlines()
        if 0 <= y - self.HEAD - 1 < len(texts):
            key, _, text = texts[y - self.HEAD - 1].rpartition("\t")
            blank.gap(2).cell(key, KEY_CELLS if key else 0, self.context.palette.key)
            blank.add(text, self.context.palette.dim)
        return blank.strip()

    def empty(self) -> str:
        """The text of an empty list; in a line that begins with a key, a tab ends it."""
        return ""

    # Mouse and size.

    def on_resize(self, _: events.Resize) -> None:
        self.settle()
        self.move_to(self.cursor, notify=False)

    def on_click(self, event: events.Click) -> None:
        at = self.top + (event.y - self.HEAD) // self.row_lines
        if event.y < self.HEAD or at >= self.count():
            # Textual calls that of the base class too, for what can be clicked in the head.
            return
        event.stop()
        self.follow = False
        self.move_to(at)
        if event.chain == 2:
            self.post_message(self.Opened())

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_rows(WHEEL_LINES)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_rows(-WHEEL_LINES)


class ScrolledLines(RowList):
    """Lines that are scrolled, without a head and a visible cursor."""

    HEAD = 0

    def key(self, at: int) -> Hashable:
        return at

    def find(self, key: Hashable) -> int | None:
        return key if isinstance(key, int) else None

    def move_by(self, rows: int) -> None:
        self.scroll_rows(rows)
