"""Widgets that draw lines themselves and repaint only changed cells."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tqstudio.ui.data.context import Context
from tqstudio.ui.look.line import Line, changed_spans, wrap
from tqstudio.words.format import plain
from tqstudio.words.symbols import ASCII


def link(action: str, argument: str = "") -> Style:
    """A style that makes text clickable: it performs an action."""
    return Style(meta={"perform": action, "argument": argument})


PLAIN_SIGNS = str.maketrans(
    {"×": "x", "…": "~", "–": "-", "→": ">", "±": "~", "↑": "^", "↓": "v", "\N{THIN SPACE}": "'"}
)


def to_ascii(strip: Strip) -> Strip:
    """Convert a strip for a terminal without Unicode; other characters become `?` of equal width."""
    segments = []
    for text, style, control in strip:
        if not text.isascii():
            text = "".join(
                char if char.isascii() else "?" * cell_len(char) for char in text.translate(PLAIN_SIGNS)
            )
        segments.append(Segment(text, style, control))
    return Strip(segments, strip.cell_length)


class LineView(Widget):
    """Draws `line(y)` for every visible y; `paint` refreshes what differs from the screen."""

    DEFAULT_CSS = """
    LineView { height: 1; width: 1fr; }
    """

    class Clicked(Message):
        """A clickable text was clicked."""

        def __init__(self, action: str, argument: str) -> None:
            super().__init__()
            self.action = action
            self.argument = argument

    def __init__(self, context: Context, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.context = context
        self._shown: dict[int, Strip] = {}
        self._shown_for: tuple[Size, object] | None = None

    def on_unmount(self) -> None:
        """Free the drawn lines.

        Textual 8.2 keeps the line caches of the last 1 024 widgets (`StylesCache.get_inner_outer` is cached
        by `self`); a refresh empties this one.
        """
        self._shown.clear()
        self.refresh()

    def line(self, y: int, width: int) -> Strip:
        """The strip of one visible line."""
        raise NotImplementedError

    def start(self, width: int, base: Style | None = None) -> Line:
        return Line(width, base or self.context.palette.base)

    def paragraph(self, text: str, width: int, style: Style, *, indent: int = 2) -> list[Strip]:
        """The lines of a text, which may come from outside."""
        room = self.start(width).gap(indent).room - 2
        return [self.start(width).gap(indent).add(part, style).strip() for part in wrap(plain(text), room)]

    def named(
        self, name: str, value: str, width: int, *, cells: int, indent: int = 2, margin: int = 2
    ) -> list[Strip]:
        """The lines of a value, with its name before the first; none for an empty value."""
        palette = self.context.palette
        lines = []
        for at, part in enumerate(wrap(plain(value), max(8, width - indent - cells - 1 - margin))):
            line = self.start(width).gap(indent).cell("" if at else plain(name), cells, palette.faint).gap()
            lines.append(line.add(part, palette.text).strip())
        return lines

    def render_line(self, y: int) -> Strip:
        self._forgets()
        strip = self._shown.get(y)
        if strip is None:
            strip = self._shown[y] = self._line(y)
        return strip

    def _line(self, y: int) -> Strip:
        strip = self.line(y, self.size.width)
        return to_ascii(strip) if self.context.glyphs is ASCII else strip

    def paint(self) -> None:
        """Draw every line again and refresh the cells that differ from the screen."""
        if not self.size.width or not self.display:
            return
        if self._forgets():
            # Also a screen that was not shown while the theme changed.
            self.refresh()
            return
        regions = []
        for y in range(self.size.height):
            new = self._line(y)
            old = self._shown.get(y)
            if old is None:
                # Not drawn yet: its first refresh is pending.
                continue
            spans = changed_spans(old, new)
            if spans:
                self._shown[y] = new
                regions += [Region(x, y, width, 1) for x, width in spans]
        if regions:
            self.refresh(*regions)

    def redraw(self) -> None:
        """Draw everything again, after a change of theme."""
        self._shown.clear()
        self.refresh()

    def _forgets(self) -> bool:
        """Forget what was drawn with another size or palette; whether there was a change of them."""
        key = (self.size, self.context.palette)
        if key == self._shown_for:
            return False
        self._shown.clear()
        self._shown_for = key
        return True

    def on_click(self, event: events.Click) -> None:
        meta = event.style.meta
        if "perform" in meta:
            event.stop()
            self.post_message(self.Clicked(meta["perform"], meta.get("argument", "")))
