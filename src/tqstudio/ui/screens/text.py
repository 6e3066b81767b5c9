"""A text to read, scroll and copy: logs, commands, facts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.strip import Strip

from tqstudio.errors import TqError
from tqstudio.ui import format as fmt
from tqstudio.ui.actions import View, bindings_of
from tqstudio.ui.line import wrap
from tqstudio.ui.screens.base import StudioScreen
from tqstudio.ui.studio import Studio
from tqstudio.ui.widgets.row_list import RowList

if TYPE_CHECKING:
    from tqstudio.schemas import VideoView

REREAD_S = 1.0
"""A followed text is read again this often."""


class TextLines(RowList):
    HEAD = 0

    def __init__(self, studio: Studio, *, wrapped: bool) -> None:
        super().__init__(studio, id="text")
        self._wrapped = wrapped
        self.text = "reading…"
        self._lines: list[str] = []
        self._for: tuple[str, int] = ("", 0)

    def lines(self) -> list[str]:
        key = (self.text, self.size.width)
        if key != self._for:
            self._for = key
            lines = [fmt.plain(line) for line in self.text.splitlines()]
            if self._wrapped:
                lines = [part for line in lines for part in wrap(line, max(10, self.size.width - 4)) or [""]]
            self._lines = lines
        return self._lines

    def count(self) -> int:
        return len(self.lines())

    def key(self, at: int) -> Hashable:
        return at

    def find(self, key: Hashable) -> int | None:
        return key if isinstance(key, int) and key < self.count() else None

    def followed(self) -> int:
        return self.count() - 1

    def move_by(self, rows: int) -> None:
        """A text has no cursor worth seeing: moving scrolls."""
        self.scroll_rows(rows)

    def row(self, at: int, width: int, *, selected: bool) -> Strip:  # noqa: ARG002
        line = self.start(width).gap()
        style = self.studio.palette.text
        text = self.lines()[at]
        if "error" in text.lower():
            style = self.studio.palette.error
        return line.add(text, style).strip()


class TextScreen(StudioScreen):
    """Args: `read` answers the text and what `y` copies; `follow` reads on while it grows."""

    VIEW: ClassVar[View] = "text"
    TAB = "queue"
    BINDINGS = bindings_of("text")

    def __init__(
        self,
        studio: Studio,
        title: str,
        read: Callable[[], Awaitable[tuple[str, str]]],
        *,
        follow: bool = False,
        wrapped: bool = False,
    ) -> None:
        super().__init__(studio)
        self._title = title
        self._read = read
        self._copied = ""
        self._follow = follow
        self._wrapped = wrapped

    def body(self) -> ComposeResult:
        self._text = TextLines(self.studio, wrapped=self._wrapped)
        self._text.follow = self._follow
        yield self._text

    def says(self) -> tuple[str, str]:
        return "", self._title + (" – following" if self._text.follow else "")

    def on_mount(self) -> None:
        self.studio_app.start(self.reread())
        if self._follow:
            self.set_interval(REREAD_S, self.reread)

    async def reread(self) -> None:
        try:
            text, self._copied = await self._read()
        except TqError as error:
            text = f"{error.message}\n{error.hint}"
        if text != self._text.text:
            self._text.text = text or "nothing has been written yet"
            self._text.sync()
        self.paint()

    async def do_follow(self, _: str) -> None:
        self._text.follow = not self._text.follow
        self._text.sync()
        self.paint()

    async def do_copy(self, _: str) -> None:
        self.app.copy_to_clipboard(self._copied or self._text.text)
        self.toast("copied")

    async def do_back(self, _: str) -> None:
        self.dismiss()


def facts_text(video: VideoView) -> str:
    """Everything about a source, one fact a line."""
    lines = [
        f"title       {video['title']}",
        f"path        {video['path']}",
        f"size        {fmt.size(video['size'])}",
        f"status      {video['status']}",
        f"slug        {video['slug']}",
        f"output      {video['output_root']}",
        "",
    ]
    return "\n".join(lines + _fact_lines(video["facts"] or {}, ""))


def _fact_lines(value: Any, indent: str) -> list[str]:
    lines: list[str] = []
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, (dict, list)) and item:
            lines.append(f"{indent}{key}")
            lines += _fact_lines(item, indent + "  ")
        elif item not in (None, "", [], {}):
            lines.append(f"{indent}{key!s:<12}{item}")
    return lines
