"""Hours of the week: what is read, what is in them, and when they begin, also when clocks are changed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tqstudio import hours


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clocks there were changed on 2026-03-29 (02:00 to 03:00) and 2026-10-25 (03:00 to 02:00)."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone()


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("", ["2026-11-23T12:00"], []),
        (
            "22:00-06:00",
            ["2026-11-23T22:00", "2026-11-24T05:59:59"],
            ["2026-11-24T06:00", "2026-11-23T21:59:59"],
        ),
        ("mon-fri 22:00-06:00", ["2026-11-28T05:00"], ["2026-11-28T22:30", "2026-11-23T05:00"]),
        ("Sat,SUN", ["2026-11-28T00:00", "2026-11-29T23:59"], ["2026-11-30T00:00", "2026-11-27T23:59"]),
        ("fri-mon 00:00-24:00", ["2026-11-29T12:00", "2026-11-30T23:59"], ["2026-12-01T00:00"]),
        ("mon 8:00-9:00; tue 10:00-11:00", ["2026-11-23T08:30", "2026-11-24T10:30"], ["2026-11-24T08:30"]),
        ("sun 22:00-02:30", ["2026-10-26T02:29"], ["2026-10-25T02:15"]),
    ],
)
def test_what_they_include(text: str, inside: list[str], outside: list[str]) -> None:
    read = hours.parse(text)
    assert all(read.include(at(each)) for each in inside)
    assert not any(read.include(at(each)) for each in outside)


@pytest.mark.parametrize(
    "text",
    [
        "22-06",
        "22:00",
        "25:00-26:00",
        "10:60-11:00",
        "10:00-24:01",
        "10:00-10:00",
        "noday 10:00-11:00",
        "mon tue 10:00-11:00",
        "mon-",
        "mon-fri 22:00-06:00, sat",
        "-10:00-11:00",
        "10:00-11:00 mon",
    ],
)
def test_what_cannot_be_read_says_what_is_expected(text: str) -> None:
    with pytest.raises(ValueError, match="hours such as 22:00-06:00"):
        hours.parse(text)


@pytest.mark.parametrize(
    ("text", "moment", "begin"),
    [
        ("22:00-06:00", "2026-11-24T07:00+01:00", "2026-11-24T22:00+01:00"),
        ("22:00-06:00", "2026-11-24T22:00+01:00", "2026-11-25T22:00+01:00"),
        ("mon 10:00-11:00", "2026-11-23T10:00+01:00", "2026-11-30T10:00+01:00"),
        # 24 hours later by the clock are 23, or 25.
        ("22:00-06:00", "2026-03-28T22:00+01:00", "2026-03-29T22:00+02:00"),
        ("22:00-06:00", "2026-10-24T22:00+02:00", "2026-10-25T22:00+01:00"),
        # 02:30 does not exist on that day; it occurs twice on the other.
        ("02:30-05:00", "2026-03-28T12:00+01:00", "2026-03-29T03:00+02:00"),
        ("02:30-05:00", "2026-10-24T12:00+02:00", "2026-10-25T02:30+02:00"),
    ],
)
def test_when_they_begin_next(text: str, moment: str, begin: str) -> None:
    assert hours.parse(text).next_begin(datetime.fromisoformat(moment)) == datetime.fromisoformat(begin)


def test_an_hour_that_occurs_twice_is_included_twice() -> None:
    night = hours.parse("02:00-02:30")
    begin = datetime(2026, 10, 24, 23, 45, tzinfo=UTC)
    minutes = [begin + timedelta(minutes=each) for each in range(0, 180, 5)]
    assert sum(night.include(each) for each in minutes) == 12


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("30m", "2026-10-24T22:30+02:00"),
        ("2h", "2026-10-25T00:00+02:00"),
        ("1d", "2026-10-25T21:00+01:00"),
        ("22:30", "2026-10-24T22:30+02:00"),
        ("22:00", "2026-10-25T22:00+01:00"),
        ("7:00", "2026-10-25T07:00+01:00"),
        ("2026-12-24", "2026-12-24T00:00+01:00"),
        ("2026-12-24T18:00", "2026-12-24T18:00+01:00"),
        ("2026-12-24T18:00Z", "2026-12-24T18:00+00:00"),
    ],
)
def test_when_a_pause_ends(text: str, end: str) -> None:
    now = datetime.fromisoformat("2026-10-24T22:00+02:00")
    assert hours.moment(text, now) == datetime.fromisoformat(end)


@pytest.mark.parametrize("text", ["", "soon", "2 h", "24:00", "7:60", "-1h", "2026-13-01"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        hours.moment(text, datetime.now(UTC))


@pytest.mark.parametrize(
    ("window", "utc"),
    [
        ("sun 02:01-00:00", "01:00"),
        ("sun 02:00-00:00", "01:00"),
        ("sun 02:59-00:00", "01:00"),
        ("sun 01:59-00:00", "00:59"),
        ("sun 03:00-00:00", "01:00"),
        ("sun 03:01-00:00", "01:01"),
    ],
)
def test_what_begins_in_the_hour_that_is_left_out_begins_with_the_change(window: str, utc: str) -> None:
    before = datetime(2026, 3, 28, 12, tzinfo=UTC)
    begin = hours.parse(window).next_begin(before).astimezone(UTC)
    assert begin == datetime.fromisoformat(f"2026-03-29T{utc}:00+00:00")
    assert hours.parse(window).include(begin)
    assert not hours.parse(window).include(begin - timedelta(minutes=1))


_CLOCK = st.builds("{:02d}:{:02d}".format, st.integers(0, 23), st.integers(0, 59))


@given(begin=_CLOCK, end=_CLOCK, day=st.sampled_from(hours.DAYS), minute=st.integers(0, 366 * 24 * 60))
def test_none_begins_before_the_next_that_is_announced(begin: str, end: str, day: str, minute: int) -> None:
    if begin == end:
        return
    read = hours.parse(f"{day} {begin}-{end}")
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
    following = read.next_begin(moment)
    assert moment < following <= moment + timedelta(days=7, hours=1)
    if not read.include(moment):
        halfway = moment + (following - moment) / 2
        assert not read.include(halfway)
        assert not read.include(following - timedelta(minutes=1)) or following.minute != int(begin[-2:])
