"""Prepares and draws the lines of a log: folded, wrapped, in colours, with what is searched for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from rich.style import Style
from textual.strip import Strip

from tqstudio.ui.data.context import Context
from tqstudio.ui.look.line import Line, width_of, wrap
from tqstudio.ui.screens.frame.text import TextLines
from tqstudio.words import format as fmt

_OWN = re.compile(r"\d{4}-\d\d-\d\d (\d\d:\d\d:\d\d\.\d{3}) ")
_LABEL = re.compile(r"\[[^\] ]+\] ")
_COMMAND = re.compile(r"\[[^\] ]+\] \$ \S+ ")
_DESCRIPTION = re.compile(r"(Input|Output) #|Stream mapping:|  |\[\w+\] Opening '")
"""How lines of ffmpeg begin, after the label of the run, that are about its files."""
_ERROR = re.compile(r"error|failed|invalid|corrupt|could not|cannot|stalled|traceback", re.IGNORECASE)
_ADDRESS = re.compile(r" @ 0x[0-9a-f]+\]")
"""In lines of ffmpeg: where a part of it is in memory."""
_MIN_FOLDED = 3
_STEP = re.compile(r"\w+: (started|done after)")


def is_error(line: str) -> bool:
    """Whether a line of a log says that something is wrong."""
    return bool(_ERROR.search(line))


class LogLines(TextLines):
    """The lines of a log."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, wrapped=True, name_cells=0)
        self.folded = True
        """Commands, and what ffmpeg says of its files, take one line each."""
        self.wrapped = True
        self.wanted = ""
        """What is searched for."""
        self.at: int | None = None
        """The line that was jumped to last."""
        self._made_of: tuple[object, ...] = ()
        self._wholes: list[str] = []
        """Of each line the one that it is a part of."""

    def lines(self) -> list[str]:
        key = self.text, self.size.width, self.folded, self.wrapped
        if key != self._made_of:
            self._made_of = key
            lines = [fmt.plain(line) for line in self.text.splitlines()]
            lines = list(_folded(lines, self.context.glyphs.ellipsis)) if self.folded else lines
            width = max(40, self.size.width - 2)
            parts = [
                (part, line)
                for line in lines
                for part in (_wrapped(line, width) if self.wrapped else (line,))
            ]
            self._lines, self._wholes = [part for part, _ in parts], [line for _, line in parts]
        return self._lines

    def jump(self, is_wanted: Callable[[str], bool], step: int) -> bool:
        """Scroll to the next such line in a direction, 1 or -1, and around the end; False for none."""
        lines = self.lines()
        start = self.at if self.at is not None and self.at < len(lines) else self.top - step
        for distance in range(1, len(lines) + 1):
            at = (start + step * distance) % len(lines)
            if is_wanted(lines[at]):
                self.follow, self.at = False, at
                self.top = max(0, min(at - self.page // 3, len(lines) - self.page))
                self.move_to(max(self.top, at))
                return True
        return False

    def matches(self, line: str) -> bool:
        """Whether a line has what is searched for."""
        return bool(self.wanted) and self.wanted.lower() in line.lower()

    def row(self, at: int, width: int, *, selected: bool) -> Strip:  # noqa: ARG002
        palette, text = self.context.palette, self.lines()[at]
        line = self.start(width, palette.cursor if at == self.at else palette.base).gap()
        own, label = _OWN.match(text), _LABEL.match(text)
        if own is not None:
            line.add(own[1], palette.faint).gap()
        elif label is not None:
            self._add(line, label[0], palette.faint)
        begin = own or label
        self._add(line, text[begin.end() :] if begin else text, self._style(self._wholes[at]))
        return line.strip()

    def _style(self, line: str) -> Style:
        palette, own = self.context.palette, _OWN.match(line)
        text = line[own.end() :] if own else line
        if is_error(text):
            return palette.error
        if own is None:
            return palette.dim if _LABEL.match(line) else palette.text
        if text.startswith("warning:"):
            return palette.warning
        return palette.strong if _STEP.match(text) else palette.text

    def _add(self, line: Line, text: str, style: Style) -> None:
        """Append text, with what is searched for marked."""
        rest = text
        while self.wanted and (at := rest.lower().find(self.wanted.lower())) >= 0:
            end = at + len(self.wanted)
            line.add(rest[:at], style).add(rest[at:end], style + Style(reverse=True))
            rest = rest[end:]
        line.add(rest, style)


def tail(text: str, ellipsis: str) -> list[str]:
    """The folded lines of the end of a log, without dates."""
    return [_OWN.sub(r"\1 ", line) for line in _folded(text.splitlines(), ellipsis)]


def _folded(lines: Sequence[str], ellipsis: str) -> Iterator[str]:
    """The lines with commands cut, without addresses, and what is about files in one line each."""

    def run_of(line: str) -> str:
        label = _LABEL.match(line)
        return label[0] if label and _DESCRIPTION.match(line[label.end() :]) else ""

    for run, found in groupby((_ADDRESS.sub("]", line) for line in lines), run_of):
        group = list(found)
        if run and len(group) >= _MIN_FOLDED:
            yield f"{group[0]} {ellipsis} {len(group) - 1} more lines"
            continue
        for line in group:
            command = _COMMAND.search(line) if _OWN.match(line) else None
            yield f"{line[: command.end()]}{ellipsis}" if command else line


def _wrapped(line: str, width: int) -> list[str]:
    """A line in parts of at most this width; those after the first are indented."""
    if width_of(line) <= width:
        return [line]
    first, *rest = wrap(line, width)
    return [first, *(f"    {part}" for part in wrap(" ".join(rest), width - 4))]
