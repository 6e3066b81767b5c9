"""The filter of the job list: its line, and below it what can be typed next or what is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.strip import Strip
from textual.widgets import Input

from tqstudio.errors import TqError
from tqstudio.paths import readable
from tqstudio.protocol.filters import VALUES, WORDS, Term
from tqstudio.ui.data.context import Context
from tqstudio.ui.data.remembered import KEPT_FILTERS
from tqstudio.ui.widgets.filter_line import FilterLine
from tqstudio.ui.widgets.line_view import LineView

_LAST = re.compile(r'(?:[^\s"]|"(?:[^"]|"")*"?)*$')
"""What is typed of the last word."""
_AMOUNTS = {
    "older": ("1h", "12h", "1d", "2d", "1w"),
    "longer": ("1m", "10m", "1h", "2h"),
    "larger": ("100M", "1G", "10G"),
}


def completions(line: str, values: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns the lines that complete the last word of a filter line; `values` are known ones by word."""
    last = _LAST.search(line)
    assert last is not None
    head, typed = line[: last.start()], last[0]
    negated = "!" if typed.startswith("!") else ""
    word, colon, listed = typed.removeprefix("!").partition(":")
    if not colon:
        return [f"{head}{negated}{each}:" for each in WORDS if each.startswith(word.lower())]
    word = word.lower()
    known = VALUES.get(word) or dict.fromkeys(_AMOUNTS.get(word) or values.get(word, ()))
    before, comma, begun = listed.rpartition(",")
    stem = f"{head}{negated}{word}:{before}{comma}"
    plain = begun.lstrip('!"').lower()
    found = [value for value in known if value.lower().startswith(plain) and value.lower() != plain]
    found += [value for value in known if plain in value.lower() and not value.lower().startswith(plain)]
    return [stem + Term(word, (value,)).line().removeprefix(f"{word}:") for value in found]


class JobFilter(FilterLine):
    """The line: tab takes a completion, up and down one of the last filters."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete", "complete", show=False, id="filter.complete"),
        Binding("up", "earlier(1)", "earlier filter", show=False, id="filter.earlier"),
        Binding("down", "earlier(-1)", "later filter", show=False, id="filter.later"),
    ]

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self.placeholder = "words in the name, or state:failed; tab completes, up shows the last ones"
        self.hints = Hints(self)
        self._back = 0
        self._typed = ""

    def values(self) -> dict[str, Sequence[str]]:
        """The values that the UI has seen, by word."""
        model = self.context.model
        rows, folders = model.jobs.rows, model.folders or ()
        names = [readable(each["path"]).rstrip("/").rpartition("/")[2] for each in folders]
        return {
            "folder": sorted({name for name in names if name}),
            "profile": sorted({row["profile"] for row in rows} | {each["profile"] for each in folders}),
            "quality": sorted({each["name"] for row in rows for each in row["renditions"]}),
            "owner": sorted({row["owner"].removeprefix("token:") for row in rows} | {"folder", "user"}),
            "batch": sorted({row["batch"] for row in rows if row["batch"]}),
        }

    def open(self, value: str) -> None:
        super().open(value)
        self._back, self._typed = 0, self.value
        self.hints.complain(None)

    def close(self) -> None:
        super().close()
        self.hints.display = False

    @on(Input.Changed)
    def _show_hints(self) -> None:
        self.hints.complain(None)

    def action_complete(self) -> None:
        if found := completions(self.value, self.values()):
            self.value = found[0]
            self.cursor_position = len(self.value)

    def action_earlier(self, by: int) -> None:
        kept = self.context.remembered.filters
        if self._back == 0:
            self._typed = self.value
        self._back = max(0, min(self._back + by, len(kept), KEPT_FILTERS))
        self.value = kept[-self._back] if self._back else self._typed
        self.cursor_position = len(self.value)


class Hints(LineView):
    """The line below the filter."""

    DEFAULT_CSS = """
    Hints { display: none; }
    """

    def __init__(self, of: JobFilter) -> None:
        super().__init__(of.context, id="hints")
        self._of = of
        self._error: TqError | None = None

    def complain(self, error: TqError | None) -> None:
        """Show what is wrong with the filter, else how it can be completed."""
        self._error = error
        self.display = self._of.has_class("open")
        self.paint()

    def line(self, y: int, width: int) -> Strip:  # noqa: ARG002
        palette, glyphs = self.context.palette, self.context.glyphs
        line = self.start(width).gap()
        if error := self._error:
            line.add(f"{glyphs.states['failed']} {error.message}", palette.error).gap(2)
            return line.add(error.hint, palette.dim).strip()
        typed = self._of.value
        found = completions(typed, self._of.values())
        if not found:
            return line.strip()
        line.add("tab", palette.key).gap()
        for at, each in enumerate(found):
            last = _LAST.search(each)
            shown = last[0] if last else each
            text = shown if shown.endswith(":") else shown.rpartition(":")[2].rpartition(",")[2]
            line.add(text, palette.strong if at == 0 else palette.dim).gap(2)
        return line.strip()
