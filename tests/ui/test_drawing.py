"""Lines, bars, numbers: the small parts from which every screen is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from tqstudio.ui.data.query import Query, query_of
from tqstudio.ui.drawings.bars import add_segments, bar_text
from tqstudio.ui.look.line import Line, changed_spans, fit, fit_name, wrap
from tqstudio.ui.look.theme import Colours, load_themes, shipped_folder
from tqstudio.words import format as fmt
from tqstudio.words.symbols import ASCII, UNICODE, choose_glyphs

from .samples import rendition

if TYPE_CHECKING:
    from tqstudio.protocol.answers import DivisionView

NAMES = st.text(st.sampled_from("abc ._-é夏の旅\u0301\u3000\u200c[]/"), max_size=60)
RED, BLUE = Style(color="red"), Style(color="blue")


@given(NAMES, st.integers(1, 60))
def test_names_fit(name: str, width: int) -> None:
    assert cell_len(fit(name, width)) <= width
    assert cell_len(fit_name(name, width)) <= width


@given(st.lists(st.tuples(NAMES, st.integers(0, 30)), max_size=6), st.integers(1, 80))
def test_a_line_is_as_wide_as_asked(columns: list[tuple[str, int]], width: int) -> None:
    line = Line(width, Style())
    for text, cells in columns:
        line.cell(text, cells).gap()
    assert cell_len(line.strip().text) == width


def test_the_end_of_a_name_stays() -> None:
    assert fit_name("lecture-about-everything-part-04.mp4", 20).endswith("04.mp4")


def test_only_what_changed_is_painted() -> None:
    old = Line(40, Style()).add("holiday.mp4").to(20).add("61%", RED).strip()
    new = Line(40, Style()).add("holiday.mp4").to(20).add("62%", RED).strip()
    other = Line(40, Style()).add("holiday.mp4").to(20).add("61%", BLUE).strip()
    assert changed_spans(old, new) == [(21, 1)]
    assert changed_spans(old, other) == [(20, 3)]
    assert changed_spans(old, old) == []


@pytest.mark.parametrize(
    "name", ["👨\u200d👩\u200d👧.mp4", "می\u200cخواهم.mp4", "東京\u3000旅行.mp4", "❤\ufe0f.mp4"]
)
def test_what_changes_behind_a_name_is_found_where_it_stands(name: str) -> None:
    old, new = (Line(40, Style()).add(name).to(20).add(text, RED).strip() for text in ("61%", "62%"))
    assert old.cell_length == cell_len(old.text) == 40
    assert changed_spans(old, new) == [(21, 1)]


@given(st.floats(0, 100), st.integers(4, 60), st.sampled_from([UNICODE, ASCII]))
def test_a_bar_is_full_only_at_the_end(progress: float, width: int, glyphs: object) -> None:
    filled, rest = bar_text(progress, width, glyphs)  # type: ignore[arg-type]
    assert len(filled) + len(rest) == width
    assert (progress > 0) == bool(filled)
    full = glyphs.bar[-1] * width  # type: ignore[attr-defined]
    assert (filled == full) == (progress >= 100)


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, ""), (0, "00:00"), (220, "03:40"), (4200, "1h10"), (180_000, "2d 2h")]
)
def test_durations(seconds: float | None, text: str) -> None:
    assert fmt.clock_duration(seconds) == text


def test_numbers_are_honest() -> None:
    assert fmt.percent(99.97) == "99%"
    assert fmt.percent(100) == "100%"
    assert fmt.speed(2.13) == "2.1×"


@pytest.mark.parametrize(
    ("bits", "text"),
    [(None, ""), (0, ""), (0.0, ""), (400, "400 b/s"), (1_500, "2 kb/s"), (8_900_000, "8.9 Mb/s")],
)
def test_a_bit_rate_that_is_not_known_is_not_shown(bits: float | None, text: str) -> None:
    assert fmt.bitrate(bits) == text


def test_control_characters_reach_no_terminal() -> None:
    assert fmt.plain("a\x1b[31mb\nc") == "a\\x1b[31mb\\nc"
    assert fmt.plain("東京\u3000می\u200cخواهم\t\u202e") == "東京\u3000می\u200cخواهم    \\u202e"


def test_filter_lines() -> None:
    assert query_of("", "-number") == Query(sort="-number")
    line = "state:running,failed summer film"
    assert query_of(line).line() == line
    assert query_of("film state:failed").shows("failed", "A Film.mp4")
    assert not query_of("film state:failed").shows("done", "A Film.mp4")
    assert not query_of("!film state:failed").shows("failed", "A Film.mp4")
    assert query_of("owner:ana").narrowed
    assert not query_of("owner:ana").shows("done", "a.mp4"), "more data is needed"
    assert [query_of(text).text for text in ("12", "!12", "12 13", "text:12,13")] == ["12", "", "", ""]


def test_wrapping_loses_nothing() -> None:
    assert wrap("one two three", 7) == ["one two", "three"]
    assert "".join(wrap("x" * 25, 10)) == "x" * 25
    assert wrap("東京\u3000旅行  3.05\u202fPM", 12) == ["東京\u3000旅行", "3.05\u202fPM"]


@pytest.mark.parametrize(
    ("environ", "encoding", "glyphs"),
    [
        ({}, "utf-8", UNICODE),
        ({}, "ascii", ASCII),
        # In the C locale Python writes UTF-8.
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, "utf-8", ASCII),
        ({"LC_CTYPE": "POSIX"}, "utf-8", ASCII),
        ({"LANG": "de_DE.ISO-8859-1"}, "utf-8", ASCII),
        ({"LC_ALL": "", "LC_CTYPE": "C.utf8", "LANG": "C"}, "utf-8", UNICODE),
        ({"LANG": "en_US"}, "utf-8", UNICODE),
        ({"TQSTUDIO_ASCII": "1"}, "utf-8", ASCII),
        ({"TERM": "linux"}, "utf-8", ASCII),
        ({"TQSTUDIO_ASCII": "0", "TERM": "linux"}, "utf-8", UNICODE),
    ],
)
def test_the_glyph_set(environ: dict[str, str], encoding: str, glyphs: object) -> None:
    assert choose_glyphs(environ, encoding) is glyphs


def test_ascii_is_ascii_and_no_state_shares_a_sign() -> None:
    for glyphs in (UNICODE, ASCII):
        signs = list(glyphs.states.values())
        assert len(signs) == len(set(signs))
        assert all(cell_len(sign) == 1 for sign in signs)
    assert all(sign.isascii() for sign in ASCII.states.values())


@pytest.mark.parametrize(
    ("state", "strip"), [("running", "▒▒▒███▸···"), ("paused", "▒▒▒███····"), ("failed", "▒▒▒███✗···")]
)
def test_a_strip_shows_what_is_made_kept_and_missing(state: str, strip: str) -> None:
    palette = Colours(load_themes([shipped_folder()]).by_name["ink"])
    for width, text in ((10, strip), (20, "".join(sign * 2 for sign in strip))):
        line = Line(width, Style())
        add_segments(line, rendition("720p", 6, 10), width, UNICODE, palette, resumed_from=3, state=state)
        assert line.strip().text == text


@pytest.mark.parametrize(
    ("missing", "state", "strip"),
    [
        # The helper has made segment 7 and is at segment 8; the last one is made at the end.
        ([(3, 6), (7, 9)], "running", "▒▒█▸··██▸·"),
        ([(3, 9)], "running", "▒▒█▸···█▸·"),
        ([(3, 9)], "stale", "▒▒█····█··"),
        ([(1, 9)], "running", "▒▸·····█▸·"),
        # Its own worker has overtaken the helper, and comes to the last segment.
        ([(8, 9)], "running", "▒▒██████▸·"),
        ([], "running", "▒▒███████▸"),
    ],
)
def test_a_strip_shows_what_several_workers_make(
    missing: list[tuple[int, int]], state: str, strip: str
) -> None:
    palette = Colours(load_themes([shipped_folder()]).by_name["ink"])
    division: DivisionView = {
        "renditions": ["720p"],
        "missing": missing,
        "ranges": [{"worker": "cpu-1", "first": 7, "end": 9, "done": 1}],
    }
    as_ascii = strip.translate(str.maketrans("▒█▸·", "%#>."))
    for glyphs, width, text in (
        (UNICODE, 10, strip),
        (UNICODE, 20, "".join(sign * 2 for sign in strip)),
        (ASCII, 10, as_ascii),
    ):
        line = Line(width, Style())
        of = rendition("720p", 5, 10)
        add_segments(line, of, width, glyphs, palette, resumed_from=2, state=state, division=division)
        assert line.strip().text == text


def test_a_cell_of_a_long_divided_video_shows_the_work_in_it() -> None:
    palette = Colours(load_themes([shipped_folder()]).by_name["ink"])
    division: DivisionView = {
        "renditions": ["720p"],
        "missing": [(250, 700), (800, 999)],
        "ranges": [
            {"worker": "cpu-1", "first": 660, "end": 700, "done": 40},
            {"worker": "cpu-2", "first": 840, "end": 999, "done": 70},
        ],
    }
    line = Line(10, Style())
    of = rendition("720p", 350, 1000)
    add_segments(line, of, 10, UNICODE, palette, resumed_from=0, state="running", division=division)
    assert line.strip().text == "██▸····█·▸"
