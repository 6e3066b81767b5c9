"""Screen that shows a text to read, scroll and copy: logs, commands, facts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.strip import Strip

from tqstudio.errors import TqError, in_one_line
from tqstudio.ui.actions.registry import View, bindings_of
from tqstudio.ui.data.context import Context
from tqstudio.ui.look.line import fit, width_of, wrap
from tqstudio.ui.screens.frame.base import StudioScreen
from tqstudio.ui.widgets.row_list import ScrolledLines
from tqstudio.words import format as fmt

REREAD_S = 1.0
"""Interval at which a followed text is read again."""


class TextLines(ScrolledLines):
    def __init__(self, context: Context, *, wrapped: bool, name_cells: int) -> None:
        super().__init__(context, id="text")
        self._wrapped = wrapped
        self._name_cells = name_cells
        self.text = "reading…"
        self._lines: list[str] = []
        self._for: tuple[str, int] = ("", 0)

    def lines(self) -> list[str]:
        key = (self.text, self.size.width)
        if key != self._for:
            self._for = key
            lines = [fmt.plain(line) for line in self.text.splitlines()]
            if self._wrapped:
                lines = [part for line in lines for part in self._wrap(line, max(40, self.size.width - 4))]
            self._lines = lines
        return self._lines

    def _wrap(self, line: str, width: int) -> list[str]:
        """A line that is too wide broken into several; below the name in a table it stays empty."""
        if width_of(line) <= width:
            return [line]
        cells = self._name_cells if line.startswith(" ") else 0
        parts = wrap(line[cells:], width - cells)
        return [(" " * cells if at else line[:cells]) + part for at, part in enumerate(parts)]

    def count(self) -> int:
        return len(self.lines())

    def followed(self) -> int:
        return self.count() - 1

    def row(self, at: int, width: int, *, selected: bool) -> Strip:  # noqa: ARG002
        palette, text = self.context.palette, self.lines()[at]
        line = self.start(width).gap()
        if self._name_cells:
            heading = not text.startswith(" ")
            line.add(text[: self._name_cells], palette.accent if heading else palette.faint)
            return line.add(text[self._name_cells :], palette.accent if heading else palette.text).strip()
        return line.add(text, palette.error if "error" in text.lower() else palette.text).strip()


class TextScreen(StudioScreen):
    """Shows a text.

    Args:
        read: returns the text and what `y` copies.
        follow: read again periodically, as the text grows.
        wrapped: break long lines instead of cutting them.
        name_cells: the text is a table: headings, and names of this width before their values.
        lines: shows the text in another way.
    """

    VIEW: ClassVar[View] = "text"
    TAB = "queue"
    BINDINGS = bindings_of("text")

    def __init__(
        self,
        context: Context,
        title: str,
        read: Callable[[], Awaitable[tuple[str, str]]],
        *,
        follow: bool = False,
        wrapped: bool = False,
        name_cells: int = 0,
        lines: TextLines | None = None,
    ) -> None:
        super().__init__(context)
        self._title = title
        self._read = read
        self._copied = ""
        self._text = lines or TextLines(context, wrapped=wrapped, name_cells=name_cells)
        self._text.follow = follow

    def body(self) -> ComposeResult:
        yield self._text

    def tab_text(self) -> tuple[str, str]:
        return "", self._title + (" – following" if self._text.follow else "")

    def on_mount(self) -> None:
        self.shell.start(self.reread())
        if self._text.follow:
            self.set_interval(REREAD_S, self.reread)

    async def reread(self) -> None:
        try:
            text, self._copied = await self._read()
        except TqError as error:
            text = f"{in_one_line(error.code, error.message)}\n{error.hint}"
        if text != self._text.text:
            self._text.text = text or "empty so far"
            self._text.sync()
        self.paint()

    async def do_follow(self, _: str) -> None:
        self._text.follow = not self._text.follow
        self._text.sync()
        self.paint()

    async def do_copy(self, _: str) -> None:
        self.app.copy_to_clipboard(self._copied or self._text.text)
        shown = "\n".join(map(fmt.plain, self._copied.split("\n")))
        self.toast(f"copied: {fit(shown, 200)}" if shown else "text copied")
