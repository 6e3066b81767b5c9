"""Minimises terminal output: writes only changed cells, and only changed style attributes.

Textual writes a changed line from its beginning, every run of cells with its whole style, and the first
picture several times. Over a slow connection the screen would lag behind the keys. Where terminals count the
cells of a text differently, what follows it is placed by its column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from itertools import groupby
from time import monotonic
from unicodedata import bidirectional

from rich.cells import cell_len, split_graphemes
from rich.color import Color, ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.geometry import Size
from textual.strip import Strip

from tqstudio.ui.look.line import changed_spans

RESET = "\x1b[0m"
_SHOW_ON_BLANKS = frozenset(("4", "5", "6", "7", "9", "21", "53"))
"""Attributes that are visible on a blank: lines through, below and above it, blinking and reverse."""

FRESH_S = 1.0
"""How long the content of a line is trusted; later, another program may have overwritten it."""

Piece = tuple[int, int, Strip]
"""Column, line, and the strip to write there."""


class MinimalUpdate(CompositorUpdate):
    """A Textual update that writes fewer bytes.

    Args:
        pieces: evaluated only when the update is written, as Textual drops some updates.
        colours: whether colours are sent, or only attributes such as bold.
    """

    def __init__(self, pieces: Callable[[], Iterable[Piece]], *, colours: bool) -> None:
        self._pieces = pieces
        self._colours = colours

    def render_segments(self, console: Console) -> str:
        system = COLOR_SYSTEMS.get(console.color_system or "", ColorSystem.TRUECOLOR)
        pen = Pen(system, colours=self._colours)
        for x, y, strip in self._pieces():
            pen.move(x, y)
            pen.write(strip)
        return pen.text()


class TerminalDiff:
    """Minimises updates; remembers for a moment the lines that were written as a whole."""

    def __init__(self, *, colours: bool = True) -> None:
        self._colours = colours
        self._size = Size()
        self._lines: dict[int, tuple[float, Strip]] = {}

    def forget(self) -> None:
        """Discard the remembered lines, after another program wrote to the terminal."""
        self._lines.clear()

    def minimal(self, update: ChopsUpdate | LayoutUpdate, size: Size) -> MinimalUpdate:
        """Wrap an update. Args: `size` of the terminal; a resize invalidates the remembered lines."""
        return MinimalUpdate(partial(self._pieces, update, size), colours=self._colours)

    def _pieces(self, update: ChopsUpdate | LayoutUpdate, size: Size) -> Iterator[Piece]:
        if size != self._size:
            self._size = size
            self._lines.clear()
        for piece in _changed(update) if isinstance(update, ChopsUpdate) else _whole(update):
            yield from self._put(*piece)

    def _put(self, x: int, y: int, strip: Strip) -> Iterator[Piece]:
        """The parts of a strip that differ from the remembered line."""
        stop = x + strip.cell_length
        known = self._known(y)
        if known is None:
            if (x, stop) == (0, self._size.width):
                self._lines[y] = monotonic(), strip
            yield x, y, strip
            return
        for at, width in changed_spans(known.crop(x, stop), strip):
            part = strip.crop(at, at + width)
            if _is_unsure(part.text):
                # It may overwrite what follows it.
                yield x + at, y, strip.crop(at)
                break
            yield x + at, y, part
        self._lines[y] = self._lines[y][0], Strip.join([known.crop(0, x), strip, known.crop(stop)])

    def _known(self, y: int) -> Strip | None:
        written_at, line = self._lines.get(y, (-FRESH_S, None))
        if line is not None and monotonic() - written_at < FRESH_S:
            return line
        self._lines.pop(y, None)
        return None


def _changed(update: ChopsUpdate) -> Iterator[Piece]:
    for y, x1, x2 in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            start, stop = max(x, x1), min(end, x2)
            if strip is not None and start < stop:
                yield start, y, strip.crop(start - x, stop - x)


def _whole(update: LayoutUpdate) -> Iterator[Piece]:
    for y, strips in enumerate(update.strips, update.region.y):
        yield update.region.x, y, Strip.join(list(strips))


class Pen:
    """Writes strips, and style codes only where the style changes."""

    def __init__(self, system: ColorSystem, *, colours: bool) -> None:
        self._system = system
        self._colours = colours
        self._out: list[str] = []
        self._held = ("", "", "")
        """Attributes, foreground and background that are active in the terminal."""
        self._x = 0

    def move(self, x: int, y: int) -> None:
        self._x = x
        self._out.append(f"\x1b[{y + 1};{x + 1}H")

    def write(self, strip: Strip) -> None:
        for text, style, _ in strip:
            if style is not None and not self._colours:
                style = style.without_color
            if style is not None and style.link:
                self._x += cell_len(text)
                self._change(("", "", ""))
                self._out.append(Strip.render_style(style, text, self._system))
                continue
            wanted = _codes(style, self._system) if style is not None else ("", "", "")
            self._change(self._as_a_blank(wanted) if text.isspace() else wanted)
            self._write(text)

    def _write(self, text: str) -> None:
        if text.isascii():
            self._out.append(text)
            self._x += len(text)
            return
        for part, cells, unsure in _parts(text):
            start, self._x = self._x, self._x + cells
            # Blanks first, in case the terminal draws it narrower.
            around = (f"{' ' * cells}{_to_column(start)}", _to_column(self._x)) if unsure else ("", "")
            self._out += (around[0], part, around[1])

    def text(self) -> str:
        self._change(("", "", ""))
        return "".join(self._out)

    def _as_a_blank(self, wanted: tuple[str, str, str]) -> tuple[str, str, str]:
        """The style needed for a blank: only the background, if no attribute is visible."""
        attributes, ink, _ = self._held
        seen = _SHOW_ON_BLANKS.intersection(f"{attributes};{wanted[0]}".split(";"))
        return wanted if seen else (attributes, ink, wanted[2])

    def _change(self, wanted: tuple[str, str, str]) -> None:
        held = self._held
        if wanted == held:
            return
        self._held = wanted
        attributes, ink, paper = wanted
        if attributes != held[0] or (held[1] and not ink) or (held[2] and not paper):
            # No code resets one of these alone in every terminal.
            self._out.append(RESET)
            held = ("", "", "")
        codes = [code for code, had in zip((attributes, ink, paper), held, strict=True) if code != had]
        if codes:
            self._out.append(f"\x1b[{';'.join(codes)}m")


def _to_column(x: int) -> str:
    return f"\x1b[{x + 1}G"


@lru_cache(maxsize=1024)
def _parts(text: str) -> tuple[tuple[str, int, bool], ...]:
    """Split a text: each part, its cells, and whether terminals differ in how many they use for it."""
    signs = ((text[start:end], cells) for start, end, cells in split_graphemes(text)[0])
    parts = ((unsure, list(run)) for unsure, run in groupby(signs, lambda sign: _differs(sign[0])))
    return tuple(("".join(sign for sign, _ in run), sum(n for _, n in run), unsure) for unsure, run in parts)


def _differs(sign: str) -> bool:
    """Whether terminals differ in the cells of this: joined signs and marks, emoji, letters of right-to-left
    scripts, which some join."""
    return len(sign) > 1 or sign >= "\U0001f000" or bidirectional(sign) in ("R", "AL")


def _is_unsure(text: str) -> bool:
    return not text.isascii() and any(unsure for _, _, unsure in _parts(text))


@lru_cache(maxsize=1024)
def _codes(style: Style, system: ColorSystem) -> tuple[str, str, str]:
    """Attributes, foreground and background as terminal codes; empty for the default."""
    attributes = Strip.render_ansi(style.without_color, system)
    return attributes, _color(style.color, system, ink=True), _color(style.bgcolor, system, ink=False)


def _color(color: Color | None, system: ColorSystem, *, ink: bool) -> str:
    if color is None or color.is_default:
        return ""
    return ";".join(color.downgrade(system).get_ansi_codes(foreground=ink))
