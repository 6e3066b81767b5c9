"""Parses hours of the week, such as `mon-fri 22:00-06:00; sat,sun`, and moments, such as `07:00` or `2h`.

They are hours of the local wall clock, and compared as such: a window that begins at 22:00 begins at 22:00 on
the days when clocks are changed too. Cron expressions, which know only beginnings, would not be enough.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EXAMPLE = "22:00-06:00, or mon-fri 19:00-07:00; sat,sun"
_DAY_MIN = 24 * 60
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
_SPAN = re.compile(r"(\d{1,2}):(\d{2})-(\d{1,2}):(\d{2})")


@dataclass(frozen=True, slots=True)
class _Window:
    """Minutes after midnight of each of `days` (0: Monday); `end` may be on the next day."""

    days: frozenset[int]
    begin: int
    end: int

    def includes(self, day: int, minute: int) -> bool:
        before = (day - 1) % 7
        return (day in self.days and self.begin <= minute < self.end) or (
            before in self.days and minute + _DAY_MIN < self.end
        )


@dataclass(frozen=True, slots=True)
class Hours:
    """Windows of the week; without any, all of it."""

    windows: tuple[_Window, ...]

    def include(self, moment: datetime) -> bool:
        """Whether this moment, with a time zone, is in a window."""
        local = moment.astimezone()
        minute = local.hour * 60 + local.minute
        return not self.windows or any(each.includes(local.weekday(), minute) for each in self.windows)

    def next_begin(self, moment: datetime) -> datetime:
        """Returns when the next window begins after a moment."""
        today = moment.astimezone().date()
        begins = (
            _local(day, window.begin)
            for day in (today + timedelta(days) for days in range(9))
            for window in self.windows
            if day.weekday() in window.days
        )
        return min((begin for begin in begins if begin > moment), default=moment)


def _local(day: date, minutes: int) -> datetime:
    """Returns a time of a day here; for one that the change of the clocks leaves out, the change."""
    wanted = datetime.combine(day, time(*divmod(minutes, 60)))
    # Python gives such a time the offset from before or after the change.
    found = wanted.astimezone().astimezone(UTC).astimezone()
    if found.replace(tzinfo=None) < wanted:
        found = (found + timedelta(hours=1)).astimezone(UTC).astimezone()
    while found.replace(tzinfo=None) > wanted and _offset(found - timedelta(minutes=1)) == found.utcoffset():
        found -= timedelta(minutes=1)
    return found


def _offset(moment: datetime) -> timedelta | None:
    return moment.astimezone(UTC).astimezone().utcoffset()


def moment(text: str, now: datetime) -> datetime:
    """Parses when a pause ends: `2h` from now, the next `07:00`, or a date with a time or without one.

    Raises:
        ValueError: it is none of these.
    """
    if found := re.fullmatch(r"(\d{1,6})([mhd])", text.strip()):
        return now + timedelta(**{_UNITS[found[2]]: int(found[1])})
    if found := re.fullmatch(r"(\d{1,2}):(\d{2})", text.strip()):
        at = time(int(found[1]), int(found[2]))
        days = (now.astimezone().date() + timedelta(days=ahead) for ahead in range(3))
        return next(begin for day in days if (begin := datetime.combine(day, at).astimezone()) > now)
    return datetime.fromisoformat(text.strip()).astimezone()


@lru_cache(maxsize=256)
def parse(text: str) -> Hours:
    """Parses windows that are separated by semicolons: days, hours, or both; empty: always.

    Raises:
        ValueError: it cannot be read; the message says what is expected.
    """
    return Hours(tuple(_window(part) for part in text.lower().split(";") if part.strip()))


def _window(text: str) -> _Window:
    *days, last = text.split()
    span = _SPAN.fullmatch(last)
    if span is None:
        days, begin, end = [*days, last], 0, _DAY_MIN
    else:
        hours = [int(each) for each in span.groups()]
        begin, end = hours[0] * 60 + hours[1], hours[2] * 60 + hours[3]
        if max(hours[1], hours[3]) > 59 or begin >= _DAY_MIN or end > _DAY_MIN or begin == end:
            raise _unreadable(text)
        end += _DAY_MIN if end < begin else 0
    if len(days) > 1:
        raise _unreadable(text)
    return _Window(_days(days[0]) if days else frozenset(range(7)), begin, end)


def _days(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if first not in DAYS or last not in DAYS:
            raise _unreadable(text)
        begin, end = DAYS.index(first), DAYS.index(last)
        found.update(day % 7 for day in range(begin, end + 1 if end >= begin else end + 8))
    return frozenset(found)


def _unreadable(text: str) -> ValueError:
    return ValueError(f"hours such as {EXAMPLE}, not “{text.strip()}”")
