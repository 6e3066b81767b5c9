"""What is written to the terminal: as little as possible, and the same picture as Textual's own."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Region, Size
from textual.strip import Strip

from tqstudio.ui.look.terminal_diff import MinimalUpdate, TerminalDiff

from .conftest import MakeApp, loaded, until
from .fake_supervisor import FakeSupervisor
from .samples import job_live

WIDTH, HEIGHT = 40, 6
WHOLE = Region(0, 0, WIDTH, HEIGHT)
STYLES: list[dict[str, Any]] = [
    {"color": "#d0d0d0", "bgcolor": "#121212"},
    {"color": "#ffffff", "bgcolor": "#303030", "bold": True},
    {"color": "#5fafff", "bgcolor": "#121212"},
    {"color": "#5fafff", "bgcolor": "#303030"},
    {"color": "#d0d0d0", "bgcolor": "#121212", "underline": True},
    {"color": "#ff5f5f", "bgcolor": "#121212", "reverse": True},
    {"color": "red", "italic": True},
    {"color": "green", "bgcolor": "default", "strike": True},
    {"color": "default", "bgcolor": "blue"},
    {"bold": True},
    {},
]
TEXTS = ["  ", "a", "holiday", "▅▅▅", "日本", "     ", "…", "x y"]
_PARTS = re.compile(r"\x1b\[([\d;]*)([GHm])|\n|(.)", re.DOTALL)
_SEEN_ON_BLANKS = {"4", "7", "9"}

Cell = tuple[str, frozenset[str], str, str]


class Terminal:
    """As much of one as understands what is written here: where, in which style, which letters."""

    def __init__(self, cells_of: Callable[[str], int] = cell_len) -> None:
        self._cells_of = cells_of
        self.cells: dict[tuple[int, int], Cell] = {}
        self._x = self._y = 0
        self._attributes: set[str] = set()
        self._ink = self._paper = ""

    def feed(self, text: str) -> Terminal:
        for found in _PARTS.finditer(text):
            codes, verb, letter = found.groups()
            if verb == "H":
                self._y, self._x = (int(code) - 1 for code in codes.split(";"))
            elif verb == "G":
                self._x = int(codes) - 1
            elif verb == "m":
                self._style(codes.split(";"))
            elif letter:
                self._put(letter)
        assert (self._attributes, self._ink, self._paper) == (set(), "", ""), "it ends in plain style"
        return self

    def _style(self, codes: list[str]) -> None:
        while codes:
            code = codes.pop(0)
            if code in ("0", ""):
                self._attributes, self._ink, self._paper = set(), "", ""
            elif code in ("38", "48"):
                size = 4 if codes[0] == "2" else 2
                color = ";".join((code, *codes[:size]))
                del codes[:size]
                self._ink, self._paper = (color, self._paper) if code == "38" else (self._ink, color)
            elif 30 <= int(code) <= 39 or 90 <= int(code) <= 97:
                self._ink = "" if code == "39" else code
            elif 40 <= int(code) <= 49 or 100 <= int(code) <= 107:
                self._paper = "" if code == "49" else code
            else:
                self._attributes.add(code)

    def _put(self, letter: str) -> None:
        attributes, ink = frozenset(self._attributes), self._ink
        if letter == " ":
            attributes &= _SEEN_ON_BLANKS
            ink = ink if attributes else ""
        cell = (letter, attributes, ink, self._paper)
        for _ in range(self._cells_of(letter)):
            self.cells[self._x, self._y] = cell
            self._x += 1


def a_line(chance: random.Random, width: int, texts: Sequence[str] = TEXTS) -> Strip:
    segments: list[Segment] = []
    while room := width - sum(segment.cell_length for segment in segments):
        # A style remembers its codes: one that is shared would be written as for the first terminal. Rich
        # keeps what it has cut off of texts, with its style, so nothing is cut to fit.
        text, style = chance.choice(texts), Style(**chance.choice(STYLES))
        if cell_len(text) <= room:
            segments.append(Segment(text, style))
    return Strip(segments)


def console(system: str) -> Console:
    # Rich's console looks for a terminal only when it is not given one.
    return Console(force_terminal=True, color_system=system, legacy_windows=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("system", ["truecolor", "256", "standard"])
@pytest.mark.parametrize("seed", range(20))
def test_a_picture_is_the_same_as_textuals(system: str, seed: int) -> None:
    chance = random.Random(seed)
    update = LayoutUpdate([[a_line(chance, WIDTH)] for _ in range(HEIGHT)], Region(0, 0, WIDTH, HEIGHT))
    minimal, own = (
        TerminalDiff().minimal(update, WHOLE.size).render_segments(console(system)),
        update.render_segments(console(system)),
    )
    assert Terminal().feed(minimal).cells == Terminal().feed(own).cells
    assert len(minimal) < len(own)


@pytest.mark.parametrize("seed", range(20))
def test_changes_are_the_same_as_textuals_and_touch_nothing_else(seed: int) -> None:
    chance = random.Random(seed)
    cut = WIDTH // 2
    chops = [{0: a_line(chance, cut), cut: a_line(chance, WIDTH - cut)} for _ in range(HEIGHT)]
    spans = []
    for y in sorted(chance.sample(range(HEIGHT), 3)):
        start = chance.randrange(WIDTH - 1)
        spans.append((y, start, chance.randrange(start + 1, WIDTH + 1)))
    update = ChopsUpdate(chops, spans, [[cut, WIDTH]] * HEIGHT)
    shown = (
        Terminal()
        .feed(TerminalDiff().minimal(update, WHOLE.size).render_segments(console("truecolor")))
        .cells
    )
    whole = (
        Terminal()
        .feed(
            ChopsUpdate(
                chops, [(y, 0, WIDTH) for y in range(HEIGHT)], [[cut, WIDTH]] * HEIGHT
            ).render_segments(console("truecolor"))
        )
        .cells
    )
    wanted = {(x, y) for y, start, end in spans for x in range(start, end)}
    assert set(shown) == wanted
    for at in wanted:
        # Half of a wide letter is cut off as a blank.
        assert shown[at] == whole[at] or Segment(whole[at][0]).cell_length == 2


def test_a_line_that_has_just_been_written_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tqstudio.ui.look.terminal_diff.FRESH_S", 1000.0)
    chance = random.Random(1)
    lines = [[a_line(chance, WIDTH)] for _ in range(HEIGHT)]
    wire = TerminalDiff()

    def written(size: Size = WHOLE.size) -> set[tuple[int, int]]:
        update = wire.minimal(LayoutUpdate(list(lines), WHOLE), size)
        return set(Terminal().feed(update.render_segments(console("truecolor"))).cells)

    assert len(written()) == WIDTH * HEIGHT
    assert not written()
    # Textual drops updates before it runs and while it batches.
    wire.minimal(LayoutUpdate([[a_line(chance, WIDTH)] for _ in range(HEIGHT)], WHOLE), WHOLE.size)
    assert not written()
    lines[2] = [a_line(chance, WIDTH)]
    assert {y for _, y in written()} == {2}
    # A terminal of another size has moved what stood in it.
    assert len(written(Size(WIDTH, HEIGHT + 1))) == WIDTH * HEIGHT


@pytest.mark.parametrize("fresh", [0.0, 1000.0], ids=["nothing known", "all known"])
@pytest.mark.parametrize("seed", range(20))
def test_after_any_updates_the_picture_is_textuals(
    seed: int, fresh: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tqstudio.ui.look.terminal_diff.FRESH_S", fresh)
    chance = random.Random(seed)
    wire, ours, own = TerminalDiff(), Terminal(), Terminal()
    # One cell wide each: half of a wide letter is another matter.
    letters = [text for text in TEXTS if Segment(text).cell_length == len(text)]
    lines = [a_line(chance, WIDTH, letters) for _ in range(HEIGHT)]
    update: LayoutUpdate | ChopsUpdate = LayoutUpdate([[line] for line in lines], WHOLE)
    for _ in range(12):
        ours.feed(wire.minimal(update, WHOLE.size).render_segments(console("truecolor")))
        own.feed(update.render_segments(console("truecolor")))
        assert ours.cells == own.cells
        spans = []
        for y in sorted(chance.sample(range(HEIGHT), 2)):
            start, stop = sorted(chance.sample(range(WIDTH + 1), 2))
            new = a_line(chance, WIDTH, letters).crop(start, stop)
            lines[y] = Strip.join([lines[y].crop(0, start), new, lines[y].crop(stop)])
            spans.append((y, start, stop))
        update = (
            LayoutUpdate([[line] for line in lines], WHOLE)
            if chance.random() < 0.4
            else ChopsUpdate([{0: line} for line in lines], spans, [[WIDTH]] * HEIGHT)
        )


@pytest.mark.parametrize("of_one", [0, 1, 2], ids=["too narrow", "one cell each", "too wide"])
@pytest.mark.parametrize("name", ["❤\ufe0f", "👨\u200d👩\u200d👧", "🇩🇪🇫🇷", "e\u0301", "עברית", "لا", "🫨"])
def test_what_follows_a_sign_that_terminals_count_differently_is_in_its_column(
    name: str, of_one: int
) -> None:
    terminal = Terminal(lambda letter: 1 if letter.isascii() else of_one)
    wire = TerminalDiff()
    for before, after in (("a longer name", "61%"), (name, "61%"), (name, "62%"), (f"x {name}", "62%")):
        line = Strip([Segment(f"{before}.mp4"), Segment(after)])
        update = LayoutUpdate([[line]], WHOLE)
        terminal.feed(wire.minimal(update, WHOLE.size).render_segments(console("truecolor")))
        shown = "".join(terminal.cells[x, 0][0] for x in range(line.cell_length))
        assert shown[cell_len(before) :] == f".mp4{after}"
        assert "longer" not in shown or before != name, "nothing is left of what was there"


@pytest.mark.parametrize("keys", ["", "R", "G e", "ctrl+p", "question_mark", "slash", "n"])
async def test_no_colour_is_sent_where_none_is_wanted(
    keys: str, make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    written: list[str] = []
    minimal = TerminalDiff.minimal

    def recording(wire: TerminalDiff, update: ChopsUpdate | LayoutUpdate, size: Size) -> MinimalUpdate:
        ours = minimal(wire, update, size)
        written.append(ours.render_segments(console("truecolor")))
        return ours

    monkeypatch.setattr(TerminalDiff, "minimal", recording)
    async with make_app().run_test(size=(80, 24)) as pilot:
        await loaded(pilot)
        await pilot.press(*keys.split())
        await until(pilot, lambda: not pilot.app.screen._layout_required)
    codes = {code for codes in re.findall(r"\x1b\[([\d;]*)m", "".join(written)) for code in codes.split(";")}
    assert codes <= {"0", "1", "2", "3", "4", "7"}
    assert "7" in codes, "the cursor is visible"


async def test_a_step_of_progress_takes_few_bytes(
    make_app: MakeApp, fake: FakeSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[str, str]] = []
    minimal = TerminalDiff.minimal

    def recording(wire: TerminalDiff, update: ChopsUpdate | LayoutUpdate, size: Size) -> MinimalUpdate:
        ours = minimal(wire, update, size)
        written.append(
            (ours.render_segments(console("truecolor")), update.render_segments(console("truecolor")))
        )
        return ours

    monkeypatch.setattr(TerminalDiff, "minimal", recording)
    async with make_app().run_test(size=(80, 24)) as pilot:
        app = await loaded(pilot)
        row = fake.job(319)
        further = [each | {"progress": 77.0} for each in row["renditions"]]
        written.clear()
        fake.push("progress", {"jobs": [job_live(row, renditions=further)]})
        await until(pilot, lambda: any("7" in text for text, _ in written), "the progress is written")
        ours, own = (sum(len(text) for text in each) for each in zip(*written, strict=True))
        assert 0 < ours < own / 4
        assert ours < 1000
        written.clear()
        for _ in range(3):
            app.painter.now()
            await pilot.pause()
        assert not written, "nothing has changed"
