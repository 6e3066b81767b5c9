"""Numbers in narrow columns say what they can."""

from __future__ import annotations

import codecs
from datetime import UTC, datetime

import pytest

from tqstudio.words import format as fmt
from tqstudio.words import symbols


@pytest.mark.parametrize(
    ("eta_s", "low_s", "high_s", "expected"),
    [
        (30, 20, 45, "30s ±12"),
        (2460, 2230, 2710, "41m ±4"),
        (36_000, 30_000, 43_200, "10h ±2"),
        (2460, 600, 10_000, "10m–3h"),
        (2460, 1100, 5500, "18m–92m"),
        (30, 8, 90, "8s–90s"),
        (40, 39.9, 40.1, "40s"),
        (0, 0, 0, "0s"),
    ],
)
def test_a_time_left_owns_up_to_its_range(eta_s: float, low_s: float, high_s: float, expected: str) -> None:
    assert fmt.with_range({"eta_s": eta_s, "low_s": low_s, "high_s": high_s}) == expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0, "00:00"), (220, "03:40"), (4200, "1h10"), (273_600, "3d 4h")],
)
def test_a_duration_as_a_clock_shows_it(seconds: float | None, text: str) -> None:
    assert fmt.clock_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "printed"), [("▸ 2.1× → …", "> 2.1x > ~"), ("映.mp4 \udcff", "\\u6620.mp4 \\udcff")]
)
def test_an_encoding_without_glyphs_gets_ascii(text: str, printed: str) -> None:
    codecs.register_error("in_ascii", symbols.replace_glyphs)
    assert text.encode("ascii", "in_ascii").decode() == printed


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "22:30"),
        (-5, "22:30"),
        (3600, "23:30"),
        (7200, "Sun 00:30"),
        (6 * 86400, "Fri 22:30"),
        (7 * 86400, "12-05"),
    ],
)
def test_the_time_at_which_something_ends(seconds: float, text: str) -> None:
    assert fmt.time_of_day(seconds, datetime(2026, 11, 28, 22, 30, tzinfo=UTC)) == text
